//! The pages as a browser asks for them; what people do on them is tested in a browser.

use axum::body::Body;
use http::{Request, StatusCode, header};
use http_body_util::BodyExt as _;
use serde_json::json;

use crate::world::World;

/// A page as an administrator gets it.
async fn page(world: &World, path: &str) -> (StatusCode, String) {
    let response = world.send(world.request("GET", path, None)).await;
    let status = response.status();
    let bytes = response.into_body().collect().await.expect("a body").to_bytes();
    (status, String::from_utf8(bytes.to_vec()).expect("text"))
}

fn plain(path: &str) -> Request<Body> {
    Request::get(path).header(header::HOST, "127.0.0.1:3030").body(Body::empty()).expect("a request")
}

const PAGES: [&str; 18] = [
    "/",
    "/start",
    "/providers",
    "/providers/alpha",
    "/providers/alpha/keys",
    "/providers/alpha/models",
    "/providers/alpha/fallback",
    "/providers/alpha/quota",
    "/providers/alpha/settings",
    "/providers/filed/settings",
    "/combos",
    "/fallback",
    "/requests",
    "/unknown",
    "/explain",
    "/alerts",
    "/clients",
    "/settings",
];

#[tokio::test]
async fn every_page_is_made_and_works_without_inline_style_or_script() {
    let world = World::with_alpha(3).await;
    for path in PAGES {
        let (status, text) = page(&world, path).await;
        assert_eq!(status, StatusCode::OK, "{path}: {text}");
        assert!(text.starts_with("<!doctype html>") && text.trim_end().ends_with("</html>"), "{path}");
        for inline in [" style=", "<style", "<script>", " onclick=", "javascript:"] {
            assert!(!text.contains(inline), "{path} has {inline}");
        }
    }
}

#[tokio::test]
async fn strangers_are_led_to_the_door_and_back() {
    let world = World::with_alpha(1).await;
    for path in PAGES {
        let response = world.send(plain(path)).await;
        assert_eq!(response.status(), StatusCode::SEE_OTHER, "{path}");
        let door = response.headers()[header::LOCATION].to_str().expect("text").to_owned();
        assert!(door.starts_with("/sign-in?then=%2F"), "{door}");
    }
    for (then, kept) in
        [("%2Frequests%3Fq%3Da", "/requests?q=a"), ("%2F%2Fevil.test", "/"), ("https://evil.test", "/")]
    {
        let response = world.send(plain(&format!("/sign-in?then={then}"))).await;
        let policy = response.headers()["content-security-policy"].to_str().expect("text").to_owned();
        assert!(policy.starts_with("default-src 'self';") && !policy.contains("unsafe"), "{policy}");
        let text = response.into_body().collect().await.expect("a body").to_bytes();
        let text = String::from_utf8(text.to_vec()).expect("text");
        assert!(text.contains(&format!("data-then=\"{kept}\"")), "{text}");
    }
}

#[tokio::test]
async fn what_a_provider_or_a_person_writes_is_text() {
    let world = World::with_alpha(1).await;
    let payload = "<script>alert(1)</script>\"'><img src=x>";
    let keys = world.done("GET", "/api/providers/alpha/keys", None).await;
    let id = keys["items"][0]["id"].as_u64().expect("an id");
    let path = format!("/api/providers/alpha/keys/{id}");
    world.done("PATCH", &path, Some(json!({ "label": payload, "account": payload }))).await;
    world.upstream(move |_, _| {
        Ok((401, json!({ "error": { "message": payload, "code": "invalid_api_key" } }).to_string()))
    });
    world.done("POST", &format!("{path}/test"), None).await;
    for path in [
        "/providers/alpha/keys".to_owned(),
        format!("/providers/alpha/keys/{id}/errors"),
        "/explain?status=401&body=%3Cscript%3Ealert(1)%3C%2Fscript%3E%22'%3E%3Cimg%20src%3Dx%3E".to_owned(),
    ] {
        let (status, text) = page(&world, &path).await;
        assert_eq!(status, StatusCode::OK, "{path}");
        assert!(text.contains("alert(1)"), "{path}");
        assert!(!text.contains("<script>alert") && !text.contains("<img"), "{path}");
    }
}

#[tokio::test]
async fn assets_are_named_by_their_content_and_kept_for_ever() {
    let world = World::new();
    let (_, text) = page(&world, "/sign-in").await;
    let names: Vec<&str> = text.split('"').filter(|part| part.starts_with("/assets/")).collect();
    let names = names.into_iter().map(|name| name.split('#').next().unwrap_or(name));
    for name in names {
        let mut request = plain(name);
        request.headers_mut().insert(header::ACCEPT_ENCODING, "gzip, br".parse().expect("a value"));
        let response = world.send(request).await;
        assert_eq!(response.status(), StatusCode::OK, "{name}");
        assert_eq!(response.headers()[header::CONTENT_ENCODING], "gzip");
        assert_eq!(response.headers()[header::CACHE_CONTROL], "public, max-age=31536000, immutable");
    }
    assert_eq!(world.send(plain("/assets/backstop-0.css")).await.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn what_is_not_there_is_a_page_for_people_and_a_problem_for_programs() {
    let world = World::with_alpha(0).await;
    let (status, text) = page(&world, "/nothing").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert!(text.contains("<h1>Not found</h1>"), "{text}");
    let (status, text) = page(&world, "/providers/none/keys").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert!(text.contains("there is no such provider"), "{text}");
    let (status, text) = page(&world, "/api/nothing").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert!(text.starts_with('{'), "{text}");
}
