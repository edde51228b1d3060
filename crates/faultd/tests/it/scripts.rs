//! Which rule answers, and scripts as TOML.

use backstop_faultd::{Faultd, Framing, How, Point, Reply, Script, any, key, model, path};
use expect_test::expect;

use crate::client::{CHAT, CHAT_STREAM, Client, ask, keep, post};

async fn status(provider: &Faultd, key: &str, body: &str) -> String {
    let mut client = Client::connect(provider.addr()).await;
    client.send(keep("/v1/chat/completions", key, body)).await;
    client.until("\r\n\r\n").await[9..12].to_string()
}

#[tokio::test]
async fn the_first_rule_that_fits_answers() {
    let script = Script::new()
        .on(key("a").model("other"), Reply::status(404))
        .on(key("a").streaming(), Reply::status(503))
        .on(key("a"), Reply::status(429))
        .on(model("m").plain().path("/chat/completions").method("POST"), Reply::status(500))
        .on(path("/completions"), Reply::status(418));
    let provider = Faultd::start(script).await.unwrap();
    assert_eq!(status(&provider, "a", CHAT).await, "429");
    assert_eq!(status(&provider, "a", CHAT_STREAM).await, "503");
    assert_eq!(status(&provider, "b", CHAT).await, "500");
    assert_eq!(status(&provider, "b", CHAT_STREAM).await, "418");
    assert_eq!(status(&provider, "a", r#"{"model":"other"}"#).await, "404");
}

#[tokio::test]
async fn numbers_count_what_meets_the_other_conditions() {
    let script = Script::new()
        .on(key("a").nth(1), Reply::status(500))
        .on(key("a").between(2..=3), Reply::status(503))
        .on(any().nth(6), Reply::status(418));
    let provider = Faultd::start(script).await.unwrap();
    let mut seen = Vec::new();
    for key in ["b", "a", "a", "a", "a", "b", "b"] {
        seen.push(status(&provider, key, CHAT).await);
    }
    assert_eq!(seen, ["200", "500", "503", "503", "200", "418", "200"]);
}

#[tokio::test]
async fn only_known_keys_pass_when_keys_are_listed() {
    let script = Script::new().keys(["good"]).on(key("slow"), Reply::status(429));
    let provider = Faultd::start(script).await.unwrap();
    assert_eq!(status(&provider, "good", CHAT).await, "200");
    assert_eq!(status(&provider, "slow", CHAT).await, "429");
    assert_eq!(status(&provider, "bad", CHAT).await, "401");
}

#[tokio::test]
async fn a_script_can_change_while_it_plays() {
    let provider = Faultd::start(Script::new()).await.unwrap();
    let mut client = Client::connect(provider.addr()).await;
    client.send(keep("/v1/chat/completions", "k", CHAT)).await;
    assert!(client.until("}}").await.contains("200 OK"));
    provider.set_script(Script::new().otherwise(Reply::status(500)));
    client.send(keep("/v1/chat/completions", "k", CHAT)).await;
    assert!(client.until("}}").await.contains("500 Internal"));
    assert_eq!(provider.log().len(), 2);
    provider.clear_log();
    assert_eq!(provider.log().len(), 0);
}

#[tokio::test]
async fn the_log_keeps_the_newest_calls() {
    let provider = Faultd::start(Script::new().keep_calls(2)).await.unwrap();
    for key in ["a", "b", "c"] {
        status(&provider, key, CHAT).await;
    }
    let kept: Vec<u64> = provider.log().iter().map(|call| call.number).collect();
    assert_eq!((kept, provider.counters().calls), (vec![2, 3], 3));
}

#[test]
fn toml_says_all_that_the_builder_says() {
    let text = r#"
        models = ["large"]
        keys = ["sk-1"]

        [otherwise]
        pieces = 2

        [[rule]]
        when = { key = "a", nth = 1 }
        reply = { status = 429, headers = { "retry-after" = "30" } }

        [[rule]]
        when = { model = "m", path = "/messages", method = "POST", stream = true, nth = "2-" }
        reply = { cut = { at = "content", n = 2, how = "reset" }, wait_ms = 5, first_event_ms = 6, events_ms = 7 }

        [[rule]]
        reply = { error_event = { at = "events", code = "c", message = "m" }, framing = "until-close", close = true }

        [[limit]]
        key = "b"
        requests = 5
        window_s = 60

        [[connection]]
        numbers = "1-2"
        greeting = "silent"
    "#;
    let ms = std::time::Duration::from_millis;
    let cut = Reply::answer().cut(Point::Content(2), How::Reset).after(ms(5));
    let built = Script::new()
        .models(["large"])
        .keys(["sk-1"])
        .otherwise(Reply::answer().pieces(2, 0))
        .on(key("a").nth(1), Reply::status(429).header("retry-after", "30"))
        .on(
            model("m").path("/messages").method("POST").streaming().between(2..),
            cut.first_event_after(ms(6)).events_every(ms(7)),
        )
        .on(
            any(),
            Reply::answer().error_event(Point::Events(0), "c", "m").framing(Framing::UntilClose).closing(),
        )
        .limit(backstop_faultd::Limit::per_minute(5).key("b"))
        .greet(1..=2, backstop_faultd::Greeting::Silent);
    assert_eq!(Script::from_toml(text).unwrap(), built);
}

#[test]
fn a_wrong_script_says_what_and_where() {
    let error = |text: &str| Script::from_toml(text).unwrap_err().to_string();
    expect![[r#"
        TOML parse error at line 2, column 11
          |
        2 | reply = { statu = 3 }
          |           ^^^^^
        unknown field `statu`, expected one of `status`, `headers`, `text`, `error`, `json`, `html`, `body`, `events`, `gzip_bomb`, `raw`, `corpus`, `pieces`, `piece_bytes`, `pings`, `stamped`, `wait_ms`, `first_event_ms`, `events_ms`, `drip_ms`, `cut`, `error_event`, `framing`, `wrong_length`, `informational`, `filler_headers`, `close`
    "#]]
    .assert_eq(&error("[[rule]]\nreply = { statu = 3 }"));
    expect!["a reply takes its body from one place, this one names text and html; keep one"]
        .assert_eq(&error("[[rule]]\nreply = { text = 'a', html = 'b' }"));
    expect![[r#""x-y" is no range of numbers; write 3, "2-", "-4" or "1-3""#]]
        .assert_eq(&error("[[rule]]\nwhen = { nth = 'x-y' }"));
    expect![[r#"there is no point "middle"; it is one of request, status, headers, bytes, events, content, chunk-size, closing, terminal, final-chunk"#]]
        .assert_eq(&error("[[rule]]\nreply = { cut = { at = 'middle', how = 'end' } }"));
    expect!["this corpus line cannot be played: it is of kind process"]
        .assert_eq(&error("[[rule]]\nreply = { corpus = '{\"kind\":\"process\"}' }"));
}

#[tokio::test]
async fn a_corpus_line_is_replayed_byte_for_byte() {
    let line = r#"{"id":"x","kind":"http","provider":"zai","status":429,"headers":{"retry-after":"3","content-length":"9"},"body":"{\"error\": {\"code\":\"1302\"}}\n"}"#;
    let provider = Faultd::start(Script::new().otherwise(Reply::corpus(line).unwrap())).await.unwrap();
    let (answer, _) = ask(&provider, post("/v1/chat/completions", CHAT)).await;
    expect![[r#"
        HTTP/1.1 429 Too Many Requests
        content-type: application/json
        retry-after: 3
        content-length: 27
        connection: close

        {"error": {"code":"1302"}}
    "#]]
    .assert_eq(&answer);
}
