//! Connection tests through the API.

use backstop_gateway::QuotaTold;
use backstop_triage::{
    Fault, Timestamp,
    quota::{QuotaSnapshot, QuotaSource},
};
use http_body_util::BodyExt as _;
use serde_json::json;

use crate::world::World;

const REFUSED: &str = r#"{"error":{"message":"Incorrect API key provided: sk-secret-1","type":"invalid_request_error","code":"invalid_api_key"}}"#;

fn alpha_of_openai(secret: &str, _url: &str) -> Result<(u16, String), Fault> {
    match secret {
        "sk-secret-1" => Ok((401, REFUSED.to_owned())),
        "sk-secret-2" => Err(Fault::ReadTimeout),
        _ => Ok((200, r#"{"data":[{"id":"large"}],"choices":[{"message":{"content":"pong"}}]}"#.to_owned())),
    }
}

async fn world() -> World {
    let world = World::with_alpha(3).await;
    let definition = json!({ "id": "alpha", "format": "openai-chat", "base_url": "http://127.0.0.1:9/v1", "rules": "openai" });
    world.done("PUT", "/api/providers/alpha", Some(definition)).await;
    world.upstream(alpha_of_openai);
    world
}

#[tokio::test]
async fn a_dead_key_is_taken_out_of_service_and_says_why() {
    let world = world().await;
    let report = world.done("POST", "/api/providers/alpha/keys/1/test", None).await;
    assert_eq!((&report["valid"], &report["disabled"]), (&json!(false), &json!(true)));
    assert_eq!(
        (&report["class"], &report["status"], &report["tokens"]),
        (&json!("auth_error"), &json!(401), &json!(1))
    );
    assert_eq!(
        *world.live.asked.lock(),
        ["GET /v1/models sk-secret-1", "POST /v1/chat/completions sk-secret-1"]
    );
    let key = world.done("GET", "/api/providers/alpha/keys/1", None).await;
    assert_eq!((&key["state"], &key["why"]["source"]), (&json!("disabled"), &json!("test")));
    assert_eq!(key["test"]["valid"], false);
    assert_eq!((&key["succeeded"], &key["failed"]), (&json!(0), &json!(0)), "a test is no traffic");
    let again = world.done("POST", "/api/providers/alpha/keys/1/test", None).await;
    assert_eq!((&again["valid"], &again["disabled"]), (&json!(false), &json!(false)), "it is out already");
}

#[tokio::test]
async fn a_silent_provider_never_costs_a_key() {
    let world = world().await;
    let report = world.done("POST", "/api/providers/alpha/keys/2/test", None).await;
    assert_eq!((&report["valid"], &report["disabled"]), (&json!(null), &json!(false)));
    assert_eq!(report["class"], "timeout");
    assert_eq!(world.done("GET", "/api/providers/alpha/keys/2", None).await["state"], "active");
}

#[tokio::test]
async fn all_keys_are_tested_one_after_the_other_with_progress() {
    let world = world().await;
    let response = world.send(world.request("POST", "/api/providers/alpha/keys/test-all", None)).await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let text = response.into_body().collect().await.expect("a body").to_bytes();
    let text = String::from_utf8_lossy(&text);
    let results: Vec<serde_json::Value> = text
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let short: Vec<String> = results
        .iter()
        .map(|result| {
            format!(
                "{}/{} {} {}",
                result["done"], result["total"], result["report"]["label"], result["report"]["valid"]
            )
        })
        .collect();
    assert_eq!(short, ["1/3 \"key-1\" false", "2/3 \"key-2\" null", "3/3 \"key-3\" true"]);
}

#[tokio::test]
async fn a_test_of_all_keys_stops_when_nobody_listens() {
    let world = world().await;
    let response = world.send(world.request("POST", "/api/providers/alpha/keys/test-all", None)).await;
    let mut body = response.into_body();
    let _first = body.frame().await.expect("a frame");
    drop(body);
    tokio::task::yield_now().await;
    let asked = world.live.asked.lock().len();
    assert!(asked <= 6, "{asked}");
}

#[tokio::test]
async fn an_unsaved_key_is_tested_and_left_alone() {
    let world = world().await;
    let good = world
        .done("POST", "/api/providers/alpha/test", Some(json!({ "key": "sk-new-and-good-enough" })))
        .await;
    assert_eq!((&good["valid"], &good["label"]), (&json!(true), &json!("sk-n…ough")));
    let bad = world.done("POST", "/api/providers/alpha/test", Some(json!({ "key": "sk-secret-1" }))).await;
    assert_eq!((&bad["valid"], &bad["disabled"]), (&json!(false), &json!(false)));
    assert!(!bad.to_string().contains("sk-secret-1"), "{bad}");
    assert_eq!(world.done("GET", "/api/providers/alpha/keys/1", None).await["state"], "active");
    let unsaved = json!({ "id": "new", "format": "openai-chat", "base_url": "https://new.test/v1" });
    let draft = json!({ "definition": unsaved, "key": "sk-new", "model": "m" });
    assert_eq!(world.done("POST", "/api/test", Some(draft)).await["model"], "m");
    assert_eq!(world.ask("POST", "/api/test", Some(json!({ "key": "sk" }))).await.0, 422);
}

#[tokio::test]
async fn a_list_of_models_is_fetched_once_in_five_minutes() {
    let world = world().await;
    world.upstream(|_, _| Ok((200, r#"{"data":[{"id":"b"},{"id":"a"}]}"#.into())));
    let first = world.done("POST", "/api/providers/alpha/models/fetch", None).await;
    assert_eq!((&first["models"], &first["cached"]), (&json!(["a", "b"]), &json!(false)));
    let second = world.done("POST", "/api/providers/alpha/models/fetch", None).await;
    assert_eq!(second["cached"], true);
    let forced = world.done("POST", "/api/providers/alpha/models/fetch?force=true", None).await;
    assert_eq!(forced["cached"], false);
    world.upstream(|_, _| Ok((401, String::new())));
    let (status, problem) = world.ask("POST", "/api/providers/alpha/models/fetch?force=true", None).await;
    assert_eq!((status, problem["code"].as_str()), (409, Some("refused")));
}

#[tokio::test]
async fn a_person_may_ask_how_full_a_key_is() {
    let world = World::with_alpha(1).await;
    let path = "/api/providers/alpha/keys/1/quota/probe";
    let (status, problem) = world.ask("POST", path, None).await;
    assert_eq!((status, &problem["code"]), (409, &json!("no_usage")));
    *world.live.usage.lock() = QuotaTold::Refused;
    assert_eq!(world.ask("POST", path, None).await.1["code"], "refused");
    assert_eq!(world.done("GET", "/api/providers/alpha/keys/1", None).await["state"], "active");
    let snapshot = QuotaSnapshot {
        taken_at: Timestamp::now(),
        source: QuotaSource::Endpoint,
        plan: Some("pro".into()),
        windows: Vec::new(),
    };
    *world.live.usage.lock() = QuotaTold::Windows(snapshot);
    assert_eq!(world.done("POST", path, None).await["quota"]["plan"], "pro");
    assert_eq!(world.done("GET", "/api/audit?limit=1", None).await["items"][0]["action"], "keys.quota");
    assert_eq!(world.ask("POST", "/api/providers/alpha/keys/9/quota/probe", None).await.0, 404);
}
