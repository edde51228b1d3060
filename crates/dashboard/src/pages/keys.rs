//! The keys of a provider, and the error history of one.

use askama::{Template, filters::Safe};
use axum::extract::{Path, Query, State};
use backstop_store::key_errors::KeyError;
use backstop_triage::{KeyId, Timestamp};
use http::HeaderMap;
use serde::Deserialize;

use super::{
    Page, filters,
    frame::Frame,
    marks,
    providers::Head,
    render, segment,
    words::{self, Badge},
};
use crate::{
    actions::keys::{self, KeyFilter, KeyPage, KeyView},
    app::App,
};

/// What the page is asked for.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Asked {
    q: String,
    state: String,
    after: Option<String>,
}

#[derive(Template)]
#[template(path = "keys.html")]
struct Keys {
    frame: Frame,
    head: Head,
    rows: Vec<Row>,
    states: &'static [(&'static str, &'static str)],
    q: String,
    state: String,
    total: usize,
    total_keys: usize,
    ordered: bool,
    paged: bool,
    first_page: Option<String>,
    next_page: Option<String>,
}

/// A key in the table.
struct Row {
    key: KeyView,
    place: usize,
    strip: Safe<String>,
}

pub(super) async fn show(
    State(app): State<App>,
    headers: HeaderMap,
    Path(provider): Path<String>,
    Query(asked): Query<Asked>,
) -> Page {
    let head = Head::load(&app, &provider, "keys").await?;
    let frame = Frame::load(&app, &headers, "providers", format!("{provider}: API Keys")).await?;
    let given = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    let filter = KeyFilter {
        state: given(&asked.state),
        q: given(&asked.q),
        cursor: asked.after.clone(),
        limit: Some(PER_PAGE),
    };
    let filtered = filter.state.is_some() || filter.q.is_some();
    let page = keys::list(&app, &provider, filter).await?;
    let (total, next) = (page.total, page.next.clone());
    let first = if asked.after.is_none() { 1 } else { place_of(&app, &provider, &page) };
    let rows = rows(&app, page, first).await?;
    let query = format!("?q={}&state={}", segment(&asked.q), segment(&asked.state));
    let keys = Keys {
        total_keys: head.keys(),
        ordered: !filtered && total > 1,
        paged: next.is_some() || asked.after.is_some(),
        first_page: asked.after.as_ref().map(|_| query.clone()),
        next_page: next.map(|after| format!("{query}&after={}", segment(&after))),
        q: asked.q,
        state: asked.state,
        states: STATES,
        frame,
        head,
        rows,
        total,
    };
    render(&keys, &headers)
}

#[derive(Template)]
#[template(path = "errors.html")]
struct Errors {
    frame: Frame,
    provider: String,
    name: String,
    key: KeyView,
    errors: Vec<KeyError>,
    classes: Vec<String>,
}

pub(super) async fn errors(
    State(app): State<App>,
    headers: HeaderMap,
    Path((provider, id)): Path<(String, u64)>,
) -> Page {
    let key = keys::show(&app, &provider, KeyId(id)).await?;
    let errors = keys::errors(&app, &provider, KeyId(id)).await?;
    let mut classes: Vec<String> = errors.iter().map(|error| error.class.to_string()).collect();
    classes.sort();
    classes.dedup();
    let name = if key.label.is_empty() { key.hint.clone() } else { key.label.clone() };
    let frame = Frame::bare(&app, &headers, "providers", "Failures");
    render(&Errors { frame, provider, name, key, errors, classes }, &headers)
}

impl Row {
    fn name(&self) -> &str {
        if self.key.label.is_empty() { &self.key.hint } else { &self.key.label }
    }

    fn is_off(&self) -> bool {
        matches!(self.key.state.as_str(), "disabled" | "paused" | "locked")
    }

    fn badge(&self) -> Badge<'static> {
        words::key_badge(&self.key)
    }

    fn test_said(&self) -> Option<&str> {
        let test = self.key.test.as_ref()?;
        test.error.as_deref().or(test.warning.as_deref())
    }

    /// Until when, why, and where the time comes from.
    fn why(&self, frame: &Frame) -> Safe<String> {
        let key = &self.key;
        let phrase = escaped(&words::why_phrase(key));
        let source = words::source_words(words::why_word(key, "source"));
        let since = key.since.map(|at| format!(" Since {}.", frame.clock(&at))).unwrap_or_default();
        let until = |at: &Timestamp| format!("<b>{}</b>, in {}", frame.clock(at), frame.left(at));
        Safe(match (key.state.as_str(), &key.until) {
            ("active", _) if key.last_used.is_none() && key.test.is_none() => "Never used. A test says whether it works.".to_owned(),
            ("active", _) if key.in_flight > 0 => format!("{} under way.", key.in_flight),
            ("active", _) => "Takes requests.".to_owned(),
            ("unstable", _) => format!("Still used. {} failures in a row.{since}", key.consecutive_errors),
            ("resting", Some(at)) => format!("Back at {}. {phrase}. Source: {source}.", until(at)),
            ("half_open", _) => format!("Coming back, a few requests at a time.{since}"),
            ("quarantined", Some(at)) => format!("{phrase}. A test at {} decides.", until(at)),
            ("quarantined", None) => format!("{phrase}. A test decides."),
            ("paused", Some(at)) => format!("By hand, until {}.", until(at)),
            ("paused", None) => format!("By hand, until it is resumed.{since}"),
            ("locked", _) => "Its secret cannot be opened with the key file of this data folder. Put the right file back, or add the key again.".to_owned(),
            ("disabled", _) if phrase.is_empty() => format!("Out of service until it is enabled.{since}"),
            ("disabled", Some(at)) => format!("{phrase}.{since} Checked again at {}.", until(at)),
            ("disabled", None) => format!("{phrase}.{since} Replace it, or test it again."),
            (_, _) => phrase,
        })
    }

    /// Models that the key does not serve for a time.
    fn models(&self, frame: &Frame) -> Vec<Safe<String>> {
        let rest = |rest: &serde_json::Value| {
            let model = escaped(rest["model"].as_str()?);
            let until: Timestamp = rest["until"].as_str()?.parse().ok()?;
            let class = rest["why"]["class"].as_str().map(|class| format!(" ({class})")).unwrap_or_default();
            Some(Safe(format!("Not for {model} until <b>{}</b>{class}.", frame.clock(&until))))
        };
        self.key.models.iter().filter_map(rest).take(3).collect()
    }
}

/// What was done with a key, by the word that the error history keeps.
fn action_words(action: &str) -> &'static str {
    match action {
        "rest" => "The key rested",
        "quarantine" => "The key was set aside until a test decided",
        "disable" => "The key was taken out of service",
        _ => "Nothing happened to the key",
    }
}

/// The page that explains a failure of the history.
fn explain_link(provider: &str, error: &KeyError) -> String {
    format!("/explain?provider={}&key={}&at={}", segment(provider), error.key, error.at.as_millisecond())
}

async fn rows(app: &App, page: KeyPage, first: usize) -> crate::problem::Answer<Vec<Row>> {
    let now = app.live.now();
    app.read(move |store| {
        let row = |(place, key): (usize, KeyView)| {
            let strip = marks::strip(&store.key_strip(KeyId(key.id), now)?);
            Ok(Row { key, place, strip })
        };
        (first..).zip(page.items).map(row).collect()
    })
    .await
}

/// The place of a later page's first key in the order.
fn place_of(app: &App, provider: &str, page: &KeyPage) -> usize {
    let provider = backstop_triage::ProviderId::from(provider);
    let first = page.items.first().map(|key| KeyId(key.id));
    let place = app.key_statuses(&provider).iter().position(|status| Some(status.id) == first);
    place.map_or(1, |place| place + 1)
}

fn escaped(text: &str) -> String {
    askama::filters::escape(text, askama::filters::Html).map(|text| text.to_string()).unwrap_or_default()
}

const PER_PAGE: usize = 100;
const STATES: &[(&str, &str)] = &[
    ("", "Any state"),
    ("active", "Active"),
    ("unstable", "Unstable"),
    ("resting", "Resting"),
    ("half_open", "Probing"),
    ("quarantined", "Quarantined"),
    ("disabled", "Disabled"),
    ("paused", "Paused"),
    ("locked", "Locked"),
];
