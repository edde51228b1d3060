//! What was used up, day by day: by provider, client key and provider key. Kept for a year.

use std::collections::{BTreeMap, HashMap};

use backstop_triage::{KeyId, Timestamp};
use rusqlite::{Connection, Transaction, params};
use serde::Serialize;

use crate::{
    Store, StoreError,
    requests::RequestRow,
    rows::{count, millis, signed},
};

/// What was used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Spend {
    /// Requests that ended.
    pub requests: u64,
    /// Of them, those that were answered with tokens whose price nobody knows: the cost is without them.
    pub unpriced: u64,
    /// Prompt tokens, those of caches included.
    pub input_tokens: u64,
    /// Answer tokens.
    pub output_tokens: u64,
    /// Cost in millionths of a dollar, as far as it is known.
    pub cost_micros: u64,
}

impl Spend {
    /// Adds what somebody else used up.
    pub fn absorb(&mut self, other: Self) {
        self.requests += other.requests;
        self.unpriced += other.unpriced;
        self.input_tokens += other.input_tokens;
        self.output_tokens += other.output_tokens;
        self.cost_micros += other.cost_micros;
    }

    fn of(request: &RequestRow) -> Self {
        let tokens = &request.tokens;
        let used = [tokens.input, tokens.output].into_iter().flatten().sum::<u64>() > 0;
        Self {
            requests: 1,
            unpriced: u64::from(used && request.cost_micros.is_none()),
            input_tokens: tokens.input.unwrap_or(0) + tokens.cache_read.unwrap_or(0),
            output_tokens: tokens.output.unwrap_or(0),
            cost_micros: request.cost_micros.unwrap_or(0),
        }
    }
}

/// What one client used up of one key on one day.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SpendRow {
    /// The day's beginning, UTC.
    pub day: Timestamp,
    /// The provider that answered, else the one that was asked.
    pub provider: String,
    /// The client key, by its row.
    pub client_id: Option<u64>,
    /// The provider's key that was used last.
    pub key: Option<KeyId>,
    /// What was used up.
    #[serde(flatten)]
    pub spend: Spend,
}

impl Store {
    /// What was used up on the last days, today included, oldest first; includes what is not written yet.
    pub fn spend(&self, days: u32, now: Timestamp) -> Result<Vec<SpendRow>, StoreError> {
        let first = day(now) - i64::from(days.max(1)) + 1;
        let sums = self.inner.queue.with_waiting_sums(|waiting| {
            let mut sums = self.read(|connection| Ok(read(connection, first)?))?;
            for (place, spend) in waiting.spend.into_iter().filter(|(place, _)| place.day >= first) {
                sums.entry(place).or_default().absorb(spend);
            }
            Ok(sums)
        })?;
        let some = |id: u64| (id > 0).then_some(id);
        let row = |(place, spend): (Place, Spend)| SpendRow {
            day: Timestamp::from_millisecond(place.day * DAY_MS).unwrap_or_default(),
            provider: place.provider,
            client_id: some(place.client),
            key: some(place.key).map(KeyId),
            spend,
        };
        Ok(sums.into_iter().map(row).collect())
    }

    /// What a client's requests since the beginning of that day cost, in millionths of a dollar; includes what is not
    /// written yet.
    pub fn client_spend(&self, id: u64, since: Timestamp) -> Result<u64, StoreError> {
        let first = day(since);
        self.inner.queue.with_waiting_sums(|waiting| {
            let is_meant = |place: &Place| place.client == id && place.day >= first;
            let waits = waiting.spend.into_iter().filter(|(place, _)| is_meant(place));
            let waiting: u64 = waits.map(|(_, spend)| spend.cost_micros).sum();
            let written = self.read(|connection| {
                let mut statement = connection.prepare_cached(OF_CLIENT)?;
                Ok(statement.query_row(params![signed(id), first], |row| count(row, "cost_micros"))?)
            })?;
            Ok(written + waiting)
        })
    }
}

/// Whose spending it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Place {
    day: i64,
    provider: String,
    client: u64,
    key: u64,
}

impl Place {
    fn of(request: &RequestRow) -> Self {
        let provider = request.served_provider.as_ref().unwrap_or(&request.provider);
        Self {
            day: day(request.at),
            provider: provider.clone(),
            client: request.client_id.unwrap_or(0),
            key: request.attempts.last().map_or(0, |attempt| attempt.key.0),
        }
    }
}

/// Sums by place.
pub(crate) type Sums = HashMap<Place, Spend>;

/// Adds a request to sums.
pub(crate) fn add(sums: &mut Sums, request: &RequestRow) {
    sums.entry(Place::of(request)).or_default().absorb(Spend::of(request));
}

/// Adds sums to those in the database.
pub(crate) fn write(transaction: &Transaction<'_>, sums: &Sums) -> rusqlite::Result<()> {
    for (place, spend) in sums {
        transaction.prepare_cached(ADD)?.execute(params![
            place.day,
            place.provider,
            signed(place.client),
            signed(place.key),
            signed(spend.requests),
            signed(spend.unpriced),
            signed(spend.input_tokens),
            signed(spend.output_tokens),
            signed(spend.cost_micros),
        ])?;
    }
    Ok(())
}

fn read(connection: &Connection, first: i64) -> rusqlite::Result<BTreeMap<Place, Spend>> {
    let mut statement = connection.prepare_cached(LIST)?;
    let rows = statement.query_map([first], |row| {
        let place = Place {
            day: row.get("day")?,
            provider: row.get("provider")?,
            client: count(row, "client_id")?,
            key: count(row, "key_id")?,
        };
        let spend = Spend {
            requests: count(row, "requests")?,
            unpriced: count(row, "unpriced")?,
            input_tokens: count(row, "input_tokens")?,
            output_tokens: count(row, "output_tokens")?,
            cost_micros: count(row, "cost_micros")?,
        };
        Ok((place, spend))
    })?;
    rows.collect()
}

fn day(at: Timestamp) -> i64 {
    millis(at).div_euclid(DAY_MS)
}

/// A day, the grain of spending.
pub(crate) const DAY_MS: i64 = 86_400_000;
const ADD: &str = "INSERT INTO spend (day, provider, client_id, key_id, requests, unpriced, input_tokens,
    output_tokens, cost_micros) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
    ON CONFLICT (day, provider, client_id, key_id) DO UPDATE SET requests = spend.requests + excluded.requests,
    unpriced = spend.unpriced + excluded.unpriced, input_tokens = spend.input_tokens + excluded.input_tokens,
    output_tokens = spend.output_tokens + excluded.output_tokens,
    cost_micros = spend.cost_micros + excluded.cost_micros";
const OF_CLIENT: &str = "SELECT COALESCE(SUM(cost_micros), 0) AS cost_micros FROM spend
    WHERE client_id = ?1 AND day >= ?2";
const LIST: &str = "SELECT * FROM spend WHERE day >= ?1 ORDER BY day, provider, client_id, key_id";
