use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;
use crate::preset::{self, Preset};

fn presets() -> &'static [Preset] {
    static PRESETS: LazyLock<Vec<Preset>> = LazyLock::new(|| preset::embedded().unwrap());
    &PRESETS
}

fn now() -> Timestamp {
    "2026-07-20T10:00:00Z".parse().unwrap()
}

fn read(preset_id: &str, status: u16, body: &str) -> Reading {
    let preset = presets().iter().find(|preset| preset.id == preset_id).unwrap();
    preset.quota[0].read(status, body, now())
}

fn windows(preset_id: &str, body: &str) -> Vec<String> {
    let Reading::Windows(snapshot) = read(preset_id, 200, body) else { panic!("no windows") };
    snapshot.windows.iter().map(line).collect()
}

fn line(window: &QuotaWindow) -> String {
    let name = window.window.map_or("-", Window::as_str);
    let number = |number: Option<f64>| number.map_or_else(|| "?".to_owned(), |number| number.to_string());
    let reset = window.resets_at.map_or_else(|| "-".to_owned(), |reset| reset.to_string());
    let (used, limit, left) = (number(window.used), number(window.limit), number(window.remaining));
    let mut line = format!("{name} {used}/{limit} {left} left, {} until {reset}", window.unit);
    for (mark, shown) in [(" EXHAUSTED", window.exhausted), (" side", !window.gates)] {
        if shown {
            line.push_str(mark);
        }
    }
    line
}

#[test]
fn numbers_as_text_missing_used_and_prefixed_units_are_read() {
    let body = r#"{"usage":{"limit":"100","remaining":"40","resetTime":"2026-07-24T00:00:00Z"},
        "limits":[{"window":{"duration":300,"timeUnit":"TIME_UNIT_MINUTE"},
                   "detail":{"limit":"100","used":"100","remaining":"0","resetTime":"2026-07-20T12:00:00Z"}}],
        "totalQuota":{"limit":"100","remaining":"99"},"parallel":{"limit":"20"}}"#;
    assert_eq!(
        windows("kimi-coding", body),
        [
            "weekly 60/100 40 left, units until 2026-07-24T00:00:00Z",
            "5h 100/100 0 left, units until 2026-07-20T12:00:00Z EXHAUSTED",
            "monthly ?/? ? left, units until -",
        ]
    );
}

#[test]
fn bare_units_of_older_answers_are_read_alike() {
    let body =
        r#"{"limits":[{"window":{"duration":"300","timeUnit":"MINUTE"},"detail":{"limit":100,"used":7}}]}"#;
    assert_eq!(windows("kimi-coding", body), ["5h 7/100 93 left, units until -"]);
}

#[test]
fn a_freeze_flag_is_not_a_gauge() {
    let frozen = r#"{"totalQuota":{"limit":"100","used":"1","remaining":"99"}}"#;
    assert_eq!(windows("kimi-coding", frozen), ["monthly ?/? ? left, units until - EXHAUSTED"]);
    let healthy = r#"{"totalQuota":{"limit":"100","used":0,"remaining":"99"}}"#;
    assert_eq!(windows("kimi-coding", healthy), ["monthly ?/? ? left, units until -"]);
}

#[test]
fn used_ratios_are_percentages() {
    let body = r#"{"usages":{"limit_5h":{"used_ratio":0.25,"reset_time":"2026-07-20T12:00:00Z"},
        "limit_7d":{"used_ratio":"1.0","reset_time":"2026-07-21T00:00:00Z"}}}"#;
    assert_eq!(
        windows("kimi-coding", body),
        [
            "5h 25/100 75 left, percent until 2026-07-20T12:00:00Z",
            "weekly 100/100 0 left, percent until 2026-07-21T00:00:00Z EXHAUSTED",
        ]
    );
}

#[test]
fn a_disabled_account_marker_is_not_usable_and_no_dead_key() {
    let body = r#"{"user":{"status":"STATUS_DISABLED"},"usage":{"limit":"100","remaining":"40"}}"#;
    assert_eq!(read("kimi-coding", 200, body), Reading::NotUsable);
}

#[test]
fn misleading_names_epoch_milliseconds_and_tool_calls_are_told_apart() {
    let body = r#"{"code":200,"msg":"ok","success":true,"data":{"level":"pro","limits":[
        {"type":"TIME_LIMIT","unit":5,"number":1,"usage":1000,"currentValue":1000,"remaining":0,"percentage":100},
        {"type":"TOKENS_LIMIT","unit":3,"number":5,"usage":200,"currentValue":50,"remaining":150,"percentage":25,
         "nextResetTime":1784556000000},
        {"type":"TOKENS_LIMIT","unit":6,"number":7,"percentage":100,"nextResetTime":1784800000000}]}}"#;
    assert_eq!(
        windows("zai-coding", body),
        [
            "monthly 1000/1000 0 left, tool calls until - EXHAUSTED side",
            "5h 50/200 150 left, tokens until 2026-07-20T14:00:00Z",
            "weekly 100/100 0 left, percent until 2026-07-23T09:46:40Z EXHAUSTED",
        ]
    );
}

#[test]
fn only_the_windows_that_gate_decide_when_the_key_opens() {
    let body = r#"{"code":200,"success":true,"data":{"limits":[
        {"type":"TIME_LIMIT","unit":5,"number":1,"usage":9,"currentValue":9,"remaining":0,"nextResetTime":1786000000000},
        {"type":"TOKENS_LIMIT","unit":3,"number":5,"percentage":100,"nextResetTime":1784556000000}]}}"#;
    let Reading::Windows(snapshot) = read("zai-coding", 200, body) else { panic!("no windows") };
    assert_eq!(snapshot.opens_at(now()), Some("2026-07-20T14:00:00Z".parse().unwrap()));
}

#[test]
fn a_dead_key_in_a_200_is_dead() {
    let body = r#"{"code":1000,"msg":"Authentication Failed","success":false}"#;
    assert_eq!(read("zai-coding", 200, body), Reading::DeadKey);
    assert_eq!(read("zai-coding", 200, r#"{"code":"1003","success":false}"#), Reading::DeadKey);
}

#[test]
fn a_missing_header_or_a_bare_refusal_is_no_dead_key() {
    assert_eq!(read("zai-coding", 200, r#"{"code":1001,"success":false}"#), Reading::NotUsable);
    let refused = r#"{"code":401,"msg":"token expired or incorrect","success":false}"#;
    assert_eq!(read("zai-coding", 200, refused), Reading::NotUsable);
}

#[test]
fn a_valid_key_without_a_plan_is_not_dead() {
    let body = r#"{"code":500,"msg":"当前用户不存在Coding Plan","success":false}"#;
    assert_eq!(read("zai-coding", 200, body), Reading::NoPlan);
}

#[test]
fn a_count_that_is_named_usage_but_counts_what_is_left_is_inverted() {
    let body = r#"{"model_remains":[{"model_name":"MiniMax-M2","start_time":1784538000000,"end_time":1784556000000,
        "remains_time":14400000,"current_interval_total_count":1500,"current_interval_usage_count":1400}],
        "base_resp":{"status_code":0,"status_msg":"success"}}"#;
    assert_eq!(
        windows("minimax-coding", body),
        ["5h 100/1500 1400 left, requests until 2026-07-20T14:00:00Z"]
    );
}

#[test]
fn a_probe_that_wants_a_cookie_says_nothing_about_the_key() {
    let body = r#"{"base_resp":{"status_code":1004,"status_msg":"cookie is missing, log in again"}}"#;
    assert_eq!(read("minimax-coding-cn", 200, body), Reading::NotUsable);
}

#[test]
fn window_lengths_in_seconds_name_the_window() {
    let body = r#"{"plan_type":"plus","rate_limit":{"allowed":false,"limit_reached":true,
        "primary_window":{"used_percent":100,"limit_window_seconds":18000,"reset_after_seconds":3600,"reset_at":1784545200},
        "secondary_window":{"used_percent":12.5,"limit_window_seconds":604800,"reset_after_seconds":400000}},
        "credits":{"has_credits":false,"unlimited":false,"balance":"0"}}"#;
    assert_eq!(
        windows("chatgpt-codex", body),
        [
            "5h 100/100 0 left, percent until 2026-07-20T11:00:00Z EXHAUSTED",
            "weekly 12.5/100 87.5 left, percent until 2026-07-25T01:06:40Z",
        ]
    );
}

#[test]
fn a_date_is_midnight_and_may_stand_outside_the_row() {
    let body = r#"{"copilot_plan":"individual","quota_reset_date":"2026-08-01","quota_snapshots":{
        "premium_interactions":{"entitlement":300,"remaining":0,"percent_remaining":0.0,"unlimited":false},
        "chat":{"entitlement":0,"remaining":0,"percent_remaining":100.0,"unlimited":true}}}"#;
    assert_eq!(
        windows("copilot", body),
        ["monthly 300/300 0 left, premium requests until 2026-08-01T00:00:00Z EXHAUSTED"]
    );
}

#[test]
fn a_null_window_is_skipped() {
    let body =
        r#"{"five_hour":{"utilization":37.0,"resets_at":"2026-07-20T12:00:00.5+00:00"},"seven_day":null}"#;
    assert_eq!(
        windows("claude-subscription", body),
        ["5h 37/100 63 left, percent until 2026-07-20T12:00:00.5Z"]
    );
}

#[test]
fn a_balance_may_be_text_and_the_provider_says_whether_it_pays() {
    let body = r#"{"is_available":false,"balance_infos":[{"currency":"CNY","total_balance":"0.01"}]}"#;
    assert_eq!(windows("deepseek", body), ["- ?/? 0.01 left, cny until - EXHAUSTED"]);
    let negative = r#"{"code":0,"data":{"available_balance":-1.5,"voucher_balance":0,"cash_balance":-1.5}}"#;
    assert_eq!(windows("moonshot", negative), ["- ?/? -1.5 left, usd until - EXHAUSTED"]);
}

#[test]
fn a_cap_that_renews_is_named_and_a_key_without_one_has_no_window() {
    let body = r#"{"data":{"limit":20,"limit_remaining":5,"limit_reset":"monthly","usage":15}}"#;
    assert_eq!(windows("openrouter", body), ["monthly 15/20 5 left, usd until -"]);
    let open = r#"{"data":{"limit":null,"limit_remaining":null,"usage":15}}"#;
    assert_eq!(read("openrouter", 200, open), Reading::NotUsable);
}

#[test]
fn a_reset_in_the_past_is_no_reset() {
    let body = r#"{"five_hour":{"utilization":100,"resets_at":"2026-07-20T09:59:59Z"}}"#;
    assert_eq!(windows("claude-subscription", body), ["5h 100/100 0 left, percent until - EXHAUSTED"]);
}

#[test]
fn refusals_pages_and_nonsense_are_not_usable() {
    for body in ["", "<html>login</html>", "[]", "null", "{}", r#"{"usage":"x"}"#, r#"{"limits":{"a":1}}"#] {
        assert_eq!(read("kimi-coding", 200, body), Reading::NotUsable, "{body}");
    }
    assert_eq!(read("kimi-coding", 401, r#"{"usage":{"limit":"1","remaining":"1"}}"#), Reading::NotUsable);
}

/// Documents made of the field names that usage endpoints have, with anything in them.
fn documents() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[0-9.eE%-]{0,24}|TIME_UNIT_[A-Z]{0,8}|[0-9T:Z-]{0,24}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 64, 6, |inner| {
        let name = prop::sample::select(vec![
            "usage",
            "limits",
            "window",
            "detail",
            "duration",
            "timeUnit",
            "limit",
            "used",
            "remaining",
            "data",
            "type",
            "unit",
            "number",
            "percentage",
            "nextResetTime",
            "model_remains",
            "end_time",
            "rate_limit",
            "primary_window",
            "limit_window_seconds",
            "reset_after_seconds",
            "code",
            "success",
            "balance",
        ]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name, inner), 0..8).prop_map(|pairs| Value::Object(
                pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
            )),
        ]
    })
}

proptest! {
    #[test]
    fn any_document_is_read_without_a_panic_and_no_reset_lies_in_the_past(document in documents()) {
        let body = document.to_string();
        for preset in presets() {
            for probe in &preset.quota {
                let Reading::Windows(snapshot) = probe.read(200, &body, now()) else { continue };
                for window in snapshot.windows {
                    prop_assert!(window.resets_at.is_none_or(|reset| reset > now()));
                    for number in [window.used, window.limit, window.remaining].into_iter().flatten() {
                        prop_assert!(number.is_finite());
                    }
                }
            }
        }
    }

    #[test]
    fn any_text_is_read_without_a_panic(body in ".{0,64}") {
        for preset in presets() {
            for probe in &preset.quota {
                prop_assert!(probe.read(200, &body, now()) != Reading::DeadKey);
            }
        }
    }
}
