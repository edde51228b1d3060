//! Streams: fail over before the first content, tell the truth after it.

use std::time::Duration;

use backstop_faultd::{Client, Ended, How, Point, Reply, Script, key};

use crate::world::{STREAM, Setup, World, request};

#[tokio::test]
async fn an_error_event_first_in_a_success_moves_on_unseen() {
    let script = Script::new().on(
        key("sk-one"),
        Reply::answer().error_event(
            Point::Events(0),
            "rate_limit_exceeded",
            "Rate limit reached for requests",
        ),
    );
    let world = World::of(script, &["sk-one", "sk-two"]).await;
    let got = world.stream().await;
    assert_eq!((got.status, got.whole), (200, true));
    assert_eq!((got.count("error"), got.count("[DONE]")), (0, 1), "{}", got.body);
    assert_eq!(got.header("x-backstop-key"), "sk-two");
}

#[tokio::test]
async fn a_request_error_told_first_in_a_success_is_told_to_the_client_as_it_is() {
    let refusal = || {
        Reply::answer().error_event(
            Point::Events(0),
            "invalid_request_error",
            "Unsupported parameter: 'frobnicate' is not supported with this model.",
        )
    };
    let alone = Script::new().on(key("sk-one"), refusal());
    let after_a_limit = Script::new().on(key("sk-one"), Reply::status(429)).on(key("sk-two"), refusal());
    for (script, asked) in [(alone, 1), (after_a_limit, 2)] {
        let world = World::of(script, &["sk-one", "sk-two"]).await;
        let got = world.stream().await;
        assert_eq!((got.status, got.header("x-should-retry")), (400, "false"), "{}", got.body);
        assert_eq!(got.header("content-type"), "application/json");
        assert_eq!(
            got.json()["error"]["message"],
            "Unsupported parameter: 'frobnicate' is not supported with this model."
        );
        assert_eq!(world.provider.log().len(), asked);
    }
}

#[tokio::test]
async fn a_stream_cut_before_content_moves_on_unseen() {
    let cuts = [
        (Point::Headers, How::Reset),
        (Point::Headers, How::Close),
        (Point::Events(1), How::Close),
        (Point::Events(1), How::Reset),
        (Point::Headers, How::End),
    ];
    for (at, how) in cuts {
        let script = Script::new().on(key("sk-one"), Reply::answer().cut(at, how));
        let world = World::of(script, &["sk-one", "sk-two"]).await;
        let got = world.stream().await;
        assert_eq!(
            (got.status, got.whole, got.count("[DONE]")),
            (200, true, 1),
            "{at:?} {how:?}: {}",
            got.body
        );
        assert_eq!(got.header("x-backstop-key"), "sk-two", "{at:?} {how:?}");
    }
}

#[tokio::test]
async fn a_stream_cut_after_content_ends_with_one_error_event_and_no_forged_end() {
    let shapes = [
        ("openai-chat", "/v1/chat/completions", STREAM, "data: {\"error\"", "[DONE]"),
        (
            "anthropic-messages",
            "/v1/messages",
            r#"{"model":"m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"hi"}]}"#,
            "event: error",
            "message_stop",
        ),
        (
            "openai-responses",
            "/v1/responses",
            r#"{"model":"m","input":"hi","stream":true}"#,
            "event: response.failed",
            "response.completed",
        ),
    ];
    for (format, path, body, error, end) in shapes {
        for how in [How::Reset, How::Close, How::End] {
            let script = Script::new().otherwise(Reply::answer().cut(Point::Content(2), how));
            let world = World::new(Setup { script, format, ..Setup::default() }).await;
            let got = world.post(&format!("/proxy/p{path}"), body).await;
            assert_eq!(got.status, 200);
            assert_eq!((got.count(error), got.count(end)), (1, 0), "{format} {how:?}: {}", got.body);
            assert!(!got.whole, "{format} {how:?}: the connection must close in the middle");
            assert_eq!(world.provider.log().len(), 1, "nothing is repeated after content");
        }
    }
}

#[tokio::test]
async fn an_error_event_after_content_is_told_once_and_counts_against_the_key() {
    let script = Script::new().otherwise(Reply::answer().error_event(
        Point::Content(2),
        "rate_limit_exceeded",
        "Rate limit reached for requests",
    ));
    let world = World::of(script, &["sk-one", "sk-two"]).await;
    let got = world.stream().await;
    assert_eq!((got.count("data: {\"error\""), got.count("[DONE]")), (1, 0), "{}", got.body);
    assert!(!got.whole);
    assert_eq!(world.keys()[0], "sk-one resting");
}

#[tokio::test]
async fn half_an_event_never_reaches_the_client() {
    let script =
        Script::new().on(key("sk-one"), Reply::answer().pieces(4, 200).cut(Point::Bytes(900), How::Reset));
    let world = World::of(script, &["sk-one"]).await;
    let got = world.stream().await;
    for data in got.data() {
        assert!(serde_json::from_str::<serde_json::Value>(data).is_ok(), "{data}");
    }
    assert_eq!(got.count("data: {\"error\""), 1, "{}", got.body);
}

#[tokio::test]
async fn events_arrive_as_they_come() {
    let script =
        Script::new().otherwise(Reply::answer().pieces(3, 0).events_every(Duration::from_millis(150)));
    let world = World::of(script, &["sk-one"]).await;
    let mut client = Client::new(world.gateway.addr());
    client.send(&request("POST", "/proxy/p/v1/chat/completions", STREAM, "")).await.unwrap();
    assert_eq!(client.head().await.unwrap().status, 200);
    let mut pieces = 0;
    while client.piece().await.unwrap().is_some() {
        pieces += 1;
    }
    assert!(pieces >= 3, "{pieces} pieces");
}

#[tokio::test]
async fn a_client_that_leaves_takes_its_upstream_call_along() {
    let silent = Reply::answer().after(Duration::from_secs(600));
    let flowing = Reply::answer().pieces(10_000, 0).events_every(Duration::from_millis(50));
    for (reply, begun) in [(silent, false), (flowing, true)] {
        let world = World::of(Script::new().otherwise(reply), &["sk-one"]).await;
        let mut client = Client::new(world.gateway.addr());
        client.send(&request("POST", "/proxy/p/v1/chat/completions", STREAM, "")).await.unwrap();
        let asked_at = world.provider.until(|calls| calls.first().map(|call| call.at)).await;
        if begun {
            assert_eq!(client.head().await.unwrap().status, 200);
        }
        client.hang_up();
        let gone = world.provider.until(|calls| match calls.first()?.ended {
            Ended::ClientGone { at } => Some(at),
            Ended::Open | Ended::Complete | Ended::Cut => None,
        });
        let gone_at = tokio::time::timeout(Duration::from_secs(5), gone).await.expect("the call is aborted");
        assert!(gone_at - asked_at < Duration::from_secs(2));
        assert_eq!(world.provider.log().len(), 1, "nobody else is asked for a client that left");
        assert_eq!(world.keys(), ["sk-one active"], "and nobody is blamed");
    }
}

#[tokio::test]
async fn a_silent_stream_is_kept_alive_with_comments_and_can_still_fail_over() {
    let script = Script::new()
        .on(key("sk-one"), Reply::status(429).after(Duration::from_millis(1500)))
        .on(key("sk-two"), Reply::answer());
    let world = World::new(Setup { script, provider: "keepalive_s = 1\n", ..Setup::default() }).await;
    let got = world.stream().await;
    assert!(got.body.starts_with(": keepalive\n\n"), "{}", got.body);
    assert_eq!((got.status, got.whole, got.count("[DONE]")), (200, true, 1));
    assert_eq!(world.asked(), [("sk-one".into(), 1), ("sk-two".into(), 1)]);
}

#[tokio::test]
async fn a_stream_that_falls_silent_after_content_ends_with_an_error_event() {
    let script = Script::new().otherwise(Reply::answer().cut(Point::Content(2), How::Hang));
    let world = World::new(Setup { script, provider: "idle_timeout_ms = 300\n", ..Setup::default() }).await;
    let got = world.stream().await;
    assert_eq!(
        (got.count("data: {\"error\""), got.count("[DONE]"), got.whole),
        (1, 0, false),
        "{}",
        got.body
    );
}

#[tokio::test]
async fn a_stream_that_ends_inside_an_event_leaves_no_half_of_it() {
    let content = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hello\"}}]}\n\n";
    for half in ["d", "data: ", "data: {\"choices\":[{\"ind", "data: {\"choices\":[]}\n"] {
        let reply = Reply::events([content, half]).events_every(Duration::from_millis(20));
        let world = World::of(Script::new().otherwise(reply), &["sk-one"]).await;
        let got = world.stream().await;
        let (hello, error) = got.body.split_once("\n\n").unwrap();
        assert_eq!(format!("{hello}\n\n"), content);
        assert!(error.starts_with("data: {\"error\""), "{half:?}: {error}");
        assert!(!got.whole, "{half:?}");
    }
}

#[tokio::test]
async fn an_end_that_has_not_come_whole_is_a_cut_before_content_and_after_it() {
    let messages =
        r#"{"model":"m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"hi"}]}"#;
    let chat = ("openai-chat", "/v1/chat/completions", STREAM, "data: {\"error\"");
    let anthropic = ("anthropic-messages", "/v1/messages", messages, "event: error");
    let hello = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hello\"}}]}\n\n";
    let block = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"hello\"}}\n\n";
    let cases = [
        (chat, hello, "data: [DONE]\n"),
        (chat, hello, "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}"),
        (anthropic, block, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n"),
        (anthropic, block, "event: message_stop\ndata: {\"type\":\"message_stop\"\n\n"),
    ];
    for ((format, path, body, error), content, end) in cases {
        let script = Script::new().on(key("sk-one"), Reply::events([content, end]));
        let world = World::new(Setup { script, format, ..Setup::default() }).await;
        let got = world.post(&format!("/proxy/p{path}"), body).await;
        assert_eq!((got.whole, got.count("hello"), got.count(error)), (false, 1, 1), "{end:?}: {}", got.body);

        let script = Script::new().on(key("sk-one"), Reply::events([end]));
        let world = World::new(Setup { script, format, ..Setup::default() }).await;
        let got = world.post(&format!("/proxy/p{path}"), body).await;
        assert_eq!((got.whole, got.header("x-backstop-key")), (true, "sk-two"), "{end:?}: {}", got.body);
    }
}
