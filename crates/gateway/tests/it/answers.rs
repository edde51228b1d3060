//! What the client gets in the end, when nobody could answer.

use backstop_faultd::{Reply, Script, key};

use crate::world::{Setup, World};

#[tokio::test]
async fn all_keys_over_a_limit_is_a_429_with_the_first_way_back_and_no_further_call() {
    let script = Script::new()
        .on(key("sk-one"), Reply::status(429).header("retry-after", "900"))
        .on(key("sk-two"), Reply::status(429).header("retry-after", "600"));
    let world = World::of(script, &["sk-one", "sk-two"]).await;
    assert_eq!(world.chat().await.status, 429);
    let calls = world.provider.log().len();
    let got = world.chat().await;
    assert_eq!((got.status, got.header("x-should-retry")), (429, "false"));
    let seconds: u64 = got.header("retry-after").parse().unwrap();
    let millis: u64 = got.header("retry-after-ms").parse().unwrap();
    assert!((595..=620).contains(&seconds), "{seconds}");
    assert_eq!(millis.div_ceil(1000), seconds);
    assert_eq!(world.provider.log().len(), calls, "no upstream call while all rest");
    let body = got.json();
    assert_eq!(body["backstop"]["class"], "rate_limit");
    assert_eq!(got.header("x-backstop-error"), "rate_limit_exceeded");
}

#[tokio::test]
async fn a_short_rest_may_be_retried_by_the_client() {
    let script = Script::new().otherwise(Reply::status(429).header("retry-after", "30"));
    let world = World::of(script, &["sk-one"]).await;
    let got = world.chat().await;
    assert_eq!((got.status, got.header("x-should-retry")), (429, "true"), "{}", got.body);
}

#[tokio::test]
async fn dead_keys_are_a_502_that_asks_nobody_to_log_in() {
    let script =
        Script::new().otherwise(Reply::error(401, "invalid_api_key", "Incorrect API key provided: sk-x."));
    let world = World::of(script, &["sk-one", "sk-two"]).await;
    let got = world.chat().await;
    assert_eq!((got.status, got.header("x-backstop-error")), (502, "no_usable_key"), "{}", got.body);
    assert_eq!(got.header("x-should-retry"), "false");
    let text = got.body.to_lowercase();
    assert!(!text.contains("credit") && !text.contains("billing"), "{text}");
    assert_eq!(got.json()["backstop"]["attempts"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn overload_is_a_529_in_messages_and_a_503_elsewhere() {
    let body = r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#;
    let shapes = [
        ("anthropic-messages", "/v1/messages", body, 529),
        ("openai-chat", "/v1/chat/completions", crate::world::CHAT, 503),
    ];
    for (format, path, body, status) in shapes {
        let script = Script::new().otherwise(Reply::error(529, "overloaded_error", "Overloaded"));
        let provider = "overload_wait_s = 0\n";
        let world = World::new(Setup { script, format, provider, ..Setup::default() }).await;
        let got = world.post(&format!("/proxy/p{path}"), body).await;
        assert_eq!((got.status, got.header("x-should-retry")), (status, "true"), "{}", got.body);
    }
}

#[tokio::test]
async fn a_failing_provider_is_a_503() {
    let script = Script::new().otherwise(Reply::status(500));
    let world = World::new(Setup { script, provider: "last_key_ladder_s = []\n", ..Setup::default() }).await;
    let got = world.chat().await;
    assert_eq!((got.status, got.header("x-should-retry")), (503, "true"), "{}", got.body);
}

#[tokio::test]
async fn no_secret_of_ours_stands_in_an_answer() {
    let script =
        Script::new().otherwise(Reply::error(401, "invalid_api_key", "Incorrect API key provided: sk-one."));
    let world = World::of(script, &["sk-secret-one-secret-one"]).await;
    let got = world.chat().await;
    let secret = "sk-secret-one-secret-one";
    // The label is the key in this test, and labels may be shown; the credential may not.
    let mut body = got.json();
    for attempt in body["backstop"]["attempts"].as_array_mut().unwrap() {
        attempt["key"] = serde_json::Value::Null;
    }
    assert!(!body.to_string().contains(secret), "{body}");
    assert!(!body.to_string().contains("127.0.0.1"), "{body}");
}
