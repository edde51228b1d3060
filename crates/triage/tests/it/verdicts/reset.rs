//! When does it heal: one table of every form.

use backstop_triage::{
    Timestamp,
    facts::fold::fold,
    reset::{Frame, Stated, from_headers, from_text},
};
use jiff::tz::TimeZone;

fn frame(zone: Option<&TimeZone>) -> Frame<'_> {
    Frame { now: "2026-03-10T12:00:00Z".parse().expect("a moment"), zone }
}

fn shown(stated: Stated) -> String {
    match (stated.after, stated.at) {
        (None, None) => "-".to_owned(),
        (Some(after), None) => format!("{}s", after.as_secs_f64()),
        (None, Some(at)) => at.to_string(),
        (Some(after), Some(at)) => format!("{}s {at}", after.as_secs_f64()),
    }
}

fn text(words: &str, zone: Option<&str>) -> String {
    let zone = zone.map(|name| TimeZone::get(name).expect("a zone"));
    shown(from_text(&fold(words), &frame(zone.as_ref())))
}

fn headers(pairs: &[(&str, &str)]) -> String {
    let headers: Vec<_> =
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    shown(from_headers(&headers, &frame(None)))
}

#[test]
fn waits_in_prose() {
    for (words, expected) in [
        ("Please try again in 6m0s.", "360s"),
        ("Please try again in 20s. Visit https://x/1", "20s"),
        ("Please retry in 54.2s.", "54.2s"),
        ("Please retry after 9 seconds.", "9s"),
        ("Please retry after 86400 seconds", "86400s"),
        ("Retry-After: 60", "60s"),
        ("Please wait 46 seconds before retrying.", "46s"),
        ("Your quota will reset after 21h53m56s.", "78836s"),
        ("resets in 3 days", "259200s"),
        ("Try again in 2 hours and 30 minutes", "9000s"),
        ("Please try again in about 58 hours.", "208800s"),
        ("请在 30 秒后重试", "30s"),
        ("请等待2小时后重试", "7200s"),
        ("Quota will be replenished in 07:01:20.", "25280s"),
        ("Bitte versuchen Sie es in 30 Sekunden erneut.", "30s"),
        ("Inténtelo de nuevo en 15 segundos.", "15s"),
        ("повторите через 20 сек.", "20s"),
        ("60秒後に再試行してください。", "60s"),
        ("30초 후에 다시 시도해 주세요.", "30s"),
        ("将于 2小时15分钟 后重置", "8100s"),
        ("Your quota will reset after 0s.", "1s"),
        ("try again in 120ms", "1s"),
        ("Rate limit of 10 per 60s exceeded", "-"),
        ("If you just verified, it can take up to 15 minutes.", "-"),
        ("try again in 45 days", "-"),
        ("limit 30000, used 14567, requested 24754", "-"),
        ("retry after 3 attempts failed", "-"),
    ] {
        assert_eq!(text(words, None), expected, "{words}");
    }
}

#[test]
fn moments_in_prose() {
    for (words, zone, expected) in [
        ("Your limit will reset at 2026-03-12 03:40:47", Some("Asia/Shanghai"), "2026-03-11T19:40:47Z"),
        ("Your limit will reset at 2026-03-12 03:40:47", None, "2026-03-12T03:40:47Z"),
        ("您的限额将在 2026-03-12 10:00:00 重置。", Some("Asia/Shanghai"), "2026-03-12T02:00:00Z"),
        ("2026-03-12 10:00:00 后可继续使用", Some("Asia/Shanghai"), "2026-03-12T02:00:00Z"),
        ("次日 04:00 恢复", Some("Asia/Shanghai"), "2026-03-10T20:00:00Z"),
        ("You will regain access on 2026-04-01 at 00:00 UTC.", None, "2026-04-01T00:00:00Z"),
        ("resets 4am (Europe/Berlin)", None, "2026-03-11T03:00:00Z"),
        ("resets 11:30pm (America/New_York)", None, "2026-03-11T03:30:00Z"),
        ("resets 12am (Asia/Seoul)", None, "2026-03-10T15:00:00Z"),
        ("resets 12pm (UTC)", None, "2026-03-10T12:00:00Z"),
        ("resets 11:59am (UTC)", None, "2026-03-10T11:59:00Z"),
        ("resets 11:57am (UTC)", None, "2026-03-11T11:57:00Z"),
        ("resets Mar 13, 9am", None, "2026-03-13T09:00:00Z"),
        ("try again at Mar 28th, 2026 4:13 PM.", None, "2026-03-28T16:13:00Z"),
        ("resets on Mar 12, 2026, 5:04 AM.", None, "2026-03-12T05:04:00Z"),
        ("quota will reset at 03-14 09:18:00 UTC", None, "2026-03-14T09:18:00Z"),
        ("Claude AI usage limit reached|1773244800", None, "2026-03-11T16:00:00Z"),
        ("resets at 1773244800000", None, "2026-03-11T16:00:00Z"),
        ("resets at 10:00 utc+8", None, "2026-03-11T02:00:00Z"),
        ("resets tomorrow at 4am", None, "2026-03-11T04:00:00Z"),
        ("resets at midnight UTC", None, "2026-03-11T00:00:00Z"),
        ("will reset at 2026-02-30 10:00:00", None, "-"),
        ("will reset at 2027-01-01 10:00:00", None, "-"),
        ("resets 25:00", None, "-"),
        ("see 2026-03-12 10:00:00 in the log", None, "-"),
    ] {
        assert_eq!(text(words, zone), expected, "{words}");
    }
}

#[test]
fn summer_time_is_the_zones_own() {
    let at = |words: &str, now: &str| {
        let frame = Frame { now: now.parse::<Timestamp>().expect("a moment"), zone: None };
        shown(from_text(&fold(words), &frame))
    };
    // 29 March 2026, 2 to 3 a.m., does not exist in Berlin; 25 October 2026, 2 to 3 a.m., exists twice.
    assert_eq!(at("resets 2:30am (Europe/Berlin)", "2026-03-28T22:00:00Z"), "2026-03-29T01:30:00Z");
    assert_eq!(at("resets 4am (Europe/Berlin)", "2026-03-28T22:00:00Z"), "2026-03-29T02:00:00Z");
    assert_eq!(at("resets 2:30am (Europe/Berlin)", "2026-10-24T22:00:00Z"), "2026-10-25T00:30:00Z");
    assert_eq!(at("resets Feb 29, 9am (UTC)", "2028-02-27T00:00:00Z"), "2028-02-29T09:00:00Z");
}

#[test]
fn headers_of_every_form() {
    for (pairs, expected) in [
        (&[("retry-after", "20")][..], "20s"),
        (&[("retry-after", "20.5")], "20.5s"),
        (&[("retry-after", " 20 ")], "20s"),
        (&[("retry-after", "0")], "1s"),
        (&[("retry-after", "-1")], "-"),
        (&[("retry-after", "1e12")], "-"),
        (&[("retry-after", "nan")], "-"),
        (&[("retry-after", "Tue, 10 Mar 2026 12:00:30 GMT")], "30s 2026-03-10T12:00:30Z"),
        (&[("retry-after", "Tuesday, 10-Mar-26 12:00:30 GMT")], "30s 2026-03-10T12:00:30Z"),
        (&[("retry-after", "Tue Mar 10 12:00:30 2026")], "30s 2026-03-10T12:00:30Z"),
        (&[("retry-after", "Tue, 10 Mar 2026 11:00:00 GMT")], "1s"),
        (
            &[("retry-after", "Tue, 10 Mar 2026 13:00:30 GMT"), ("date", "Tue, 10 Mar 2026 13:00:00 GMT")],
            "30s",
        ),
        (&[("retry-after-ms", "2325000"), ("retry-after", "1")], "2325s"),
        (&[("grpc-retry-pushback-ms", "-1")], "-"),
        (&[("x-ratelimit-reset-requests", "6m0s"), ("x-ratelimit-remaining-requests", "0")], "360s"),
        (&[("x-ratelimit-reset-tokens", "548ms"), ("x-ratelimit-remaining-tokens", "7927")], "-"),
        (&[("x-ratelimit-reset", "1773144000"), ("x-ratelimit-remaining", "0")], "2026-03-10T12:00:00Z"),
        (&[("x-ratelimit-reset", "1773144060000")], "2026-03-10T12:01:00Z"),
        (&[("x-ratelimit-reset", "17")], "17s"),
        (
            &[
                ("anthropic-ratelimit-requests-remaining", "0"),
                ("anthropic-ratelimit-requests-reset", "2026-03-10T12:00:45Z"),
                ("anthropic-ratelimit-tokens-remaining", "100"),
                ("anthropic-ratelimit-tokens-reset", "2026-03-10T12:30:00Z"),
            ],
            "2026-03-10T12:00:45Z",
        ),
        (
            &[
                ("anthropic-ratelimit-unified-5h-status", "allowed"),
                ("anthropic-ratelimit-unified-5h-reset", "1773147600"),
                ("anthropic-ratelimit-unified-7d-status", "rejected"),
                ("anthropic-ratelimit-unified-7d-reset", "1773320400"),
            ],
            "2026-03-12T13:00:00Z",
        ),
        (&[("x-ratelimit-reset", "4000000000")], "-"),
        (&[("retry-after", "Tue, 10 Mar 2099 12:00:30 GMT")], "-"),
        (
            &[
                ("anthropic-ratelimit-unified-5h-status", "rejected"),
                ("anthropic-ratelimit-unified-5h-reset", "1773147600"),
                ("anthropic-ratelimit-unified-7d-status", "rejected"),
                ("anthropic-ratelimit-unified-7d-reset", "1773320400"),
            ],
            "2026-03-12T13:00:00Z",
        ),
    ] {
        assert_eq!(headers(pairs), expected, "{pairs:?}");
    }
}
