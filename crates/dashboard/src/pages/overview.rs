//! The overview: what is wrong first, then numbers, then lists.

use askama::{Template, filters::Safe};
use axum::{
    extract::{Query, State},
    response::{IntoResponse as _, Redirect},
};
use backstop_store::requests::{AttemptFailure, AttemptRow, RequestRow};
use http::HeaderMap;
use serde::Deserialize;
use std::fmt::Write as _;

use super::{
    Page, filters,
    frame::Frame,
    providers::{Line, lines},
    render, times,
    words::{self, Badge},
};
use crate::{
    actions::{
        logs::{self, LogQuery},
        stats::{self, StatsView},
        status::{self, StatusView, Trouble},
    },
    app::App,
};

/// Which time to look at.
#[derive(Deserialize)]
pub(super) struct Asked {
    #[serde(default)]
    range: Option<String>,
}

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview {
    frame: Frame,
    range: String,
    status: StatusView,
    stats: StatsView,
    chart: Chart,
    lines: Vec<Line>,
    last: Vec<RequestRow>,
    failures: Vec<Failed>,
    classes: Vec<(backstop_triage::Class, usize, String)>,
    /// The most attempts that one of the last requests took.
    most_attempts: usize,
    /// How long all but five in a hundred of the last requests waited for their first token at most.
    slowest: Option<u64>,
}

/// A failed attempt among the last requests.
struct Failed {
    request: String,
    at: backstop_triage::Timestamp,
    attempt: AttemptRow,
    failure: AttemptFailure,
    reached_client: bool,
}

pub(super) async fn show(State(app): State<App>, headers: HeaderMap, Query(asked): Query<Asked>) -> Page {
    let range = asked.range.unwrap_or_else(|| "24h".to_owned());
    let status = status::show(&app).await?;
    if status.providers == 0 {
        return Ok(Redirect::to("/start").into_response());
    }
    let stats = stats::show(&app, &range, None).await?;
    let lines = lines(&app, &stats).await?;
    let recent = logs::list(&app, LogQuery { limit: Some(200), ..LogQuery::default() }).await?.items;
    let failures: Vec<Failed> = recent.iter().flat_map(failed).take(6).collect();
    let classes = by_class(&recent);
    let frame = Frame::load(&app, &headers, "overview", "Overview").await?;
    let chart = Chart::new(&frame, &stats);
    let most_attempts = recent.iter().map(|row| row.attempts.len()).max().unwrap_or(0);
    let slowest = slowest(&recent);
    let last = recent.into_iter().take(6).collect();
    let page = Overview {
        frame,
        range,
        status,
        stats,
        chart,
        lines,
        last,
        failures,
        classes,
        most_attempts,
        slowest,
    };
    render(&page, &headers)
}

impl Overview {
    fn summary(&self) -> String {
        let needs = match self.status.troubles.len() {
            0 => "Nothing needs you.".to_owned(),
            1 => "1 thing needs you.".to_owned(),
            count => format!("{count} things need you."),
        };
        let answered = match self.status.state {
            "down" => "No provider can be asked.",
            _ => "Clients are being answered.",
        };
        format!("{needs} {answered}")
    }

    fn success(&self) -> String {
        let total = self.stats.total;
        times::percent(total.requests - total.failed, total.requests)
    }

    #[expect(clippy::cast_precision_loss, reason = "a mean for people")]
    fn attempts(&self) -> String {
        let total = self.stats.total;
        match total.requests {
            0 => "–".to_owned(),
            requests => format!("{:.2}", total.attempts as f64 / requests as f64),
        }
    }

    fn first_token(&self) -> String {
        let total = self.stats.total;
        total.first_content_ms.checked_div(total.begun).map_or_else(|| "–".to_owned(), times::took)
    }
}

/// The glyph of a trouble.
pub(crate) fn trouble_badge(trouble: &Trouble) -> Badge<'static> {
    match (trouble.severity, trouble.subject.as_str()) {
        (_, "store") => Badge::new("bad", "warn", ""),
        ("critical", _) => Badge::new("bad", "warn", ""),
        (_, subject) if subject.contains("/keys/") => Badge::new("bad", "keyoff", ""),
        (_, _) => Badge::new("warn", "bolt", ""),
    }
}

/// The page that a trouble or notification leads to.
pub(crate) fn subject_link(subject: &str) -> String {
    let mut parts = subject.trim_start_matches('/').split('/');
    match (parts.next(), parts.next(), parts.next()) {
        (Some("provider" | "providers"), Some(id), Some(_)) => {
            format!("/providers/{}/keys", super::segment(id))
        }
        (Some("provider" | "providers"), Some(id), None) => format!("/providers/{}", super::segment(id)),
        (Some("unknown"), ..) => "/unknown".to_owned(),
        (Some("seat"), Some(name), _) => format!("/agents?seat={}", super::segment(name)),
        (Some("account"), ..) => "/agents".to_owned(),
        (Some(id), Some("keys"), Some(_)) => format!("/providers/{}/keys", super::segment(id)),
        (..) => "/".to_owned(),
    }
}

/// What a trouble is about, for people.
pub(crate) fn subject_name(subject: &str) -> String {
    let mut parts = subject.split('/');
    match (parts.next(), parts.next(), parts.next()) {
        (Some("provider" | "providers" | "seat" | "account"), Some(id), _) => id.to_owned(),
        (Some(word), ..) => words::sentence(word),
        (None, ..) => String::new(),
    }
}

fn slowest(recent: &[RequestRow]) -> Option<u64> {
    let mut waits: Vec<u64> = recent.iter().filter_map(|row| row.first_content_ms).collect();
    waits.sort_unstable();
    waits.get(waits.len().saturating_sub(1) * 95 / 100).copied()
}

fn failed(row: &RequestRow) -> Vec<Failed> {
    let reached = row.class.is_some();
    let last = row.attempts.len().saturating_sub(1);
    let failed = |(place, attempt): (usize, &AttemptRow)| {
        let failure = attempt.failure.clone()?;
        Some(Failed {
            request: row.id.clone(),
            at: row.at + std::time::Duration::from_millis(attempt.after_ms + attempt.took_ms),
            attempt: attempt.clone(),
            failure,
            reached_client: reached && place == last,
        })
    };
    row.attempts.iter().enumerate().rev().filter_map(failed).collect()
}

/// Failed attempts of the last requests by class, the most frequent first, with the width of their bars.
fn by_class(recent: &[RequestRow]) -> Vec<(backstop_triage::Class, usize, String)> {
    let mut counts = std::collections::BTreeMap::new();
    let failures = recent.iter().flat_map(|row| &row.attempts).filter_map(|attempt| attempt.failure.as_ref());
    for failure in failures {
        *counts.entry(failure.class).or_insert(0_usize) += 1;
    }
    let most = counts.values().copied().max().unwrap_or(1);
    let mut rows: Vec<_> = counts
        .into_iter()
        .map(|(class, count)| (class, count, format!("{}%", (count * 100 / most).max(1))))
        .collect();
    rows.sort_by_key(|(_, count, _)| std::cmp::Reverse(*count));
    rows
}

/// Requests by time: answered, saved by a retry, failed.
pub(crate) struct Chart {
    slots: Vec<Bar>,
    most: u64,
}

/// One bar.
pub(crate) struct Bar {
    pub(crate) label: String,
    pub(crate) requests: u64,
    pub(crate) masked: u64,
    pub(crate) failed: u64,
}

impl Chart {
    /// 24 hours by hour, 7 days by quarter day, all by day.
    pub(crate) fn new(frame: &Frame, stats: &StatsView) -> Self {
        let step = match stats.range.as_str() {
            "24h" => 3600,
            "7d" => 6 * 3600,
            _ => 86_400,
        };
        let oldest = stats.slots.first().map_or(frame.now, |slot| slot.at).as_second() / step;
        let last = frame.now.as_second() / step;
        let first = match stats.range.as_str() {
            "24h" => last - 23,
            "7d" => last - 27,
            _ => oldest.max(last - 59).min(last - 6),
        };
        let label = |place: i64| {
            let at = backstop_triage::Timestamp::from_second(place * step).unwrap_or(frame.now);
            let at = at.to_zoned_datetime(frame.zone.clone());
            at.strftime(if step == 3600 {
                "%H:%M"
            } else if step == 86_400 {
                "%-d %b"
            } else {
                "%a %H:%M"
            })
            .to_string()
        };
        let mut slots: Vec<Bar> = (first..=last)
            .map(|place| Bar { label: label(place), requests: 0, masked: 0, failed: 0 })
            .collect();
        for slot in &stats.slots {
            let place = usize::try_from(slot.at.as_second() / step - first).ok();
            if let Some(bar) = place.and_then(|place| slots.get_mut(place)) {
                bar.requests += slot.traffic.requests;
                bar.masked += slot.traffic.masked;
                bar.failed += slot.traffic.failed;
            }
        }
        let most = rounded_up(slots.iter().map(|bar| bar.requests).max().unwrap_or(0));
        Self { slots, most }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.iter().all(|bar| bar.requests == 0)
    }

    pub(crate) fn bars(&self) -> &[Bar] {
        &self.slots
    }

    /// The values beside the lines, from the top.
    pub(crate) fn scale(&self) -> [u64; 5] {
        [4, 3, 2, 1, 0].map(|part| self.most * part / 4)
    }

    /// The drawing; every bar tells its values.
    #[expect(clippy::cast_precision_loss, reason = "lengths of a drawing")]
    pub(crate) fn drawing(&self) -> Safe<String> {
        let mut text = String::new();
        let mut draw = |piece: std::fmt::Arguments<'_>| {
            let written = text.write_fmt(piece);
            debug_assert!(written.is_ok(), "writing to a string does not fail");
        };
        for y in [0, 52, 104, 156, 208] {
            draw(format_args!("<line class=\"grid\" x1=\"0\" x2=\"100%\" y1=\"{y}\" y2=\"{y}\"/>"));
        }
        let count = self.slots.len().max(1);
        let width = 100.0 / count as f64;
        let every = count.div_ceil(6);
        for (place, bar) in self.slots.iter().enumerate() {
            let Bar { label, requests, masked, failed } = bar;
            let x = width * place as f64;
            draw(format_args!(
                "<g><title>{label}: {requests} requests, {masked} saved by a retry, {failed} failed</title>"
            ));
            let mut y = 208.0;
            let parts = [
                ("d-main", requests.saturating_sub(masked + failed)),
                ("d-save", *masked),
                ("d-bad", *failed),
            ];
            for (hue, part) in parts.into_iter().filter(|(_, part)| *part > 0) {
                let height = (208.0 * part as f64 / self.most.max(1) as f64).max(1.5);
                y -= height;
                draw(format_args!(
                    "<rect class=\"{hue}\" x=\"{:.2}%\" y=\"{y:.1}\" width=\"{:.2}%\" height=\"{height:.1}\"/>",
                    x + width * 0.1,
                    width * 0.8
                ));
                y -= 1.0;
            }
            draw(format_args!(
                "<rect class=\"hit\" x=\"{x:.2}%\" width=\"{width:.2}%\" height=\"208\"/></g>"
            ));
            if place % every == every / 2 {
                draw(format_args!(
                    "<text x=\"{:.2}%\" y=\"226\" text-anchor=\"middle\">{label}</text>",
                    x + width / 2.0
                ));
            }
        }
        Safe(text)
    }
}

/// The next round number that four lines divide well.
fn rounded_up(most: u64) -> u64 {
    let powers = std::iter::successors(Some(1_u64), |power| power.checked_mul(10));
    let mut steps = powers.flat_map(|power| [4, 8, 12, 20].map(|step| power.saturating_mul(step)));
    steps.find(|step| *step >= most).unwrap_or(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_end_at_round_numbers() {
        assert_eq!([0, 4, 5, 17, 900].map(rounded_up), [4, 4, 8, 20, 1200]);
    }

    #[test]
    fn subjects_lead_to_their_pages() {
        assert_eq!(subject_link("provider/a b/keys/3"), "/providers/a%20b/keys");
        assert_eq!(subject_link("provider/a"), "/providers/a");
        assert_eq!(subject_link("store"), "/");
    }
}
