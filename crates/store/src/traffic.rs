//! Sums of traffic in half-hour slots: kept when the rows of the log are gone or were dropped.

use std::collections::{BTreeMap, HashMap};

use backstop_triage::{KeyId, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use serde::Serialize;

use crate::{
    Store, StoreError,
    requests::{Outcome, RequestRow},
    retention::SLOT_MS,
    rows::{count, millis, moment, signed},
    spend,
};

/// What was asked of one provider and model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Traffic {
    /// Requests that ended.
    pub requests: u64,
    /// Of them, those whose client got an error, time-outs included.
    pub failed: u64,
    /// Of them, those whose client ran out of time.
    pub timeouts: u64,
    /// Of them, those that succeeded after a failed attempt that the client never saw.
    pub masked: u64,
    /// The sum of their durations.
    pub duration_ms: u64,
    /// Prompt tokens.
    pub input_tokens: u64,
    /// Answer tokens.
    pub output_tokens: u64,
    /// Cost in millionths of a dollar.
    pub cost_micros: u64,
    /// Attempts that they took together.
    pub attempts: u64,
    /// Requests that saw a first token.
    pub begun: u64,
    /// The sum of their waits for it.
    pub first_content_ms: u64,
}

impl Traffic {
    /// Adds what was asked of somebody else.
    pub fn absorb(&mut self, other: Self) {
        self.requests += other.requests;
        self.failed += other.failed;
        self.timeouts += other.timeouts;
        self.masked += other.masked;
        self.duration_ms += other.duration_ms;
        self.input_tokens += other.input_tokens;
        self.output_tokens += other.output_tokens;
        self.cost_micros += other.cost_micros;
        self.attempts += other.attempts;
        self.begun += other.begun;
        self.first_content_ms += other.first_content_ms;
    }
}

/// Traffic of one slot, provider and model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TrafficRow {
    /// The beginning of the half hour.
    pub slot: Timestamp,
    /// The provider that was asked.
    pub provider: String,
    /// The model that was asked; empty if none was named.
    pub model: String,
    /// What was asked of them.
    #[serde(flatten)]
    pub traffic: Traffic,
}

/// Attempts with one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KeyTraffic {
    /// Attempts that went well.
    pub succeeded: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// The last attempt.
    pub last_at: Option<Timestamp>,
    /// Whether the key was seen resting; told of half hours only.
    pub rested: bool,
}

/// How far back statistics go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Range {
    /// A day.
    Day,
    /// A week.
    Week,
    /// Everything.
    All,
}

impl Range {
    /// Reads `24h`, `7d` or `all`.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "24h" => Some(Self::Day),
            "7d" => Some(Self::Week),
            "all" => Some(Self::All),
            _ => None,
        }
    }

    fn first_slot(self, now: Timestamp) -> i64 {
        match self {
            Self::Day => slot(now) - 47,
            Self::Week => slot(now) - 7 * 48 + 1,
            Self::All => 0,
        }
    }
}

impl Store {
    /// Traffic by slot, provider and model, oldest slot first; includes what is not written yet.
    pub fn traffic(&self, range: Range, now: Timestamp) -> Result<Vec<TrafficRow>, StoreError> {
        let first = range.first_slot(now);
        let sums = self.inner.queue.with_waiting_sums(|waiting| {
            let mut sums = self.read(|connection| Ok(read(connection, first)?))?;
            for (key, traffic) in waiting.by_model {
                if key.0 >= first {
                    sums.entry(key).or_default().absorb(traffic);
                }
            }
            Ok(sums)
        })?;
        let rows = sums.into_iter().map(|((slot, provider, model), traffic)| TrafficRow {
            slot: Timestamp::from_millisecond(slot * SLOT_MS).unwrap_or_default(),
            provider,
            model,
            traffic,
        });
        Ok(rows.collect())
    }

    /// A key's attempts since it was added or its counts were reset.
    pub fn key_traffic(&self, key: KeyId) -> Result<KeyTraffic, StoreError> {
        self.inner.queue.with_waiting_sums(|waiting| {
            let mut total = self.read(|connection| {
                let mut statement = connection.prepare_cached(KEY_TOTAL)?;
                Ok(statement.query_row([signed(key.0)], read_key).optional()?.unwrap_or_default())
            })?;
            let of_key = waiting.by_key.into_iter().filter(|((waiting, _), _)| *waiting == key);
            of_key.for_each(|(_, traffic)| total.absorb(traffic));
            Ok(total)
        })
    }

    /// The attempts of all keys, by key.
    pub fn all_key_traffic(&self) -> Result<BTreeMap<KeyId, KeyTraffic>, StoreError> {
        self.inner.queue.with_waiting_sums(|waiting| {
            let mut totals = self.read(|connection| {
                let mut statement = connection.prepare_cached(KEY_TOTALS)?;
                let rows =
                    statement.query_map([], |row| Ok((KeyId(count(row, "key_id")?), read_key(row)?)))?;
                Ok(rows.collect::<rusqlite::Result<BTreeMap<_, _>>>()?)
            })?;
            for ((key, _), traffic) in waiting.by_key {
                totals.entry(key).or_default().absorb(traffic);
            }
            Ok(totals)
        })
    }

    /// Notes that keys rest, for the half hours of their strips; never waits.
    pub fn note_resting(&self, keys: &[KeyId], now: Timestamp) {
        self.inner.queue.rest(keys, now);
    }

    /// A key's attempts of the last 24 hours as 48 half hours, oldest first.
    pub fn key_strip(&self, key: KeyId, now: Timestamp) -> Result<Vec<KeyTraffic>, StoreError> {
        let first = Range::Day.first_slot(now);
        let mut strip = vec![KeyTraffic::default(); 48];
        let mut add = |slot: i64, traffic: KeyTraffic| {
            if let Some(cell) = usize::try_from(slot - first).ok().and_then(|index| strip.get_mut(index)) {
                cell.absorb(traffic);
            }
        };
        self.inner.queue.with_waiting_sums(|waiting| {
            self.read(|connection| {
                let mut statement = connection.prepare_cached(KEY_STRIP)?;
                let mut rows = statement.query(params![signed(key.0), first])?;
                while let Some(row) = rows.next()? {
                    add(row.get("slot")?, read_key(row)?);
                }
                Ok(())
            })?;
            let of_key = waiting.by_key.into_iter().filter(|((waiting, _), _)| *waiting == key);
            of_key.for_each(|((_, slot), traffic)| add(slot, traffic));
            Ok(())
        })?;
        Ok(strip)
    }
}

impl KeyTraffic {
    fn absorb(&mut self, other: Self) {
        self.succeeded += other.succeeded;
        self.failed += other.failed;
        self.last_at = self.last_at.max(other.last_at);
        self.rested |= other.rested;
    }
}

/// Sums that wait to be added to those in the database.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sums {
    by_model: HashMap<(i64, String, String), Traffic>,
    by_key: HashMap<(KeyId, i64), KeyTraffic>,
    pub(crate) spend: spend::Sums,
}

impl Sums {
    pub(crate) fn is_empty(&self) -> bool {
        self.by_model.is_empty() && self.by_key.is_empty()
    }

    pub(crate) fn add(&mut self, request: &RequestRow) {
        let failed = match request.outcome {
            Outcome::Failed | Outcome::TimedOut => 1,
            Outcome::Succeeded | Outcome::Left => 0,
        };
        let masked = request.outcome == Outcome::Succeeded
            && request.attempts.iter().any(|attempt| attempt.failure.is_some());
        let traffic = Traffic {
            requests: 1,
            failed,
            timeouts: u64::from(request.outcome == Outcome::TimedOut),
            masked: u64::from(masked),
            duration_ms: request.duration_ms,
            input_tokens: request.tokens.input.unwrap_or(0),
            output_tokens: request.tokens.output.unwrap_or(0),
            cost_micros: request.cost_micros.unwrap_or(0),
            attempts: request.attempts.len() as u64,
            begun: u64::from(request.first_content_ms.is_some()),
            first_content_ms: request.first_content_ms.unwrap_or(0),
        };
        let model = request.model.clone().unwrap_or_default();
        let slot = slot(request.at);
        spend::add(&mut self.spend, request);
        self.by_model.entry((slot, request.provider.clone(), model)).or_default().absorb(traffic);
        for attempt in &request.attempts {
            let failed = u64::from(attempt.failure.is_some());
            let traffic =
                KeyTraffic { succeeded: 1 - failed, failed, last_at: Some(request.at), rested: false };
            self.by_key.entry((attempt.key, slot)).or_default().absorb(traffic);
        }
    }

    /// Notes that keys rest in the half hour of this moment.
    pub(crate) fn rest(&mut self, keys: &[KeyId], now: Timestamp) {
        for key in keys {
            self.by_key.entry((*key, slot(now))).or_default().rested = true;
        }
    }

    pub(crate) fn absorb(&mut self, other: Self) {
        for (place, spend) in other.spend {
            self.spend.entry(place).or_default().absorb(spend);
        }
        for (key, traffic) in other.by_model {
            self.by_model.entry(key).or_default().absorb(traffic);
        }
        for (key, traffic) in other.by_key {
            self.by_key.entry(key).or_default().absorb(traffic);
        }
    }
}

/// Adds sums to those in the database.
pub(crate) fn write(transaction: &Transaction<'_>, sums: &Sums) -> rusqlite::Result<()> {
    spend::write(transaction, &sums.spend)?;
    for ((slot, provider, model), traffic) in &sums.by_model {
        transaction.prepare_cached(ADD)?.execute(params![
            slot,
            provider,
            model,
            signed(traffic.requests),
            signed(traffic.failed),
            signed(traffic.timeouts),
            signed(traffic.masked),
            signed(traffic.duration_ms),
            signed(traffic.input_tokens),
            signed(traffic.output_tokens),
            signed(traffic.cost_micros),
            signed(traffic.attempts),
            signed(traffic.begun),
            signed(traffic.first_content_ms),
        ])?;
    }
    for ((key, slot), traffic) in &sums.by_key {
        let last_at = traffic.last_at.map_or(0, millis);
        let (succeeded, failed) = (signed(traffic.succeeded), signed(traffic.failed));
        let key = signed(key.0);
        let rested = i64::from(traffic.rested);
        transaction
            .prepare_cached(ADD_KEY)?
            .execute(params![slot, key, succeeded, failed, last_at, rested])?;
        if succeeded + failed > 0 {
            let total = params![key, succeeded, failed, last_at];
            transaction.prepare_cached(ADD_KEY_TOTAL)?.execute(total)?;
        }
    }
    Ok(())
}

fn read(connection: &Connection, first: i64) -> rusqlite::Result<BTreeMap<(i64, String, String), Traffic>> {
    let mut statement = connection.prepare_cached(LIST)?;
    let rows = statement.query_map([first], |row| {
        let traffic = Traffic {
            requests: count(row, "requests")?,
            failed: count(row, "failed")?,
            timeouts: count(row, "timeouts")?,
            masked: count(row, "masked")?,
            duration_ms: count(row, "duration_ms")?,
            input_tokens: count(row, "input_tokens")?,
            output_tokens: count(row, "output_tokens")?,
            cost_micros: count(row, "cost_micros")?,
            attempts: count(row, "attempts")?,
            begun: count(row, "begun")?,
            first_content_ms: count(row, "first_content_ms")?,
        };
        Ok(((row.get("slot")?, row.get("provider")?, row.get("model")?), traffic))
    })?;
    rows.collect()
}

fn read_key(row: &Row<'_>) -> rusqlite::Result<KeyTraffic> {
    Ok(KeyTraffic {
        succeeded: count(row, "succeeded")?,
        failed: count(row, "failed")?,
        last_at: Some(moment(row, "last_at")?),
        rested: row.get::<_, i64>("rested")? != 0,
    })
}

fn slot(at: Timestamp) -> i64 {
    millis(at).div_euclid(SLOT_MS)
}

const ADD: &str =
    "INSERT INTO traffic (slot, provider, model, requests, failed, timeouts, masked, duration_ms,
    input_tokens, output_tokens, cost_micros, attempts, begun, first_content_ms)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
    ON CONFLICT (slot, provider, model) DO UPDATE SET requests = traffic.requests + excluded.requests,
    failed = traffic.failed + excluded.failed, timeouts = traffic.timeouts + excluded.timeouts,
    masked = traffic.masked + excluded.masked, duration_ms = traffic.duration_ms + excluded.duration_ms,
    input_tokens = traffic.input_tokens + excluded.input_tokens,
    output_tokens = traffic.output_tokens + excluded.output_tokens,
    cost_micros = traffic.cost_micros + excluded.cost_micros, attempts = traffic.attempts + excluded.attempts,
    begun = traffic.begun + excluded.begun,
    first_content_ms = traffic.first_content_ms + excluded.first_content_ms";
const ADD_KEY: &str =
    "INSERT INTO key_traffic (slot, key_id, succeeded, failed, last_at, rested) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
    ON CONFLICT (key_id, slot) DO UPDATE SET succeeded = key_traffic.succeeded + excluded.succeeded,
    failed = key_traffic.failed + excluded.failed,
    last_at = CASE WHEN excluded.last_at > 0 THEN excluded.last_at ELSE key_traffic.last_at END,
    rested = CASE WHEN excluded.rested > 0 THEN 1 ELSE key_traffic.rested END";
const ADD_KEY_TOTAL: &str =
    "INSERT INTO key_total (key_id, succeeded, failed, last_at) VALUES (?1, ?2, ?3, ?4)
    ON CONFLICT (key_id) DO UPDATE SET succeeded = key_total.succeeded + excluded.succeeded,
    failed = key_total.failed + excluded.failed, last_at = excluded.last_at";
const LIST: &str = "SELECT * FROM traffic WHERE slot >= ?1 ORDER BY slot, provider, model";
const KEY_TOTAL: &str = "SELECT succeeded, failed, last_at, 0 AS rested FROM key_total WHERE key_id = ?1";
const KEY_TOTALS: &str = "SELECT key_id, succeeded, failed, last_at, 0 AS rested FROM key_total";
const KEY_STRIP: &str =
    "SELECT slot, succeeded, failed, last_at, rested FROM key_traffic WHERE key_id = ?1 AND slot >= ?2";
