//! Everything else that the API does.

use backstop_store::{notices::Notice, unknown::UnknownFailure};
use backstop_triage::Timestamp;
use http_body_util::BodyExt as _;
use serde_json::json;

use crate::world::{World, answered};

#[tokio::test]
async fn providers_are_added_changed_marked_and_removed() {
    let world = World::with_alpha(1).await;
    let (status, problem) =
        world.ask("POST", "/api/providers", Some(json!({ "id": "alpha", "preset": "x" }))).await;
    assert_eq!((status, problem["code"].as_str()), (409, Some("exists")));
    let (status, problem) = world.ask("POST", "/api/providers", Some(json!({ "id": "beta" }))).await;
    assert_eq!(status, 422);
    assert_eq!(problem["errors"][0]["detail"], "[[provider]] has neither `base_url` nor `preset`");
    let view =
        world.done("PATCH", "/api/providers/alpha", Some(json!({ "paused": true, "favorite": true }))).await;
    assert_eq!((&view["paused"], &view["favorite"]), (&json!(true), &json!(true)));
    assert_eq!(world.done("GET", "/api/providers", None).await[0]["id"], "alpha", "favourites come first");
    world.done("DELETE", "/api/providers/alpha", None).await;
    assert_eq!(world.ask("GET", "/api/providers/alpha", None).await.0, 404);
    assert!(world.done("GET", "/api/presets", None).await.as_array().expect("a list").len() >= 50);
}

#[tokio::test]
async fn what_the_file_defines_is_read_only_but_can_be_paused() {
    let world = World::new();
    let chain = json!({ "legs": [] });
    let definition = json!({ "id": "filed", "base_url": "https://x.test" });
    for (method, path, body) in [
        ("PUT", "/api/providers/filed", Some(definition)),
        ("DELETE", "/api/providers/filed", None),
        ("PUT", "/api/providers/filed/models", Some(json!({ "models": ["m"] }))),
        ("PUT", "/api/providers/filed/fallbacks", Some(chain)),
    ] {
        let (status, problem) = world.ask(method, path, body).await;
        assert_eq!((status, problem["code"].as_str()), (409, Some("from_the_file")), "{method} {path}");
    }
    world.done("PATCH", "/api/providers/filed", Some(json!({ "paused": true }))).await;
}

#[tokio::test]
async fn routes_are_set_and_checked() {
    let world = World::with_alpha(0).await;
    let legs = json!({ "legs": [{ "provider": "filed", "model": "m" }] });
    world.done("PUT", "/api/providers/alpha/fallbacks", Some(legs)).await;
    let chains = world.done("GET", "/api/fallbacks", None).await;
    assert_eq!(chains[1]["legs"][0]["provider"], "filed");
    for wrong in [json!([{ "provider": "none" }]), json!([{ "provider": "alpha" }])] {
        let body = json!({ "legs": wrong });
        assert_eq!(world.ask("PUT", "/api/providers/alpha/fallbacks", Some(body)).await.0, 422);
    }
    let combo = json!({ "id": "best", "members": [{ "provider": "alpha", "model": "large", "alias": "l" }] });
    world.done("POST", "/api/combos", Some(combo.clone())).await;
    assert_eq!(world.ask("POST", "/api/combos", Some(combo.clone())).await.0, 409);
    let view = world.done("PUT", "/api/combos/best", Some(combo)).await;
    assert_eq!(view["version"], 2);
    world.done("DELETE", "/api/combos/best", None).await;
    assert_eq!(world.done("GET", "/api/combos", None).await, json!([]));
    assert_eq!(world.done("GET", "/api/providers/alpha/circuits", None).await, json!([]));
    world.done("POST", "/api/providers/alpha/circuits/reset", Some(json!({}))).await;
}

#[tokio::test]
async fn settings_have_defaults_kinds_and_ranges() {
    let world = World::new();
    let changed = world
        .done("PATCH", "/api/settings", Some(json!({ "patience_s": 5, "rotation": "round-robin" })))
        .await;
    let find = |name: &str| {
        let settings = changed.as_array().expect("a list").iter();
        settings.clone().find(|setting| setting["name"] == name).cloned().expect("a setting")
    };
    assert_eq!(
        find("patience_s"),
        json!({ "name": "patience_s", "value": 5, "default": 0, "changed": true, "from_file": false })
    );
    assert_eq!(find("max_attempts")["changed"], false);
    for wrong in [
        json!({ "nonsense": 1 }),
        json!({ "patience_s": "soon" }),
        json!({ "quota_backoff_s": 5 }),
        json!({ "rotation": "sideways" }),
        json!({ "admin.token_hash": "x" }),
    ] {
        assert_eq!(world.ask("PATCH", "/api/settings", Some(wrong.clone())).await.0, 422, "{wrong}");
    }
    let back = world.done("PATCH", "/api/settings", Some(json!({ "patience_s": null }))).await;
    assert!(!back.to_string().contains("admin."));
    let audit = world.done("GET", "/api/audit?limit=1", None).await;
    assert_eq!(audit["items"][0]["action"], "settings.change");
    assert_eq!(audit["items"][0]["detail"], "patience_s");
}

#[tokio::test]
async fn a_client_key_is_shown_once() {
    let world = World::new();
    let spec = json!({ "name": "laptop", "limits": { "requests_per_minute": 5 } });
    let made = world.done("POST", "/api/clients", Some(spec)).await;
    let key = made["key"].as_str().expect("the key").to_owned();
    let list = world.done("GET", "/api/clients", None).await;
    assert!(!list.to_string().contains(&key));
    assert_eq!(list[0]["limits"]["requests_per_minute"], 5);
    let renamed = world.done("PATCH", "/api/clients/1", Some(json!({ "name": "desk" }))).await;
    assert_eq!((&renamed["name"], &renamed["limits"]["requests_per_minute"]), (&json!("desk"), &json!(5)));
    world.done("DELETE", "/api/clients/1", None).await;
    assert_eq!(world.done("GET", "/api/clients", None).await, json!([]));
    assert_eq!(world.ask("POST", "/api/clients", Some(json!({}))).await.0, 422);
}

#[tokio::test]
async fn the_log_and_the_numbers_show_what_was_asked() {
    let world = World::with_alpha(1).await;
    world.store.record_request(answered("r1"));
    let stats = world.done("GET", "/api/stats?range=24h", None).await;
    assert_eq!(
        (&stats["total"]["requests"], &stats["providers"]["alpha"]["requests"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(world.ask("GET", "/api/stats?range=1y", None).await.0, 422);
    while world.store.stats().waiting_requests > 0 {
        tokio::task::yield_now().await;
    }
    // The queue is empty before the rows are committed; an operation runs after them.
    world.store.clean_up().await.expect("cleaned");
    let page = world.done("GET", "/api/logs?provider=alpha&outcome=succeeded&model=arg", None).await;
    assert_eq!(page["items"][0]["id"], "r1");
    assert_eq!(world.done("GET", "/api/logs/r1", None).await["status"], 200);
    assert_eq!(world.ask("GET", "/api/logs/r1/raw", None).await.0, 404);
    assert_eq!(world.ask("GET", "/api/logs?outcome=odd", None).await.0, 422);
    assert_eq!(world.done("DELETE", "/api/logs", None).await["removed"], 1);
}

#[tokio::test]
async fn an_unknown_failure_becomes_a_rule_that_was_tried_first() {
    let world = World::with_alpha(1).await;
    let evidence = json!({ "kind": "http", "provider": "openai", "status": 418, "body": "the kettle is out of zorkmids" });
    world.store.record_unknown(UnknownFailure {
        provider: "openai".into(),
        kind: "http".into(),
        status: Some(418),
        text: "the kettle is out of zorkmids".into(),
        evidence: evidence.to_string(),
        at: Timestamp::now(),
    });
    let line = loop {
        let inbox = world.done("GET", "/api/unknown", None).await;
        match inbox.get(0) {
            Some(line) => break line.clone(),
            None => tokio::task::yield_now().await,
        }
    };
    let shape = line["shape"].as_str().expect("a shape").to_owned();
    let explained = world.done("GET", &format!("/api/unknown/{shape}"), None).await;
    assert!(explained["explanation"]["tried"].is_array());
    let rule = |phrase: &str| {
        let toml = format!(
            "provider = \"openai\"\n\n[[rule]]\nid = \"openai/own-zorkmids\"\nany = [\"{phrase}\"]\nclass = \"billing_exhausted\"\nscope = \"key\"\nreason = \"no_zorkmids\"\n"
        );
        json!({ "name": "openai", "toml": toml })
    };
    let (status, problem) =
        world.ask("POST", "/api/rules/try", Some(json!({ "name": "openai", "toml": "nonsense = 1" }))).await;
    assert_eq!(status, 422, "{problem}");
    let trial = world.done("POST", "/api/rules/try", Some(rule("out of zorkmids"))).await;
    assert_eq!(trial["inbox"][0]["after"], "billing_exhausted");
    assert_eq!(trial["witnesses"], json!([]));
    let path = format!("/api/unknown/{shape}/rule");
    assert_eq!(world.ask("POST", &path, Some(rule("something else"))).await.0, 422);
    world.done("POST", &path, Some(rule("out of zorkmids"))).await;
    assert_eq!(world.done("GET", "/api/user-rules", None).await[0]["name"], "openai");
    assert_eq!(world.done("GET", &format!("/api/unknown/{shape}"), None).await["state"], "ruled");
    world.done("DELETE", "/api/user-rules/openai", None).await;
    let verdict = world
        .done("POST", "/api/classify", Some(json!({ "provider": "openai", "status": 429, "body": "" })))
        .await;
    assert_eq!(verdict["verdict"]["class"], "rate_limit");
    assert!(world.done("GET", "/api/rules", None).await.as_array().expect("a list").len() > 10);
    assert!(world.done("GET", "/api/rules/openai", None).await.as_array().expect("a list").len() > 5);
}

#[tokio::test]
async fn events_are_numbered_and_resumed() {
    let world = World::with_alpha(1).await;
    let listen = |last: Option<&str>| {
        let mut request = world.request("GET", "/api/events", None);
        if let Some(last) = last {
            request.headers_mut().insert("last-event-id", last.parse().expect("a number"));
        }
        world.send(request)
    };
    let mut live = listen(None).await.into_body();
    world.done("PATCH", "/api/settings", Some(json!({ "patience_s": 5 }))).await;
    let event = text_of(&mut live).await;
    assert!(event.contains("event: changed") && event.contains("settings.change"), "{event}");
    let number: u64 =
        event.lines().find_map(|line| line.strip_prefix("id: ")?.parse().ok()).expect("a number");
    let resumed = text_of(&mut listen(Some(&(number - 1).to_string())).await.into_body()).await;
    assert!(resumed.contains("settings.change"), "{resumed}");
    let gap = text_of(&mut listen(Some("999999")).await.into_body()).await;
    assert!(gap.contains("event: resync"), "{gap}");
    world
        .store
        .notify(Notice {
            at: Timestamp::now(),
            kind: "key_disabled".into(),
            severity: "critical".into(),
            subject: "provider/alpha/keys/1".into(),
            text: "gone".into(),
        })
        .await
        .expect("noted");
    let bell = world.done("GET", "/api/notifications", None).await;
    assert_eq!(bell[0]["text"], "gone");
    world.done("POST", "/api/notifications/read", None).await;
    world.done("DELETE", "/api/notifications", None).await;
}

#[tokio::test]
async fn status_names_what_needs_a_person() {
    let world = World::with_alpha(1).await;
    let body = json!({ "action": "disable", "confirm": true });
    world.done("POST", "/api/providers/alpha/keys/1/action", Some(body)).await;
    let status = world.done("GET", "/api/status", None).await;
    assert_eq!(status["state"], "down");
    let texts: Vec<&str> = status["troubles"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|trouble| trouble["text"].as_str())
        .collect();
    assert_eq!(
        texts,
        [
            "it has no key; add one",
            "none of its keys can be used; test them and enable what works",
            "key key-1 is out of service (configuration_error, disabled_by_hand); replace it, or test and enable it",
        ]
    );
}

async fn text_of(body: &mut axum::body::Body) -> String {
    let frame = body.frame().await.expect("a frame").expect("no error");
    String::from_utf8_lossy(frame.data_ref().expect("data")).into_owned()
}
