//! The request log: one row per request, with its attempts, and bodies where a client asked for them.

use std::collections::VecDeque;

use backstop_triage::{Class, KeyId, Scope, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params, types::Value};
use serde::Serialize;

use crate::{
    Page, Store, StoreError,
    key_errors::{MESSAGE, parse_scope},
    page,
    rows::{containing, count, count_or_none, cut, millis, moment, signed},
    sequence::next_ids,
};

/// One request of a client, as it ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RequestRow {
    /// The id that the client was given.
    pub id: String,
    /// When it arrived.
    pub at: Timestamp,
    /// The client key it came with, by its row.
    pub client_id: Option<u64>,
    /// The name of that client key.
    pub client: Option<String>,
    /// What was asked: `generate`, `embeddings`, `models` …
    pub operation: String,
    /// The client's API shape.
    pub dialect: String,
    /// The provider (or combo) that was asked.
    pub provider: String,
    /// The model that was asked.
    pub model: Option<String>,
    /// The provider that answered.
    pub served_provider: Option<String>,
    /// The model that answered.
    pub served_model: Option<String>,
    /// Whether a stream was asked for.
    pub stream: bool,
    /// Whether another provider or model than the first answered.
    pub fallback: bool,
    /// How it ended for the client.
    pub outcome: Outcome,
    /// The status that the client got.
    pub status: u16,
    /// What the failure that the client got was; none for a success.
    pub class: Option<Class>,
    /// From arrival to the last byte.
    pub duration_ms: u64,
    /// From arrival to the first content.
    pub first_content_ms: Option<u64>,
    /// Tokens as the provider reported them.
    pub tokens: Tokens,
    /// Cost in millionths of a dollar.
    pub cost_micros: Option<u64>,
    /// Whether the provider itself reported the cost; otherwise it is an estimate.
    pub cost_reported: bool,
    /// What was tried, in order.
    pub attempts: Vec<AttemptRow>,
    /// Request and answer, when the client key asks for them to be kept. Sealed at rest.
    #[serde(skip)]
    pub bodies: Option<Bodies>,
}

impl RequestRow {
    /// About the bytes of memory it takes while it waits.
    pub(crate) fn weight(&self) -> usize {
        let bodies = self.bodies.as_ref().map_or(0, |bodies| bodies.request.len() + bodies.answer.len());
        512 + self.attempts.len() * 512 + bodies
    }
}

/// How a request ended for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It got what it asked for.
    Succeeded,
    /// It got an error.
    Failed,
    /// It got an error because time ran out.
    TimedOut,
    /// It left before the end.
    Left,
}

impl Outcome {
    /// Every outcome.
    pub const ALL: [Self; 4] = [Self::Succeeded, Self::Failed, Self::TimedOut, Self::Left];

    /// The public name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::Left => "left",
        }
    }

    /// Reads a public name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.as_str() == name)
    }
}

/// Tokens of one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tokens {
    /// Prompt, without what came from a cache.
    pub input: Option<u64>,
    /// Answer.
    pub output: Option<u64>,
    /// Prompt read from the provider's cache.
    pub cache_read: Option<u64>,
    /// Prompt written to the provider's cache.
    pub cache_write: Option<u64>,
}

/// One upstream call.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AttemptRow {
    /// From the request's arrival to this call's start.
    pub after_ms: u64,
    /// Whom it went to.
    pub provider: String,
    /// The model it asked.
    pub model: String,
    /// The key it used.
    pub key: KeyId,
    /// That key's label at the time.
    pub key_label: String,
    /// The upstream's status.
    pub status: Option<u16>,
    /// How it failed; none when it went well.
    pub failure: Option<AttemptFailure>,
    /// The wait before it.
    pub waited_ms: u64,
    /// From start to end.
    pub took_ms: u64,
    /// The upstream's own id of the call.
    pub upstream_id: Option<String>,
}

/// The verdict on a failed attempt.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AttemptFailure {
    /// What it was.
    pub class: Class,
    /// Whom it hit.
    pub scope: Scope,
    /// What exactly, in one word.
    pub reason: String,
    /// The rule, or what else the verdict stands on.
    pub basis: String,
    /// The words that matched.
    pub matched: String,
    /// The upstream's words, redacted; at most 512 bytes are kept.
    pub message: String,
}

/// The bodies of a request.
#[derive(Clone, PartialEq, Eq)]
pub struct Bodies {
    /// What the client sent.
    pub request: Vec<u8>,
    /// What the client got.
    pub answer: Vec<u8>,
    /// Both, sealed; made by [`Store::record_request`].
    pub(crate) sealed: Option<Vec<u8>>,
}

impl Bodies {
    /// Takes both in; each is cut at 5 MiB.
    pub fn new(mut request: Vec<u8>, mut answer: Vec<u8>) -> Self {
        request.truncate(BODY);
        answer.truncate(BODY);
        Self { request, answer, sealed: None }
    }
}

impl std::fmt::Debug for Bodies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

/// Which requests to list; every part that is given must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestFilter {
    /// Asked or answering provider.
    pub provider: Option<String>,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// The client key, by row.
    pub client_id: Option<u64>,
    /// A part of the asked or answering model's name.
    pub model: Option<String>,
    /// The class of any failed attempt.
    pub class: Option<Class>,
    /// A key that was tried.
    pub key: Option<KeyId>,
    /// A part of the id, the client's name or an attempt's message.
    pub text: Option<String>,
    /// Not before.
    pub since: Option<Timestamp>,
    /// Before.
    pub until: Option<Timestamp>,
}

impl Store {
    /// Adds a request to the log and to the sums; never waits. Short of room the row is dropped and counted.
    pub fn record_request(&self, mut request: RequestRow) {
        if let Some(bodies) = &mut request.bodies {
            bodies.sealed = self.vault().seal_bodies(&request.id, bodies).ok();
            bodies.request = Vec::new();
            bodies.answer = Vec::new();
        }
        self.inner.queue.request(request);
    }

    /// A page of the log, newest first.
    pub fn requests(
        &self,
        filter: &RequestFilter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<RequestRow>, StoreError> {
        let limit = limit.clamp(1, page::LIMIT);
        let values = filter.values(page::before(cursor)?, limit + 1);
        self.read(|connection| {
            let mut statement = connection.prepare_cached(LIST)?;
            let rows = statement
                .query_map(rusqlite::params_from_iter(values), |row| Ok(read(row)))?
                .map(|row| row?)
                .collect::<Result<Vec<_>, StoreError>>()?;
            let page = page::page(rows, limit, |(seq, _)| *seq);
            let items = page.items.into_iter().map(|(seq, row)| with_attempts(connection, seq, row));
            Ok(Page { items: items.collect::<Result<_, _>>()?, next: page.next })
        })
    }

    /// One request by its id.
    pub fn request(&self, id: &str) -> Result<Option<RequestRow>, StoreError> {
        self.read(|connection| {
            let found = connection
                .prepare_cached(ONE)?
                .query_row([id], |row| Ok(read(row)))
                .optional()?
                .transpose()?;
            found.map(|(seq, row)| with_attempts(connection, seq, row)).transpose()
        })
    }

    /// The bodies of a request, if they were kept.
    pub fn bodies(&self, id: &str) -> Result<Option<Bodies>, StoreError> {
        let sealed: Option<Vec<u8>> =
            self.read(|connection| Ok(connection.query_row(BODIES, [id], |row| row.get(0)).optional()?))?;
        sealed.map(|sealed| self.vault().open_bodies(id, &sealed)).transpose()
    }

    /// Empties the log, in small pieces; the number of requests removed. Sums stay.
    pub async fn clear_requests(&self) -> Result<u64, StoreError> {
        let mut removed = 0;
        loop {
            let chunk = self
                .write(|transaction| {
                    let requests = transaction.execute(CLEAR, [])?;
                    transaction.execute(CLEAR_ATTEMPTS, [])?;
                    transaction.execute(CLEAR_BODIES, [])?;
                    Ok(requests as u64)
                })
                .await?;
            if chunk == 0 {
                return Ok(removed);
            }
            removed += chunk;
        }
    }
}

impl RequestFilter {
    fn values(&self, before: i64, limit: usize) -> Vec<Value> {
        let text = |text: &Option<String>| text.clone().map_or(Value::Null, Value::Text);
        let pattern = |text: &Option<String>| {
            text.as_deref()
                .filter(|text| !text.is_empty())
                .map_or(Value::Null, |text| Value::Text(containing(text)))
        };
        vec![
            Value::Integer(before),
            text(&self.provider),
            self.outcome.map_or(Value::Null, |outcome| Value::Text(outcome.as_str().into())),
            self.client_id.map_or(Value::Null, |id| Value::Integer(signed(id))),
            pattern(&self.model),
            self.class.map_or(Value::Null, |class| Value::Text(class.as_str().into())),
            self.key.map_or(Value::Null, |key| Value::Integer(signed(key.0))),
            pattern(&self.text),
            Value::Integer(self.since.map_or(i64::MIN, millis)),
            Value::Integer(self.until.map_or(i64::MAX, millis)),
            Value::Integer(signed(limit as u64)),
        ]
    }
}

/// Writes requests with their attempts and bodies.
pub(crate) fn write(transaction: &Transaction<'_>, requests: &VecDeque<RequestRow>) -> rusqlite::Result<()> {
    if requests.is_empty() {
        return Ok(());
    }
    let last = next_ids(transaction, "request", requests.len())?;
    let first = last + 1 - signed(requests.len() as u64);
    for (seq, request) in (first..).zip(requests) {
        insert(transaction, seq, request)?;
        for (id, attempt) in (seq * ATTEMPTS_EACH..(seq + 1) * ATTEMPTS_EACH).zip(&request.attempts) {
            insert_attempt(transaction, id, attempt)?;
        }
        if let Some(sealed) = request.bodies.as_ref().and_then(|bodies| bodies.sealed.as_ref()) {
            transaction.prepare_cached(INSERT_BODIES)?.execute(params![seq, millis(request.at), sealed])?;
        }
    }
    Ok(())
}

fn insert(transaction: &Transaction<'_>, seq: i64, request: &RequestRow) -> rusqlite::Result<()> {
    transaction.prepare_cached(INSERT)?.execute(params![
        seq,
        request.id,
        millis(request.at),
        request.client_id.map(signed),
        request.client,
        request.operation,
        request.dialect,
        request.provider,
        request.model,
        request.served_provider,
        request.served_model,
        request.stream,
        request.fallback,
        request.outcome.as_str(),
        request.status,
        request.class.map(Class::as_str),
        signed(request.duration_ms),
        request.first_content_ms.map(signed),
        request.tokens.input.map(signed),
        request.tokens.output.map(signed),
        request.tokens.cache_read.map(signed),
        request.tokens.cache_write.map(signed),
        request.cost_micros.map(signed),
        request.cost_reported,
    ])?;
    Ok(())
}

fn insert_attempt(transaction: &Transaction<'_>, id: i64, attempt: &AttemptRow) -> rusqlite::Result<()> {
    let failure = attempt.failure.as_ref();
    transaction.prepare_cached(INSERT_ATTEMPT)?.execute(params![
        id,
        signed(attempt.after_ms),
        attempt.provider,
        attempt.model,
        signed(attempt.key.0),
        attempt.key_label,
        attempt.status,
        failure.map(|failure| failure.class.as_str()),
        failure.map(|failure| failure.scope.as_str()),
        failure.map(|failure| &failure.reason),
        failure.map(|failure| &failure.basis),
        failure.map(|failure| cut(&failure.matched, MESSAGE)),
        signed(attempt.waited_ms),
        signed(attempt.took_ms),
        attempt.upstream_id,
        failure.map(|failure| cut(&failure.message, MESSAGE)),
    ])?;
    Ok(())
}

fn read(row: &Row<'_>) -> Result<(i64, RequestRow), StoreError> {
    let outcome: String = row.get("outcome")?;
    let request = RequestRow {
        id: row.get("id")?,
        at: moment(row, "at")?,
        client_id: count_or_none(row, "client_id")?,
        client: row.get("client")?,
        operation: row.get("operation")?,
        dialect: row.get("dialect")?,
        provider: row.get("provider")?,
        model: row.get("model")?,
        served_provider: row.get("served_provider")?,
        served_model: row.get("served_model")?,
        stream: row.get("stream")?,
        fallback: row.get("fallback")?,
        outcome: Outcome::parse(&outcome).ok_or(StoreError::Unreadable("request"))?,
        status: row.get("status")?,
        class: row.get::<_, Option<String>>("class")?.as_deref().and_then(Class::parse),
        duration_ms: count(row, "duration_ms")?,
        first_content_ms: count_or_none(row, "first_content_ms")?,
        tokens: Tokens {
            input: count_or_none(row, "input_tokens")?,
            output: count_or_none(row, "output_tokens")?,
            cache_read: count_or_none(row, "cache_read_tokens")?,
            cache_write: count_or_none(row, "cache_write_tokens")?,
        },
        cost_micros: count_or_none(row, "cost_micros")?,
        cost_reported: row.get("cost_reported")?,
        attempts: Vec::new(),
        bodies: None,
    };
    Ok((row.get("seq")?, request))
}

fn with_attempts(
    connection: &Connection,
    seq: i64,
    mut request: RequestRow,
) -> Result<RequestRow, StoreError> {
    let mut statement = connection.prepare_cached(ATTEMPTS)?;
    let attempts = statement.query_map([seq], |row| Ok(read_attempt(row)))?;
    request.attempts = attempts.map(|attempt| attempt?).collect::<Result<_, StoreError>>()?;
    Ok(request)
}

fn read_attempt(row: &Row<'_>) -> Result<AttemptRow, StoreError> {
    let unreadable = StoreError::Unreadable("attempt");
    let class: Option<String> = row.get("class")?;
    let failure = match class {
        None => None,
        Some(class) => {
            let scope: String = row.get("scope")?;
            let (Some(class), Some(scope)) = (Class::parse(&class), parse_scope(&scope)) else {
                return Err(unreadable);
            };
            Some(AttemptFailure {
                class,
                scope,
                reason: row.get("reason")?,
                basis: row.get("basis")?,
                matched: row.get("matched")?,
                message: row.get("message")?,
            })
        }
    };
    Ok(AttemptRow {
        after_ms: count(row, "after_ms")?,
        provider: row.get("provider")?,
        model: row.get("model")?,
        key: KeyId(count(row, "key_id")?),
        key_label: row.get("key_label")?,
        status: row.get("status")?,
        failure,
        waited_ms: count(row, "waited_ms")?,
        took_ms: count(row, "took_ms")?,
        upstream_id: row.get("upstream_id")?,
    })
}

const BODY: usize = 5 * 1024 * 1024;
/// Attempts that a request can have in the log; the number that stands in the SQL below.
const ATTEMPTS_EACH: i64 = 1024;

const INSERT: &str = "INSERT INTO request (seq, id, at, client_id, client, operation, dialect, provider, model,
    served_provider, served_model, stream, fallback, outcome, status, class, duration_ms, first_content_ms,
    input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost_micros, cost_reported)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22,
    ?23, ?24)";
const INSERT_ATTEMPT: &str = "INSERT INTO attempt (id, after_ms, provider, model, key_id,
    key_label, status, class, scope, reason, basis, matched, waited_ms, took_ms, upstream_id, message)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)";
const INSERT_BODIES: &str = "INSERT INTO request_body (request_seq, at, sealed) VALUES (?1, ?2, ?3)";
const LIST: &str = r"SELECT * FROM request r WHERE seq < ?1
    AND (?2 IS NULL OR provider = ?2 OR served_provider = ?2)
    AND (?3 IS NULL OR outcome = ?3)
    AND (?4 IS NULL OR client_id = ?4)
    AND (?5 IS NULL OR model LIKE ?5 ESCAPE '\' OR served_model LIKE ?5 ESCAPE '\')
    AND (?6 IS NULL OR EXISTS (SELECT 1 FROM attempt a WHERE a.id BETWEEN r.seq * 1024 AND r.seq * 1024 + 1023 AND a.class = ?6))
    AND (?7 IS NULL OR EXISTS (SELECT 1 FROM attempt a WHERE a.id BETWEEN r.seq * 1024 AND r.seq * 1024 + 1023 AND a.key_id = ?7))
    AND (?8 IS NULL OR id LIKE ?8 ESCAPE '\' OR client LIKE ?8 ESCAPE '\' OR EXISTS
        (SELECT 1 FROM attempt a WHERE a.id BETWEEN r.seq * 1024 AND r.seq * 1024 + 1023 AND a.message LIKE ?8 ESCAPE '\'))
    AND at >= ?9 AND at < ?10
    ORDER BY seq DESC LIMIT ?11";
const ONE: &str = "SELECT * FROM request WHERE id = ?1 ORDER BY seq DESC LIMIT 1";
const ATTEMPTS: &str = "SELECT * FROM attempt WHERE id BETWEEN ?1 * 1024 AND ?1 * 1024 + 1023 ORDER BY id";
const BODIES: &str = "SELECT b.sealed FROM request_body b JOIN request r ON r.seq = b.request_seq
    WHERE r.id = ?1 ORDER BY r.seq DESC LIMIT 1";
const CLEAR: &str = "DELETE FROM request WHERE seq IN (SELECT seq FROM request ORDER BY seq LIMIT 500)";
const CLEAR_ATTEMPTS: &str =
    "DELETE FROM attempt WHERE id < (SELECT COALESCE(MIN(seq) * 1024, 9223372036854775807) FROM request)";
const CLEAR_BODIES: &str = "DELETE FROM request_body WHERE request_seq < (SELECT COALESCE(MIN(seq), 9223372036854775807) FROM request)";
