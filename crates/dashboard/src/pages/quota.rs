//! The usage windows of a provider's keys: used, time passed, what to expect by the reset.

use askama::{Template, filters::Safe};
use axum::extract::{Path, State};
use backstop_triage::{
    Timestamp, Window,
    quota::{QuotaSnapshot, QuotaSource, QuotaWindow},
};
use http::HeaderMap;

use super::{
    Page, filters,
    frame::Frame,
    providers::Head,
    render,
    words::{self, Badge, window_words},
};
use crate::{
    actions::{
        keys::{self, KeyFilter, KeyView},
        quota,
    },
    app::App,
};

#[derive(Template)]
#[template(path = "quota.html")]
struct Quota {
    frame: Frame,
    head: Head,
    read: Vec<Row>,
    unread: Vec<KeyView>,
    /// Whether the provider has a usage endpoint.
    probes: bool,
}

/// A key whose windows are known.
struct Row {
    key: KeyView,
    snapshot: QuotaSnapshot,
}

pub(super) async fn show(State(app): State<App>, headers: HeaderMap, Path(provider): Path<String>) -> Page {
    let head = Head::load(&app, &provider, "quota").await?;
    let filter = KeyFilter { limit: Some(1000), ..KeyFilter::default() };
    let (mut read, mut unread) = (Vec::new(), Vec::new());
    for key in keys::list(&app, &provider, filter).await?.items {
        let snapshot =
            key.quota.clone().and_then(|quota| serde_json::from_value::<QuotaSnapshot>(quota).ok());
        match snapshot.filter(|snapshot| !snapshot.windows.is_empty()) {
            Some(snapshot) => read.push(Row { key, snapshot }),
            None => unread.push(key),
        }
    }
    let frame = Frame::load(&app, &headers, "providers", format!("{provider}: Quota")).await?;
    let probes = quota::can_be_read(&app, &app.provider(&provider)?);
    read.sort_by_key(|row| (row.snapshot.exhausted().count() > 0, row.key.state == "disabled"));
    render(&Quota { frame, head, read, unread, probes }, &headers)
}

/// The name of a key.
fn name(key: &KeyView) -> &str {
    if key.label.is_empty() { &key.hint } else { &key.label }
}

/// Where a reading comes from.
fn source(snapshot: &QuotaSnapshot) -> &'static str {
    match snapshot.source {
        QuotaSource::Headers => "answer headers",
        QuotaSource::Endpoint => "usage endpoint",
    }
}

/// What a window is called.
fn title(window: &QuotaWindow) -> String {
    let name = match window.window {
        Some(window) => window_words(window.as_str()).to_owned(),
        None if window.resets_at.is_none() => "Balance".to_owned(),
        None => "Window".to_owned(),
    };
    match &window.model {
        Some(model) => format!("{name}, {model}"),
        None => name,
    }
}

/// The share that is used, 0 to 100.
fn used(window: &QuotaWindow) -> Option<f64> {
    if window.exhausted {
        return Some(100.0);
    }
    let limit = window.limit.filter(|limit| *limit > 0.0)?;
    let used = window.used.or_else(|| window.remaining.map(|remaining| limit - remaining))?;
    Some((100.0 * used / limit).clamp(0.0, 100.0))
}

/// The share that is used, in words.
fn share(window: &QuotaWindow) -> String {
    match (used(window), window.remaining) {
        (Some(share), _) => format!("{share:.0} %"),
        (None, Some(remaining)) => format!("{} {}", short(remaining), window.unit),
        (None, None) => "not known".to_owned(),
    }
}

/// What is used or left, in words; empty if the share says all.
fn amount(window: &QuotaWindow) -> String {
    if window.unit == "percent" {
        return String::new();
    }
    match (window.used.or_else(|| Some(window.limit? - window.remaining?)), window.limit, window.remaining) {
        (Some(used), Some(limit), _) => format!("{} of {} {}", short(used), short(limit), window.unit),
        (.., Some(_)) => "left".to_owned(),
        (..) => String::new(),
    }
}

/// A number without more digits than people read: `336 k`, `9 M`, `18.4`.
fn short(value: f64) -> String {
    let (value, unit) = match value.abs() {
        1e6.. => (value / 1e6, " M"),
        1e4.. => (value / 1e3, " k"),
        _ => (value, ""),
    };
    let text = format!("{value:.2}");
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

/// The share of the window's time that has passed, 0 to 100.
#[expect(clippy::cast_precision_loss, reason = "a share for people")]
fn passed(window: &QuotaWindow, now: Timestamp) -> Option<f64> {
    let length = match window.window? {
        Window::Minute => 60,
        Window::FiveHours => 5 * 3600,
        Window::Daily => 86_400,
        Window::Weekly => 7 * 86_400,
        Window::Monthly => 30 * 86_400,
    };
    let left = window.resets_at?.duration_since(now).as_secs();
    (0..=length).contains(&left).then(|| 100.0 - 100.0 * left as f64 / length as f64)
}

/// What will be used by the reset at the pace so far; too early to say in the first tenth.
fn expected(window: &QuotaWindow, now: Timestamp) -> Option<f64> {
    let passed = passed(window, now).filter(|passed| *passed >= 10.0)?;
    Some(used(window)? * 100.0 / passed)
}

fn forecast(window: &QuotaWindow, now: &Timestamp) -> Safe<String> {
    match (window.exhausted, expected(window, *now)) {
        (true, _) => Badge::new("rest", "clock", "Full").html(),
        (false, Some(share)) if share > 100.0 => Badge::new("warn", "warn", "Full before the reset").html(),
        (false, Some(share)) => Badge::new("ok", "check", &format!("{share:.0} % at reset")).html(),
        (false, None) => Safe("<span class=\"faint\">–</span>".to_owned()),
    }
}

/// The bar: used, expected by the reset, and a line where the time stands.
fn gauge(window: &QuotaWindow, now: &Timestamp) -> Safe<String> {
    let Some(share) = used(window) else {
        return Safe("<span class=\"faint\">No ceiling is reported</span>".to_owned());
    };
    let hue = if window.exhausted { "d-rest" } else { "d-main" };
    let mut words = format!("{share:.0} % used");
    let mut marks = String::new();
    if let Some(expected) = expected(window, *now).filter(|expected| *expected > share) {
        let width = expected.min(100.0) - share;
        marks.push_str(&format!(
            "<rect class=\"will\" x=\"{share:.1}%\" y=\"4.5\" width=\"{width:.1}%\" height=\"11\" rx=\"3\"/>"
        ));
    }
    if let Some(passed) = passed(window, *now) {
        marks.push_str(&format!(
            "<line class=\"now\" x1=\"{passed:.1}%\" x2=\"{passed:.1}%\" y1=\"0\" y2=\"20\"/>"
        ));
        words.push_str(&format!(", {passed:.0} % of the window has passed"));
    }
    Safe(format!(
        "<svg class=\"gauge\" role=\"img\" aria-label=\"{words}\"><rect class=\"bed\" y=\"4\" width=\"100%\" height=\"12\" rx=\"3\"/><rect class=\"{hue}\" y=\"4\" width=\"{share:.1}%\" height=\"12\" rx=\"3\"/>{marks}</svg>"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_that_is_used_faster_than_its_time_runs_out_before_its_reset() {
        let now: Timestamp = "2026-03-12T09:00:00Z".parse().expect("a moment");
        let window = QuotaWindow {
            window: Some(Window::FiveHours),
            unit: "percent".into(),
            model: None,
            used: Some(60.0),
            limit: Some(100.0),
            remaining: None,
            resets_at: Some("2026-03-12T11:30:00Z".parse().expect("a moment")),
            exhausted: false,
            gates: true,
        };
        assert_eq!(passed(&window, now), Some(50.0));
        assert_eq!(expected(&window, now), Some(120.0));
        assert_eq!((share(&window), amount(&window)), ("60 %".to_owned(), String::new()));
        assert_eq!([336_000.0, 9e6, 18.4, 5.0].map(short), ["336 k", "9 M", "18.4", "5"]);
    }
}
