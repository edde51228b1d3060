//! Who may call what: every route of the running gateway against everybody who comes without the right.
//!
//! The routes are read off the router: the API's document and the list of pages. `routes.txt` lists them by who may
//! call them; a route that does not stand there fails the test until somebody has said where it belongs
//! (`UPDATE_EXPECT=1` writes the file, and the difference is what to review).

use std::fmt::Write as _;

use expect_test::expect_file;

use crate::served::Served;

/// The routes that anybody may call.
const OPEN: [(&str, &str); 4] = [
    ("GET", "/api/auth/session"),
    ("POST", "/api/auth/link"),
    ("POST", "/api/auth/login"),
    ("POST", "/api/auth/logout"),
];

#[tokio::test(flavor = "multi_thread")]
async fn every_route_is_listed_and_refuses_whoever_has_no_right() {
    let served = Served::start("").await;
    let guarded = operations(&served).await;
    let (pages, open_pages) = backstop_dashboard::page_paths();
    let mut list = String::new();
    for (method, path) in &guarded {
        if OPEN.contains(&(method.as_str(), path.as_str())) {
            writeln!(list, "anybody        {method:6} {path}").unwrap();
            of_our_own_pages_only(&served, method, path).await;
        } else {
            writeln!(list, "administrator  {method:6} {path}").unwrap();
            for_administrators_only(&served, method, path).await;
        }
    }
    for path in pages {
        writeln!(list, "signed in      GET    {path}").unwrap();
        for headers in strangers(&served) {
            let (status, answer, _) = served.ask(("GET", &concrete(path)), &headers, None).await;
            let to_door = answer.iter().any(|(name, to)| name == "location" && to.starts_with("/sign-in"));
            assert!(status == 303 && to_door, "GET {path} with {headers:?}: {status}");
        }
    }
    for path in open_pages {
        writeln!(list, "anybody        GET    {path}").unwrap();
    }
    expect_file!["routes.txt"].assert_eq(&list);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_administrator_is_no_client_and_a_client_sees_no_metrics() {
    let served = Served::start("").await;
    let admin = format!("authorization: Bearer {}", served.admin_token());
    assert_eq!(served.ask(("GET", "/v1/models"), std::slice::from_ref(&admin), None).await.0, 401);
    for headers in strangers(&served) {
        assert_eq!(served.ask(("GET", "/metrics"), &headers, None).await.0, 401, "{headers:?}");
    }
    assert_eq!(served.ask(("GET", "/metrics"), &[admin], None).await.0, 200);
}

/// The methods and paths of the API's document, and its own.
async fn operations(served: &Served) -> Vec<(String, String)> {
    let (status, document) = served.admin("GET", "/api/openapi.json", None).await;
    assert_eq!(status, 200);
    let document: serde_json::Value = serde_json::from_str(&document).unwrap();
    let mut operations = vec![("GET".to_owned(), "/api/openapi.json".to_owned())];
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in ["get", "put", "post", "delete", "patch"] {
            if item.get(method).is_some() {
                operations.push((method.to_uppercase(), path.clone()));
            }
        }
    }
    operations.sort_by(|one, other| (&one.1, &one.0).cmp(&(&other.1, &other.0)));
    operations
}

async fn for_administrators_only(served: &Served, method: &str, path: &str) {
    let path = &concrete(path);
    for headers in strangers(served) {
        let (status, answer, body) = served.ask((method, path), &headers, Some("{}")).await;
        assert_eq!(status, 401, "{method} {path} with {headers:?}: {body}");
        let is_problem =
            answer.iter().any(|(name, kind)| name == "content-type" && kind.contains("problem+json"));
        assert!(is_problem, "{method} {path}: {answer:?}");
        assert!(!answer.iter().any(|(name, _)| name.starts_with("access-control-")), "{answer:?}");
    }
    of_our_own_pages_only(served, method, path).await;
}

/// Whoever comes from a foreign page, or calls us by a foreign name, is refused although the token is right.
async fn of_our_own_pages_only(served: &Served, method: &str, path: &str) {
    let path = &concrete(path);
    let token = format!("authorization: Bearer {}", served.admin_token());
    let mut attacks = vec!["origin: https://evil.test", "origin: null", "host: evil.test"];
    if method != "GET" {
        attacks.extend(["sec-fetch-site: cross-site", "sec-fetch-site: same-site"]);
    }
    for attack in attacks {
        let (status, answer, body) =
            served.ask((method, path), &[token.clone(), attack.to_owned()], Some("{}")).await;
        assert_eq!(status, 403, "{method} {path} with {attack}: {body}");
        assert!(!answer.iter().any(|(name, _)| name.starts_with("access-control-")), "{answer:?}");
    }
}

/// Header lines of callers without the right: nobody, and a client in every way that it may show its key.
fn strangers(served: &Served) -> Vec<Vec<String>> {
    let key = served.client_key();
    vec![
        vec![],
        vec!["authorization: Bearer ".to_owned()],
        vec![format!("authorization: Bearer {key}")],
        vec![format!("x-api-key: {key}")],
        vec![format!("cookie: backstop-session={key}")],
    ]
}

/// A path with something in the place of its ids.
fn concrete(path: &str) -> String {
    let part = |part: &str| if part.starts_with('{') { "1".to_owned() } else { part.to_owned() };
    path.split('/').map(part).collect::<Vec<_>>().join("/")
}
