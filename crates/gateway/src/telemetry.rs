//! Traces and metrics for an OpenTelemetry collector, by OTLP over HTTP in JSON; off unless an endpoint is configured.
//!
//! A request is a server span; each call of a provider below it is a client span with the names of the GenAI
//! conventions. What the journey has put into its log row is enough for both, so that requests pay for nothing but a
//! short list of values, and only if somebody collects. Lists are bounded: a collector that is down costs spans, which
//! are counted, and nothing else. Prompts and answers are never part of it.

mod measures;
mod span;

use std::{sync::Arc, time::Duration};

use backstop_dialect::{Dialect, Operation, Usage};
use backstop_http::HttpClient;
use backstop_store::requests::RequestRow;
use backstop_triage::Timestamp;
use parking_lot::Mutex;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use tokio::{sync::Notify, time::Instant};

use self::measures::Measures;
use crate::{asked::Asked, auth::operation_name, config::Otlp, meters::Counter, plan::Plan, shared::Shared};

/// What is to be told to a collector.
#[derive(Default)]
pub(crate) struct Telemetry {
    collector: Option<Collector>,
    spans: Mutex<Vec<Value>>,
    measures: Mutex<Measures>,
    wake: Notify,
    /// Spans that nobody took.
    pub(crate) dropped: Counter,
}

/// Where it goes.
struct Collector {
    endpoint: String,
    headers: Vec<(String, String)>,
    began: Timestamp,
}

/// A request that has ended.
pub(crate) struct Ended<'a> {
    pub(crate) row: &'a RequestRow,
    pub(crate) asked: &'a Asked,
    pub(crate) usage: &'a Usage,
    pub(crate) plan: &'a Plan,
}

impl Telemetry {
    pub(crate) fn new(otlp: Option<&Otlp>, now: Timestamp) -> Self {
        let collector = otlp.map(|otlp| Collector {
            endpoint: otlp.endpoint.trim_end_matches('/').to_owned(),
            headers: headers(otlp.headers.as_ref().map_or("", |headers| headers.expose())),
            began: now,
        });
        Self { collector, ..Self::default() }
    }

    /// Takes a request in. Free unless somebody collects.
    pub(crate) fn ended(&self, ended: &Ended<'_>) {
        if self.collector.is_none() {
            return;
        }
        self.measures.lock().take_in(ended);
        let fresh = span::of(ended);
        let mut spans = self.spans.lock();
        if spans.len() + fresh.len() > MOST_SPANS {
            self.dropped.add(fresh.len() as u64);
            return;
        }
        spans.extend(fresh);
        if spans.len() >= BATCH {
            self.wake.notify_one();
        }
    }

    async fn send_spans(&self, collector: &Collector, http: &HttpClient) {
        let spans = std::mem::take(&mut *self.spans.lock());
        if spans.is_empty() {
            return;
        }
        let count = spans.len() as u64;
        let scope = json!({ "scope": scope(), "spans": spans });
        let body = json!({ "resourceSpans": [{ "resource": resource(), "scopeSpans": [scope] }] });
        if let Err(error) = collector.send(http, "/v1/traces", &body).await {
            self.dropped.add(count);
            tracing::debug!(%error, count, "the collector took no spans");
        }
    }

    async fn send_measures(&self, collector: &Collector, http: &HttpClient, now: Timestamp) {
        let metrics = self.measures.lock().points(collector.began, now);
        let scope = json!({ "scope": scope(), "metrics": metrics });
        let body = json!({ "resourceMetrics": [{ "resource": resource(), "scopeMetrics": [scope] }] });
        if let Err(error) = collector.send(http, "/v1/metrics", &body).await {
            tracing::debug!(%error, "the collector took no metrics");
        }
    }
}

impl Collector {
    async fn send(&self, http: &HttpClient, path: &str, body: &Value) -> Result<(), String> {
        let headers: Vec<(&str, String)> =
            self.headers.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        let reply = http.post_json(&format!("{}{path}", self.endpoint), &headers, body.to_string()).await;
        let status = reply.map_err(|error| error.to_string())?.status;
        if (200..300).contains(&status) { Ok(()) } else { Err(format!("status {status}")) }
    }
}

/// Sends what has gathered, for as long as it is polled.
pub(crate) async fn keep(shared: &Arc<Shared>) {
    let telemetry = &shared.telemetry;
    let Some(collector) = &telemetry.collector else { return std::future::pending().await };
    let http = HttpClient::new(SEND_WITHIN);
    let mut measured = Instant::now();
    loop {
        let _ = tokio::time::timeout(SPANS_EVERY, telemetry.wake.notified()).await;
        telemetry.send_spans(collector, &http).await;
        if measured.elapsed() >= MEASURES_EVERY {
            measured = Instant::now();
            telemetry.send_measures(collector, &http, shared.clock.now()).await;
        }
    }
}

/// Sends what is left before the process ends.
pub(crate) async fn last_words(shared: &Shared) {
    let Some(collector) = &shared.telemetry.collector else { return };
    let http = HttpClient::new(LAST_WORDS);
    shared.telemetry.send_spans(collector, &http).await;
    shared.telemetry.send_measures(collector, &http, shared.clock.now()).await;
}

/// Reads `name=value,name=value`, values percent-encoded, as every OpenTelemetry exporter does.
fn headers(text: &str) -> Vec<(String, String)> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    let decoded = |value: &str| percent_decode_str(value.trim()).decode_utf8_lossy().into_owned();
    pairs.map(|(name, value)| (name.trim().to_ascii_lowercase(), decoded(value))).collect()
}

fn resource() -> Value {
    let instance = format!("{}", std::process::id());
    let about =
        [("service.name", "backstop"), ("service.version", VERSION), ("service.instance.id", &instance)];
    json!({ "attributes": about.map(|(name, value)| attribute(name, value)) })
}

fn scope() -> Value {
    json!({ "name": "backstop", "version": VERSION })
}

/// An attribute as OTLP writes it.
fn attribute(name: &str, value: impl Into<Value>) -> Value {
    let value = match value.into() {
        Value::Bool(yes) => json!({ "boolValue": yes }),
        Value::Number(number) if number.is_f64() => json!({ "doubleValue": number }),
        // 64-bit numbers are strings in the JSON of protocol buffers.
        Value::Number(number) => json!({ "intValue": number.to_string() }),
        Value::String(text) => json!({ "stringValue": text }),
        other @ (Value::Null | Value::Array(_) | Value::Object(_)) => {
            json!({ "stringValue": other.to_string() })
        }
    };
    json!({ "key": name, "value": value })
}

/// The operation by its name in the conventions.
fn operation(ended: &Ended<'_>) -> &'static str {
    let path = &ended.asked.path;
    match (ended.asked.operation, ended.asked.dialect) {
        (Operation::Generate, Dialect::Gemini) => "generate_content",
        (Operation::Generate, Dialect::OpenAiChat) if !path.ends_with("/chat/completions") => {
            "text_completion"
        }
        (Operation::Generate, _) => "chat",
        (Operation::Embeddings, _) => "embeddings",
        (operation, _) => operation_name(operation),
    }
}

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Spans that wait at most; about 2 KB each.
const MOST_SPANS: usize = 4_096;
/// Spans that are worth a message.
const BATCH: usize = 512;
const SPANS_EVERY: Duration = Duration::from_secs(2);
const MEASURES_EVERY: Duration = Duration::from_secs(60);
const SEND_WITHIN: Duration = Duration::from_secs(10);
const LAST_WORDS: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_as_other_exporters_read_them() {
        let read = headers("Authorization=Bearer%20abc, x-tenant = blue,nonsense");
        let expected = [("authorization", "Bearer abc"), ("x-tenant", "blue")];
        assert_eq!(read, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
