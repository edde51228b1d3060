use serde_json::{Value, json};

use crate::world::{World, counted};

const KEYS: &str = "/api/providers/alpha/keys";

#[tokio::test]
async fn pasted_keys_are_added_once_and_never_shown() {
    let world = World::with_alpha(0).await;
    let body = json!({ "text": "first sk-one\nsecond sk-two\n# note\nthird sk-one\n", "account": "team" });
    let results = world.done("POST", &format!("{KEYS}/bulk"), Some(body)).await;
    assert_eq!(counted(&results, "result"), [("added".into(), 2), ("duplicate".into(), 1)].into());
    let list = world.done("GET", KEYS, None).await;
    assert_eq!(list["total"], 2);
    assert_eq!(list["items"][0]["label"], "first");
    assert_eq!(list["items"][0]["account"], "team");
    assert_eq!(list["items"][0]["state"], "active");
    assert!(!list.to_string().contains("sk-one"));
    let again = world.done("POST", KEYS, Some(json!({ "key": "sk-two", "label": "x" }))).await;
    assert_eq!(again["result"], "duplicate");
    assert_eq!(world.ask("POST", KEYS, Some(json!({ "key": "  " }))).await.0, 422);
    let empty = json!({ "text": "# nothing\n" });
    assert_eq!(world.ask("POST", &format!("{KEYS}/bulk"), Some(empty)).await.0, 422);
}

#[tokio::test]
async fn an_edit_needs_the_version_that_it_was_made_on() {
    let world = World::with_alpha(1).await;
    let edit = |label: &str| {
        let mut request =
            world.request("PATCH", &format!("{KEYS}/1"), Some(json!({ "label": label, "account": null })));
        request.headers_mut().insert("if-match", "\"1\"".parse().expect("a value"));
        world.send(request)
    };
    let response = edit("renamed").await;
    assert_eq!(
        (response.status().as_u16(), response.headers()["etag"].to_str().expect("text")),
        (200, "\"2\"")
    );
    assert_eq!(edit("late").await.status().as_u16(), 412);
    assert_eq!(world.done("GET", &format!("{KEYS}/1"), None).await["label"], "renamed");
}

#[tokio::test]
async fn keys_are_paused_resumed_disabled_and_enabled() {
    let world = World::with_alpha(2).await;
    let act = |id: u64, body: Value| async move {
        let path = format!("{KEYS}/{id}/action");
        (path, body)
    };
    let (path, body) = act(1, json!({ "action": "pause", "for_s": 60 })).await;
    let paused = world.done("POST", &path, Some(body)).await;
    assert_eq!(paused["state"], "paused");
    assert!(paused["until"].is_string());
    let (status, problem) =
        world.ask("POST", &format!("{KEYS}/2/action"), Some(json!({ "action": "disable" }))).await;
    assert_eq!((status, problem["code"].as_str()), (409, Some("last_usable_key")));
    let confirmed = json!({ "action": "disable", "confirm": true });
    assert_eq!(world.done("POST", &format!("{KEYS}/2/action"), Some(confirmed)).await["state"], "disabled");
    let resumed = world.done("POST", &format!("{KEYS}/1/action"), Some(json!({ "action": "resume" }))).await;
    assert_eq!(resumed["state"], "active");
    let bulk = json!({ "ids": [2, 99], "action": "enable" });
    let results = world.done("POST", &format!("{KEYS}/bulk-action"), Some(bulk)).await;
    assert_eq!(counted(&results, "result"), [("done".into(), 1), ("missing".into(), 1)].into());
    let status = world.done("GET", "/api/providers/alpha", None).await;
    assert_eq!(status["keys"], json!({ "active": 2 }));
}

#[tokio::test]
async fn pages_and_filters_narrow_a_long_list() {
    let world = World::with_alpha(25).await;
    let mut seen = Vec::new();
    let mut path = format!("{KEYS}?limit=10");
    loop {
        let page = world.done("GET", &path, None).await;
        seen.extend(page["items"].as_array().expect("items").iter().map(|key| key["id"].clone()));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("{KEYS}?limit=10&cursor={next}");
    }
    assert_eq!(seen, (1..=25).map(|id| json!(id)).collect::<Vec<_>>());
    assert_eq!(world.done("GET", &format!("{KEYS}?q=KEY-2"), None).await["total"], 7);
    assert_eq!(world.done("GET", &format!("{KEYS}?state=disabled"), None).await["total"], 0);
    assert_eq!(world.ask("GET", &format!("{KEYS}?cursor=x"), None).await.0, 400);
}

#[tokio::test]
async fn ten_thousand_keys_are_listed_moved_and_removed() {
    let world = World::with_alpha(10_000).await;
    let last: Vec<u64> = (9_001..=10_000).rev().collect();
    world.done("POST", &format!("{KEYS}/reorder"), Some(json!({ "ids": last }))).await;
    let page = world.done("GET", &format!("{KEYS}?limit=1000"), None).await;
    assert_eq!(page["total"], 10_000);
    assert_eq!(page["items"][0]["id"], 10_000);
    assert_eq!(page["items"][999]["id"], 9_001);
    let all: Vec<u64> = (1..=10_001).collect();
    let results = world.done("POST", &format!("{KEYS}/bulk-delete"), Some(json!({ "ids": all }))).await;
    assert_eq!(counted(&results, "result"), [("missing".into(), 1), ("removed".into(), 10_000)].into());
    assert_eq!(world.done("GET", KEYS, None).await["total"], 0);
}

#[tokio::test]
async fn a_key_of_another_provider_is_not_there() {
    let world = World::with_alpha(1).await;
    let beta = json!({ "id": "beta", "format": "openai-chat", "base_url": "https://beta.test/v1" });
    world.done("POST", "/api/providers", Some(beta)).await;
    for (method, path) in
        [("GET", ""), ("DELETE", ""), ("GET", "/errors"), ("GET", "/stats"), ("POST", "/test")]
    {
        let path = format!("/api/providers/beta/keys/1{path}");
        assert_eq!(world.ask(method, &path, None).await.0, 404, "{method} {path}");
    }
    assert_eq!(world.done("GET", KEYS, None).await["total"], 1);
}
