//! What holds for any input: nothing panics, and it does not matter how a stream is cut.

use backstop_dialect::{
    Address, ArraySplitter, Dialect, Event, EventKind, Framing, Part, SseSplitter, StreamReader, client_keys,
    estimate_tokens, examine, has_embedded_error, head, recognise, splice_model, without_key,
};
use bytes::Bytes;
use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::{Map, Value};

/// Text made of the pieces that matter to the readers, well formed or not.
fn soup() -> impl Strategy<Value = Vec<u8>> {
    let pieces: Vec<&'static [u8]> = vec![
        b"data: ",
        b"data:",
        b"event: error",
        b"event: ping",
        b": comment",
        b"\n",
        b"\r",
        b"\r\n",
        b"\n\n",
        b"{\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}",
        b"[DONE]",
        b"{\"error\":{\"message\":\"x\"}}",
        b"{\"type\":\"message_stop\"}",
        b"\"model\":\"m\"",
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b"\"",
        b"\\",
        b"\\u00e9",
        "ü中".as_bytes(),
        b"\xef\xbb\xbf",
        b"\xff",
        b"null",
        b"-1.5e3",
        b"true",
        b" ",
        b"\"usage\":{\"input_tokens\":3}",
        b"{\"candidates\":[{\"finishReason\":\"STOP\"}]}",
    ];
    vec(prop_oneof![4 => select(pieces).prop_map(<[u8]>::to_vec), 1 => vec(any::<u8>(), 0..4)], 0..40)
        .prop_map(|pieces| pieces.concat())
}

/// The same bytes, cut at random.
fn cut(bytes: &[u8], cuts: &[prop::sample::Index]) -> Vec<Vec<u8>> {
    let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    places.sort_unstable();
    let mut from = 0;
    let mut chunks: Vec<Vec<u8>> =
        places.into_iter().map(|place| bytes[std::mem::replace(&mut from, place)..place].to_vec()).collect();
    chunks.push(bytes[from..].to_vec());
    chunks
}

type Told = (Option<Vec<u8>>, Option<Vec<u8>>, Part);

fn told(event: Event<'_>) -> Told {
    (event.name.map(<[u8]>::to_vec), event.data.map(<[u8]>::to_vec), event.part)
}

fn sse(chunks: &[Vec<u8>]) -> Vec<Told> {
    let (mut splitter, mut events) = (SseSplitter::new(), Vec::new());
    for chunk in chunks {
        splitter.push(chunk, |event, end| {
            assert!(end <= chunk.len());
            events.push(told(event));
        });
    }
    splitter.finish(|event, _| events.push(told(event)));
    events
}

fn array(chunks: &[Vec<u8>]) -> Vec<Told> {
    let (mut splitter, mut events) = (ArraySplitter::new(), Vec::new());
    for chunk in chunks {
        splitter.push(chunk, |event, end| {
            assert!(end <= chunk.len());
            events.push(told(event));
        });
    }
    splitter.finish(|event, _| events.push(told(event)));
    events
}

/// All bytes that a reader lets go, and what it knows in the end.
fn watched(dialect: Dialect, framing: Framing, chunks: &[Vec<u8>]) -> (Vec<u8>, String) {
    let mut reader = StreamReader::new(dialect, framing);
    let mut passed = Vec::new();
    for chunk in chunks {
        reader.push(Bytes::copy_from_slice(chunk));
        while let Some(passage) = reader.pop() {
            passed.extend_from_slice(&passage.bytes);
        }
    }
    reader.finish();
    while let Some(passage) = reader.pop() {
        passed.extend_from_slice(&passage.bytes);
    }
    let known = format!(
        "{} {} {} {:?} {:?} {:?}",
        reader.has_content(),
        reader.has_finish_reason(),
        reader.has_ended(),
        reader.error(),
        reader.usage(),
        reader.continuation().sequence,
    );
    (passed, known)
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        "[\"\\\\{}\\[\\],:a]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        let name = prop_oneof![Just("model".to_owned()), Just("stream".to_owned()), ".{0,6}"];
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name, inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn body() -> impl Strategy<Value = Map<String, Value>> {
    let names = ["model", "stream", "max_tokens", "messages", "store", "mode", "metadata", "x"];
    let name = select(names.to_vec()).prop_map(str::to_owned);
    prop::collection::btree_map(name, json(), 0..6).prop_map(|members| members.into_iter().collect())
}

proptest! {
    #[test]
    fn events_do_not_depend_on_how_the_stream_is_cut(bytes in soup(), cuts in vec(any::<prop::sample::Index>(), 0..12)) {
        let whole = [bytes.clone()];
        let chunks = cut(&bytes, &cuts);
        prop_assert_eq!(sse(&whole), sse(&chunks));
        prop_assert_eq!(array(&whole), array(&chunks));
        let bytewise: Vec<Vec<u8>> = bytes.iter().map(|byte| vec![*byte]).collect();
        prop_assert_eq!(sse(&whole), sse(&bytewise));
        prop_assert_eq!(array(&whole), array(&bytewise));
    }

    #[test]
    fn long_events_do_not_depend_on_how_the_stream_is_cut(
        length in prop_oneof![65_400usize..65_700, 60_000usize..200_000],
        cuts in vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let text: String = (0..length).map(|at| char::from(b'a' + (at % 26) as u8)).collect();
        let stream = format!("event: a\ndata: {text}\r\n\r\n: x\n\ndata: b\n\n").into_bytes();
        prop_assert_eq!(sse(std::slice::from_ref(&stream)), sse(&cut(&stream, &cuts)));
        let elements = format!("[{{\"text\":\"{text}\\\"\"}},\n{{\"b\":1}}]").into_bytes();
        prop_assert_eq!(array(std::slice::from_ref(&elements)), array(&cut(&elements, &cuts)));
    }

    #[test]
    fn every_byte_passes_once_and_the_end_is_known_alike(
        bytes in soup(),
        cuts in vec(any::<prop::sample::Index>(), 0..12),
        dialect in select(Dialect::ALL.to_vec()),
        framing in select(vec![Framing::Sse, Framing::JsonArray]),
    ) {
        let whole = watched(dialect, framing, std::slice::from_ref(&bytes));
        prop_assert_eq!(&whole.0, &bytes);
        prop_assert_eq!(whole, watched(dialect, framing, &cut(&bytes, &cuts)));
    }

    #[test]
    fn nothing_panics_on_any_bytes(bytes in soup(), text in ".{0,40}", dialect in select(Dialect::ALL.to_vec())) {
        let body = Bytes::from(bytes);
        let slot = head(&body, dialect).map(|head| head.slot).unwrap_or_default();
        splice_model(&body, &slot, &text);
        examine(dialect, &body);
        has_embedded_error(&body);
        estimate_tokens(&body);
        recognise(&text);
        without_key(&text);
        client_keys(&http::HeaderMap::new(), Some(&text)).count();
        if let Ok(address) = Address::parse(&text) {
            let _ = address.join(&text, Some(&text));
        }
        let address = Address::parse("https://h/a/v1").expect("well formed");
        if let Ok(joined) = address.join(&text, None) {
            prop_assert!(joined.starts_with("/a/"), "{}", joined);
        }
    }

    #[test]
    fn the_head_says_what_a_full_parse_says(body in body()) {
        let bytes = serde_json::to_vec(&body).expect("a map serialises");
        let head = head(&bytes, Dialect::OpenAiChat).expect("it is an object");
        prop_assert_eq!(head.model.as_deref(), body.get("model").and_then(Value::as_str));
        prop_assert_eq!(head.stream, body.get("stream") == Some(&Value::Bool(true)));
        prop_assert_eq!(head.store, body.get("store").and_then(Value::as_bool));
        prop_assert_eq!(
            head.messages,
            body.get("messages").and_then(Value::as_array).map(|turns| turns.len() as u64)
        );
        if let Some(limit) = body.get("max_tokens").and_then(Value::as_u64) {
            prop_assert_eq!(head.max_tokens, Some(limit));
        }
    }

    #[test]
    fn a_splice_changes_the_model_and_nothing_else(mut body in body(), model in ".{0,12}", pretty: bool) {
        let bytes = if pretty { serde_json::to_vec_pretty(&body) } else { serde_json::to_vec(&body) };
        let bytes = Bytes::from(bytes.expect("a map serialises"));
        let slot = head(&bytes, Dialect::OpenAiChat).expect("it is an object").slot;
        let spliced: Map<String, Value> =
            serde_json::from_slice(&splice_model(&bytes, &slot, &model)).expect("it is still an object");
        let before: Map<String, Value> = serde_json::from_slice(&bytes).expect("it was an object");
        body = before;
        body.insert("model".to_owned(), Value::from(model));
        prop_assert_eq!(spliced, body);
    }

    #[test]
    fn a_calm_stream_is_content_from_its_first_content_on(cuts in vec(any::<prop::sample::Index>(), 0..12)) {
        let stream = b"data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n: c\n\n\
            data: {\"choices\":[{\"delta\":{}}]}\n\ndata: {\"choices\":[],\"usage\":{\"x\":1}}\n\ndata: [DONE]\n\n";
        let mut reader = StreamReader::new(Dialect::OpenAiChat, Framing::Sse);
        let mut kinds = Vec::new();
        for chunk in cut(stream, &cuts) {
            reader.push(Bytes::from(chunk));
            kinds.extend(std::iter::from_fn(|| reader.pop()).map(|passage| passage.kind));
        }
        kinds.dedup();
        prop_assert_eq!(kinds, [EventKind::Content, EventKind::Terminal { finish: false }]);
    }
}
