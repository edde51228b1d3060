//! Whole streams, in the pieces in which they may arrive.

use backstop_dialect::{Dialect, EventKind, Framing, StreamReader};
use bytes::Bytes;
use expect_test::expect;

fn passages(reader: &mut StreamReader) -> String {
    std::iter::from_fn(|| reader.pop())
        .map(|passage| {
            format!("{:?} {}\n", passage.kind, String::from_utf8_lossy(&passage.bytes).escape_debug())
        })
        .collect()
}

fn read(dialect: Dialect, framing: Framing, chunks: &[&str]) -> (StreamReader, String) {
    let mut reader = StreamReader::new(dialect, framing);
    let mut shown = String::new();
    for chunk in chunks {
        reader.push(Bytes::copy_from_slice(chunk.as_bytes()));
        shown += &passages(&mut reader);
        shown += "--\n";
    }
    reader.finish();
    shown += &passages(&mut reader);
    (reader, shown)
}

#[test]
fn the_preamble_passes_apart_from_the_content() {
    let (reader, shown) = read(
        Dialect::AnthropicMessages,
        Framing::Sse,
        &[
            "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":9}}}\n\n\
             event: ping\ndata: {\"type\":\"ping\"}\n\nevent: content_block_start\ndata: {\"type\":\"content_bl",
            "ock_start\",\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\nevent: content_block_delta\ndata: \
             {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"Hi\"}}\n\n",
            "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\
             \"usage\":{\"output_tokens\":2}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
        ],
    );

    expect![[r#"
        Preamble event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":9}}}\n\n
        Ping event: ping\ndata: {\"type\":\"ping\"}\n\n
        --
        Preamble event: content_block_start\ndata: {\"type\":\"content_bl
        Preamble ock_start\",\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n
        Content event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"Hi\"}}\n\n
        --
        Content event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":2}}\n\n
        Terminal { finish: true } event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n
        --
    "#]].assert_eq(&shown);
    assert!(reader.has_content() && reader.has_ended() && reader.has_finish_reason());
    assert_eq!((reader.usage().input, reader.usage().output), (Some(9), Some(2)));
}

#[test]
fn an_error_as_the_first_event_is_seen_before_anything_else() {
    let (reader, shown) = read(
        Dialect::OpenAiChat,
        Framing::Sse,
        &["data: {\"error\":{\"message\":\"no\"}}\n\ndata: [DONE]\n\n"],
    );

    expect![[r#"
        Error data: {\"error\":{\"message\":\"no\"}}\n\n
        Terminal { finish: false } data: [DONE]\n\n
        --
    "#]]
    .assert_eq(&shown);
    assert_eq!(reader.error(), Some(&br#"{"error":{"message":"no"}}"#[..]));
    assert!(!reader.has_content());
}

#[test]
fn an_error_after_content_is_cut_off_from_it() {
    let (_, shown) = read(
        Dialect::OpenAiChat,
        Framing::Sse,
        &[
            "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n: wait\n\ndata: {\"choices\":[{\"delta\":\
           {\"content\":\"b\"}}]}\n\ndata: {\"error\":{\"message\":\"no\"}}\n\n",
        ],
    );

    expect![[r#"
        Content data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n: wait\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"b\"}}]}\n\n
        Error data: {\"error\":{\"message\":\"no\"}}\n\n
        --
    "#]].assert_eq(&shown);
}

#[test]
fn half_an_event_is_never_let_go() {
    let mut reader = StreamReader::new(Dialect::OpenAiChat, Framing::Sse);
    reader
        .push(Bytes::from_static(b"data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"choi"));
    let first = reader.pop().expect("the whole event is let go");
    assert_eq!(first.kind, EventKind::Content);
    assert!(first.bytes.ends_with(b"\n\n"));
    assert_eq!(reader.pop(), None);
    assert!(!reader.is_mid_event() && !reader.has_ended());
}

#[test]
fn an_end_that_has_not_come_whole_is_no_end() {
    let torn = [
        (Dialect::OpenAiChat, "data: [DONE]"),
        (Dialect::OpenAiChat, "data: [DONE]\n"),
        (Dialect::OpenAiChat, "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n"),
        (Dialect::OpenAiChat, "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}\n\n"),
        (Dialect::AnthropicMessages, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n"),
        (Dialect::AnthropicMessages, "event: message_stop\ndata: {\"type\":\"message_stop\"\n\n"),
        (Dialect::OpenAiResponses, "data: {\"type\":\"response.completed\",\"response\":{}\n\n"),
        (Dialect::Gemini, "data: {\"candidates\":[{\"finishReason\":\"STOP\"}]\n\n"),
    ];
    for (dialect, end) in torn {
        let (reader, shown) = read(dialect, Framing::Sse, &[end]);
        assert!(!reader.has_ended() && !reader.has_finish_reason(), "{end}");
        assert!(!shown.contains("Terminal"), "{shown}");
    }
    let (reader, _) =
        read(Dialect::Gemini, Framing::JsonArray, &["[{\"candidates\":[{\"finishReason\":\"STOP\"}"]);
    assert!(!reader.has_ended());
}

#[test]
fn a_long_end_counts_once_its_last_byte_has_come() {
    let begin = "data: {\"type\":\"response.completed\",\"response\":{\"output\":\"";
    let text = "x".repeat(100_000);
    let mut reader = StreamReader::new(Dialect::OpenAiResponses, Framing::Sse);
    for (piece, ended) in [(begin, false), (&text, false), ("\"}}", false), ("\n\n", true)] {
        reader.push(Bytes::copy_from_slice(piece.as_bytes()));
        assert_eq!(reader.has_ended(), ended, "{}", piece.len());
    }
    let mut torn = StreamReader::new(Dialect::OpenAiResponses, Framing::Sse);
    torn.push(Bytes::from(format!("{begin}{text}\n\n")));
    torn.finish();
    assert!(!torn.has_ended());
}

#[test]
fn a_bare_error_without_any_framing_counts() {
    let (reader, shown) =
        read(Dialect::OpenAiResponses, Framing::Sse, &["{\"error\":{\"message\":", "\"no\"}}"]);

    expect![[r#"
        --
        --
        Error {\"error\":{\"message\":
        Error \"no\"}}
    "#]]
    .assert_eq(&shown);
    assert!(reader.error().is_some());
}

#[test]
fn a_chat_stream_ends_with_done_or_with_a_finish_reason() {
    let finish = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
    let (with_finish, _) = read(Dialect::OpenAiChat, Framing::Sse, &[finish]);
    let (with_done, shown) = read(Dialect::OpenAiChat, Framing::Sse, &["data: [DONE]\n\n"]);
    let (both, _) = read(Dialect::OpenAiChat, Framing::Sse, &[finish, "data: [DONE]\n\n"]);

    assert!(with_finish.has_ended() && with_finish.has_finish_reason());
    assert!(with_done.has_ended() && !with_done.has_finish_reason());
    assert!(both.has_ended() && both.has_finish_reason());
    expect![[r#"
        Terminal { finish: false } data: [DONE]\n\n
        --
    "#]]
    .assert_eq(&shown);
}

#[test]
fn a_messages_stream_without_its_stop_event_has_not_ended() {
    let delta = "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n";
    let (reader, _) = read(Dialect::AnthropicMessages, Framing::Sse, &[delta]);

    assert!(reader.has_finish_reason() && !reader.has_ended());
}

#[test]
fn a_responses_stream_can_be_continued_where_it_broke() {
    let (reader, _) = read(
        Dialect::OpenAiResponses,
        Framing::Sse,
        &[
            "data: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"resp_9\"}}\n\n",
            "data: {\"type\":\"response.output_text.delta\",\"sequence_number\":4,\"delta\":\"Hi\"}\n\n",
            "data: {\"type\":\"response.failed\",\"sequence_number\":5,\"response\":{\"id\":\"resp_9\"}}\n\n",
        ],
    );

    let continuation = reader.continuation();
    assert_eq!((continuation.sequence, continuation.response_id.as_deref()), (5, Some("resp_9")));
}

#[test]
fn an_array_is_read_element_by_element() {
    let (reader, shown) = read(
        Dialect::Gemini,
        Framing::JsonArray,
        &[
            "[{\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a ] } \\\"\"}]}}]}\n",
            ",\r\n{\"candidates\":[{\"content\":{\"parts\":[{\"te",
            "xt\":\"b\"}]},\"finishReason\":\"STOP\"}],\"usageMetadata\":{\"promptTokenCount\":5}}]",
        ],
    );

    expect![[r#"
        Content [{\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a ] } \\\"\"}]}}]}
        Comment \n
        --
        --
        Content ,\r\n{\"candidates\":[{\"content\":{\"parts\":[{\"te
        Content xt\":\"b\"}]},\"finishReason\":\"STOP\"}],\"usageMetadata\":{\"promptTokenCount\":5}}
        Comment ]
        --
    "#]]
    .assert_eq(&shown);
    assert!(reader.has_ended());
    assert_eq!(reader.usage().input, Some(5));
}

#[test]
fn an_error_alone_or_within_an_array_is_seen() {
    for body in [
        "{\"error\":{\"code\":503}}",
        "[{\"error\":{\"code\":503}}]",
        "[{\"candidates\":[]},\n{\"error\":{\"code\":5}}]",
    ] {
        let (reader, _) = read(Dialect::Gemini, Framing::JsonArray, &[body]);
        assert!(reader.error().is_some(), "{body}");
    }
}

#[test]
fn a_huge_line_passes_within_bounds() {
    let mut reader = StreamReader::new(Dialect::OpenAiResponses, Framing::Sse);
    let mut passed = 0;
    let mut kinds = Vec::new();
    let piece = Bytes::from(vec![b'x'; 1 << 20]);
    let begin = "data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\"output\":\"";
    let end = "\",\"usage\":{\"input_tokens\":12,\"output_tokens\":34},\"user\":null}}\n\n";
    let mut take = |reader: &mut StreamReader| {
        let mut held = 0;
        while let Some(passage) = reader.pop() {
            passed += passage.bytes.len();
            held = passage.bytes.len();
            if kinds.last() != Some(&passage.kind) {
                kinds.push(passage.kind);
            }
        }
        held
    };
    reader.push(Bytes::from(begin));
    assert_eq!(take(&mut reader), 0);
    for _ in 0..50 {
        reader.push(piece.clone());
        assert_eq!(take(&mut reader), piece.len());
        assert!(reader.is_mid_event());
    }
    reader.push(Bytes::from(end));
    take(&mut reader);

    assert_eq!(passed, begin.len() + 50 * piece.len() + end.len());
    assert_eq!(kinds, [EventKind::Terminal { finish: true }]);
    assert_eq!((reader.usage().input, reader.usage().output), (Some(12), Some(34)));
    assert!(reader.has_ended() && !reader.is_mid_event());
}

#[test]
fn white_space_for_ever_is_not_kept() {
    let mut reader = StreamReader::new(Dialect::OpenAiChat, Framing::Sse);
    for _ in 0..1_000 {
        reader.push(Bytes::from_static(b"\r\n\n"));
        assert_eq!(reader.pop().map(|passage| passage.kind), Some(EventKind::Comment));
    }
}

#[test]
fn the_framing_is_told_by_the_content_type() {
    assert_eq!(Framing::of(Dialect::Gemini, Some("application/json; charset=UTF-8")), Framing::JsonArray);
    assert_eq!(Framing::of(Dialect::Gemini, Some("text/event-stream")), Framing::Sse);
    assert_eq!(Framing::of(Dialect::Gemini, None), Framing::Sse);
    assert_eq!(Framing::of(Dialect::OpenAiChat, Some("application/json")), Framing::Sse);
}
