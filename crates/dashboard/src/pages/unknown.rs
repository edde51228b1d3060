//! The inbox of failures that no rule knows.

use askama::Template;
use axum::extract::{Path, State};
use backstop_triage::{Class, Scope, Timestamp};
use http::HeaderMap;

use super::{
    Page,
    explain::{Reading, reading},
    filters,
    frame::Frame,
    render,
};
use crate::{
    actions::unknown::{self, UnknownView},
    app::App,
};

#[derive(Template)]
#[template(path = "unknown.html")]
struct Inbox {
    frame: Frame,
    open: Vec<UnknownView>,
    settled: usize,
    one: Option<UnknownView>,
    reading: Option<Reading>,
}

pub(super) async fn list(State(app): State<App>, headers: HeaderMap) -> Page {
    page(&app, &headers, None).await
}

pub(super) async fn show(State(app): State<App>, headers: HeaderMap, Path(shape): Path<String>) -> Page {
    page(&app, &headers, Some(shape)).await
}

async fn page(app: &App, headers: &HeaderMap, shape: Option<String>) -> Page {
    let all = unknown::list(app).await?;
    let count = all.len();
    let mut open: Vec<UnknownView> = all.into_iter().filter(|view| view.state == "open").collect();
    open.sort_by_key(|view| std::cmp::Reverse(view.count));
    let chosen = shape.or_else(|| open.first().map(|view| view.shape.clone()));
    let one = match chosen {
        Some(shape) => Some(unknown::show(app, &shape).await?),
        None => None,
    };
    let reading = one.as_ref().and_then(|one| reading(app, &one.evidence.to_string()).ok());
    let frame = Frame::load(app, headers, "unknown", "Unknown failures").await?;
    render(&Inbox { frame, settled: count - open.len(), open, one, reading }, headers)
}

impl Inbox {
    fn failures(&self) -> u64 {
        self.open.iter().map(|view| view.count).sum()
    }

    fn classes(&self) -> impl Iterator<Item = &'static str> {
        Class::ALL.into_iter().filter(|class| *class != Class::Unknown).map(Class::as_str)
    }

    fn scopes(&self) -> [&'static str; 5] {
        [Scope::Key, Scope::Account, Scope::Model, Scope::Provider, Scope::Request].map(Scope::as_str)
    }

    /// The failure's own tokens: what a rule would look at first.
    fn token(&self) -> String {
        let layers = self.reading.as_ref().map(|reading| reading.explanation.seen.layers.as_slice());
        let tokens = layers.into_iter().flatten().flat_map(|layer| &layer.tokens);
        let mut words = tokens.filter(|token| token.len() > 3 && token.parse::<u64>().is_err());
        words.next().cloned().unwrap_or_default()
    }

    /// The words of the innermost layer.
    fn said(&self) -> String {
        let layers = self.reading.as_ref().map(|reading| reading.explanation.seen.layers.as_slice());
        layers.and_then(<[_]>::last).map(|layer| layer.words.clone()).unwrap_or_default()
    }
}

/// The name that a line goes by.
fn title(view: &UnknownView) -> String {
    match view.status {
        Some(status) => format!("{} · {status}", view.provider),
        None => format!("{} · {}", view.provider, view.kind),
    }
}

/// The rule pack that read it; a rule of a person's own for it goes before that pack.
fn pack(view: &UnknownView) -> &str {
    view.evidence["provider"].as_str().filter(|name| !name.is_empty()).unwrap_or(&view.provider)
}

/// The pasteable form of what came: the body as it was, or the whole evidence.
fn body(view: &UnknownView) -> String {
    let part = |field: &str| view.evidence[field].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    part("body").or_else(|| part("stderr")).unwrap_or_else(|| view.text.clone())
}

fn moment(text: &str) -> Timestamp {
    text.parse().unwrap_or(Timestamp::UNIX_EPOCH)
}
