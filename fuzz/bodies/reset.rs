//! Any text and any header value as a time of recovery: no panic, never below a second, never beyond 30 days.

use std::time::Duration;

use backstop_triage::{
    Timestamp,
    facts::fold::fold,
    reset::{Frame, Stated, from_headers, from_text, parse_duration},
};

/// One input.
pub(crate) fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let now: Timestamp = "2026-03-10T12:00:00Z".parse().expect("a moment");
    let frame = Frame { now, zone: None };
    let names = ["retry-after", "retry-after-ms", "x-ratelimit-reset", "x-ratelimit-reset-requests"];
    let headers = names.map(|name| (name.to_owned(), text.clone().into_owned()));
    let _ = parse_duration(&text);
    for stated in [from_text(&fold(&text), &frame), from_headers(&headers, &frame)] {
        let Stated { after, at } = stated;
        assert!(after.is_none_or(|after| after >= Duration::from_secs(1) && after <= LONGEST), "{after:?}");
        assert!(at.is_none_or(|at| at.duration_since(now).unsigned_abs() <= LONGEST), "{at:?}");
    }
}

const LONGEST: Duration = Duration::from_secs((30 * 24 + 1) * 3600);
