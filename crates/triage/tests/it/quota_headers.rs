//! What the headers of answers tell of a key's windows.

use backstop_triage::{Catalog, ModelId, QuotaSnapshot, QuotaWindow, Timestamp, Window};
use expect_test::{Expect, expect};

fn read(provider: &str, headers: &[(&str, &str)]) -> Option<QuotaSnapshot> {
    let header = |wanted: &str| headers.iter().find(|(name, _)| *name == wanted).map(|(_, value)| *value);
    Catalog::embedded().quota_headers(&provider.into()).read(header, &ModelId::from("m"), now())
}

fn shows(provider: &str, headers: &[(&str, &str)], expected: &Expect) {
    let windows = read(provider, headers).map(|snapshot| snapshot.windows).unwrap_or_default();
    expected.assert_eq(&windows.iter().map(|window| line(window) + "\n").collect::<String>());
}

fn line(row: &QuotaWindow) -> String {
    let number = |number: Option<f64>| number.map_or_else(|| "?".to_owned(), |number| format!("{number}"));
    let resets =
        row.resets_at.map_or_else(|| "?".to_owned(), |at| format!("{}s", at.duration_since(now()).as_secs()));
    format!(
        "{} {}{}: {} of {}, {} left, opens in {resets}{}",
        row.window.map_or("?", Window::as_str),
        row.unit,
        row.model.as_ref().map_or_else(String::new, |model| format!(" of {model}")),
        number(row.used),
        number(row.limit),
        number(row.remaining),
        if row.exhausted { ", exhausted" } else { "" },
    )
}

fn now() -> Timestamp {
    "2026-11-30T12:00:00Z".parse().unwrap()
}

#[test]
fn unified_windows_are_shares_with_a_word() {
    let headers = [
        ("anthropic-ratelimit-unified-5h-status", "rejected"),
        ("anthropic-ratelimit-unified-5h-utilization", "1.08"),
        ("anthropic-ratelimit-unified-5h-reset", "1796047200"),
        ("anthropic-ratelimit-unified-7d-status", "allowed_warning"),
        ("anthropic-ratelimit-unified-7d-utilization", "0.75"),
        ("anthropic-ratelimit-unified-7d-reset", "1796126400"),
    ];
    shows(
        "claude-subscription",
        &headers,
        &expect![[r#"
        5h percent: 108 of 100, 0 left, opens in 7200s, exhausted
        weekly percent: 75 of 100, 25 left, opens in 86400s
    "#]],
    );
    let only_a_word = [("anthropic-ratelimit-unified-5h-status", "allowed")];
    shows(
        "claude-subscription",
        &only_a_word,
        &expect![[r#"
            5h percent: ? of ?, ? left, opens in ?
        "#]],
    );
}

#[test]
fn counted_windows_of_a_model_are_its_own() {
    let classic = [
        ("anthropic-ratelimit-requests-limit", "50"),
        ("anthropic-ratelimit-requests-remaining", "0"),
        ("anthropic-ratelimit-requests-reset", "2026-11-30T12:00:30Z"),
        ("anthropic-ratelimit-output-tokens-limit", "8000"),
        ("anthropic-ratelimit-output-tokens-remaining", "7000"),
        ("anthropic-ratelimit-output-tokens-reset", "2026-11-30T12:00:05Z"),
    ];
    shows(
        "anthropic",
        &classic,
        &expect![[r#"
        minute requests of m: 50 of 50, 0 left, opens in 30s, exhausted
        minute output tokens of m: 1000 of 8000, 7000 left, opens in 5s
    "#]],
    );
    let shared = [
        ("x-ratelimit-limit-requests", "14400"),
        ("x-ratelimit-remaining-requests", "14370"),
        ("x-ratelimit-reset-requests", "2m59.56s"),
        ("x-ratelimit-limit-tokens", "18000"),
        ("x-ratelimit-remaining-tokens", "0"),
        ("x-ratelimit-reset-tokens", "7.66s"),
    ];
    shows(
        "groq",
        &shared,
        &expect![[r#"
        daily requests of m: 30 of 14400, 14370 left, opens in 179s
        minute tokens of m: 18000 of 18000, 0 left, opens in 7s, exhausted
    "#]],
    );
    shows(
        "openai",
        &shared,
        &expect![[r#"
        ? requests of m: 30 of 14400, 14370 left, opens in 179s
        minute tokens of m: 18000 of 18000, 0 left, opens in 7s, exhausted
    "#]],
    );
    shows(
        "some-unknown-server",
        &shared,
        &expect![[r#"
        ? requests of m: 30 of 14400, 14370 left, opens in 179s
        ? tokens of m: 18000 of 18000, 0 left, opens in 7s, exhausted
    "#]],
    );
}

#[test]
fn a_plans_windows_tell_their_own_length() {
    let headers = [
        ("x-codex-primary-used-percent", "100"),
        ("x-codex-primary-window-minutes", "300"),
        ("x-codex-primary-reset-after-seconds", "3600"),
        ("x-codex-secondary-used-percent", "28.5"),
        ("x-codex-secondary-window-minutes", "10080"),
        ("x-codex-secondary-reset-at", "1796126400"),
    ];
    shows(
        "chatgpt-codex",
        &headers,
        &expect![[r#"
        5h percent: 100 of 100, 0 left, opens in 3600s, exhausted
        weekly percent: 28.5 of 100, 71.5 left, opens in 86400s
    "#]],
    );
}

#[test]
fn epochs_in_milliseconds_are_understood() {
    let headers =
        [("x-ratelimit-limit", "50"), ("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1796083200000")];
    shows(
        "openrouter",
        &headers,
        &expect![[r#"
        ? requests: 50 of 50, 0 left, opens in 43200s, exhausted
    "#]],
    );
}

#[test]
fn the_draft_is_read_in_each_of_its_forms() {
    let policies = "\"burst\";q=100;w=60, \"daily\";q=1000;w=86400";
    let list = [("ratelimit", "\"burst\";r=50;t=30, \"daily\";r=0;t=3600"), ("ratelimit-policy", policies)];
    shows(
        "generic",
        &list,
        &expect![[r#"
            minute requests: 50 of 100, 50 left, opens in 30s
            daily requests: 1000 of 1000, 0 left, opens in 3600s, exhausted
        "#]],
    );
    shows(
        "generic",
        &[("ratelimit", "limit=100, remaining=5, reset=30")],
        &expect![[r#"
            ? requests: 95 of 100, 5 left, opens in 30s
        "#]],
    );
    let three = [("ratelimit-limit", "100"), ("ratelimit-remaining", "40"), ("ratelimit-reset", "9")];
    shows(
        "generic",
        &three,
        &expect![[r#"
        ? requests: 60 of 100, 40 left, opens in 9s
    "#]],
    );
}

#[test]
fn what_cannot_be_read_makes_no_window() {
    for headers in [
        &[][..],
        &[("content-type", "application/json")],
        &[("x-ratelimit-remaining-requests", "unlimited")],
        &[("x-ratelimit-remaining-requests", "-1")],
        &[("x-ratelimit-remaining-requests", "NaN")],
        &[("x-ratelimit-remaining-requests", "")],
        &[("x-ratelimit-limit-requests", "5"), ("x-ratelimit-reset-requests", "1s")],
        &[("ratelimit", "\"burst\";t=30, ;;;==,,")],
    ] {
        assert_eq!(read("openai", headers), None, "{headers:?}");
    }
}

#[test]
fn a_reset_that_has_passed_or_lies_too_far_ahead_is_none() {
    for reset in ["2026-11-30T11:00:00Z", "1999-01-01T00:00:00Z", "4000000000", "soon", "1e300"] {
        let headers = [("x-ratelimit-remaining", "3"), ("x-ratelimit-reset", reset)];
        assert_eq!(read("openrouter", &headers).unwrap().windows[0].resets_at, None, "{reset}");
    }
}

#[test]
fn windows_of_many_models_are_bounded() {
    let mut kept: Option<QuotaSnapshot> = None;
    for number in 0..1000 {
        let header = |wanted: &str| (wanted == "x-ratelimit-remaining-tokens").then_some("5");
        let model = ModelId::from(format!("m{number}"));
        let newer = Catalog::embedded().quota_headers(&"openai".into()).read(header, &model, now()).unwrap();
        match &mut kept {
            Some(kept) => kept.update(&newer),
            none @ None => *none = Some(newer),
        }
    }
    let windows = kept.unwrap().windows;
    assert_eq!(windows.len(), 64);
    assert_eq!(windows.last().unwrap().model, Some(ModelId::from("m999")));
}
