use std::time::Duration;

use backstop_dialect::{
    ClientError, Continuation, Dialect, Framing, Problem, Seam, error_body, error_event, error_headers,
    keepalive,
};
use expect_test::expect;
use http::HeaderMap;
use serde_json::{Value, json};

fn limited(dialect: Dialect) -> ClientError {
    ClientError {
        request_id: "req_1".to_owned(),
        extension: json!({ "class": "quota_exhausted", "attempts": [] }),
        retry_at: Some("2026-01-01T00:00:12.5Z".parse().unwrap()),
        ..ClientError::new(&Problem::Limited, dialect, Some(Duration::from_millis(11_200)))
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn shown(headers: &HeaderMap) -> String {
    headers.iter().map(|(name, value)| format!("{name}: {}\n", value.to_str().unwrap())).collect()
}

#[test]
fn each_dialect_has_its_own_envelope() {
    let table: String = Dialect::ALL
        .iter()
        .map(|dialect| format!("{dialect}\n{}\n", text(&error_body(*dialect, &limited(*dialect)))))
        .collect();

    expect![[r#"
        openai-chat
        {"error":{"message":"Every key of this route has reached a limit. Please try again in 12s.","type":"rate_limit_error","param":null,"code":"rate_limit_exceeded"},"backstop":{"attempts":[],"class":"quota_exhausted"}}
        openai-responses
        {"error":{"message":"Every key of this route has reached a limit. Please try again in 12s.","type":"rate_limit_error","param":null,"code":"rate_limit_exceeded"},"backstop":{"attempts":[],"class":"quota_exhausted"}}
        anthropic-messages
        {"type":"error","error":{"type":"rate_limit_error","message":"Every key of this route has reached a limit. Please try again in 12s."},"request_id":"req_1","backstop":{"attempts":[],"class":"quota_exhausted"}}
        gemini
        {"error":{"code":429,"message":"Every key of this route has reached a limit. Please try again in 12s.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"12s"}]},"backstop":{"attempts":[],"class":"quota_exhausted"}}
    "#]].assert_eq(&table);
}

#[test]
fn the_headers_tell_the_wait_twice_and_whether_to_retry() {
    expect![[r#"
        content-type: application/json
        x-should-retry: true
        x-backstop-error: rate_limit_exceeded
        retry-after: 12
        retry-after-ms: 11200
        x-request-id: req_1
    "#]]
    .assert_eq(&shown(&error_headers(Dialect::OpenAiChat, &limited(Dialect::OpenAiChat))));
    expect![[r#"
        content-type: application/json
        x-should-retry: true
        x-backstop-error: rate_limit_exceeded
        retry-after: 12
        retry-after-ms: 11200
        request-id: req_1
        anthropic-ratelimit-unified-status: rejected
        anthropic-ratelimit-unified-reset: 1767225613
    "#]]
    .assert_eq(&shown(&error_headers(Dialect::AnthropicMessages, &limited(Dialect::AnthropicMessages))));
}

#[test]
fn a_long_wait_stops_every_client() {
    let wait = |seconds| Some(Duration::from_secs(seconds));
    let retried = |problem: &Problem, wait| ClientError::new(problem, Dialect::OpenAiChat, wait).should_retry;

    assert!(retried(&Problem::Limited, wait(60)));
    assert!(!retried(&Problem::Limited, wait(61)));
    assert!(!retried(&Problem::Limited, None));
    assert!(retried(&Problem::Overloaded, None));
    assert!(!retried(&Problem::NoUsableKey, None));
}

fn problems() -> Vec<Problem> {
    vec![
        Problem::ContextOverflow { tokens: Some(210_000), window: Some(200_000) },
        Problem::ContextOverflow { tokens: None, window: Some(200_000) },
        Problem::NoUsableKey,
        Problem::MisconfiguredRoute,
        Problem::Limited,
        Problem::Overloaded,
        Problem::Unavailable,
        Problem::TimedOut,
        Problem::UnknownFailure,
        Problem::OutcomeUnknown,
        Problem::GatewayFault,
        Problem::ClientKey,
        Problem::ClientKeyScope,
        Problem::ClientKeyLimit,
        Problem::ModelNotFound { model: "gpt".to_owned(), near: vec![] },
        Problem::ModelNotFound {
            model: "gpt".to_owned(),
            near: vec!["a/gpt".to_owned(), "b/gpt".to_owned()],
        },
        Problem::PathNotFound,
        Problem::WrongDialect { path: "/v1/messages".to_owned() },
        Problem::BadRequest { why: "the request body is not a JSON object".to_owned() },
        Problem::TooLarge { limit: 33_554_432 },
        Problem::NotSupported { what: "request signing".to_owned() },
    ]
}

#[test]
fn every_problem_is_worded() {
    let table: String = problems()
        .iter()
        .map(|problem| {
            let error = ClientError::new(problem, Dialect::OpenAiChat, None);
            format!("{} {} {}: {}\n", error.status, error.code, error.should_retry, error.message)
        })
        .collect();

    expect![[r#"
        400 context_length_exceeded false: This model's maximum context length is 200000 tokens. However, the input has 210000 tokens.
        400 context_length_exceeded false: The input exceeds the context length of this model, its context window.
        502 no_usable_key false: No key of this route is accepted by its provider. The operator must look at the keys.
        502 misconfigured_route false: This route is not set up correctly. The operator must look at the provider's settings.
        429 rate_limit_exceeded false: Every key of this route has reached a limit. Please try again later.
        503 overloaded true: The provider is overloaded. Please try again shortly.
        503 upstream_unavailable true: The provider cannot be reached or fails. Please try again shortly.
        504 upstream_timeout true: The provider did not answer in time.
        502 unknown_upstream_failure false: The provider failed in a way that is not known.
        502 outcome_unknown false: The provider did not say whether it has done this. Look before asking for it again.
        503 gateway_fault true: The gateway cannot serve this request at present.
        401 invalid_client_key false: The gateway's client key is missing or unknown. Send it as `Authorization: Bearer`, `x-api-key` or `x-goog-api-key`.
        403 client_key_not_allowed false: This client key is not allowed to use this route.
        429 rate_limit_exceeded false: This client key has reached its limit. Please try again later.
        404 model_not_found false: The model `gpt` does not exist here. Ask for `provider/model`.
        404 model_not_found false: The model `gpt` does not exist here. Did you mean `a/gpt`, `b/gpt`?
        404 not_found false: There is nothing at this path.
        400 wrong_dialect false: This route speaks another API. Send the request to `/v1/messages`.
        400 bad_request false: The request cannot be read: the request body is not a JSON object.
        413 request_too_large false: The request is larger than 33554432 bytes.
        501 not_supported false: The gateway does not support request signing.
    "#]].assert_eq(&table);
}

#[test]
fn an_overflow_is_worded_as_each_dialects_clients_expect() {
    let overflow = Problem::ContextOverflow { tokens: Some(210_000), window: Some(200_000) };
    let table: String = Dialect::ALL
        .iter()
        .map(|dialect| format!("{dialect}: {}\n", ClientError::new(&overflow, *dialect, None).message))
        .collect();

    expect![[r#"
        openai-chat: This model's maximum context length is 200000 tokens. However, the input has 210000 tokens.
        openai-responses: This model's maximum context length is 200000 tokens. However, the input has 210000 tokens.
        anthropic-messages: prompt is too long: 210000 tokens > 200000 maximum
        gemini: The input token count (210000) exceeds the maximum number of tokens allowed (200000).
    "#]].assert_eq(&table);
}

#[test]
fn no_error_of_ours_holds_a_word_that_sends_a_client_astray() {
    for problem in problems() {
        for dialect in Dialect::ALL {
            let error = ClientError {
                extension: json!({
                    "class": "billing_exhausted",
                    "attempts": [
                        { "provider": "a", "class": "rate_limit", "status": 429 },
                        { "provider": "b", "class": "billing_exhausted", "status": 402 },
                    ],
                }),
                ..ClientError::new(&problem, dialect, Some(Duration::from_secs(5)))
            };
            let body = text(&error_body(dialect, &error)).to_lowercase();
            for word in
                ["credit", "billing", "insufficient", "402", "payment", "balance", "quota", "log in", "login"]
            {
                assert!(!body.contains(word), "{word} in {body}");
            }
            if matches!(problem, Problem::ContextOverflow { .. }) {
                for word in ["rate", "per minute", "429", "retry"] {
                    assert!(!body.contains(word), "{word} in {body}");
                }
            }
        }
    }
}

#[test]
fn an_error_within_a_stream_speaks_the_streams_protocol() {
    let from = Continuation { sequence: 7, response_id: Some("resp_9".to_owned()), seam: Seam::AfterElement };
    let mut table = String::new();
    for dialect in Dialect::ALL {
        let event = error_event(dialect, Framing::Sse, &limited(dialect), &from);
        table += &format!("{dialect}\n{}", text(&event));
    }

    expect![[r#"
        openai-chat
        data: {"error":{"message":"Every key of this route has reached a limit. Please try again in 12s.","type":"rate_limit_error","param":null,"code":"rate_limit_exceeded"},"backstop":{"attempts":[],"class":"quota_exhausted"}}

        openai-responses
        event: response.failed
        data: {"type":"response.failed","sequence_number":7,"response":{"id":"resp_9","object":"response","status":"failed","error":{"code":"rate_limit_exceeded","message":"Every key of this route has reached a limit. Please try again in 12s."},"incomplete_details":null,"output":[]},"backstop":{"attempts":[],"class":"quota_exhausted"}}

        anthropic-messages
        event: error
        data: {"type":"error","error":{"type":"rate_limit_error","message":"Every key of this route has reached a limit. Please try again in 12s."},"request_id":"req_1","backstop":{"attempts":[],"class":"quota_exhausted"}}

        gemini
        data: {"error":{"code":429,"message":"Every key of this route has reached a limit. Please try again in 12s.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"12s"}]},"backstop":{"attempts":[],"class":"quota_exhausted"}}

    "#]].assert_eq(&table);
}

#[test]
fn an_error_leaves_an_array_readable() {
    let error = ClientError::new(&Problem::Unavailable, Dialect::Gemini, None);
    for (sent, seam) in
        [("", Seam::Unopened), ("[", Seam::Ready), ("[{}", Seam::AfterElement), ("[{},", Seam::Ready)]
    {
        let from = Continuation { seam, ..Continuation::default() };
        let event = error_event(Dialect::Gemini, Framing::JsonArray, &error, &from);
        let whole: Value = serde_json::from_str(&format!("{sent}{}", text(&event))).unwrap();
        let last = whole.as_array().and_then(|elements| elements.last()).unwrap();
        assert_eq!(last["error"]["status"], "UNAVAILABLE");
    }
}

#[test]
fn keepalives_carry_nothing() {
    let table: String = Dialect::ALL
        .iter()
        .map(|dialect| format!("{dialect}: {:?}\n", text(keepalive(*dialect, Framing::Sse))))
        .collect();

    expect![[r#"
        openai-chat: ": keepalive\n\n"
        openai-responses: ": keepalive\n\n"
        anthropic-messages: "event: ping\ndata: {\"type\": \"ping\"}\n\n"
        gemini: "data: {}\n\n"
    "#]]
    .assert_eq(&table);
}
