use backstop_dialect::{Dialect, Head, HeadError, estimate_tokens, head, splice_model, split_model};
use bytes::Bytes;
use expect_test::expect;

fn read(body: &str) -> Head<'_> {
    head(body.as_bytes(), Dialect::OpenAiChat).expect("the body is an object")
}

fn renamed(body: &str, model: &str) -> String {
    let body = Bytes::copy_from_slice(body.as_bytes());
    let slot = head(&body, Dialect::OpenAiChat).map(|head| head.slot).unwrap_or_default();
    String::from_utf8(splice_model(&body, &slot, model).to_vec()).expect("the splice keeps UTF-8")
}

#[test]
fn the_head_is_read_in_any_order_past_nested_look_alikes() {
    let head = read(
        r#"{ "messages": [{"role":"user","content":"{\"model\":\"fake\",\"stream\":false} \\\" } ]"}],
            "tools": [{"model": "fake", "stream": false}], "stream_options": {"include_usage": true},
            "metadata": {"user_id": "user_1_session_2"}, "max_completion_tokens": 4096, "store": false,
            "prompt_cache_key": "k", "stream" : true , "model":"some/model" }"#,
    );

    assert_eq!(head.model.as_deref(), Some("some/model"));
    assert!(head.stream && head.include_usage);
    assert_eq!(head.max_tokens, Some(4096));
    assert_eq!(head.store, Some(false));
    assert_eq!(head.prompt_cache_key.as_deref(), Some("k"));
    assert_eq!(head.user_id.as_deref(), Some("user_1_session_2"));
    assert_eq!(head.messages, Some(1));
    assert!(!head.is_stateful());
}

#[test]
fn escapes_in_names_and_values_are_understood() {
    let head = read(r#"{"mod\u0065l":"z-ai\/glm\u002d5","str\u0065am":true}"#);

    assert_eq!(head.model.as_deref(), Some("z-ai/glm-5"));
    assert!(head.stream);
}

#[test]
fn of_a_member_that_appears_twice_the_last_counts_and_all_are_renamed() {
    let body = r#"{"model":"a","x":1,"model":"b"}"#;

    assert_eq!(read(body).model.as_deref(), Some("b"));
    assert_eq!(renamed(body, "c"), r#"{"model":"c","x":1,"model":"c"}"#);
}

#[test]
fn the_model_is_renamed_and_no_other_byte_changes() {
    assert_eq!(
        renamed("{ \"n\": 1.0e0,\r\n\t\"model\" :  \"old\" , \"s\":\"\\u00e9 ü\" }\n", "new/\"quoted\""),
        "{ \"n\": 1.0e0,\r\n\t\"model\" :  \"new/\\\"quoted\\\"\" , \"s\":\"\\u00e9 ü\" }\n"
    );
    assert_eq!(renamed(r#"{"model":null,"n":1}"#, "m"), r#"{"model":"m","n":1}"#);
    assert_eq!(renamed(r#"{"model":{"id":[1]},"n":1}"#, "m"), r#"{"model":"m","n":1}"#);
    assert_eq!(renamed(r#"{"n":1}"#, "m"), r#"{"model":"m","n":1}"#);
    assert_eq!(renamed("{ }", "m"), r#"{"model":"m" }"#);
    assert_eq!(renamed("[1]", "m"), "[1]");
}

#[test]
fn what_makes_a_call_stateful_is_seen() {
    assert!(read(r#"{"store":true}"#).is_stateful());
    assert!(read(r#"{"background":true}"#).is_stateful());
    assert!(read(r#"{"previous_response_id":"resp_1"}"#).is_stateful());
    assert!(read(r#"{"conversation":{"id":"conv_1"}}"#).is_stateful());
    assert!(!read(r#"{"previous_response_id":null,"conversation":null,"background":false}"#).is_stateful());
    assert!(!read(r#"{"model":"m"}"#).is_stateful());
}

#[test]
fn a_responses_body_on_the_chat_path_is_recognised() {
    let editor = r#"{"model":"m","input":[{"role":"user","content":"hi"},{"role":"user","content":"ho"}],
        "include":["reasoning.encrypted_content"],"reasoning":{"effort":"high"},
        "stream":true,"stream_options":{"include_usage":true}}"#;

    assert!(read(editor).is_responses_shaped());
    assert_eq!(read(editor).messages, Some(2));
    assert!(!read(r#"{"messages":[],"input":"x"}"#).is_responses_shaped());
    assert!(!read(r#"{"prompt":"x"}"#).is_responses_shaped());
}

#[test]
fn the_output_limit_is_found_under_every_name() {
    assert_eq!(read(r#"{"max_tokens":10}"#).max_tokens, Some(10));
    assert_eq!(read(r#"{"max_output_tokens":1e3,"max_tokens":null}"#).max_tokens, Some(1000));
    assert_eq!(read(r#"{"max_tokens":18446744073709551615}"#).max_tokens, Some(u64::MAX));
    let gemini = br#"{"contents":[{}],"generationConfig":{"maxOutputTokens":77}}"#;
    let head = head(gemini, Dialect::Gemini).expect("the body is an object");
    assert_eq!((head.max_tokens, head.messages), (Some(77), Some(1)));
}

#[test]
fn what_is_no_object_says_so() {
    let fault = |body: &str| head(body.as_bytes(), Dialect::OpenAiChat).map(|_| ());

    assert_eq!(fault(""), Err(HeadError::NotAnObject));
    assert_eq!(fault("  [1]"), Err(HeadError::NotAnObject));
    assert_eq!(fault(r#"{"model":"m""#), Err(HeadError::Malformed(12)));
    assert_eq!(fault(r#"{"model":"m}"#), Err(HeadError::Malformed(12)));
    assert_eq!(fault(r#"{"model" "m"}"#), Err(HeadError::Malformed(9)));
    assert_eq!(fault(r#"{"a":1 "b":2}"#), Err(HeadError::Malformed(7)));
    assert_eq!(fault("\u{feff}{\"model\":\"m\"}"), Ok(()));
}

#[test]
fn deep_nesting_costs_no_stack() {
    let body = format!(r#"{{"x":{}{},"model":"m"}}"#, "[".repeat(200_000), "]".repeat(200_000));

    assert_eq!(read(&body).model.as_deref(), Some("m"));
}

#[test]
fn a_name_is_split_at_its_first_slash() {
    let split: String = ["groq/llama", "openrouter/z-ai/glm-5", "bare", "/x", "x/", ""]
        .iter()
        .map(|name| format!("{name:?} -> {:?}\n", split_model(name)))
        .collect();

    expect![[r#"
        "groq/llama" -> (Some("groq"), "llama")
        "openrouter/z-ai/glm-5" -> (Some("openrouter"), "z-ai/glm-5")
        "bare" -> (None, "bare")
        "/x" -> (None, "/x")
        "x/" -> (None, "x/")
        "" -> (None, "")
    "#]]
    .assert_eq(&split);
}

#[test]
fn tokens_are_guessed_from_text_and_not_from_pictures() {
    let text = format!(r#"{{"content":"{}"}}"#, "four".repeat(1_000));
    let chinese = format!(r#"{{"content":"{}"}}"#, "中文".repeat(500));
    let escaped = format!(r#"{{"content":"{}"}}"#, r"\u4e2d\u6587".repeat(500));
    let picture = format!(r#"{{"url":"data:image/png;base64,{}"}}"#, "iVBORw0K".repeat(100_000));

    let linked = r#"{"type":"image_url","image_url" : {"url":"https://example.org/a.png"}}"#;
    let sealed = format!(r#"{{"signature":"{}"}}"#, "Eq0B".repeat(1_000));

    expect!["text 1004 chinese 1004 escaped 1004 picture 1503 linked 1518 sealed 1004"].assert_eq(&format!(
        "text {} chinese {} escaped {} picture {} linked {} sealed {}",
        estimate_tokens(text.as_bytes()),
        estimate_tokens(chinese.as_bytes()),
        estimate_tokens(escaped.as_bytes()),
        estimate_tokens(picture.as_bytes()),
        estimate_tokens(linked.as_bytes()),
        estimate_tokens(sealed.as_bytes()),
    ));
}
