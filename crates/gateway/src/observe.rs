//! What is told of requests: a line for each failed attempt, a line and a row for each request, counts for all.
//!
//! A clean success is told at `debug`; what anybody will look for is told at `info`, and what nobody has seen before at
//! `warn`. Nothing here waits: the store's queues are bounded and drop a row before they delay an answer.

use std::{sync::Arc, time::Duration};

use backstop_dialect::Usage;
use backstop_store::{
    key_errors::KeyError,
    requests::{AttemptFailure, AttemptRow, Bodies, Outcome, RequestRow, Tokens},
    unknown::UnknownFailure,
};
use backstop_triage::{
    Class, Evidence, Kind, Timestamp, Treatment, Verdict,
    cascade::{Attempt, Progress, Tried, TriedResult},
    redact::redact,
    wire::written_down,
};
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use tokio::time::Instant;

use crate::{
    asked::Asked,
    auth::operation_name,
    config::Provider,
    drive::{Journey, Route, counts},
    price::Cost,
    shared::Shared,
    telemetry::Ended,
};

/// What is noted of a request while it is under way.
pub(crate) struct Record {
    arrived: Instant,
    first_content: Option<Instant>,
    status: Option<StatusCode>,
    completed: bool,
    broken: bool,
    pub(crate) usage: Usage,
    notes: Vec<Note>,
    kept: Option<Box<Kept>>,
}

/// What a client wants kept with the log.
struct Kept {
    request: Bytes,
    answer: Vec<u8>,
}

/// What the trail does not know of an attempt.
#[derive(Default)]
struct Note {
    /// What the system said.
    detail: String,
    /// The upstream's words, redacted.
    message: String,
    upstream_id: Option<String>,
}

impl Record {
    pub(crate) fn new(asked: &Asked) -> Self {
        Self {
            arrived: asked.arrived,
            first_content: None,
            status: None,
            completed: false,
            broken: false,
            usage: Usage::default(),
            notes: Vec::new(),
            kept: asked.client.as_ref().filter(|client| client.keeps_bodies()).map(|_| {
                let request = asked.bytes();
                let request = Bytes::copy_from_slice(&request[..request.len().min(MOST_KEPT)]);
                Box::new(Kept { request, answer: Vec::new() })
            }),
        }
    }

    /// Bytes that go to the client.
    pub(crate) fn showed(&mut self, bytes: &[u8]) {
        if let Some(kept) = &mut self.kept {
            let room = MOST_KEPT.saturating_sub(kept.answer.len());
            kept.answer.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    pub(crate) fn began(&mut self, attempt: &Attempt) {
        tracing::debug!(
            provider = %attempt.provider, model = %attempt.model, key = %attempt.key, ordinal = attempt.ordinal,
            step = attempt.step.as_str(), "attempt"
        );
        self.notes.push(Note::default());
    }

    /// What the system said of a failed connection.
    pub(crate) fn detail(&mut self, detail: &str) {
        if let Some(note) = self.notes.last_mut() {
            detail.clone_into(&mut note.detail);
        }
    }

    pub(crate) fn upstream_id(&mut self, headers: &HeaderMap) {
        let id = UPSTREAM_IDS.iter().find_map(|name| headers.get(*name)?.to_str().ok());
        if let (Some(note), Some(id)) = (self.notes.last_mut(), id) {
            note.upstream_id = Some(id.chars().take(LONGEST_ID).collect());
        }
    }

    pub(crate) fn first_content(&mut self) {
        self.first_content.get_or_insert_with(Instant::now);
    }

    pub(crate) fn answered(&mut self, status: StatusCode) {
        self.status = Some(status);
    }

    pub(crate) fn completed(&mut self) {
        self.completed = true;
    }

    pub(crate) fn broke_off(&mut self) {
        self.broken = true;
    }

    fn outcome(&self) -> Outcome {
        match self.status {
            _ if self.broken => Outcome::Failed,
            None => Outcome::Left,
            Some(status) if status == StatusCode::GATEWAY_TIMEOUT => Outcome::TimedOut,
            Some(status) if status.as_u16() >= 400 => Outcome::Failed,
            Some(_) if self.completed => Outcome::Succeeded,
            Some(_) => Outcome::Left,
        }
    }
}

/// A failure, with what it was and how far it had come.
pub(crate) struct Failure<'a> {
    pub(crate) verdict: &'a Verdict,
    pub(crate) evidence: &'a Evidence,
    pub(crate) progress: Progress,
    pub(crate) status: Option<u16>,
}

/// Tells of a failed attempt: the log, the counters, the key's errors, and the inbox of what nobody recognises.
pub(crate) fn failed(journey: &mut Journey, failure: &Failure<'_>) {
    let Some(Route { outlet, key, held, model }) = journey.route.clone() else { return };
    let Failure { verdict, evidence, progress, status } = *failure;
    let message: String = redact(&evidence.text).chars().take(LONGEST_MESSAGE).collect();
    let now = journey.shared.clock.now();
    let treatment = Treatment::of(verdict, status);
    let action = treatment.penalty.key_action();
    let wait = treatment.first_wait(verdict, &outlet.config.settings, now).unwrap_or_default();
    let label = held.label.as_str();
    let detail = journey.record.notes.last().map(|note| note.detail.clone()).unwrap_or_default();
    let kind = kind_of(evidence.kind);
    macro_rules! tell {
        ($level:ident) => {
            tracing::$level!(
                request = %journey.asked.id, provider = %outlet.config.id, model = %model, key = label,
                class = verdict.class.as_str(), scope = verdict.scope.as_str(), reason = verdict.reason.as_str(),
                rule = %verdict.basis, action = ?action, delay_s = wait.as_secs(), status, kind, ?progress, detail,
                "attempt failed"
            )
        };
    }
    if progress == Progress::StaleConnection {
        // Nobody was asked, so that there is nothing to count.
        return tell!(debug);
    }
    if verdict.class == Class::Unknown {
        tell!(warn)
    } else {
        tell!(info)
    }
    outlet.meters.model(model.as_str()).failed.add(verdict.class);
    held.errors.add(verdict.class);
    if let Some(note) = journey.record.notes.last_mut() {
        note.message.clone_from(&message);
    }
    let text = if message.is_empty() { detail } else { message };
    journey.shared.store.record_error(KeyError {
        key,
        at: now,
        request: Some(journey.asked.id.to_string()),
        model: Some(model.to_string()),
        status,
        class: verdict.class,
        scope: verdict.scope,
        reason: verdict.reason.to_string(),
        basis: verdict.basis.to_string(),
        action: format!("{action:?}").to_lowercase(),
        message: text.clone(),
        evidence: written_down(&outlet.config.rules, evidence, (LONGEST_SHOWN, now)).to_string(),
    });
    if verdict.class == Class::Unknown {
        keep_unknown(&journey.shared, &outlet.config, failure, text);
    }
}

/// Keeps a failure for the inbox, with the rule pack that read it: there a rule for it has to go.
fn keep_unknown(shared: &Arc<Shared>, provider: &Provider, failure: &Failure<'_>, text: String) {
    let now = shared.clock.now();
    let whole = written_down(&provider.rules, failure.evidence, (Evidence::TEXT_CAP, now));
    shared.store.record_unknown(UnknownFailure {
        provider: provider.id.to_string(),
        kind: kind_of(failure.evidence.kind).to_owned(),
        status: failure.status,
        text,
        evidence: whole.to_string(),
        at: now,
    });
}

/// Tells of a request that has ended, whatever way.
pub(crate) fn ended(journey: &mut Journey) {
    let record = &journey.record;
    let outcome = record.outcome();
    let duration = record.arrived.elapsed();
    let first_content = record.first_content.map(|at| at - record.arrived);
    count(journey, outcome, duration, first_content);
    let failures = journey.counted_trail().filter(|tried| tried.result.class().is_some()).count();
    if outcome == Outcome::Succeeded && failures > 0 {
        journey.shared.meters.masked.add(1);
    }
    tell(journey, outcome, duration, failures);
    let mut row = row(journey, outcome, duration, first_content);
    if let Some(client) = &journey.asked.client {
        let usage = &journey.record.usage;
        let tokens = usage.input.unwrap_or(0) + usage.output.unwrap_or(0);
        client.spend(tokens, row.cost_micros.unwrap_or(0), journey.shared.clock.now());
    }
    row.bodies = journey.record.kept.take().map(|kept| Bodies::new(kept.request.into(), kept.answer));
    let (asked, usage) = (&journey.asked, &journey.record.usage);
    journey.shared.telemetry.ended(&Ended { row: &row, asked, usage, plan: &journey.plan });
    journey.shared.store.record_request(row);
}

/// Counts a request for its provider and model, and for the one that answered.
fn count(journey: &Journey, outcome: Outcome, duration: Duration, first_content: Option<Duration>) {
    let (asked, trail, meters) = (&journey.asked, journey.trail(), &journey.shared.meters);
    if let Some((outlet, model)) = journey.home() {
        outlet.meters.model(model).request(asked.way, outcome);
        outlet.meters.duration.record(duration);
        if let Some(first_content) = first_content {
            outlet.meters.first_content.record(first_content);
        }
        if let Some(last) = trail.last().filter(|last| last.leg > 0) {
            outlet.meters.left_for(&last.provider);
        }
    }
    if let Some(route) = journey.route.as_ref().filter(|_| outcome == Outcome::Succeeded) {
        let usage = &journey.record.usage;
        let meters = route.outlet.meters.model(route.model.as_str());
        meters.input_tokens.add(usage.input.unwrap_or(0));
        meters.output_tokens.add(usage.output.unwrap_or(0));
    }
    for tried in trail.iter().filter(|tried| tried.result == TriedResult::Answered) {
        if let Some(outlet) = journey.plan.outlet(tried.provider.as_str()) {
            outlet.meters.model(tried.model.as_str()).answered.add(1);
        }
    }
    if let Some(first) = trail.first() {
        let arrived = journey.shared.clock.at(journey.record.arrived);
        meters.overhead.record(Duration::try_from(first.began.duration_since(arrived)).unwrap_or_default());
    }
    let repeated = journey.counted_trail().count().saturating_sub(1);
    let classes = journey.counted_trail().take(repeated).filter_map(|tried| tried.result.class());
    classes.for_each(|class| meters.retries.add(class));
}

fn tell(journey: &Journey, outcome: Outcome, duration: Duration, failures: usize) {
    let asked = &journey.asked;
    macro_rules! tell {
        ($level:ident) => {
            tracing::$level!(
                request = %asked.id,
                client = asked.client.as_ref().map_or("", |client| client.name.as_str()),
                provider = asked.provider, model = asked.model.as_deref().unwrap_or(""),
                operation = operation_name(asked.operation), stream = asked.streaming,
                status = journey.record.status.map(|status| status.as_u16()), outcome = outcome.as_str(),
                attempts = journey.attempts(), failures,
                total_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
                "request"
            )
        };
    }
    match outcome {
        Outcome::Succeeded if failures == 0 => tell!(debug),
        Outcome::Succeeded | Outcome::Failed | Outcome::TimedOut | Outcome::Left => tell!(info),
    }
}

fn row(
    journey: &Journey,
    outcome: Outcome,
    duration: Duration,
    first_content: Option<Duration>,
) -> RequestRow {
    let asked = &journey.asked;
    let usage = &journey.record.usage;
    let served = journey.route.as_ref().filter(|_| outcome == Outcome::Succeeded);
    let last_class = journey.trail().last().and_then(|tried| tried.result.class());
    let cached = usage.cache_read.unwrap_or(0);
    let cost = cost(journey);
    RequestRow {
        id: asked.id.to_string(),
        at: journey.shared.clock.at(asked.arrived),
        client_id: asked.client.as_ref().map(|client| client.id),
        client: asked.client.as_ref().map(|client| client.name.clone()),
        operation: operation_name(asked.operation).to_owned(),
        dialect: asked.dialect.as_str().to_owned(),
        provider: asked.provider.clone(),
        model: asked.model.clone(),
        served_provider: served.map(|route| route.outlet.config.id.to_string()),
        served_model: served.map(|route| route.model.to_string()),
        stream: asked.streaming,
        fallback: served.is_some() && journey.trail().last().is_some_and(|tried| tried.leg > 0),
        outcome,
        status: journey.record.status.map_or(CLIENT_LEFT, |status| status.as_u16()),
        class: last_class.filter(|_| outcome != Outcome::Succeeded),
        duration_ms: millis(duration),
        first_content_ms: first_content.map(millis),
        tokens: Tokens {
            input: usage.input.map(|input| input.saturating_sub(cached)),
            output: usage.output,
            cache_read: usage.cache_read,
            cache_write: usage.cache_creation,
        },
        cost_micros: cost.map(|cost| cost.micros),
        cost_reported: cost.is_some_and(|cost| cost.reported),
        attempts: journey
            .trail()
            .iter()
            .zip(&journey.record.notes)
            .filter(|(tried, _)| counts(tried))
            .map(|(tried, note)| attempt(journey, tried, note))
            .collect(),
        bodies: None,
    }
}

/// What the answer of the latest attempt cost, whether or not the client took it all.
fn cost(journey: &Journey) -> Option<Cost> {
    let Route { outlet, model, .. } = journey.route.as_ref()?;
    outlet.prices.cost(&outlet.config.base_url, model, &journey.record.usage)
}

fn attempt(journey: &Journey, tried: &Tried, note: &Note) -> AttemptRow {
    let (status, failure) = match &tried.result {
        TriedResult::Failed { verdict, status, .. } => (*status, Some(attempt_failure(verdict, note))),
        TriedResult::Answered => (journey.record.status.map(|status| status.as_u16()), None),
        TriedResult::Pending | TriedResult::Abandoned => (None, None),
    };
    let arrived = journey.shared.clock.at(journey.record.arrived);
    let since =
        |from: Timestamp, to: Timestamp| u64::try_from(to.duration_since(from).as_millis()).unwrap_or(0);
    AttemptRow {
        after_ms: since(arrived, tried.began),
        provider: tried.provider.to_string(),
        model: tried.model.to_string(),
        key: tried.key,
        key_label: tried.label.clone(),
        status,
        failure,
        waited_ms: millis(tried.waited),
        took_ms: since(tried.began, tried.ended.unwrap_or_else(|| journey.shared.clock.now())),
        upstream_id: note.upstream_id.clone(),
    }
}

fn attempt_failure(verdict: &Verdict, note: &Note) -> AttemptFailure {
    let words = if note.message.is_empty() { &note.detail } else { &note.message };
    AttemptFailure {
        class: verdict.class,
        scope: verdict.scope,
        reason: verdict.reason.to_string(),
        basis: verdict.basis.to_string(),
        matched: verdict.matched.clone(),
        message: words.clone(),
    }
}

fn kind_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Http { .. } => "http",
        Kind::Stream { .. } => "stream",
        Kind::Transport(_) => "transport",
        Kind::Process { .. } => "process",
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Where providers tell their own id of a call.
const UPSTREAM_IDS: [&str; 4] = ["x-request-id", "request-id", "x-goog-request-id", "x-amzn-requestid"];
const LONGEST_ID: usize = 128;
const LONGEST_MESSAGE: usize = 512;
/// What a key's history keeps of a failure: enough to explain it, little enough for fifty failures of a thousand keys.
const LONGEST_SHOWN: usize = 4096;
/// The longest part of a request, and of an answer, that is kept.
const MOST_KEPT: usize = 5 << 20;
/// What the log shows for a client that left before it got a status.
const CLIENT_LEFT: u16 = 499;
