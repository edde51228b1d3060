//! What single events mean.

use backstop_dialect::{Dialect, EventKind, Framing, StreamReader};
use bytes::Bytes;
use expect_test::{Expect, expect};

/// Each event alone, at the beginning of a stream.
fn check(dialect: Dialect, events: &[&str], expected: &Expect) {
    let table: String = events
        .iter()
        .map(|event| {
            let mut reader = StreamReader::new(dialect, Framing::Sse);
            reader.push(Bytes::from(format!("{event}\n\n")));
            let kinds: Vec<EventKind> =
                std::iter::from_fn(|| reader.pop()).map(|passage| passage.kind).collect();
            format!("{kinds:?} {}\n", event.replace('\n', "⏎"))
        })
        .collect();
    expected.assert_eq(&table);
}

#[test]
fn chat_events_are_told_apart() {
    let events = [
        ": OPENROUTER PROCESSING",
        "event: ping",
        "data:",
        r#"data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#,
        r#"data: {"choices":[],"prompt_filter_results":[]}"#,
        r#"data: {"choices":[{"delta":{"content":"Hi"}}],"usage":null,"error":null}"#,
        r#"data: {"choices":[{"delta":{"content":[{"type":"thinking"}]}}]}"#,
        r#"data: {"choices":[{"delta":{"reasoning_content":"Hm"}}]}"#,
        r#"data: {"choices":[{"delta":{"reasoning":"Hm"}}]}"#,
        r#"data: {"choices":[{"delta":{"refusal":"No"}}]}"#,
        r#"data: {"choices":[{"delta":{"audio":{"id":"a"}}}]}"#,
        r#"data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"f","arguments":""}}]}}]}"#,
        r#"data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{"}}]}}]}"#,
        r#"data: {"choices":[{"delta":{"tool_calls":[]}}]}"#,
        r#"data: {"choices":[{"text":"Hi"}]}"#,
        r#"data: {"choices":[{"delta":{},"finish_reason":"stop"}]}"#,
        r#"data: {"choices":[{"delta":{"content":"!"},"finish_reason":"stop"}]}"#,
        r#"data: {"choices":[{"delta":{"content":""},"finish_reason":""}]}"#,
        r#"data: {"choices":[],"usage":{"prompt_tokens":1}}"#,
        "data: [DONE]",
        "data:[DONE] ",
    ];
    check(
        Dialect::OpenAiChat,
        &events,
        &expect![[r#"
        [Comment] : OPENROUTER PROCESSING
        [Ping] event: ping
        [Comment] data:
        [Preamble] data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}
        [Preamble] data: {"choices":[],"prompt_filter_results":[]}
        [Content] data: {"choices":[{"delta":{"content":"Hi"}}],"usage":null,"error":null}
        [Content] data: {"choices":[{"delta":{"content":[{"type":"thinking"}]}}]}
        [Content] data: {"choices":[{"delta":{"reasoning_content":"Hm"}}]}
        [Content] data: {"choices":[{"delta":{"reasoning":"Hm"}}]}
        [Content] data: {"choices":[{"delta":{"refusal":"No"}}]}
        [Content] data: {"choices":[{"delta":{"audio":{"id":"a"}}}]}
        [Content] data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"f","arguments":""}}]}}]}
        [Content] data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{"}}]}}]}
        [Preamble] data: {"choices":[{"delta":{"tool_calls":[]}}]}
        [Content] data: {"choices":[{"text":"Hi"}]}
        [Terminal { finish: true }] data: {"choices":[{"delta":{},"finish_reason":"stop"}]}
        [Content] data: {"choices":[{"delta":{"content":"!"},"finish_reason":"stop"}]}
        [Preamble] data: {"choices":[{"delta":{"content":""},"finish_reason":""}]}
        [Usage] data: {"choices":[],"usage":{"prompt_tokens":1}}
        [Terminal { finish: false }] data: [DONE]
        [Terminal { finish: false }] data:[DONE] 
    "#]],
    );
}

#[test]
fn failures_told_by_a_chat_stream_are_told_from_look_alikes() {
    let events = [
        r#"data: {"error":{"message":"no","code":429}}"#,
        r#"data: {"error":"no"}"#,
        r#"data: {"choices":[{"delta":{"content":""},"finish_reason":"error","error":{"code":502}}]}"#,
        r#"data: {"choices":[{"delta":{},"finish_reason":"error_finish"}]}"#,
        r#"data: {"object":"error","message":"no"}"#,
        r#"data: {"base_resp":{"status_code":1002},"choices":[]}"#,
        "event: error\ndata: no JSON at all",
        r#"{"error":{"message":"no data field"}}"#,
        "{\n  \"error\": {\n    \"message\": \"pretty\"\n  }\n}",
        r#"data: [{"error":{"code":503}}]"#,
        r#"data: {"choices":[{"delta":{"content":"an \"error\" of mine"}}]}"#,
        "data: {\"choices\":[{\"delta\":\ndata: {\"content\":\"Hi\"}}]}",
        "data: <html>",
        "id: 7",
    ];
    check(
        Dialect::OpenAiChat,
        &events,
        &expect![[r#"
        [Error] data: {"error":{"message":"no","code":429}}
        [Error] data: {"error":"no"}
        [Error] data: {"choices":[{"delta":{"content":""},"finish_reason":"error","error":{"code":502}}]}
        [Error] data: {"choices":[{"delta":{},"finish_reason":"error_finish"}]}
        [Error] data: {"object":"error","message":"no"}
        [Error] data: {"base_resp":{"status_code":1002},"choices":[]}
        [Error] event: error⏎data: no JSON at all
        [Error] {"error":{"message":"no data field"}}
        [Error] {⏎  "error": {⏎    "message": "pretty"⏎  }⏎}
        [Error] data: [{"error":{"code":503}}]
        [Content] data: {"choices":[{"delta":{"content":"an \"error\" of mine"}}]}
        [Content] data: {"choices":[{"delta":⏎data: {"content":"Hi"}}]}
        [Other] data: <html>
        [Comment] id: 7
    "#]],
    );
}

#[test]
fn responses_events_are_told_apart() {
    let events = [
        r#"data: {"type":"response.created","sequence_number":0,"response":{"id":"r","error":null,"output":[]}}"#,
        r#"data: {"type":"response.in_progress","sequence_number":1,"response":{"id":"r"}}"#,
        r#"data: {"type":"response.output_item.added","item":{"type":"message","content":[]}}"#,
        r#"data: {"type":"response.output_item.added","item":{"type":"function_call","name":"f","arguments":""}}"#,
        r#"data: {"type":"response.content_part.added","part":{"type":"output_text","text":""}}"#,
        r#"data: {"type":"response.output_text.delta","delta":"Hi"}"#,
        r#"data: {"type":"response.output_text.delta","delta":""}"#,
        r#"data: {"type":"response.refusal.delta","delta":"No"}"#,
        r#"data: {"type":"response.reasoning_summary_text.delta","delta":"Hm"}"#,
        r#"data: {"type":"response.function_call_arguments.delta","delta":"{"}"#,
        r#"data: {"type":"response.custom_tool_call_input.delta","delta":"x"}"#,
        r#"data: {"type":"response.audio.delta","delta":"UklG"}"#,
        r#"data: {"type":"response.image_generation_call.partial_image","partial_image_b64":"iVBO"}"#,
        r#"data: {"type":"response.web_search_call.in_progress","item_id":"ws"}"#,
        r#"data: {"type":"response.output_item.done","item":{"type":"reasoning","encrypted_content":"x"}}"#,
        r#"data: {"type":"response.output_item.done","item":{"type":"message","content":[]}}"#,
        r#"data: {"type":"response.completed","response":{"status":"completed","error":null,"usage":{"input_tokens":1}}}"#,
        r#"data: {"type":"response.incomplete","response":{"status":"incomplete"}}"#,
        r#"data: {"type":"response.failed","response":{"error":{"code":"server_error"}}}"#,
        r#"data: {"type":"response.completed","response":{"status":"failed"}}"#,
        r#"data: {"type":"error","code":"rate_limit_exceeded","message":"no"}"#,
        r#"data: {"type":"codex.rate_limits"}"#,
        r#"data: {"type":"keepalive","sequence_number":3}"#,
        "event: error\ndata: {}",
    ];
    check(
        Dialect::OpenAiResponses,
        &events,
        &expect![[r#"
        [Preamble] data: {"type":"response.created","sequence_number":0,"response":{"id":"r","error":null,"output":[]}}
        [Preamble] data: {"type":"response.in_progress","sequence_number":1,"response":{"id":"r"}}
        [Preamble] data: {"type":"response.output_item.added","item":{"type":"message","content":[]}}
        [Content] data: {"type":"response.output_item.added","item":{"type":"function_call","name":"f","arguments":""}}
        [Preamble] data: {"type":"response.content_part.added","part":{"type":"output_text","text":""}}
        [Content] data: {"type":"response.output_text.delta","delta":"Hi"}
        [Preamble] data: {"type":"response.output_text.delta","delta":""}
        [Content] data: {"type":"response.refusal.delta","delta":"No"}
        [Content] data: {"type":"response.reasoning_summary_text.delta","delta":"Hm"}
        [Content] data: {"type":"response.function_call_arguments.delta","delta":"{"}
        [Content] data: {"type":"response.custom_tool_call_input.delta","delta":"x"}
        [Content] data: {"type":"response.audio.delta","delta":"UklG"}
        [Content] data: {"type":"response.image_generation_call.partial_image","partial_image_b64":"iVBO"}
        [Preamble] data: {"type":"response.web_search_call.in_progress","item_id":"ws"}
        [Content] data: {"type":"response.output_item.done","item":{"type":"reasoning","encrypted_content":"x"}}
        [Preamble] data: {"type":"response.output_item.done","item":{"type":"message","content":[]}}
        [Terminal { finish: true }] data: {"type":"response.completed","response":{"status":"completed","error":null,"usage":{"input_tokens":1}}}
        [Terminal { finish: true }] data: {"type":"response.incomplete","response":{"status":"incomplete"}}
        [Error] data: {"type":"response.failed","response":{"error":{"code":"server_error"}}}
        [Error] data: {"type":"response.completed","response":{"status":"failed"}}
        [Error] data: {"type":"error","code":"rate_limit_exceeded","message":"no"}
        [Other] data: {"type":"codex.rate_limits"}
        [Ping] data: {"type":"keepalive","sequence_number":3}
        [Error] event: error⏎data: {}
    "#]],
    );
}

#[test]
fn messages_events_are_told_apart() {
    let events = [
        r#"data: {"type":"message_start","message":{"content":[],"usage":{"input_tokens":3}}}"#,
        r#"data: {"type":"ping"}"#,
        "event: ping\ndata: {\"type\": \"ping\"}",
        r#"data: {"type":"content_block_start","content_block":{"type":"text","text":""}}"#,
        r#"data: {"type":"content_block_start","content_block":{"type":"thinking","thinking":"","signature":""}}"#,
        r#"data: {"type":"content_block_start","content_block":{"type":"redacted_thinking","data":"x"}}"#,
        r#"data: {"type":"content_block_start","content_block":{"type":"tool_use","id":"t","name":"f","input":{}}}"#,
        r#"data: {"type":"content_block_start","content_block":{"type":"web_search_tool_result","content":[{}]}}"#,
        r#"data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"Hi"}}"#,
        r#"data: {"type":"content_block_delta","delta":{"type":"text_delta","text":""}}"#,
        r#"data: {"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"Hm"}}"#,
        r#"data: {"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":"{"}}"#,
        r#"data: {"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":""}}"#,
        r#"data: {"type":"content_block_delta","delta":{"type":"signature_delta","signature":"x"}}"#,
        r#"data: {"type":"content_block_stop","index":0}"#,
        r#"data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":3}}"#,
        r#"data: {"type":"message_stop"}"#,
        "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}",
        r#"data: {"type":"error","error":{"type":"overloaded_error"}}"#,
        r#"data: {"type":"new_kind"}"#,
    ];
    check(
        Dialect::AnthropicMessages,
        &events,
        &expect![[r#"
        [Preamble] data: {"type":"message_start","message":{"content":[],"usage":{"input_tokens":3}}}
        [Ping] data: {"type":"ping"}
        [Ping] event: ping⏎data: {"type": "ping"}
        [Preamble] data: {"type":"content_block_start","content_block":{"type":"text","text":""}}
        [Preamble] data: {"type":"content_block_start","content_block":{"type":"thinking","thinking":"","signature":""}}
        [Content] data: {"type":"content_block_start","content_block":{"type":"redacted_thinking","data":"x"}}
        [Content] data: {"type":"content_block_start","content_block":{"type":"tool_use","id":"t","name":"f","input":{}}}
        [Content] data: {"type":"content_block_start","content_block":{"type":"web_search_tool_result","content":[{}]}}
        [Content] data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"Hi"}}
        [Preamble] data: {"type":"content_block_delta","delta":{"type":"text_delta","text":""}}
        [Content] data: {"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"Hm"}}
        [Content] data: {"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":"{"}}
        [Preamble] data: {"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":""}}
        [Preamble] data: {"type":"content_block_delta","delta":{"type":"signature_delta","signature":"x"}}
        [Preamble] data: {"type":"content_block_stop","index":0}
        [Usage] data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":3}}
        [Terminal { finish: false }] data: {"type":"message_stop"}
        [Error] event: error⏎data: {"type":"error","error":{"type":"overloaded_error"}}
        [Error] data: {"type":"error","error":{"type":"overloaded_error"}}
        [Other] data: {"type":"new_kind"}
    "#]],
    );
}

#[test]
fn gemini_events_are_told_apart() {
    let events = [
        r#"data: {"candidates":[{"content":{"role":"model","parts":[{"text":"Hi"}]}}]}"#,
        r#"data: {"candidates":[{"content":{"parts":[{"text":"Hm","thought":true}]}}]}"#,
        r#"data: {"candidates":[{"content":{"parts":[{"text":""}]}}]}"#,
        r#"data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{}}}]}}]}"#,
        r#"data: {"candidates":[{"content":{"parts":[{"inlineData":{"data":"x"}}]}}]}"#,
        r#"data: {"candidates":[{"content":{"parts":[{"text":"","thoughtSignature":"x"}]}}]}"#,
        r#"data: {"candidates":[{"content":{"parts":[{"text":"."}]},"finishReason":"STOP"}]}"#,
        r#"data: {"candidates":[{"finishReason":"MAX_TOKENS"}],"usageMetadata":{"promptTokenCount":3}}"#,
        r#"data: {"promptFeedback":{"blockReason":"SAFETY"}}"#,
        r#"data: {"usageMetadata":{"promptTokenCount":3}}"#,
        r#"data: {"error":{"code":503,"status":"UNAVAILABLE"}}"#,
        r#"data: {}"#,
    ];
    check(
        Dialect::Gemini,
        &events,
        &expect![[r#"
        [Content] data: {"candidates":[{"content":{"role":"model","parts":[{"text":"Hi"}]}}]}
        [Content] data: {"candidates":[{"content":{"parts":[{"text":"Hm","thought":true}]}}]}
        [Preamble] data: {"candidates":[{"content":{"parts":[{"text":""}]}}]}
        [Content] data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{}}}]}}]}
        [Content] data: {"candidates":[{"content":{"parts":[{"inlineData":{"data":"x"}}]}}]}
        [Preamble] data: {"candidates":[{"content":{"parts":[{"text":"","thoughtSignature":"x"}]}}]}
        [Content] data: {"candidates":[{"content":{"parts":[{"text":"."}]},"finishReason":"STOP"}]}
        [Terminal { finish: true }] data: {"candidates":[{"finishReason":"MAX_TOKENS"}],"usageMetadata":{"promptTokenCount":3}}
        [Terminal { finish: true }] data: {"promptFeedback":{"blockReason":"SAFETY"}}
        [Usage] data: {"usageMetadata":{"promptTokenCount":3}}
        [Error] data: {"error":{"code":503,"status":"UNAVAILABLE"}}
        [Other] data: {}
    "#]],
    );
}
