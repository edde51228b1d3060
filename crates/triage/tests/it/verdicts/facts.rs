//! Opening evidence: shapes, frames, quotes, echoes.

use backstop_triage::{Catalog, Class, Evidence, Hints, Kind, ProviderId};

use super::{judge, now, verdict};

#[test]
fn an_error_frame_glued_to_a_cut_one_is_found() {
    let body = "data: {\"choices\":[{\"delta\":{\"content\":\"The limit isdata: {\"error\":{\"message\":\"Overloaded\",\
                \"type\":\"overloaded_error\"}}\n\n";
    let evidence =
        Evidence { kind: Kind::Stream { status: 200 }, text: body.to_owned(), ..Evidence::default() };
    assert_eq!(
        Catalog::embedded().classify(&ProviderId::from("x"), &evidence, now()).class,
        Class::Overloaded
    );
}

#[test]
fn the_same_error_in_every_shape_is_the_same_verdict() {
    let inner = r#"{"error":{"message":"Insufficient Balance","type":"unknown_error"}}"#;
    let bodies = [
        inner.to_owned(),
        format!("[{inner}]"),
        serde_json::to_string(inner).expect("a string"),
        "{'error': {'message': 'Insufficient Balance', 'type': 'unknown_error'}}".to_owned(),
        format!("data: {inner}\n\n"),
        format!("event: error\ndata: {inner}\n\n"),
        format!("error: {inner}\n"),
        format!("{{\"type\":\"progress\"}}\n{inner}\n"),
        format!("Error code: 402 - {inner}"),
        format!("\u{feff}{inner}"),
        format!("{{\"error\":{{\"message\":{}}}}}", serde_json::to_string(inner).expect("a string")),
    ];
    for body in bodies {
        assert_eq!(verdict("x", 402, &body).class, Class::BillingExhausted, "{body}");
    }
}

#[test]
fn a_body_that_was_cut_off_is_still_read() {
    let body =
        r#"{"error":{"message":"Incorrect API key provided: sk-abc.","type":"invalid_request_error","par"#;
    assert_eq!(verdict("x", 401, body).reason.as_str(), "invalid_key");
}

#[test]
fn words_of_web_pages_do_not_count() {
    let page =
        "<html><body><h1>Unauthorized: invalid api key, insufficient balance, rate limit</h1></body></html>";
    assert_eq!(verdict("x", 500, page).class, Class::ServerError);
}

#[test]
fn words_of_documents_do_not_count() {
    let document = format!(
        "# Billing guide\n\n{}\n\n## Insufficient balance\n\nAdd credits when your quota is exhausted. {}",
        "When the rate limit is reached, wait. ".repeat(20),
        "Invalid API key means the key is wrong. ".repeat(20)
    );
    assert_eq!(verdict("x", 500, &document).class, Class::ServerError);
}

#[test]
fn an_echo_of_the_request_does_not_count() {
    let echo = "why does my app say insufficient balance and invalid api key";
    let body = format!("{{\"error\":{{\"message\":\"Something went wrong while answering: {echo}\"}}}}");
    let hints = Hints { echo: vec![echo.to_owned()], ..Hints::default() };
    let evidence = Evidence { kind: Kind::Http { status: 500 }, text: body, hints, ..Evidence::default() };
    assert_eq!(
        Catalog::embedded().classify(&ProviderId::from("x"), &evidence, now()).class,
        Class::ServerError
    );
}

#[test]
fn fields_that_repeat_the_request_do_not_count() {
    let body = r#"{"detail":[{"type":"missing","loc":["body","model"],"msg":"Field required","input":{"messages":[
        {"role":"user","content":"insufficient balance, invalid api key, rate limit"}]}}]}"#;
    assert_eq!(verdict("x", 422, body).class, Class::RequestError);
}

#[test]
fn a_relayed_refusal_never_disables_our_key() {
    let body = r#"{"error":{"message":"litellm.AuthenticationError: OpenAIException - Error code: 401 - {'error': {'message': 'Incorrect API key provided: sk-x', 'type': 'invalid_request_error', 'code': 'invalid_api_key'}}","type":null,"code":"401"}}"#;
    let relayed = verdict("litellm", 401, body);
    assert_eq!((relayed.class, relayed.disable_key), (Class::AuthError, false));
    let own = r#"{"kind":"process","exit_code":1,"stderr":"API Error: 401 {\"error\":{\"message\":\"Incorrect API key provided\",\"code\":\"invalid_api_key\"}}"}"#;
    assert!(judge(own).disable_key, "inside our own command line it is our own key");
}

#[test]
fn codes_are_read_as_string_number_and_prefix() {
    for body in [
        r#"{"error":{"code":"1308","message":"x"}}"#,
        r#"{"error":{"code":1308,"message":"x"}}"#,
        r#"{"type":"error","error":{"type":"rate_limit_error","message":"[1308][x][2026090814052231]"}}"#,
    ] {
        assert_eq!(verdict("zai", 429, body).class, Class::QuotaExhausted, "{body}");
    }
}

#[test]
fn a_process_is_read_from_both_outputs_and_silence_is_unknown() {
    let stdout = r#"{"kind":"process","exit_code":1,"body":"You've hit your session limit · resets 4am (Europe/Berlin)"}"#;
    assert_eq!(judge(stdout).class, Class::QuotaExhausted);
    let silent = judge(r#"{"kind":"process","exit_code":1}"#);
    assert_eq!((silent.class, silent.reason.as_str()), (Class::Unknown, "no_output"));
    assert_eq!(judge(r#"{"kind":"process","signal":9}"#).reason.as_str(), "killed");
}

#[test]
fn a_cut_connection_near_the_window_is_an_overflow_unless_the_model_thinks_long() {
    let line = |model: &str, tokens: u64, window: u64| {
        format!(
            r#"{{"kind":"transport","transport":"connection_reset","context":{{"model":"{model}","approx_tokens":{tokens},"context_length":{window}}}}}"#
        )
    };
    assert_eq!(judge(&line("m", 130_000, 200_000)).class, Class::ContextOverflow);
    assert_eq!(judge(&line("m", 121_000, 256_000)).class, Class::ContextOverflow);
    assert_eq!(judge(&line("m", 150_000, 1_000_000)).class, Class::NetworkError);
    assert_eq!(judge(&line("deepseek-reasoner", 130_000, 200_000)).class, Class::NetworkError);
}

#[test]
fn an_object_called_error_inside_a_good_status_is_a_failure_and_keeps_its_class() {
    let stream = |text: &str| {
        let evidence =
            Evidence { kind: Kind::Stream { status: 200 }, text: text.to_owned(), ..Evidence::default() };
        Catalog::embedded().classify(&ProviderId::from("vllm"), &evidence, now()).class
    };
    let overflow = r#"{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens","type":"BadRequestError","param":null,"code":400}"#;
    assert_eq!(stream(overflow), Class::ContextOverflow);
    assert_eq!(stream(&format!("data: {overflow}\n\ndata: [DONE]\n\n")), Class::ContextOverflow);
    assert_eq!(verdict("sglang", 200, overflow).class, Class::ContextOverflow);
    assert_eq!(stream(r#"{"detail":{"error":"Model busy, retry later"}}"#), Class::Overloaded);
}

#[test]
fn a_refused_field_called_like_a_limit_and_a_relayed_bad_request_are_the_requests_own_fault() {
    let field =
        r#"{"error":{"message":"field `rate_limit` is not allowed in body","type":"invalid_request_error"}}"#;
    assert_eq!(verdict("somebody", 400, field).class, Class::RequestError);
    let relayed = r#"{"error":{"message":"Error code: 400 - {\"error\":{\"message\":\"Param x: y\"}}","type":"upstream_error"}}"#;
    assert_eq!(verdict("somebody", 400, relayed).class, Class::RequestError);
    let broken = r#"{"error":{"message":"Upstream authentication failed, please contact administrator","type":"upstream_error"}}"#;
    assert_eq!(verdict("somebody", 502, broken).reason.as_str(), "upstream_account_broken");
}

#[test]
fn a_value_between_the_events_of_a_stream_is_read_over_all_its_lines() {
    let stream = |text: &str| {
        let evidence =
            Evidence { kind: Kind::Stream { status: 200 }, text: text.to_owned(), ..Evidence::default() };
        Catalog::embedded().classify(&ProviderId::from("somebody"), &evidence, now()).class
    };
    let answer = r#"data: {"candidates": [{"content": {"parts": [{"text": "Okay"}]}}]}"#;
    let error = "{\n  \"error\": {\n    \"code\": 503,\n    \"message\": \"The model is overloaded.\",\n    \"details\": [\n      {\n        \"reason\": \"x\"\n      }\n    ]\n  }\n}";
    assert_eq!(stream(&format!("{answer}\n\n{error}\n")), Class::Overloaded);
    assert_eq!(stream(&format!("{answer}\n\ndata: {error}\n\n")), Class::Overloaded);
    assert_eq!(stream(&format!("{answer}\n\n[{error}]\n\ndata: [DONE]\n\n")), Class::Overloaded);
    assert_eq!(
        stream(&format!(
            "{answer}\n{{\"error\":{{\"message\":\"Model busy, retry later\"}}}}\n{{\"a\":1}}\n"
        )),
        Class::Overloaded
    );
}

#[test]
fn a_gateways_page_that_a_process_printed_tells_its_status() {
    let printed = |text: &str| {
        judge(&serde_json::json!({"kind": "process", "exit_code": 1, "stderr": text}).to_string())
    };
    let page = "<html><head><title>504 Gateway Time-out</title></head></html>";
    assert_eq!(printed(page).class, Class::Timeout);
    assert_eq!(printed(&format!("Error from the proxy: {page}")).class, Class::Timeout);
    assert_eq!(printed("Unexpected: <html><h1>403 Forbidden</h1></html>").class, Class::Unknown);
}
