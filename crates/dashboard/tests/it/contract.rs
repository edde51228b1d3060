//! What every part of the API promises alike: repeats, versions, pages.

use axum::body::Body;
use http::{Request, header};
use serde_json::{Value, json};

use crate::world::{World, json_of};

fn with(mut request: Request<Body>, name: &'static str, value: &str) -> Request<Body> {
    request.headers_mut().insert(name, value.parse().expect("a value"));
    request
}

#[tokio::test]
async fn a_post_that_is_sent_twice_is_carried_out_once() {
    let world = World::new();
    let send = |key: &str, name: &str| {
        let request = world.request("POST", "/api/clients", Some(json!({ "name": name })));
        world.send(with(request, "idempotency-key", key))
    };
    let first = send("one", "laptop").await;
    assert_eq!(first.status(), 201);
    assert!(!first.headers().contains_key("idempotency-replayed"));
    let second = send("one", "laptop").await;
    assert_eq!(
        (second.status().as_u16(), &second.headers()["idempotency-replayed"]),
        (201, &"true".parse().expect("a value"))
    );
    assert_eq!(first.headers()[header::ETAG], second.headers()[header::ETAG]);
    assert_eq!(json_of(first).await, json_of(second).await, "the same key is shown");
    assert_eq!(world.done("GET", "/api/clients", None).await.as_array().expect("a list").len(), 1);
    let other = send("one", "desk").await;
    assert_eq!(other.status(), 422, "a key is for one request");
    assert_eq!(send("two", "desk").await.status(), 201);
    assert_eq!(send("three", "").await.status(), 422);
    assert_eq!(send("three", "").await.headers()["idempotency-replayed"], "true", "a refusal stays one");
    let too_long = send(&"x".repeat(256), "phone").await;
    assert_eq!(too_long.status(), 400);
}

#[tokio::test]
async fn a_key_of_one_caller_means_nothing_for_another() {
    let world = World::new();
    let link = world.done("POST", "/api/auth/links", None).await;
    let token = link["path"].as_str().expect("a path").split('#').nth(1).expect("a token");
    let entered = world.send(world.request("POST", "/api/auth/link", Some(json!({ "token": token })))).await;
    let cookie = entered.headers()[header::SET_COOKIE].to_str().expect("text").to_owned();
    let request = |by_cookie: bool| {
        let mut request = world.request("POST", "/api/clients", Some(json!({ "name": "laptop" })));
        if by_cookie {
            request.headers_mut().remove(header::AUTHORIZATION);
            request = with(request, "cookie", cookie.split(';').next().expect("a pair"));
        }
        with(request, "idempotency-key", "one")
    };
    let of_token = json_of(world.send(request(false)).await).await;
    let of_session = json_of(world.send(request(true)).await).await;
    assert_ne!(of_token["key"], of_session["key"]);
}

#[tokio::test]
async fn a_change_on_an_old_version_is_refused_everywhere() {
    let world = World::with_alpha(1).await;
    let combo = json!({ "id": "best", "members": [{ "provider": "alpha", "model": "large", "alias": "l" }] });
    world.done("POST", "/api/combos", Some(combo.clone())).await;
    world.done("POST", "/api/clients", Some(json!({ "name": "laptop" }))).await;
    let alpha = json!({ "id": "alpha", "format": "openai-chat", "base_url": "http://127.0.0.1:9/v1" });
    let pack = "[[rule]]\nid = \"openai/own\"\nany = [\"zork\"]\nclass = \"rate_limit\"\nscope = \"key\"\nreason = \"zork\"\n";
    let pack = json!({ "toml": format!("provider = \"openai\"\n{pack}") });
    world.done("PUT", "/api/user-rules/openai", Some(pack.clone())).await;
    for (method, path, body) in [
        ("PUT", "/api/providers/alpha", alpha),
        ("PATCH", "/api/providers/alpha/keys/1", json!({ "label": "new" })),
        ("PUT", "/api/combos/best", combo),
        ("PATCH", "/api/clients/1", json!({ "name": "desk" })),
        ("PUT", "/api/user-rules/openai", pack),
    ] {
        let send =
            |tag: &str| world.send(with(world.request(method, path, Some(body.clone())), "if-match", tag));
        let fresh = send("\"1\"").await;
        assert_eq!(fresh.status(), 200, "{method} {path}");
        assert_eq!(fresh.headers()[header::ETAG], "\"2\"", "{method} {path}");
        let stale = send("\"1\"").await;
        assert_eq!(stale.status(), 412, "{method} {path}");
        assert_eq!(json_of(stale).await["code"], "changed");
        assert_eq!(send("nonsense").await.status(), 400, "{method} {path}");
        assert_eq!(send("*").await.status(), 200, "{method} {path}");
    }
}

#[tokio::test]
async fn pages_hold_every_item_once() {
    let world = World::with_alpha(25).await;
    for number in 0..25 {
        world.done("PATCH", "/api/settings", Some(json!({ "patience_s": number }))).await;
    }
    for (path, at_least) in [("/api/providers/alpha/keys", 25), ("/api/audit", 25)] {
        let mut ids: Vec<u64> = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = world.done("GET", &format!("{path}?limit=10{cursor}"), None).await;
            let items = page["items"].as_array().expect("items");
            assert!(items.len() <= 10, "{path}");
            ids.extend(items.iter().filter_map(|item| item["id"].as_u64()));
            match &page["next"] {
                Value::String(next) => cursor = format!("&cursor={next}"),
                _ => break,
            }
        }
        let count = ids.len();
        assert!(count >= at_least, "{path}: {count}");
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count, "{path}: an item comes twice");
        assert_eq!(world.ask("GET", &format!("{path}?cursor=%00"), None).await.0, 400, "{path}");
    }
}
