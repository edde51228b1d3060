//! Explain: what a failure is, and why it is read so.

use askama::Template;
use axum::extract::{Form, Query, State};
use backstop_store::key_errors::KeyError;
use backstop_triage::{
    Class, Fault, KeyAction, KeyId, Next, Settings,
    explain::{Explanation, Tried},
    wire::{Failure, Report},
};
use http::HeaderMap;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    Page, filters,
    frame::Frame,
    render, times,
    words::{self, window_words},
};
use crate::{app::App, problem::Answer};

/// A failure as a person pastes it.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Pasted {
    kind: String,
    provider: String,
    status: String,
    model: String,
    headers: String,
    body: String,
    exit_code: String,
    signal: String,
    stderr: String,
    fault: String,
    /// Where the failure is kept: in the history of this key, at this moment (in milliseconds) or of this request.
    key: String,
    at: String,
    request: String,
}

#[derive(Template)]
#[template(path = "explain.html")]
struct Explain {
    frame: Frame,
    pasted: Pasted,
    packs: Vec<String>,
    read: Option<Result<Reading, String>>,
}

/// What was read.
pub(crate) struct Reading {
    pub(crate) report: Report,
    pub(crate) explanation: Explanation,
}

pub(super) async fn show(State(app): State<App>, headers: HeaderMap, Query(pasted): Query<Pasted>) -> Page {
    page(&app, &headers, pasted).await
}

pub(super) async fn read(State(app): State<App>, headers: HeaderMap, Form(pasted): Form<Pasted>) -> Page {
    page(&app, &headers, pasted).await
}

async fn page(app: &App, headers: &HeaderMap, pasted: Pasted) -> Page {
    let frame = Frame::load(app, headers, "explain", "Explain").await?;
    let mut packs: Vec<String> =
        app.live.providers().into_iter().map(|provider| provider.id.to_string()).collect();
    packs.extend(app.live.catalog().packs().iter().map(|pack| pack.id.to_string()));
    packs.sort();
    packs.dedup();
    let kept = kept(app, &pasted).await?;
    let pasted = match &kept {
        Some(failure) => Pasted { provider: pasted.provider, ..Pasted::of(failure) },
        None => pasted,
    };
    let failure = kept.map(|failure| failure.to_string()).or_else(|| pasted.failure(app));
    let read = failure.map(|failure| reading(app, &failure));
    render(&Explain { frame, pasted, packs, read }, headers)
}

/// A failure that the history of a key still holds.
async fn kept(app: &App, pasted: &Pasted) -> Answer<Option<Value>> {
    let Ok(key) = pasted.key.parse() else { return Ok(None) };
    let errors = app.read(move |store| store.key_errors(KeyId(key))).await?;
    let status = pasted.status.parse().ok();
    let is_it = |error: &&KeyError| match pasted.at.parse::<i64>() {
        Ok(at) => error.at.as_millisecond() == at,
        Err(_) => error.request.as_deref() == Some(&pasted.request) && error.status == status,
    };
    Ok(errors.iter().find(is_it).and_then(|error| serde_json::from_str(&error.evidence).ok()))
}

/// Reads a failure and tells why it is read so.
pub(crate) fn reading(app: &App, failure: &str) -> Result<Reading, String> {
    let catalog = app.live.catalog();
    let case = Failure::parse(failure).and_then(|failure| failure.resolve(&catalog, app.live.now()));
    let case = case.map_err(|error| error.to_string())?;
    let report = case.report(&catalog, &Settings::default()).map_err(|error| error.to_string())?;
    let explanation = catalog.explain(&case.provider, &case.evidence, case.now);
    Ok(Reading { report, explanation })
}

impl Pasted {
    /// The fields of a failure that was written down.
    fn of(failure: &Value) -> Self {
        let text = |field: &Value| match field {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => field.to_string(),
        };
        let headers = failure["headers"].as_object().into_iter().flatten();
        let headers = headers.map(|(name, value)| format!("{name}: {}", text(value)));
        Self {
            kind: text(&failure["kind"]),
            status: text(&failure["status"]),
            model: text(&failure["context"]["model"]),
            headers: headers.collect::<Vec<_>>().join("\n"),
            body: text(&failure["body"]),
            exit_code: text(&failure["exit_code"]),
            signal: text(&failure["signal"]),
            stderr: text(&failure["stderr"]),
            fault: text(&failure["transport"]),
            ..Self::default()
        }
    }

    /// Which of the three forms shows: `http`, `transport` or `process`.
    fn form(&self) -> &str {
        match self.kind.as_str() {
            form @ ("process" | "transport") => form,
            _ => "http",
        }
    }

    fn faults(&self) -> [(&'static str, &'static str); 9] {
        Fault::ALL.map(|fault| (fault.as_str(), words::fault_words(fault)))
    }

    /// The failure in the form of `backstop classify`; none if nothing was pasted.
    fn failure(&self, app: &App) -> Option<String> {
        let texts = [&self.status, &self.body, &self.exit_code, &self.signal, &self.stderr, &self.fault];
        if texts.into_iter().all(|text| text.trim().is_empty()) {
            return None;
        }
        let mut failure = Map::new();
        let mut set = |name: &str, value: Value| failure.insert(name.to_owned(), value);
        let configured =
            app.live.providers().into_iter().find(|provider| provider.id.as_str() == self.provider);
        let pack = configured.map_or_else(|| self.provider.clone(), |provider| provider.rules.to_string());
        if !pack.is_empty() {
            set("provider", json!(pack));
        }
        if !self.model.is_empty() {
            set("context", json!({ "model": self.model }));
        }
        if self.form() == "transport" {
            set("kind", json!("transport"));
            set("transport", json!(self.fault));
        } else if self.form() == "process" {
            set("kind", json!("process"));
            set("exit_code", number(&self.exit_code));
            set("signal", number(&self.signal));
            set("stderr", json!(self.stderr));
            set("body", json!(self.body));
        } else {
            set("kind", json!(if self.kind == "stream" { "stream" } else { "http" }));
            set("status", number(&self.status));
            let lines = self.headers.lines().filter_map(|line| line.split_once(':'));
            let headers = lines.map(|(name, value)| (name.trim().to_lowercase(), json!(value.trim())));
            set("headers", Value::Object(headers.collect()));
            set("body", json!(self.body));
        }
        Some(Value::Object(failure).to_string())
    }
}

fn number(text: &str) -> Value {
    text.trim().parse::<i64>().map_or(Value::Null, Value::from)
}

impl Reading {
    fn class(&self) -> Class {
        self.report.class
    }

    fn key(&self) -> &'static str {
        match self.report.key_action {
            KeyAction::None => "Nothing happens to it",
            KeyAction::Rest => "It rests",
            KeyAction::Quarantine => "It is set aside until a test decides",
            KeyAction::Disable => "It is taken out of service",
        }
    }

    fn next(&self) -> &'static str {
        match self.report.next {
            Next::Return => "Back to the client: no other attempt would fare better",
            Next::RetrySame => "The same key again, after a wait",
            Next::NextModel => "The provider’s next model",
            Next::NextKey => "The next key",
            Next::NextProvider => "The next provider of the fallback chain",
        }
    }

    fn wait(&self) -> Option<String> {
        self.report.wait_s.map(seconds)
    }

    fn heals(&self, frame: &Frame) -> String {
        let trust = match self.report.trusted {
            Some(true) => "a machine-readable field",
            Some(false) | None => "prose",
        };
        match (&self.report.reset_at, self.report.retry_after_s) {
            (Some(at), _) => format!("{}, from {trust}", frame.full(at)),
            (None, Some(wait)) => format!("After {}, from {trust}", seconds(wait)),
            (None, None) => "No time is stated".to_owned(),
        }
    }

    fn window(&self) -> Option<&'static str> {
        self.report.window.map(|window| window_words(window.as_str()))
    }

    /// Rules that held in part, and the one that won; rules that fell at the first look are only counted.
    pub(crate) fn near(&self) -> Vec<&Tried> {
        let near = |tried: &&Tried| tried.failed.is_none_or(|failed| !FIRST_LOOKS.contains(&failed));
        let mut rules: Vec<&Tried> = Vec::new();
        for tried in self.explanation.tried.iter().filter(near) {
            if !rules.contains(&tried) && (tried.failed.is_none() || rules.len() < MOST_NEAR) {
                rules.push(tried);
            }
        }
        rules
    }

    pub(crate) fn passed(&self) -> usize {
        self.explanation.tried.len().saturating_sub(self.near().len())
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a wait for people")]
fn seconds(wait: f64) -> String {
    times::took((wait.max(0.0) * 1000.0) as u64)
}

/// Conditions that most rules fail on.
const FIRST_LOOKS: [&str; 9] =
    ["kind", "status", "code", "type", "transport", "exit_code", "signal", "field", "body"];
const MOST_NEAR: usize = 12;
