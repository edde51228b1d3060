//! Nobody comes in who should not, by whatever way.

use axum::body::Body;
use backstop_dashboard::{Dashboard, live::Live, prepare_password, running::Slot};
use backstop_gateway::Peer;
use backstop_store::clients::NewClient;
use http::{Request, StatusCode, header};
use serde_json::json;

use crate::world::{World, json_of};

/// Every operation of the document, as (method, path with numbers for ids).
fn operations() -> Vec<(String, String)> {
    let document = serde_json::to_value(Dashboard::document()).expect("a document");
    let paths = document["paths"].as_object().expect("paths");
    let mut operations = Vec::new();
    for (path, item) in paths {
        let concrete = path.split('/').map(|part| if part.starts_with('{') { "1" } else { part });
        let concrete = concrete.collect::<Vec<_>>().join("/");
        for method in item.as_object().expect("operations").keys() {
            if ["get", "put", "post", "delete", "patch"].contains(&method.as_str()) {
                operations.push((method.to_uppercase(), concrete.clone()));
            }
        }
    }
    operations
}

#[tokio::test]
async fn every_route_but_four_refuses_strangers_and_client_keys() {
    let world = World::with_alpha(1).await;
    let (_, client) = world.store.create_client(NewClient::default()).await.expect("made");
    let open = [
        ("POST", "/api/auth/login"),
        ("POST", "/api/auth/link"),
        ("POST", "/api/auth/logout"),
        ("GET", "/api/auth/session"),
    ];
    let mut guarded = 0;
    for (method, path) in operations() {
        if open.contains(&(method.as_str(), path.as_str())) {
            continue;
        }
        for credential in [None, Some(format!("Bearer {}", client.expose())), Some("Bearer ".to_owned())] {
            let mut request = world.request(&method, &path, Some(json!({})));
            request.headers_mut().remove(header::AUTHORIZATION);
            if let Some(credential) = credential {
                request.headers_mut().insert(header::AUTHORIZATION, credential.parse().expect("a value"));
            }
            let response = world.send(request).await;
            assert_eq!(response.status(), StatusCode::UNAUTHORIZED, "{method} {path}");
        }
        guarded += 1;
    }
    assert!(guarded > 50, "{guarded}");
    let response =
        world.send(Request::get("/api/openapi.json").body(Body::empty()).expect("a request")).await;
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_page_of_another_origin_changes_nothing() {
    let world = World::with_alpha(1).await;
    let attacks: [&[(&str, &str)]; 5] = [
        &[("sec-fetch-site", "cross-site")],
        &[("sec-fetch-site", "same-site")],
        &[("origin", "https://evil.test")],
        &[("origin", "null")],
        &[("origin", "http://127.0.0.1:4000")],
    ];
    for headers in attacks {
        let mut request = world.request("DELETE", "/api/providers/alpha", None);
        for (name, value) in headers {
            let name = header::HeaderName::try_from(*name).expect("a name");
            request.headers_mut().insert(name, value.parse().expect("a value"));
        }
        assert_eq!(world.send(request).await.status(), StatusCode::FORBIDDEN, "{headers:?}");
    }
    let mut request = world.request("POST", "/api/notifications/read", None);
    request.headers_mut().insert("origin", "http://127.0.0.1:3030".parse().expect("a value"));
    let response = world.send(request).await;
    assert_eq!(response.status(), StatusCode::NO_CONTENT);
    assert!(!response.headers().keys().any(|name| name.as_str().starts_with("access-control-")));
    assert_eq!(response.headers()[header::CACHE_CONTROL], "no-store");
    assert_eq!(response.headers()["x-content-type-options"], "nosniff");
}

#[tokio::test]
async fn a_simple_form_post_is_not_json() {
    let world = World::with_alpha(0).await;
    let mut request = world.request("POST", "/api/clients", Some(json!({ "name": "x" })));
    request.headers_mut().insert(header::CONTENT_TYPE, "text/plain".parse().expect("a value"));
    assert_eq!(world.send(request).await.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
}

#[tokio::test]
async fn people_sign_in_with_a_password_or_a_link_that_works_once() {
    let world = World::new();
    let before = json!({ "password": "correct horse battery" });
    assert_eq!(world.ask("POST", "/api/auth/login", Some(before.clone())).await.0, 401);
    assert_eq!(world.ask("PUT", "/api/auth/password", Some(json!({ "password": "short" }))).await.0, 422);
    world.done("PUT", "/api/auth/password", Some(before.clone())).await;
    let cookie = signed_in(&world, "/api/auth/login", before).await.expect("signed in");
    assert!(cookie.contains("HttpOnly; SameSite=Strict"), "{cookie}");
    assert!(has_session(&world, &cookie).await);
    let link = world.done("POST", "/api/auth/links", None).await;
    let token = link["path"].as_str().expect("a path").split('#').nth(1).expect("a token").to_owned();
    let body = json!({ "token": token });
    let other = signed_in(&world, "/api/auth/link", body.clone()).await.expect("signed in");
    assert!(signed_in(&world, "/api/auth/link", body).await.is_none(), "a link works once");
    let mut request = world.request("POST", "/api/auth/logout", None);
    request.headers_mut().remove(header::AUTHORIZATION);
    request.headers_mut().insert(header::COOKIE, other.parse().expect("a value"));
    world.send(request).await;
    assert!(!has_session(&world, &other).await);
    world.done("PUT", "/api/auth/password", Some(json!({ "password": "another long one" }))).await;
    assert!(!has_session(&world, &cookie).await, "a new password ends all sessions");
}

#[tokio::test]
async fn guessing_passwords_ends_after_five_tries_from_one_address() {
    let world = World::new();
    let guess = |from: u8| {
        let mut request = world.request("POST", "/api/auth/login", Some(json!({ "password": "guess" })));
        request.headers_mut().remove(header::AUTHORIZATION);
        request.extensions_mut().insert(Peer([192, 168, 1, from].into()));
        world.send(request)
    };
    for _ in 0..5 {
        assert_eq!(guess(1).await.status(), 401);
    }
    let refused = guess(1).await;
    assert!(refused.headers().contains_key(header::RETRY_AFTER));
    let problem = json_of(refused).await;
    assert_eq!((&problem["status"], &problem["code"]), (&json!(429), &json!("too_many_tries")));
    assert_eq!(guess(2).await.status(), 401, "another address has its own tries");
    let audit = world.done("GET", "/api/audit?limit=1", None).await;
    let row = &audit["items"][0];
    assert_eq!((&row["actor"], &row["action"]), (&json!("nobody from 192.168.1.2"), &json!("auth.refused")));
}

#[tokio::test]
async fn the_password_of_a_file_is_taken_over_and_is_changed_there() {
    let world = World::new();
    let file = tempfile::NamedTempFile::new().expect("a file");
    let write = |text: &str| std::fs::write(file.path(), text).expect("written");
    let login = |text: &str| signed_in(&world, "/api/auth/login", json!({ "password": text }));
    assert!(!prepare_password(&world.store, None).expect("no file, no password"));
    write("short\n");
    assert!(prepare_password(&world.store, Some(file.path())).is_err_and(|error| error.is_permanent()));
    write("correct horse battery\n");
    assert!(prepare_password(&world.store, Some(file.path())).expect("taken over"));
    let cookie = login("correct horse battery").await.expect("signed in");
    assert!(prepare_password(&world.store, Some(file.path())).expect("known"));
    assert!(has_session(&world, &cookie).await, "the same password ends no session");
    let (status, problem) =
        world.ask("PUT", "/api/auth/password", Some(json!({ "password": "another long one" }))).await;
    assert_eq!((status, &problem["code"]), (409, &json!("from_the_file")));
    write("another long one");
    assert!(prepare_password(&world.store, Some(file.path())).expect("taken over"));
    assert!(!has_session(&world, &cookie).await, "another one ends all");
    assert!(login("correct horse battery").await.is_none());
    assert!(prepare_password(&world.store, None).expect("the password stays"));
    world.done("PUT", "/api/auth/password", Some(json!({ "password": "a third long one" }))).await;
}

#[tokio::test]
async fn a_session_opens_the_metrics_for_as_long_as_the_clock_of_the_gateway_says() {
    let world = World::new();
    let link = world.done("POST", "/api/auth/links", None).await;
    let token = link["path"].as_str().expect("a path").split('#').nth(1).expect("a token");
    let cookie = signed_in(&world, "/api/auth/link", json!({ "token": token })).await.expect("signed in");
    let mount = Slot::default().mount(world.store.clone());
    let mut headers = http::HeaderMap::new();
    let pair = cookie.split(';').next().expect("a pair");
    headers.insert(header::COOKIE, pair.parse().expect("a value"));
    let now = world.live.now();
    assert!((mount.is_admin)(&headers, now));
    assert!(!(mount.is_admin)(&headers, now + jiff::SignedDuration::from_hours(24 * 30)));
}

#[tokio::test]
async fn a_new_sign_in_ends_the_session_that_the_browser_had() {
    let world = World::new();
    let password = json!({ "password": "correct horse battery" });
    world.done("PUT", "/api/auth/password", Some(password.clone())).await;
    let first = signed_in(&world, "/api/auth/login", password.clone()).await.expect("signed in");
    let mut again = world.request("POST", "/api/auth/login", Some(password));
    again.headers_mut().remove(header::AUTHORIZATION);
    let pair = first.split(';').next().expect("a pair");
    again.headers_mut().insert(header::COOKIE, pair.parse().expect("a value"));
    assert_eq!(world.send(again).await.status(), StatusCode::NO_CONTENT);
    assert!(!has_session(&world, &first).await);
}

#[tokio::test]
async fn what_is_wrong_is_a_problem_document() {
    let world = World::new();
    let response = world.send(world.request("GET", "/api/providers/none", None)).await;
    assert_eq!(response.headers()[header::CONTENT_TYPE], "application/problem+json");
    expect_test::expect![[r#"
        {
          "code": "not_found",
          "detail": "there is no such provider",
          "status": 404,
          "title": "Not found",
          "type": "urn:backstop:problem:not-found"
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&json_of(response).await).expect("JSON"));
    assert_eq!(world.ask("GET", "/api/nothing", None).await.0, 404);
    assert_eq!(world.ask("PUT", "/api/status", None).await.0, 405);
    assert_eq!(world.ask("GET", "/api/logs?limit=x", None).await.0, 400);
    assert_eq!(world.ask("POST", "/api/providers", Some(json!({ "id": "x", "colour": 1 }))).await.0, 400);
}

#[tokio::test]
async fn the_document_describes_every_operation() {
    let world = World::new();
    let document = world.done("GET", "/api/openapi.json", None).await;
    assert_eq!(document["openapi"], "3.1.0");
    for (path, item) in document["paths"].as_object().expect("paths") {
        for (method, operation) in item.as_object().expect("operations") {
            assert!(operation["summary"].is_string(), "{method} {path} has no summary");
            assert!(operation["responses"]["401"].is_object(), "{method} {path} says nothing of refusals");
        }
    }
    let references = document.to_string();
    for name in references.split("#/components/schemas/").skip(1).filter_map(|rest| rest.split('"').next()) {
        assert!(document["components"]["schemas"][name].is_object(), "{name} is not described");
    }
}

async fn signed_in(world: &World, path: &str, body: serde_json::Value) -> Option<String> {
    let mut request = world.request("POST", path, Some(body));
    request.headers_mut().remove(header::AUTHORIZATION);
    let response = world.send(request).await;
    let cookie = response.headers().get(header::SET_COOKIE)?;
    Some(cookie.to_str().expect("text").to_owned())
}

async fn has_session(world: &World, cookie: &str) -> bool {
    let mut request = world.request("GET", "/api/status", None);
    request.headers_mut().remove(header::AUTHORIZATION);
    request
        .headers_mut()
        .insert(header::COOKIE, cookie.split(';').next().expect("a pair").parse().expect("a value"));
    world.send(request).await.status() == StatusCode::OK
}
