//! Without a rule every shape gets a correct answer.

use backstop_faultd::{Answer, Body, Ended, Faultd, Operation, Reply, Script, Shape, hash};
use expect_test::{Expect, expect};

use crate::client::{CHAT, CHAT_STREAM, Client, End, ask, get, keep, post};

async fn check(script: Script, request: String, expected: Expect) {
    let provider = Faultd::start(script).await.unwrap();
    let (answer, end) = ask(&provider, request).await;
    assert_eq!(end, End::Closed);
    expected.assert_eq(&answer);
}

fn brief() -> Script {
    Script::new().otherwise(Reply::text("Hello.").pieces(2, 0))
}

#[tokio::test]
async fn chat_answers_in_one_piece() {
    check(brief(), post("/v1/chat/completions", CHAT), expect![[r#"
        HTTP/1.1 200 OK
        content-type: application/json
        content-length: 281
        connection: close

        {"id":"chatcmpl-faultd","object":"chat.completion","created":1750000000,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hello.","refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18}}"#]]).await;
}

#[tokio::test]
async fn chat_streams_with_its_end_marker() {
    check(brief(), post("/v1/chat/completions", CHAT_STREAM), expect![[r#"
        HTTP/1.1 200 OK
        content-type: text/event-stream; charset=utf-8
        transfer-encoding: chunked
        connection: close

        b9
        data: {"id":"chatcmpl-faultd","object":"chat.completion.chunk","created":1750000000,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}


        a9
        data: {"id":"chatcmpl-faultd","object":"chat.completion.chunk","created":1750000000,"model":"m","choices":[{"index":0,"delta":{"content":"Hel"},"finish_reason":null}]}


        a9
        data: {"id":"chatcmpl-faultd","object":"chat.completion.chunk","created":1750000000,"model":"m","choices":[{"index":0,"delta":{"content":"lo."},"finish_reason":null}]}


        9c
        data: {"id":"chatcmpl-faultd","object":"chat.completion.chunk","created":1750000000,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}


        e
        data: [DONE]


        0

    "#]]).await;
}

#[tokio::test]
async fn chat_streams_usage_when_asked() {
    let body = r#"{"model":"m","stream":true,"stream_options":{"include_usage":true}}"#;
    let provider = Faultd::start(brief()).await.unwrap();
    let (answer, _) = ask(&provider, post("/v1/chat/completions", body)).await;
    assert!(answer.contains(r#""choices":[],"usage":{"prompt_tokens":11"#), "{answer}");
}

#[tokio::test]
async fn responses_answer_in_one_piece() {
    check(brief(), post("/v1/responses", CHAT), expect![[r#"
        HTTP/1.1 200 OK
        content-type: application/json
        content-length: 636
        connection: close

        {"id":"resp_faultd","object":"response","created_at":1750000000,"status":"completed","error":null,"incomplete_details":null,"instructions":null,"max_output_tokens":null,"model":"m","output":[{"type":"message","id":"msg_faultd","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Hello.","annotations":[]}]}],"parallel_tool_calls":true,"previous_response_id":null,"store":false,"temperature":1.0,"tool_choice":"auto","tools":[],"top_p":1.0,"usage":{"input_tokens":11,"input_tokens_details":{"cached_tokens":0},"output_tokens":7,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":18},"metadata":{}}"#]]).await;
}

#[tokio::test]
async fn responses_stream_with_rising_numbers() {
    check(brief(), post("/v1/responses", CHAT_STREAM), expect![[r#"
        HTTP/1.1 200 OK
        content-type: text/event-stream; charset=utf-8
        transfer-encoding: chunked
        connection: close

        147
        event: response.created
        data: {"type":"response.created","sequence_number":0,"response":{"id":"resp_faultd","object":"response","created_at":1750000000,"status":"in_progress","error":null,"incomplete_details":null,"model":"m","output":[],"parallel_tool_calls":true,"tool_choice":"auto","tools":[],"usage":null,"metadata":{}}}


        14f
        event: response.in_progress
        data: {"type":"response.in_progress","sequence_number":1,"response":{"id":"resp_faultd","object":"response","created_at":1750000000,"status":"in_progress","error":null,"incomplete_details":null,"model":"m","output":[],"parallel_tool_calls":true,"tool_choice":"auto","tools":[],"usage":null,"metadata":{}}}


        d7
        event: response.output_item.added
        data: {"type":"response.output_item.added","sequence_number":2,"output_index":0,"item":{"id":"msg_faultd","type":"message","status":"in_progress","role":"assistant","content":[]}}


        d8
        event: response.content_part.added
        data: {"type":"response.content_part.added","sequence_number":3,"item_id":"msg_faultd","output_index":0,"content_index":0,"part":{"type":"output_text","text":"","annotations":[]}}


        ab
        event: response.output_text.delta
        data: {"type":"response.output_text.delta","sequence_number":4,"item_id":"msg_faultd","output_index":0,"content_index":0,"delta":"Hel"}


        ab
        event: response.output_text.delta
        data: {"type":"response.output_text.delta","sequence_number":5,"item_id":"msg_faultd","output_index":0,"content_index":0,"delta":"lo."}


        ab
        event: response.output_text.done
        data: {"type":"response.output_text.done","sequence_number":6,"item_id":"msg_faultd","output_index":0,"content_index":0,"text":"Hello."}


        dc
        event: response.content_part.done
        data: {"type":"response.content_part.done","sequence_number":7,"item_id":"msg_faultd","output_index":0,"content_index":0,"part":{"type":"output_text","text":"Hello.","annotations":[]}}


        10a
        event: response.output_item.done
        data: {"type":"response.output_item.done","sequence_number":8,"output_index":0,"item":{"id":"msg_faultd","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Hello.","annotations":[]}]}}


        266
        event: response.completed
        data: {"type":"response.completed","sequence_number":9,"response":{"id":"resp_faultd","object":"response","created_at":1750000000,"status":"completed","error":null,"incomplete_details":null,"model":"m","output":[{"id":"msg_faultd","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Hello.","annotations":[]}]}],"parallel_tool_calls":true,"tool_choice":"auto","tools":[],"usage":{"input_tokens":11,"input_tokens_details":{"cached_tokens":0},"output_tokens":7,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":18},"metadata":{}}}


        0

    "#]]).await;
}

#[tokio::test]
async fn messages_answer_in_one_piece() {
    check(brief(), post("/v1/messages", CHAT), expect![[r#"
        HTTP/1.1 200 OK
        content-type: application/json
        content-length: 263
        connection: close

        {"id":"msg_faultd","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"Hello."}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":11,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":7}}"#]]).await;
}

#[tokio::test]
async fn messages_stream_named_events() {
    check(brief(), post("/v1/messages", CHAT_STREAM), expect![[r#"
        HTTP/1.1 200 OK
        content-type: text/event-stream; charset=utf-8
        transfer-encoding: chunked
        connection: close

        122
        event: message_start
        data: {"type":"message_start","message":{"id":"msg_faultd","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":11,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":1}}}


        75
        event: content_block_start
        data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}


        23
        event: ping
        data: {"type":"ping"}


        76
        event: content_block_delta
        data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hel"}}


        76
        event: content_block_delta
        data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"lo."}}


        49
        event: content_block_stop
        data: {"type":"content_block_stop","index":0}


        89
        event: message_delta
        data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":7}}


        33
        event: message_stop
        data: {"type":"message_stop"}


        0

    "#]]).await;
}

#[tokio::test]
async fn gemini_answers_in_one_piece() {
    check(brief(), post("/v1beta/models/g:generateContent", "{}"), expect![[r#"
        HTTP/1.1 200 OK
        content-type: application/json
        content-length: 232
        connection: close

        {"candidates":[{"content":{"parts":[{"text":"Hello."}],"role":"model"},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":11,"candidatesTokenCount":7,"totalTokenCount":18},"modelVersion":"g","responseId":"faultd"}"#]]).await;
}

#[tokio::test]
async fn gemini_streams_events_when_asked_for_sse() {
    check(brief(), post("/v1beta/models/g:streamGenerateContent?alt=sse", "{}"), expect![[r#"
        HTTP/1.1 200 OK
        content-type: text/event-stream; charset=utf-8
        transfer-encoding: chunked
        connection: close

        be
        data: {"candidates":[{"content":{"parts":[{"text":"Hel"}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":11,"totalTokenCount":11},"modelVersion":"g","responseId":"faultd"}


        be
        data: {"candidates":[{"content":{"parts":[{"text":"lo."}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":11,"totalTokenCount":11},"modelVersion":"g","responseId":"faultd"}


        ea
        data: {"candidates":[{"content":{"parts":[{"text":""}],"role":"model"},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":11,"candidatesTokenCount":7,"totalTokenCount":18},"modelVersion":"g","responseId":"faultd"}


        0

    "#]]).await;
}

#[tokio::test]
async fn gemini_streams_one_array_otherwise() {
    check(brief(), post("/v1beta/models/g:streamGenerateContent", "{}"), expect![[r#"
        HTTP/1.1 200 OK
        content-type: application/json
        transfer-encoding: chunked
        connection: close

        b7
        [{"candidates":[{"content":{"parts":[{"text":"Hel"}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":11,"totalTokenCount":11},"modelVersion":"g","responseId":"faultd"}
        b9
        ,
        {"candidates":[{"content":{"parts":[{"text":"lo."}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":11,"totalTokenCount":11},"modelVersion":"g","responseId":"faultd"}
        e6
        ,
        {"candidates":[{"content":{"parts":[{"text":""}],"role":"model"},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":11,"candidatesTokenCount":7,"totalTokenCount":18},"modelVersion":"g","responseId":"faultd"}]
        0

    "#]]).await;
}

#[tokio::test]
async fn models_are_listed_in_the_shape_of_the_asker() {
    let script = || Script::new().models(["a", "b"]);
    check(script(), get("/v1/models"), expect![[r#"
        HTTP/1.1 200 OK
        content-type: application/json
        content-length: 164
        connection: close

        {"object":"list","data":[{"id":"a","object":"model","created":1750000000,"owned_by":"faultd"},{"id":"b","object":"model","created":1750000000,"owned_by":"faultd"}]}"#]]).await;
    check(script(), get("/v1beta/models"), expect![[r#"
        HTTP/1.1 200 OK
        content-type: application/json
        content-length: 312
        connection: close

        {"models":[{"name":"models/a","displayName":"a","inputTokenLimit":131072,"outputTokenLimit":8192,"supportedGenerationMethods":["generateContent","countTokens"]},{"name":"models/b","displayName":"b","inputTokenLimit":131072,"outputTokenLimit":8192,"supportedGenerationMethods":["generateContent","countTokens"]}]}"#]]).await;
    let messages = "GET /v1/models HTTP/1.1\r\nanthropic-version: 2023-06-01\r\nconnection: close\r\n\r\n";
    check(script(), messages.to_string(), expect![[r#"
        HTTP/1.1 200 OK
        content-type: application/json
        content-length: 218
        connection: close

        {"data":[{"type":"model","id":"a","display_name":"a","created_at":"2025-06-15T00:00:00Z"},{"type":"model","id":"b","display_name":"b","created_at":"2025-06-15T00:00:00Z"}],"has_more":false,"first_id":"a","last_id":"b"}"#]]).await;
    check(
        script(),
        get("/v1/models/a"),
        expect![[r#"
        HTTP/1.1 200 OK
        content-type: application/json
        content-length: 68
        connection: close

        {"id":"a","object":"model","created":1750000000,"owned_by":"faultd"}"#]],
    )
    .await;
}

#[tokio::test]
async fn tokens_are_counted_and_embeddings_made() {
    check(
        brief(),
        post("/v1/messages/count_tokens", CHAT),
        expect![[r#"
        HTTP/1.1 200 OK
        content-type: application/json
        content-length: 19
        connection: close

        {"input_tokens":11}"#]],
    )
    .await;
    check(
        brief(),
        post("/v1beta/models/g:countTokens", "{}"),
        expect![[r#"
        HTTP/1.1 200 OK
        content-type: application/json
        content-length: 18
        connection: close

        {"totalTokens":11}"#]],
    )
    .await;
    check(brief(), post("/v1/embeddings", r#"{"model":"e","input":"x"}"#), expect![[r#"
        HTTP/1.1 200 OK
        content-type: application/json
        content-length: 148
        connection: close

        {"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.125,-0.25,0.5]}],"model":"e","usage":{"prompt_tokens":11,"total_tokens":11}}"#]]).await;
}

#[tokio::test]
async fn head_has_the_headers_and_no_body() {
    let request = get("/v1/models").replace("GET", "HEAD");
    check(
        Script::new().models(["a"]),
        request,
        expect![[r#"
        HTTP/1.1 200 OK
        content-type: application/json
        content-length: 95
        connection: close

    "#]],
    )
    .await;
}

#[tokio::test]
async fn a_connection_serves_many_requests_and_pipelined_ones() {
    let provider = Faultd::start(brief()).await.unwrap();
    let mut client = Client::connect(provider.addr()).await;
    client.send(keep("/v1/chat/completions", "a", CHAT).repeat(2)).await;
    client.send(keep("/v1/chat/completions", "b", CHAT_STREAM)).await;
    client.send(post("/v1/messages", CHAT)).await;
    let (bytes, _) = client.read_all().await;
    assert_eq!(String::from_utf8_lossy(&bytes).matches("HTTP/1.1 200 OK").count(), 4);
    assert_eq!(provider.counters().connections, 1);
}

#[tokio::test]
async fn requests_are_read_however_they_are_cut() {
    let provider = Faultd::start(brief()).await.unwrap();
    let chunked = "POST /v1/chat/completions HTTP/1.1\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n\
                   6;x=y\r\n{\"mode\r\nA\r\nl\":\"cut\"} \r\n0\r\ntrailer: 1\r\n\r\n";
    let mut client = Client::connect(provider.addr()).await;
    for byte in chunked.as_bytes() {
        client.send([*byte]).await;
        tokio::task::yield_now().await;
    }
    let (bytes, _) = client.read_all().await;
    assert!(String::from_utf8_lossy(&bytes).contains(r#""model":"cut""#));
    assert_eq!(provider.log()[0].body_hash, hash(br#"{"model":"cut"} "#));
}

#[tokio::test]
async fn expect_continue_is_answered_first() {
    let provider = Faultd::start(brief()).await.unwrap();
    let mut client = Client::connect(provider.addr()).await;
    client
        .send("POST /v1/chat/completions HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n")
        .await;
    assert_eq!(client.until("\r\n\r\n").await, "HTTP/1.1 100 Continue\r\n\r\n");
    client.send("{}").await;
    assert!(client.until("\r\n").await.starts_with("HTTP/1.1 200 OK"));
}

#[tokio::test]
async fn what_is_no_request_gets_a_400_and_the_end() {
    let provider = Faultd::start(brief()).await.unwrap();
    for garbage in ["\x16\x03\x01 hello\r\n\r\n", "GET / HTTP/1.1\r\nno colon\r\n\r\n", "X\r\n\r\n"] {
        let (answer, end) = ask(&provider, garbage).await;
        assert!(answer.starts_with("HTTP/1.1 400 Bad Request"), "{answer}");
        assert_eq!(end, End::Closed);
    }
    assert_eq!(provider.counters().malformed, 3);
}

#[tokio::test]
async fn the_log_tells_what_came_and_how_it_ended() {
    let provider = Faultd::start(brief()).await.unwrap();
    ask(&provider, post("/v1/chat/completions?x=1", CHAT_STREAM)).await;
    let call = provider.until(|calls| calls.iter().find(|call| call.ended == Ended::Complete).cloned()).await;
    assert_eq!((call.key.as_deref(), call.model.as_deref()), (Some("sk-1"), Some("m")));
    assert_eq!((call.method.as_str(), call.path.as_str()), ("POST", "/v1/chat/completions?x=1"));
    assert_eq!((call.shape, call.operation, call.streaming), (Shape::Chat, Operation::Generate, true));
    assert_eq!((call.status, call.number, call.rule), (200, 1, None));
    assert_eq!((&call.body[..], call.body_hash), (CHAT_STREAM.as_bytes(), hash(CHAT_STREAM.as_bytes())));
    assert_eq!(call.header("content-type"), Some("application/json"));
}

#[tokio::test]
async fn every_way_to_send_a_key_is_understood() {
    let provider = Faultd::start(brief()).await.unwrap();
    for header in ["Authorization: bearer k", "X-Api-Key: k", "x-goog-api-key:k ", "api-key: k"] {
        ask(&provider, format!("GET /v1/models HTTP/1.1\r\n{header}\r\nconnection: close\r\n\r\n")).await;
    }
    ask(&provider, get("/v1beta/models?pageSize=3&key=k")).await;
    assert_eq!(provider.calls_with("k").len(), 5);
}

#[tokio::test]
async fn stamped_pieces_say_their_number_and_time() {
    let answer = Answer { pieces: 3, stamped: true, piece_bytes: 64, ..Answer::default() };
    let script = Script::new().otherwise(Reply::with(200, Body::Answer(answer)));
    let provider = Faultd::start(script).await.unwrap();
    let (answer, _) = ask(&provider, post("/v1/messages", CHAT_STREAM)).await;
    let stamps: Vec<(u64, u64)> = answer
        .split("\"text\":\"0")
        .skip(1)
        .map(|piece| (piece[..7].parse().unwrap(), piece[8..27].parse().unwrap()))
        .collect();
    assert_eq!(stamps.iter().map(|stamp| stamp.0).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(
        stamps.is_sorted_by_key(|stamp| stamp.1) && stamps[0].1 > 1_700_000_000_000_000_000,
        "{stamps:?}"
    );
}
