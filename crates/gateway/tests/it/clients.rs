//! What a client key may do, and in whose words it is told that it may not.

use backstop_faultd::{Reply, Script};
use expect_test::expect;

use crate::world::{CHAT, Got, Setup, World};

const KEY: &str = "limited-client-key-0123456789";

/// A gateway whose only other client is limited by these fields, before a provider of this format.
async fn limited(format: &str, limits: &str, script: Script) -> World {
    let tables = &format!("[[client]]\nname = \"limited\"\nvalue = \"{KEY}\"\n{limits}\n");
    World::new(Setup { format, tables, script, ..Setup::default() }).await
}

/// Asks until it is refused. A limit per minute may need another try, if a minute ends between two.
async fn refused(world: &World, path: &str, body: &str, header: &str) -> Got {
    let headers = match header {
        "authorization" => format!("authorization: Bearer {KEY}\r\n"),
        other => format!("authorization: none\r\n{other}: {KEY}\r\n"),
    };
    for _ in 0..4 {
        let got = world.post_with(path, body, &headers).await;
        if got.status != 200 {
            return got;
        }
    }
    panic!("never refused");
}

const MESSAGES: &str = r#"{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"hi"}]}"#;
const CONTENTS: &str = r#"{"contents":[{"parts":[{"text":"hi"}]}]}"#;
/// Each dialect with a path, a body, and the header that its own libraries send.
const DIALECTS: [(&str, &str, &str, &str); 3] = [
    ("openai-chat", "/proxy/p/v1/chat/completions", CHAT, "authorization"),
    ("anthropic-messages", "/proxy/p/v1/messages", MESSAGES, "x-api-key"),
    ("gemini", "/proxy/p/v1beta/models/m:generateContent", CONTENTS, "x-goog-api-key"),
];

#[tokio::test]
async fn a_refusal_speaks_the_callers_dialect() {
    let mut told = String::new();
    for (format, path, body, header) in DIALECTS {
        for limits in
            ["expires = \"2020-01-01T00:00:00Z\"", "models = [\"other\"]", "requests_per_minute = 1"]
        {
            let world = limited(format, limits, Script::new()).await;
            let got = refused(&world, path, body, header).await;
            let error = &got.json()["error"];
            let kind = error.get("status").or_else(|| error.get("type")).cloned().unwrap_or_default();
            let field = limits.split(' ').next().unwrap_or_default();
            // How long until the next minute differs from run to run.
            let message = error["message"].to_string();
            let message = message.split_once("again in ").map_or(message.as_str(), |(before, _)| before);
            told.push_str(&format!("{format} {field}: {} {kind} {message}\n", got.status));
        }
    }
    expect![[r#"
        openai-chat expires: 401 "authentication_error" "The gateway's client key is missing or unknown. Send it as `Authorization: Bearer`, `x-api-key` or `x-goog-api-key`."
        openai-chat models: 403 "permission_error" "This client key is not allowed to use this route."
        openai-chat requests_per_minute: 429 "rate_limit_error" "This client key has reached its limit. Please try 
        anthropic-messages expires: 401 "authentication_error" "The gateway's client key is missing or unknown. Send it as `Authorization: Bearer`, `x-api-key` or `x-goog-api-key`."
        anthropic-messages models: 403 "permission_error" "This client key is not allowed to use this route."
        anthropic-messages requests_per_minute: 429 "rate_limit_error" "This client key has reached its limit. Please try 
        gemini expires: 401 "UNAUTHENTICATED" "The gateway's client key is missing or unknown. Send it as `Authorization: Bearer`, `x-api-key` or `x-goog-api-key`."
        gemini models: 403 "PERMISSION_DENIED" "This client key is not allowed to use this route."
        gemini requests_per_minute: 429 "RESOURCE_EXHAUSTED" "This client key has reached its limit. Please try 
    "#]].assert_eq(&told);
}

#[tokio::test]
async fn a_key_is_held_to_its_providers_routes_and_models() {
    for (limits, fits) in [
        ("providers = [\"q\"]", false),
        ("providers = [\"q\", \"p\"]", true),
        ("routes = [\"embeddings\"]", false),
        ("routes = [\"generate\"]", true),
        ("models = [\"p/m\"]", true),
        ("models = [\"m\"]", true),
        ("models = [\"q/m\"]", false),
        ("models = [\"M\"]", false),
    ] {
        let world = limited("openai-chat", limits, Script::new()).await;
        let headers = format!("authorization: Bearer {KEY}\r\n");
        for (path, body) in [
            ("/proxy/p/v1/chat/completions", CHAT.to_owned()),
            ("/v1/chat/completions", CHAT.replace("\"m\"", "\"p/m\"")),
        ] {
            let got = world.post_with(path, &body, &headers).await;
            assert_eq!(got.status, if fits { 200 } else { 403 }, "{limits}, {path}: {}", got.body);
        }
        assert_eq!(world.provider.log().len(), if fits { 2 } else { 0 }, "{limits}");
    }
}

#[tokio::test]
async fn tokens_and_money_are_counted_as_answers_come() {
    let answer = r#"{"id":"1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":40,"completion_tokens":60,"total_tokens":100,"cost":0.6}}"#;
    let script = || Script::new().otherwise(Reply::json(200, answer));
    let (path, body, header) = ("/proxy/p/v1/chat/completions", CHAT, "authorization");
    let world = limited("openai-chat", "tokens_per_minute = 100", script()).await;
    let got = refused(&world, path, body, header).await;
    let wait: u64 = got.header("retry-after").parse().unwrap();
    assert!(got.status == 429 && (1..=60).contains(&wait), "{got:?}");

    let world = limited("openai-chat", "spend_usd_per_month = 1", script()).await;
    for _ in 0..2 {
        let got = world.post_with(path, body, &format!("authorization: Bearer {KEY}\r\n")).await;
        world.logged(got.header("x-backstop-request-id")).await;
    }
    let got = refused(&world, path, body, header).await;
    assert_eq!((got.status, got.header("retry-after")), (429, ""), "a month is no time to wait");
    assert_eq!(world.provider.log().len(), 2, "the second answer passed the limit");
    // A restart forgets no money, and neither does who empties the log.
    assert_eq!(world.gateway.control().store().clear_requests().await.unwrap(), 2);
    let world = world.restarted();
    assert_eq!(refused(&world, path, body, header).await.status, 429);
    assert_eq!(world.provider.log().len(), 2);
}

#[tokio::test]
async fn a_limit_of_one_client_is_none_of_another() {
    let world = limited("openai-chat", "requests_per_minute = 1", Script::new()).await;
    assert_eq!(refused(&world, "/proxy/p/v1/chat/completions", CHAT, "authorization").await.status, 429);
    for _ in 0..5 {
        assert_eq!(world.chat().await.status, 200);
    }
}

#[tokio::test]
async fn no_key_a_wrong_one_and_one_of_the_provider_are_told_alike() {
    let world = World::new(Setup::default()).await;
    let mut answers = Vec::new();
    for headers in [
        "authorization: \r\n",
        "authorization: Bearer\r\n",
        "authorization: Bearer sk-one\r\n",
        "authorization: Bearer test-client-key-012345678\r\n",
        "authorization: Bearer test-client-key-01234567890\r\n",
        "authorization: Basic dGVzdC1jbGllbnQta2V5LTAxMjM0NTY3ODk6\r\n",
    ] {
        let got = world.post_with("/proxy/p/v1/chat/completions", CHAT, headers).await;
        assert_eq!(got.status, 401, "{headers}");
        let error = &got.json()["error"];
        answers.push((error["code"].clone(), error["message"].clone()));
    }
    answers.dedup();
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert!(world.provider.log().is_empty());
}

#[tokio::test]
async fn bodies_are_kept_for_a_client_that_asks_for_it_and_for_no_other() {
    let world = limited("openai-chat", "keep_bodies = true", Script::new()).await;
    let path = "/proxy/p/v1/chat/completions";
    let kept = world.post_with(path, CHAT, &format!("authorization: Bearer {KEY}\r\n")).await;
    let other = world.chat().await;
    let store = world.gateway.control().store().clone();
    let logged = async |got: &Got| store.bodies(&world.logged(got.header("x-backstop-request-id")).await.id);
    let bodies = logged(&kept).await.unwrap().unwrap();
    assert_eq!((&bodies.request[..], &bodies.answer[..]), (CHAT.as_bytes(), kept.body.as_bytes()));
    assert!(logged(&other).await.unwrap().is_none());
}
