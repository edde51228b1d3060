use backstop_dialect::{
    AnswerKind,
    Dialect::{self, AnthropicMessages, Gemini, OpenAiChat, OpenAiResponses},
    examine, has_embedded_error,
};
use expect_test::expect;

fn kind(dialect: Dialect, body: &str) -> AnswerKind {
    examine(dialect, body.as_bytes()).kind
}

#[test]
fn content_and_finish_reasons_make_an_answer() {
    let answers = [
        (OpenAiChat, r#"{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}"#),
        (OpenAiChat, r#"{"choices":[{"message":{"content":""},"finish_reason":"length"}]}"#),
        (OpenAiChat, r#"{"choices":[{"message":{"content":null,"refusal":"no"}}]}"#),
        (OpenAiChat, r#"{"choices":[{"message":{"tool_calls":[{"function":{"name":"f"}}]}}]}"#),
        (OpenAiChat, r#"{"choices":[{"text":"hi"}],"error":null}"#),
        (OpenAiResponses, r#"{"status":"completed","error":null,"output":[{"type":"message"}]}"#),
        (OpenAiResponses, r#"{"status":"incomplete","output":[]}"#),
        (OpenAiResponses, r#"{"status":"queued","background":true,"output":[]}"#),
        (AnthropicMessages, r#"{"type":"message","content":[{"type":"text","text":"hi"}]}"#),
        (AnthropicMessages, r#"{"type":"message","content":[],"stop_reason":"end_turn"}"#),
        (Gemini, r#"{"candidates":[{"content":{"parts":[{"text":"hi"}]}}]}"#),
        (Gemini, r#"{"candidates":[{"finishReason":"SAFETY"}]}"#),
        (Gemini, r#"{"promptFeedback":{"blockReason":"SAFETY"}}"#),
        (Gemini, r#"[{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f"}}]}}]}]"#),
    ];
    for (dialect, body) in answers {
        assert_eq!(kind(dialect, body), AnswerKind::Content, "{body}");
    }
}

#[test]
fn the_shape_of_an_answer_with_nothing_in_it_is_empty() {
    let empty = [
        (OpenAiChat, r#"{"choices":[]}"#),
        (OpenAiChat, r#"{"choices":[{"message":{"role":"assistant","content":""},"finish_reason":null}]}"#),
        (OpenAiChat, "{}"),
        (OpenAiResponses, r#"{"output":[]}"#),
        (AnthropicMessages, r#"{"type":"message","content":[],"stop_reason":null}"#),
        (Gemini, r#"{"candidates":[{"content":{"parts":[{"text":""}]}}]}"#),
        (Gemini, r#"{"usageMetadata":{"promptTokenCount":3}}"#),
    ];
    for (dialect, body) in empty {
        assert_eq!(kind(dialect, body), AnswerKind::Empty, "{body}");
    }
}

#[test]
fn an_error_under_a_success_status_is_found_in_every_shape() {
    let errors = [
        r#"{"error":{"message":"no","code":429}}"#,
        r#"{"error":"no"}"#,
        r#"{"type":"error","error":{"type":"overloaded_error"}}"#,
        r#"{"object":"error","message":"no"}"#,
        r#"{"code":1000,"msg":"Authentication Failed","success":false}"#,
        r#"{"base_resp":{"status_code":1008,"status_msg":"no"},"choices":null}"#,
        r#"[{"error":{"code":503,"status":"UNAVAILABLE"}}]"#,
        r#"{"success":false,"errors":[{"code":7}]}"#,
    ];
    for body in errors {
        for dialect in Dialect::ALL {
            assert_eq!(kind(dialect, body), AnswerKind::Error, "{dialect} {body}");
        }
        assert!(has_embedded_error(body.as_bytes()), "{body}");
    }
    let in_choice = r#"{"choices":[{"error":{"code":502,"message":"no"},"message":{"content":"ha"}}]}"#;
    assert_eq!(kind(OpenAiChat, in_choice), AnswerKind::Error);
    let by_reason = r#"{"choices":[{"message":{"content":"ha"},"finish_reason":"error"}]}"#;
    assert_eq!(kind(OpenAiChat, by_reason), AnswerKind::Error);
    assert_eq!(kind(OpenAiResponses, r#"{"status":"failed","output":[]}"#), AnswerKind::Error);
}

#[test]
fn what_only_looks_like_an_error_is_none() {
    let fine = [
        r#"{"error":null,"data":[]}"#,
        r#"{"error":{},"success":true}"#,
        r#"{"base_resp":{"status_code":0}}"#,
        r#"{"data":[{"error":"inner"}]}"#,
        "<html>error</html>",
        "",
    ];
    for body in fine {
        assert!(!has_embedded_error(body.as_bytes()), "{body}");
    }
}

#[test]
fn a_page_or_nothing_is_unreadable() {
    for body in ["", "<html></html>", "\"text\"", "[]", "[1]"] {
        assert_eq!(kind(OpenAiChat, body), AnswerKind::Unreadable, "{body}");
    }
}

#[test]
fn usage_means_the_same_in_every_dialect() {
    let bodies = [
        (
            OpenAiChat,
            r#"{"usage":{"prompt_tokens":100,"completion_tokens":20,"cost":0.0125,
                "prompt_tokens_details":{"cached_tokens":60},"completion_tokens_details":{"reasoning_tokens":5}}}"#,
        ),
        (
            OpenAiResponses,
            r#"{"usage":{"input_tokens":100,"output_tokens":20,
                "input_tokens_details":{"cached_tokens":60},"output_tokens_details":{"reasoning_tokens":5}}}"#,
        ),
        (
            AnthropicMessages,
            r#"{"usage":{"input_tokens":30,"output_tokens":20,
                "cache_read_input_tokens":60,"cache_creation_input_tokens":10}}"#,
        ),
        (
            Gemini,
            r#"{"usageMetadata":{"promptTokenCount":100,"candidatesTokenCount":15,
                "thoughtsTokenCount":5,"cachedContentTokenCount":60,"totalTokenCount":120}}"#,
        ),
    ];
    let table: String = bodies
        .iter()
        .map(|(dialect, body)| {
            let usage = serde_json::to_string(&examine(*dialect, body.as_bytes()).usage).unwrap();
            format!("{dialect}: {usage}\n")
        })
        .collect();

    expect![[r#"
        openai-chat: {"input":100,"output":20,"cache_read":60,"cache_creation":null,"reasoning":5,"cost":0.0125}
        openai-responses: {"input":100,"output":20,"cache_read":60,"cache_creation":null,"reasoning":5,"cost":null}
        anthropic-messages: {"input":100,"output":20,"cache_read":60,"cache_creation":10,"reasoning":null,"cost":null}
        gemini: {"input":100,"output":20,"cache_read":60,"cache_creation":null,"reasoning":5,"cost":null}
    "#]].assert_eq(&table);
}
