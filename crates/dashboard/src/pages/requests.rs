//! The log of requests, and the cascade of one: a waterfall of attempts and waits.

use std::borrow::Borrow;

use askama::{Template, filters::Safe};
use axum::extract::{Path, Query, State};
use backstop_store::requests::{AttemptRow, Outcome, RequestRow};
use backstop_triage::{Class, Timestamp};
use http::HeaderMap;
use serde::Deserialize;

use super::{
    Page, filters,
    frame::Frame,
    render, segment, times,
    words::{self, Badge},
};
use crate::{
    actions::{
        clients,
        logs::{self, LogQuery},
    },
    app::App,
};

/// What the list is asked for. Empty fields ask for nothing.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Asked {
    q: String,
    provider: String,
    outcome: String,
    class: String,
    client: String,
    key: String,
    range: String,
    after: String,
}

#[derive(Template)]
#[template(path = "requests.html")]
struct Requests {
    frame: Frame,
    asked: Asked,
    rows: Vec<RequestRow>,
    providers: Vec<String>,
    clients: Vec<(u64, String)>,
    next: Option<String>,
    filtered: bool,
}

pub(super) async fn list(State(app): State<App>, headers: HeaderMap, Query(asked): Query<Asked>) -> Page {
    let given = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    let seconds = match asked.range.as_str() {
        "1h" => Some(3600),
        "24h" => Some(86_400),
        "7d" => Some(7 * 86_400),
        _ => None,
    };
    let since =
        seconds.and_then(|seconds| app.live.now().checked_sub(std::time::Duration::from_secs(seconds)).ok());
    let query = LogQuery {
        provider: given(&asked.provider),
        outcome: given(&asked.outcome),
        client: asked.client.parse().ok(),
        model: None,
        class: given(&asked.class),
        key: asked.key.parse().ok(),
        q: given(&asked.q),
        since,
        until: None,
        cursor: given(&asked.after),
        limit: Some(50),
    };
    let page = logs::list(&app, query).await?;
    let clients = clients::list(&app).await?.into_iter().map(|client| (client.id, client.name)).collect();
    let providers = app.live.providers().into_iter().map(|provider| provider.id.to_string()).collect();
    let frame = Frame::load(&app, &headers, "requests", "Requests").await?;
    let filtered = asked.is_narrow();
    render(
        &Requests { frame, rows: page.items, providers, clients, next: page.next, filtered, asked },
        &headers,
    )
}

impl Asked {
    fn is_narrow(&self) -> bool {
        let parts =
            [&self.q, &self.provider, &self.outcome, &self.class, &self.client, &self.key, &self.range];
        parts.into_iter().any(|part| !part.is_empty())
    }

    fn query(&self) -> String {
        let Self { q, provider, outcome, class, client, key, range, after: _ } = self;
        let parts = [
            ("q", q),
            ("provider", provider),
            ("outcome", outcome),
            ("class", class),
            ("client", client),
            ("key", key),
            ("range", range),
        ];
        let parts = parts.into_iter().filter(|(_, value)| !value.is_empty());
        parts.map(|(name, value)| format!("{name}={}&", segment(value))).collect()
    }
}

impl Requests {
    fn classes(&self) -> impl Iterator<Item = &'static str> {
        Class::ALL.into_iter().map(Class::as_str)
    }

    fn page(&self, after: &str) -> String {
        format!("/requests?{}after={}", self.asked.query(), segment(after))
    }

    fn first_page(&self) -> String {
        format!("/requests?{}", self.asked.query())
    }
}

/// How a request ended, in a badge.
pub(crate) fn outcome_badge(row: &RequestRow) -> Safe<String> {
    let failed = row.attempts.iter().any(|attempt| attempt.failure.is_some());
    match (row.outcome, row.class) {
        (Outcome::Succeeded, _) if failed => Badge::new("ok", "save", "Saved by a retry").html(),
        (Outcome::Succeeded, _) => Badge::new("ok", "check", "Answered").html(),
        (Outcome::Left, _) => Badge::new("off", "x", "Client left").html(),
        (Outcome::TimedOut, _) => Badge::new("bad", "wait", "Out of time").html(),
        (Outcome::Failed, Some(Class::RequestError | Class::ContextOverflow)) => {
            Badge::new("off", "x", "Returned").html()
        }
        (Outcome::Failed, _) => Badge::new("bad", "warn", "Failed").html(),
    }
}

#[derive(Template)]
#[template(path = "request.html")]
struct One {
    frame: Frame,
    row: RequestRow,
    steps: Vec<Step>,
    scale: Scale,
}

/// A line of the waterfall.
enum Step {
    Wait { begin: u64, end: u64 },
    Attempt { number: usize, attempt: Box<AttemptRow>, first_content: Option<u64> },
}

pub(super) async fn show(State(app): State<App>, headers: HeaderMap, Path(id): Path<String>) -> Page {
    let row = logs::show(&app, &id).await?;
    let frame = Frame::load(&app, &headers, "requests", format!("Request {id}")).await?;
    let steps = steps(&row);
    let end = row.attempts.iter().map(|attempt| attempt.after_ms + attempt.took_ms).max().unwrap_or(0);
    let scale = Scale::to(end.max(row.duration_ms));
    render(&One { frame, row, steps, scale }, &headers)
}

fn steps(row: &RequestRow) -> Vec<Step> {
    let mut steps = Vec::new();
    for (number, attempt) in (1..).zip(&row.attempts) {
        if attempt.waited_ms >= SHORTEST_WAIT {
            let begin = attempt.after_ms.saturating_sub(attempt.waited_ms);
            steps.push(Step::Wait { begin, end: attempt.after_ms });
        }
        let first_content = row.first_content_ms.filter(|_| attempt.failure.is_none());
        steps.push(Step::Attempt { number, attempt: Box::new(attempt.clone()), first_content });
    }
    steps
}

impl One {
    fn failures(&self) -> usize {
        self.row.attempts.iter().filter(|attempt| attempt.failure.is_some()).count()
    }

    fn notice(&self) -> String {
        let (row, failures) = (&self.row, self.failures());
        let hidden = match failures {
            1 => "The client saw nothing of the failure.".to_owned(),
            count => format!("The client saw none of the {count} failures."),
        };
        match (row.outcome, failures) {
            (Outcome::Succeeded, 0) => "Answered at the first attempt.".to_owned(),
            (Outcome::Succeeded, _) => hidden,
            (Outcome::Left, _) => "The client left before the end.".to_owned(),
            (Outcome::TimedOut, _) => "The client’s time ran out.".to_owned(),
            (Outcome::Failed, _) => match row.class {
                Some(class) => format!("The client was told: {}.", words::class_words(class).to_lowercase()),
                None => "The client got an error.".to_owned(),
            },
        }
    }

    fn tone(&self) -> &'static str {
        match self.row.outcome {
            Outcome::Succeeded => "ok",
            Outcome::Left => "",
            Outcome::Failed | Outcome::TimedOut => "bad",
        }
    }

    fn upstream_id(&self) -> Option<&String> {
        self.row.attempts.last()?.upstream_id.as_ref()
    }

    fn json(&self) -> String {
        format!("/api/logs/{}", segment(&self.row.id))
    }
}

/// What followed an attempt, from what came next.
fn next_words(row: &RequestRow, number: &usize) -> &'static str {
    let (Some(own), next) = (row.attempts.get(number.saturating_sub(1)), row.attempts.get(*number)) else {
        return "";
    };
    let Some(next) = next else {
        return match row.outcome {
            Outcome::Succeeded => "Answered",
            Outcome::Left => "The client left",
            Outcome::Failed | Outcome::TimedOut => "Back to the client: nothing else could be tried",
        };
    };
    match (next.provider == own.provider, next.model == own.model, next.key == own.key) {
        (false, ..) => "On to the next provider of the fallback chain",
        (true, false, _) => "On to the provider’s next model",
        (true, true, true) => "The same key again",
        (true, true, false) => "On to the next key",
    }
}

/// The time axis of a waterfall.
struct Scale {
    end: u64,
}

impl Scale {
    fn to(end: u64) -> Self {
        let steps = [
            60, 120, 300, 600, 1200, 3000, 6000, 12_000, 30_000, 60_000, 120_000, 300_000, 600_000, 1_200_000,
        ];
        Self { end: steps.into_iter().find(|step| *step >= end).unwrap_or(end) }
    }

    #[expect(clippy::cast_precision_loss, reason = "lengths of a drawing")]
    fn at(&self, ms: impl Borrow<u64>) -> String {
        let ms = *ms.borrow();
        format!("{:.2}%", (100.0 * ms as f64 / self.end.max(1) as f64).min(100.0))
    }

    fn width(&self, begin: impl Borrow<u64>, end: impl Borrow<u64>) -> String {
        let (begin, end) = (*begin.borrow(), *end.borrow());
        self.at(end.saturating_sub(begin).max(self.end / 250))
    }

    /// Where the words of a bar stand: behind it, or before it where there is no room.
    fn words(&self, begin: impl Borrow<u64>, end: impl Borrow<u64>) -> (String, &'static str) {
        let (begin, end) = (*begin.borrow(), *end.borrow());
        let gap = self.end / 100;
        if end * 3 > self.end * 2 && begin * 4 > self.end {
            (self.at(begin.saturating_sub(gap)), "end")
        } else if end * 3 > self.end * 2 {
            (self.at(begin + gap), "start")
        } else {
            (self.at(end + gap), "start")
        }
    }

    /// Where the words under a bar stand.
    fn caption(&self, begin: impl Borrow<u64>, end: impl Borrow<u64>) -> (String, &'static str) {
        let (begin, end) = (*begin.borrow(), *end.borrow());
        if begin * 3 > self.end { (self.at(end), "end") } else { (self.at(begin), "start") }
    }

    fn marks(&self) -> Vec<(String, String, &'static str)> {
        let mark = |part: u64| {
            let anchor = match part {
                0 => "start",
                6 => "end",
                _ => "middle",
            };
            (self.at(self.end * part / 6), short(self.end * part / 6), anchor)
        };
        (0..=6).map(mark).collect()
    }
}

fn short(ms: u64) -> String {
    match (ms, ms % 1000) {
        (0, _) => "0".to_owned(),
        (_, 0) => format!("{} s", ms / 1000),
        (1000.., _) => times::took(ms),
        (_, _) => format!("{ms} ms"),
    }
}

/// The hue of a failed attempt.
fn bar_hue(class: Class) -> &'static str {
    match words::class_look(class).0 {
        "rest" => "d-rest",
        "warn" => "d-warn",
        "bad" => "d-bad",
        _ => "d-off",
    }
}

/// What a failure of this class does to a key.
fn suffered(class: Class) -> &'static str {
    match class {
        Class::QuotaExhausted | Class::RateLimit => "It rests until its window opens again.",
        Class::AuthError => "It is refused: set aside, or taken out of service.",
        Class::BillingExhausted => "It has no money: taken out of service until somebody tops it up.",
        Class::Unknown => "It rests, to be safe, until a rule knows this failure.",
        Class::ServerError | Class::Timeout | Class::NetworkError => {
            "One failure was counted; it is still used."
        }
        Class::Overloaded
        | Class::RequestError
        | Class::ContextOverflow
        | Class::TransientRequest
        | Class::ModelError
        | Class::ConfigurationError
        | Class::LocalFault => "Nothing. It is not the key’s fault.",
    }
}

/// The page that explains a failed attempt: from the history of its key, or from its words if they are all that is
/// left.
pub(crate) fn explain_link(request: &str, attempt: &AttemptRow) -> String {
    let status = attempt.status.map(|status| status.to_string()).unwrap_or_default();
    let message = attempt.failure.as_ref().map(|failure| failure.message.as_str()).unwrap_or_default();
    format!(
        "/explain?provider={}&key={}&request={}&status={status}&model={}&body={}",
        segment(&attempt.provider),
        attempt.key,
        segment(request),
        segment(&attempt.model),
        segment(message)
    )
}

/// What the client asked for, as `provider/model`.
pub(crate) fn asked_for(row: &RequestRow) -> String {
    match &row.model {
        None => row.provider.clone(),
        Some(model) if model.split('/').next() == Some(row.provider.as_str()) => model.clone(),
        Some(model) => format!("{}/{model}", row.provider),
    }
}

fn ended(row: &RequestRow) -> Timestamp {
    row.at + std::time::Duration::from_millis(row.duration_ms)
}

/// Shorter waits are the machine's, not the cascade's.
const SHORTEST_WAIT: u64 = 50;
