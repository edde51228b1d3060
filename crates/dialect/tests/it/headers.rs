use std::time::Duration;

use backstop_dialect::{ClientHints, Dialect, Head, head, request_headers, response_headers, session};
use expect_test::expect;
use http::HeaderMap;

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in pairs {
        map.append(*name, value.parse().unwrap());
    }
    map
}

fn shown(headers: &HeaderMap) -> String {
    let mut lines: Vec<_> =
        headers.iter().map(|(name, value)| format!("{name}: {}\n", value.to_str().unwrap())).collect();
    lines.sort();
    lines.concat()
}

#[test]
fn a_request_keeps_what_the_provider_may_need_and_loses_the_rest() {
    let passed = request_headers(&headers(&[
        ("anthropic-beta", "a"),
        ("anthropic-beta", "b"),
        ("anthropic-version", "2023-06-01"),
        ("x-stainless-lang", "python"),
        ("user-agent", "client/1"),
        ("content-type", "application/json"),
        ("openai-organization", "org"),
        ("http-referer", "https://app.example"),
        ("x-title", "app"),
        ("session_id", "s"),
        ("accept", "text/event-stream"),
        ("authorization", "Bearer secret"),
        ("x-api-key", "secret"),
        ("x-goog-api-key", "secret"),
        ("x-backstop-client-key", "secret"),
        ("cookie", "secret"),
        ("host", "gateway"),
        ("content-length", "3"),
        ("accept-encoding", "gzip"),
        ("expect", "100-continue"),
        ("connection", "keep-alive, X-Mine"),
        ("x-mine", "hop"),
        ("transfer-encoding", "chunked"),
        ("te", "trailers"),
        ("x-forwarded-for", "10.0.0.1"),
        ("forwarded", "for=10.0.0.1"),
        ("via", "1.1 x"),
        ("cf-connecting-ip", "10.0.0.1"),
        ("origin", "http://localhost"),
        ("referer", "http://localhost"),
        ("sec-fetch-mode", "cors"),
    ]));

    expect![[r#"
        accept: text/event-stream
        anthropic-beta: a
        anthropic-beta: b
        anthropic-version: 2023-06-01
        content-type: application/json
        http-referer: https://app.example
        openai-organization: org
        session_id: s
        user-agent: client/1
        x-stainless-lang: python
        x-title: app
    "#]]
    .assert_eq(&shown(&passed));
}

#[test]
fn an_answer_keeps_limits_and_ids_and_loses_what_belongs_to_the_connection() {
    let passed = response_headers(&headers(&[
        ("content-type", "text/event-stream"),
        ("retry-after", "3"),
        ("retry-after-ms", "2500"),
        ("request-id", "req_1"),
        ("x-request-id", "req_2"),
        ("anthropic-ratelimit-unified-status", "allowed"),
        ("x-ratelimit-remaining-tokens", "1"),
        ("x-codex-primary-used-percent", "3"),
        ("set-cookie", "secret"),
        ("alt-svc", "h3"),
        ("server", "cloudflare"),
        ("date", "now"),
        ("connection", "close"),
        ("transfer-encoding", "chunked"),
        ("content-length", "3"),
        ("strict-transport-security", "max-age=1"),
        ("access-control-allow-origin", "*"),
        ("x-backstop-error", "overloaded"),
    ]));

    expect![[r#"
        anthropic-ratelimit-unified-status: allowed
        content-type: text/event-stream
        request-id: req_1
        retry-after-ms: 2500
        retry-after: 3
        x-codex-primary-used-percent: 3
        x-ratelimit-remaining-tokens: 1
        x-request-id: req_2
    "#]]
    .assert_eq(&shown(&passed));
}

#[test]
fn the_shortest_patience_counts() {
    let hints = ClientHints::read(&headers(&[
        ("x-stainless-timeout", "600"),
        ("x-stainless-read-timeout", "45.5"),
        ("x-request-timeout-ms", "90000"),
        ("x-stainless-retry-count", "2"),
    ]));
    assert_eq!(hints, ClientHints { patience: Some(Duration::from_millis(45_500)), retries: 2 });

    let nonsense = ClientHints::read(&headers(&[
        ("x-stainless-timeout", "NOT_GIVEN"),
        ("x-stainless-read-timeout", "-1"),
        ("x-request-timeout-ms", "1e400"),
        ("x-stainless-retry-count", "many"),
    ]));
    assert_eq!(nonsense, ClientHints::default());
}

#[test]
fn a_session_is_the_same_number_wherever_it_is_told_and_headers_win() {
    let none = HeaderMap::new();
    let cached = head(br#"{"prompt_cache_key":"s1"}"#, Dialect::OpenAiResponses).unwrap();
    let user = head(br#"{"metadata":{"user_id":"s1"}}"#, Dialect::AnthropicMessages).unwrap();
    let by_header = headers(&[("x-claude-code-session-id", "s1")]);
    let codex = headers(&[("session_id", "s1"), ("conversation_id", "s2")]);

    let number = session(&none, &cached);
    assert!(number.is_some());
    assert_eq!(session(&none, &user), number);
    assert_eq!(session(&by_header, &Head::default()), number);
    assert_eq!(session(&codex, &Head::default()), number);
    assert_ne!(session(&headers(&[("session_id", "other")]), &cached), number);
    assert_eq!(session(&none, &Head::default()), None);
}
