use backstop_dialect::{Dialect, ListShape, ModelEntry, model_list};
use expect_test::expect;
use http::{HeaderMap, HeaderValue};

fn list(shape: ListShape) -> String {
    let models = [
        ModelEntry {
            id: "claude/opus".to_owned(),
            display_name: Some("Opus".to_owned()),
            owner: "anthropic".to_owned(),
            created: 1_767_225_600,
            context_length: Some(200_000),
            max_output: Some(64_000),
        },
        ModelEntry { id: "inhouse/tiny".to_owned(), owner: "inhouse".to_owned(), ..ModelEntry::default() },
    ];
    String::from_utf8(model_list(shape, &models)).unwrap()
}

#[test]
fn the_list_has_the_shape_that_its_reader_wants() {
    expect![[r#"{"object":"list","data":[{"id":"claude/opus","object":"model","created":1767225600,"owned_by":"anthropic","context_length":200000,"max_input_tokens":200000,"max_tokens":64000},{"id":"inhouse/tiny","object":"model","created":0,"owned_by":"inhouse"}]}"#]].assert_eq(&list(ListShape::OpenAi));
    expect![[r#"{"data":[{"type":"model","id":"claude/opus","display_name":"Opus","created_at":"2026-01-01T00:00:00Z","max_input_tokens":200000,"max_tokens":64000},{"type":"model","id":"inhouse/tiny","display_name":"inhouse/tiny","created_at":"1970-01-01T00:00:00Z"}],"has_more":false,"first_id":"claude/opus","last_id":"inhouse/tiny"}"#]].assert_eq(&list(ListShape::Anthropic));
    expect![[r#"{"models":[{"name":"models/claude/opus","displayName":"Opus","inputTokenLimit":200000,"outputTokenLimit":64000,"supportedGenerationMethods":["generateContent","countTokens"]},{"name":"models/inhouse/tiny","displayName":"inhouse/tiny","supportedGenerationMethods":["generateContent","countTokens"]}]}"#]].assert_eq(&list(ListShape::Gemini));
}

#[test]
fn an_empty_list_is_a_list() {
    expect![[r#"{"data":[],"has_more":false,"first_id":null,"last_id":null}"#]]
        .assert_eq(&String::from_utf8(model_list(ListShape::Anthropic, &[])).unwrap());
}

#[test]
fn who_sends_a_version_of_messages_reads_its_list() {
    let mut headers = HeaderMap::new();
    assert_eq!(ListShape::of(Dialect::OpenAiChat, &headers), ListShape::OpenAi);
    headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
    assert_eq!(ListShape::of(Dialect::OpenAiChat, &headers), ListShape::Anthropic);
    assert_eq!(ListShape::of(Dialect::Gemini, &headers), ListShape::Gemini);
}
