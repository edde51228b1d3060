//! Alerts: what is on, who is told, and what was told.

use askama::Template;
use axum::extract::State;
use backstop_alerts::{ChannelStatus, Severity};
use backstop_store::notices::NoticeRow;
use backstop_triage::Class;
use http::HeaderMap;
use serde_json::json;

use super::{
    Page, filters,
    frame::Frame,
    overview::{subject_link, subject_name},
    render, segment,
    words::{self, Badge},
};
use crate::{
    actions::{
        alerts::{self, AlertView},
        notices,
    },
    app::App,
};

#[derive(Template)]
#[template(path = "alerts.html")]
struct Alerts {
    frame: Frame,
    on: Vec<AlertView>,
    channels: Vec<ChannelStatus>,
    notices: Vec<NoticeRow>,
}

pub(super) async fn show(State(app): State<App>, headers: HeaderMap) -> Page {
    let on = alerts::list(&app).await?;
    let channels = alerts::channels(&app);
    let notices = notices::list(&app).await?;
    let frame = Frame::load(&app, &headers, "alerts", "Alerts").await?;
    render(&Alerts { frame, on, channels, notices }, &headers)
}

impl Alerts {
    fn summary(&self) -> String {
        let seen = self.on.iter().filter(|alert| alert.acknowledged).count();
        match (self.on.len(), seen) {
            (0, _) => "Nothing is on.".to_owned(),
            (all, 0) => format!("{all} on."),
            (all, seen) => format!("{all} on, {seen} of them seen."),
        }
    }
}

fn severity_badge(notice: &NoticeRow) -> Badge<'static> {
    match notice.severity.as_str() {
        "critical" => Badge::new("bad", "warn", "Critical"),
        "warning" => Badge::new("warn", "warn", "Warning"),
        _ => Badge::new("off", "info", "Note"),
    }
}

/// The glyph of an alert that is on.
fn glyph(alert: &AlertView) -> Badge<'static> {
    match (alert.condition, alert.severity) {
        ("key_quota_exhausted", _) => Badge::new("rest", "clock", ""),
        ("account_out_of_money", _) => Badge::new("bad", "wallet", ""),
        ("key_disabled" | "key_locked" | "mass_refusal", _) => Badge::new("bad", "keyoff", ""),
        ("circuit_open" | "model_circuit_open", _) => Badge::new("warn", "bolt", ""),
        ("fallback_in_use", _) => Badge::new("warn", "fallback", ""),
        ("unknown_failures", _) => Badge::new("warn", "unknown", ""),
        ("crash_loop", _) => Badge::new("bad", "agent", ""),
        (_, "critical") => Badge::new("bad", "warn", ""),
        (_, _) => Badge::new("warn", "warn", ""),
    }
}

/// The page where something can be done about an alert.
fn alert_link(alert: &AlertView) -> String {
    let provider = alert.subject.strip_prefix("provider/").map(segment);
    let seat = alert.subject.strip_prefix("seat/").map(segment);
    match (alert.condition, provider, seat) {
        (_, _, Some(seat)) => format!("/agents?seat={seat}"),
        ("unknown_failures", ..) => "/unknown".to_owned(),
        ("circuit_open", Some(provider), _) => format!("/providers/{provider}"),
        ("model_circuit_open", Some(provider), _) => format!("/providers/{provider}/models"),
        ("fallback_in_use", Some(provider), _) => format!("/providers/{provider}/fallback"),
        ("misconfigured_route", Some(provider), _) => format!("/providers/{provider}/settings"),
        ("key_quota_exhausted", Some(provider), _) => format!("/providers/{provider}/quota"),
        (_, Some(provider), _) => format!("/providers/{provider}/keys"),
        (_, None, None) => "/settings".to_owned(),
    }
}

/// Which notices a channel takes.
fn takes(channel: &ChannelStatus) -> &'static str {
    match channel.min_severity {
        Severity::Info => "everything",
        Severity::Warning => "warnings and worse",
        Severity::Critical => "critical only",
    }
}

fn channel_badge(channel: &ChannelStatus) -> Badge<'static> {
    match (channel.failing_since, channel.delivered) {
        (Some(_), _) => Badge::new("bad", "warn", "Failing"),
        (None, 0) => Badge::new("off line", "dashed", "Not used yet"),
        (None, _) => Badge::new("ok", "check", "Works"),
    }
}

/// A text of ours with its class names and words of rules as people read them.
fn detail(text: &str) -> String {
    let word = |(place, word): (usize, &str)| match Class::parse(word).filter(|_| place == 0) {
        Some(class) => words::class_words(class).to_lowercase(),
        None if place == 0 || word.starts_with('(') => word.replace('_', " "),
        None => word.to_owned(),
    };
    let line = |line: &str| line.split(' ').enumerate().map(word).collect::<Vec<_>>().join(" ");
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

fn seen(alert: &AlertView) -> String {
    json!({ "alert": alert.alert }).to_string()
}
