//! What holds for any input.

use backstop_triage::{
    Basis, Catalog, Class, Evidence, Fault, Hints, Kind, Next, ProviderId, Treatment, treatment::status_of,
};
use proptest::prelude::*;

use super::{now, score::corpus};

fn kinds() -> impl Strategy<Value = Kind> {
    prop_oneof![
        (100u16..=599).prop_map(|status| Kind::Http { status }),
        (100u16..=599).prop_map(|status| Kind::Stream { status }),
        (0usize..Fault::ALL.len()).prop_map(|fault| Kind::Transport(Fault::ALL[fault])),
        (any::<Option<i32>>(), any::<Option<i32>>())
            .prop_map(|(exit_code, signal)| Kind::Process { exit_code, signal }),
    ]
}

fn texts() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(PIECES.to_vec()).prop_map(str::to_owned);
    prop_oneof![
        any::<Vec<u8>>().prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
        ".{0,200}",
        prop::collection::vec(prop_oneof![pieces, "[ -~]{0,6}".boxed()], 0..40)
            .prop_map(|parts| parts.concat()),
    ]
}

fn evidence() -> impl Strategy<Value = Evidence> {
    let headers = prop::collection::vec(("[a-z-]{1,20}|retry-after|x-ratelimit-reset", "[ -~]{0,20}"), 0..4);
    (kinds(), texts(), texts(), headers, any::<Option<u64>>(), any::<Option<u64>>()).prop_map(
        |(kind, text, stderr, headers, approx_tokens, context_length)| Evidence {
            kind,
            headers,
            text,
            stderr,
            hints: Hints { approx_tokens, context_length, ..Hints::default() },
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn any_evidence_has_one_verdict(evidence in evidence(), provider in "[a-z]{0,8}|openai|zai|minimax") {
        let (catalog, provider) = (Catalog::embedded(), ProviderId::from(provider));
        let verdict = catalog.classify(&provider, &evidence, now());
        prop_assert_eq!(&verdict, &catalog.classify(&provider, &evidence, now()));
        let explained = catalog.explain(&provider, &evidence, now());
        prop_assert_eq!(verdict.class, explained.class);
        prop_assert!(!explained.to_string().is_empty());
    }

    #[test]
    fn without_a_rule_no_text_is_treated_more_eagerly_than_the_unknown(text in texts()) {
        let evidence = Evidence { kind: Kind::Process { exit_code: Some(1), signal: None }, stderr: text, ..Evidence::default() };
        let verdict = Catalog::embedded().classify(&ProviderId::from("x"), &evidence, now());
        if !matches!(verdict.basis, Basis::Rule(_) | Basis::Status) {
            prop_assert_eq!(verdict.class, Class::Unknown);
            prop_assert_ne!(Treatment::of(&verdict, status_of(&evidence)).next, Next::RetrySame);
        }
    }

    #[test]
    fn white_space_between_tokens_never_changes_the_verdict(line in 0usize..10_000, space in "[ \n\t]{1,5}") {
        let lines = corpus();
        let line = &lines[line % lines.len()];
        let body = line.failure["body"].as_str().unwrap_or_default();
        if let Ok(value) = serde_json::from_str::<serde_json::Value>(body)
            && value.is_object() && line.failure["kind"] == "http"
        {
            let spaced = serde_json::to_string_pretty(&value).expect("JSON").replace('\n', &format!("\n{space}"));
            let mut failure = line.failure.clone();
            failure["body"] = serde_json::json!(format!("{space}{spaced}{space}"));
            let catalog = Catalog::embedded();
            prop_assert_eq!(line.report(&catalog).class, super::score::report(&catalog, &failure).class);
        }
    }
}

/// What bodies are made of, so that random ones look like them.
const PIECES: [&str; 40] = [
    "{",
    "}",
    "[",
    "]",
    "\"",
    "'",
    ":",
    ",",
    "\n",
    "\\",
    "\\u00",
    "data: ",
    "event: error\n",
    "error: {",
    "[DONE]",
    "<html>",
    "\"error\"",
    "\"message\"",
    "\"code\"",
    "429",
    "1308",
    "rate limit",
    "insufficient balance",
    "try again in ",
    "20s",
    "resets ",
    "4am",
    "(Europe/Berlin)",
    "2026-09-14 10:00:00",
    "Error code: 429 - ",
    "None",
    "True",
    "\u{feff}",
    "余额不足",
    "“",
    "’",
    "|1757000000",
    "null",
    "choices",
    "finish_reason",
];
