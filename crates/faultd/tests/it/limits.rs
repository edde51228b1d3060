//! Limits behave like those of real providers.

use std::time::Duration;

use backstop_faultd::{Faultd, Limit, Reply, Script};

use crate::client::{CHAT, Client, get, keep};

/// One answer on a connection of its own: status line and headers.
async fn head(provider: &Faultd, path: &str, key: &str) -> String {
    let mut client = Client::connect(provider.addr()).await;
    client.send(keep(path, key, CHAT)).await;
    client.until("\r\n\r\n").await
}

async fn status(provider: &Faultd, key: &str) -> String {
    head(provider, "/v1/chat/completions", key).await[9..12].to_string()
}

#[tokio::test(start_paused = true)]
async fn a_window_fills_and_renews_for_each_key() {
    let provider = Faultd::start(Script::new().limit(Limit::per_minute(2))).await.unwrap();
    assert_eq!(status(&provider, "a").await, "200");
    tokio::time::advance(Duration::from_secs(20)).await;
    assert_eq!(status(&provider, "a").await, "200");
    assert_eq!(status(&provider, "a").await, "429");
    assert_eq!(status(&provider, "b").await, "200");
    tokio::time::advance(Duration::from_secs(39)).await;
    assert_eq!(status(&provider, "a").await, "429");
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(status(&provider, "a").await, "200");
}

#[tokio::test(start_paused = true)]
async fn a_full_window_says_when_it_renews() {
    let provider = Faultd::start(Script::new().limit(Limit::per_minute(1))).await.unwrap();
    let first = head(&provider, "/v1/chat/completions", "k").await;
    assert!(
        first.contains("x-ratelimit-remaining-requests: 0\r\n") && !first.contains("retry-after"),
        "{first}"
    );
    tokio::time::advance(Duration::from_millis(10_500)).await;
    let chat = head(&provider, "/v1/chat/completions", "k").await;
    assert!(chat.contains("retry-after: 50\r\nx-ratelimit-limit-requests: 1\r\n"), "{chat}");
    assert!(chat.contains("x-ratelimit-reset-requests: 50s\r\n"), "{chat}");
    let messages = head(&provider, "/v1/messages", "k").await;
    assert!(messages.contains("anthropic-ratelimit-requests-reset: 20"), "{messages}");
}

#[tokio::test(start_paused = true)]
async fn a_balance_runs_out_for_good() {
    let limit = Limit::balance(2).key("poor").reply(Reply::error(
        402,
        "insufficient_balance",
        "Insufficient Balance",
    ));
    let provider = Faultd::start(Script::new().limit(limit)).await.unwrap();
    assert_eq!(status(&provider, "poor").await, "200");
    assert_eq!(status(&provider, "poor").await, "200");
    tokio::time::advance(Duration::from_secs(1_000_000)).await;
    assert_eq!(status(&provider, "poor").await, "402");
    assert_eq!(status(&provider, "rich").await, "200");
}

#[tokio::test(start_paused = true)]
async fn a_scripted_reply_can_tell_the_reset_in_its_own_words() {
    let body =
        r#"{"error":{"code":"1308","message":"resets in {{reset_s}} s, {{remaining}} of {{limit}} left"}}"#;
    let limit = Limit::per_window(1, Duration::from_secs(300)).reply(Reply::json(429, body)).silent();
    let provider = Faultd::start(Script::new().limit(limit)).await.unwrap();
    let mut client = Client::connect(provider.addr()).await;
    client.send(keep("/v1/chat/completions", "k", CHAT).repeat(2)).await;
    client.until("429").await;
    let answer = client.until("left").await;
    assert!(answer.ends_with("resets in 300 s, 0 of 1 left") && !answer.contains("retry-after"), "{answer}");
}

#[tokio::test]
async fn lists_of_models_are_not_charged() {
    let provider = Faultd::start(Script::new().limit(Limit::balance(0))).await.unwrap();
    let mut client = Client::connect(provider.addr()).await;
    client.send(get("/v1/models")).await;
    assert!(client.until("\r\n").await.contains("200"));
}
