//! A failure and its verdict as JSON: the public form on the command line and in the API.
//!
//! A line that is no failure (not an object, an unknown kind, a success) is an error with a text for people.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use thiserror::Error;

use crate::{
    Catalog, Class, Evidence, Fault, Hints, KeyAction, Kind, Next, ProviderId, Scope, Settings, Timestamp,
    Treatment, Verdict, Window, redact::redact, respawn, treatment::status_of,
};

/// A failure as a program writes it. Unknown fields are ignored.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Failure {
    /// The caller's own name for it, returned with the verdict.
    pub id: Option<Value>,
    /// `http`, `stream`, `transport` or `process`; told by the other fields if it is missing.
    pub kind: Option<String>,
    /// The provider: a rule pack, one of its names, or a host.
    pub provider: Option<String>,
    /// The HTTP status.
    pub status: Option<u16>,
    /// The response headers.
    pub headers: Option<Map<String, Value>>,
    /// The body; for a process its stdout.
    pub body: Option<Value>,
    /// How the connection failed.
    pub transport: Option<Fault>,
    /// The exit code of a process.
    pub exit_code: Option<i32>,
    /// The signal that ended a process.
    pub signal: Option<i32>,
    /// The stderr of a process.
    pub stderr: Option<String>,
    /// What the caller knows beside it.
    pub context: Option<Context>,
}

/// What a caller knows beside the failure itself.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Context {
    /// The model that was asked.
    pub model: Option<String>,
    /// An estimate of the prompt's tokens.
    pub approx_tokens: Option<u64>,
    /// The model's window in tokens.
    pub context_length: Option<u64>,
    /// Messages in the prompt.
    pub messages: Option<u64>,
    /// Bytes of answer that had arrived.
    pub bytes_received: Option<u64>,
    /// The base URL that was asked; tells the provider if nothing else does.
    pub base_url: Option<String>,
    /// The moment of the failure.
    pub now: Option<Timestamp>,
}

/// Why a line is no failure.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotAFailure {
    /// It is not a JSON object of the right shape.
    #[error("not a failure: {0}")]
    Malformed(String),
    /// The kind is not one of the four.
    #[error("unknown kind {0:?}; use http, stream, transport or process")]
    Kind(String),
    /// Neither status, fault nor exit is told.
    #[error("nothing failed: tell a status, a transport fault, or how a process ended")]
    Nothing,
    /// It went well.
    #[error("this is a success, not a failure")]
    Success,
}

/// Writes a failure down for later: without secrets, at most so many bytes of each text, as [`Failure::parse`] reads
/// it. `now` is the moment of the failure, from which its stated waits count.
pub fn written_down(provider: &ProviderId, evidence: &Evidence, (most, now): (usize, Timestamp)) -> Value {
    let text = |text: &str| {
        let text = redact(text);
        text.get(..text.floor_char_boundary(most)).unwrap_or_default().to_owned()
    };
    let header = |(name, value): &(String, String)| {
        let value = redact(value);
        let kept = value.get(..value.floor_char_boundary(LONGEST_HEADER)).unwrap_or_default();
        (name.clone(), Value::from(kept))
    };
    let headers: Map<String, Value> = evidence.headers.iter().take(MOST_HEADERS).map(header).collect();
    let Hints { model, approx_tokens, context_length, messages, bytes_received, echo: _ } = &evidence.hints;
    let mut failure = json!({
        "provider": provider,
        "context": {
            "model": model, "approx_tokens": approx_tokens, "context_length": context_length,
            "messages": messages, "bytes_received": bytes_received, "now": now,
        },
    });
    let mut set = |name: &str, value: Value| failure[name] = value;
    match evidence.kind {
        Kind::Http { status } => {
            set("kind", json!("http"));
            set("status", json!(status));
        }
        Kind::Stream { status } => {
            set("kind", json!("stream"));
            set("status", json!(status));
        }
        Kind::Transport(fault) => {
            set("kind", json!("transport"));
            set("transport", json!(fault));
        }
        Kind::Process { exit_code, signal } => {
            set("kind", json!("process"));
            set("exit_code", json!(exit_code));
            set("signal", json!(signal));
            set("stderr", json!(text(&evidence.stderr)));
        }
    }
    set("headers", Value::Object(headers));
    set("body", json!(text(&evidence.text)));
    failure
}

/// A failure, resolved: what [`Catalog::classify`] takes.
#[derive(Clone, Debug)]
pub struct Case {
    /// The rule pack.
    pub provider: ProviderId,
    /// What was observed.
    pub evidence: Evidence,
    /// The moment of the failure.
    pub now: Timestamp,
}

impl Failure {
    /// Reads one line.
    pub fn parse(line: &str) -> Result<Self, NotAFailure> {
        serde_json::from_str(line).map_err(|error| NotAFailure::Malformed(error.to_string()))
    }

    /// Resolves it; `now` is the moment of a failure that tells none.
    pub fn resolve(self, catalog: &Catalog, now: Timestamp) -> Result<Case, NotAFailure> {
        let context = self.context.unwrap_or_default();
        let body = match self.body {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text,
            Some(other) => other.to_string(),
        };
        let process = self.exit_code.is_some() || self.signal.is_some() || self.stderr.is_some();
        let told = match self.kind.as_deref() {
            Some(kind @ ("http" | "stream" | "transport" | "process")) => kind,
            Some(other) => return Err(NotAFailure::Kind(other.to_owned())),
            None if process => "process",
            None if self.transport.is_some() => "transport",
            None => "http",
        };
        let status = self.status.unwrap_or(0);
        // A connection that failed is what failed, also if a status had arrived before.
        let kind = match (told, self.transport) {
            ("process", _) => Kind::Process { exit_code: self.exit_code, signal: self.signal },
            (_, Some(fault)) => Kind::Transport(fault),
            ("transport", None) => return Err(NotAFailure::Nothing),
            ("stream", None) => Kind::Stream { status: if status == 0 { 200 } else { status } },
            (_, None) if status == 0 => return Err(NotAFailure::Nothing),
            (_, None) => Kind::Http { status },
        };
        let begun = (told == "stream" || status == 200) && !body.trim().is_empty();
        let hints = Hints {
            model: context.model,
            approx_tokens: context.approx_tokens,
            context_length: context.context_length,
            messages: context.messages,
            bytes_received: context.bytes_received.or_else(|| begun.then_some(1)),
            echo: Vec::new(),
        };
        let headers = self.headers.unwrap_or_default().into_iter().map(|(name, value)| {
            let value = match value {
                Value::String(text) => text,
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                    value.to_string()
                }
            };
            (name.to_ascii_lowercase(), value)
        });
        let evidence = Evidence {
            kind,
            headers: headers.collect(),
            text: body,
            stderr: self.stderr.unwrap_or_default(),
            hints,
        };
        let provider = self.provider.filter(|provider| !provider.is_empty());
        let host = || context.base_url.as_deref().and_then(|url| catalog.resolve(url)).cloned();
        let provider = match provider {
            Some(name) => catalog.resolve(&name).cloned().unwrap_or_else(|| ProviderId::from(name)),
            None => host().unwrap_or_else(|| ProviderId::from("")),
        };
        Ok(Case { provider, evidence, now: context.now.unwrap_or(now) })
    }
}

impl Case {
    /// The verdict and what follows from it.
    pub fn report(&self, catalog: &Catalog, settings: &Settings) -> Result<Report, NotAFailure> {
        let succeeded = match self.evidence.kind {
            Kind::Http { .. } | Kind::Stream { .. } => catalog.is_success(&self.evidence),
            Kind::Process { exit_code, .. } => {
                exit_code == Some(0) && self.verdict(catalog).class == Class::Unknown
            }
            Kind::Transport(_) => false,
        };
        if succeeded {
            return Err(NotAFailure::Success);
        }
        let verdict = self.verdict(catalog);
        Ok(Report::new(&verdict, &self.evidence, settings, self.now))
    }

    fn verdict(&self, catalog: &Catalog) -> Verdict {
        catalog.classify(&self.provider, &self.evidence, self.now)
    }
}

/// A verdict with its consequences, as JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The class.
    pub class: Class,
    /// The scope.
    pub scope: Scope,
    /// The reason word.
    pub reason: String,
    /// The usage window.
    pub window: Option<Window>,
    /// The stated wait in seconds.
    pub retry_after_s: Option<f64>,
    /// The stated moment.
    pub reset_at: Option<Timestamp>,
    /// Whether the stated time is machine-readable.
    pub trusted: Option<bool>,
    /// The rule, or what else decided.
    pub rule: String,
    /// The words that matched.
    pub matched: String,
    /// What happens to the key.
    pub key_action: KeyAction,
    /// Where the request goes first.
    pub next: Next,
    /// The rest or wait that follows, in seconds.
    pub wait_s: Option<f64>,
    /// A context length or rate limit that the text states.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

impl Report {
    /// The report of a verdict.
    pub fn new(verdict: &Verdict, evidence: &Evidence, settings: &Settings, now: Timestamp) -> Self {
        let treatment = Treatment::of(verdict, status_of(evidence));
        let wait = match evidence.kind {
            Kind::Process { .. } => Some(respawn::delay(verdict.class, 1, verdict.stated_wait(now))),
            Kind::Http { .. } | Kind::Stream { .. } | Kind::Transport(_) => {
                treatment.first_wait(verdict, settings, now)
            }
        };
        let heals = verdict.heals.as_ref();
        Self {
            class: verdict.class,
            scope: verdict.scope,
            reason: verdict.reason.to_string(),
            window: verdict.window,
            retry_after_s: heals.and_then(|heals| heals.after).map(|after| after.as_secs_f64()),
            reset_at: heals.and_then(|heals| heals.at),
            trusted: heals.map(|heals| heals.trusted),
            rule: verdict.basis.to_string(),
            matched: verdict.matched.clone(),
            key_action: treatment.penalty.key_action(),
            next: treatment.next,
            wait_s: wait.map(|wait| wait.as_secs_f64()),
            limit: verdict.limit,
        }
    }
}

const LONGEST_HEADER: usize = 256;
const MOST_HEADERS: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_that_was_written_down_is_read_as_it_was() {
        let catalog = Catalog::embedded();
        let now: Timestamp = "2026-03-12T09:00:00Z".parse().expect("a moment");
        let provider = ProviderId::from("openai");
        let headers = vec![("retry-after".to_owned(), "20".to_owned())];
        let text =
            r#"{"error":{"message":"Rate limit reached for sk-abcdefghijklmnopqrstuvwx1234"}}"#.to_owned();
        let kinds = [
            Kind::Http { status: 429 },
            Kind::Transport(Fault::ReadTimeout),
            Kind::Process { exit_code: Some(1), signal: None },
        ];
        for kind in kinds {
            let (headers, text) = (headers.clone(), text.clone());
            let evidence = Evidence { kind, headers, text, ..Evidence::default() };
            let written = written_down(&provider, &evidence, (4096, now)).to_string();
            assert!(!written.contains("abcdefghijkl"), "{written}");
            let read =
                Failure::parse(&written).and_then(|failure| failure.resolve(&catalog, Timestamp::UNIX_EPOCH));
            let read = read.expect("it is a failure");
            let before = catalog.classify(&provider, &evidence, now);
            assert_eq!(catalog.classify(&read.provider, &read.evidence, read.now), before);
        }
    }
}
