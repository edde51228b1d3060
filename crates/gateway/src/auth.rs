//! Who may use the gateway: client keys, and what each may do.
//!
//! Keys are kept as their SHA-256, in a map from the hash; a request costs one hash and one look-up. Limits per minute
//! are counted in memory, spend per month in memory from what the store knew at the start.

use std::{collections::HashMap, sync::Arc};

use backstop_dialect::{Operation, client_keys};
use backstop_store::clients::{ClientLimits, ClientRow, token_hash};
use backstop_triage::Timestamp;
use http::HeaderMap;
use parking_lot::Mutex;
use subtle::ConstantTimeEq;

/// The clients that are known.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    by_hash: HashMap<[u8; 32], Arc<Client>>,
}

/// One client.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) id: u64,
    pub(crate) name: String,
    hash: [u8; 32],
    limits: ClientLimits,
    expires_at: Option<Timestamp>,
    /// Shared with the snapshots before and after, so that a reload loses no count.
    used: Arc<Mutex<Used>>,
}

/// What a client has used up.
#[derive(Debug, Default)]
struct Used {
    minute: i64,
    requests: u64,
    tokens: u64,
    month: (i16, i8),
    spent_micros: u64,
}

/// Why a client may not do this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    /// No key, or none that is known.
    Unknown,
    /// The key is known and may not do this.
    Scope,
    /// The key has used up what it may; seconds until it may again, if it heals by itself soon.
    Limit(Option<u64>),
}

impl Clients {
    /// The clients of the store's rows. `spent` tells what one of them has spent this month.
    pub(crate) fn new(rows: Vec<ClientRow>, before: Option<&Self>, spent: impl Fn(u64) -> u64) -> Self {
        let client = |row: ClientRow| {
            // Spend is summed up for those whom it bounds: that reads the sums of a month.
            let is_bounded = row.limits.spend_micros.is_some();
            let known = before.and_then(|before| before.by_hash.get(&row.hash));
            let known = known.filter(|known| known.limits.spend_micros.is_some() || !is_bounded);
            let used = known.map(|known| Arc::clone(&known.used)).unwrap_or_else(|| {
                let spent_micros = if is_bounded { spent(row.id) } else { 0 };
                Arc::new(Mutex::new(Used { spent_micros, ..Used::default() }))
            });
            let ClientRow { id, name, hash, limits, expires_at, .. } = row;
            (hash, Arc::new(Client { id, name, hash, limits, expires_at, used }))
        };
        Self { by_hash: rows.into_iter().map(client).collect() }
    }

    /// The client whose key a request carries.
    pub(crate) fn find(
        &self,
        headers: &HeaderMap,
        query: Option<&str>,
        now: Timestamp,
    ) -> Result<&Arc<Client>, Denied> {
        let known = |key: &str| {
            let hash = token_hash(key);
            let client = self.by_hash.get(&hash)?;
            bool::from(client.hash.ct_eq(&hash)).then_some(client)
        };
        let client =
            client_keys(headers, query).find_map(|found| known(&found.key)).ok_or(Denied::Unknown)?;
        if client.expires_at.is_some_and(|end| end <= now) { Err(Denied::Unknown) } else { Ok(client) }
    }

    /// Whether a text is the key of a client.
    pub(crate) fn knows(&self, key: &str) -> bool {
        self.by_hash.contains_key(&token_hash(key))
    }
}

impl Client {
    /// Whether it may ask this; counts the request.
    pub(crate) fn may_ask(
        &self,
        provider: &str,
        model: Option<&str>,
        operation: Operation,
        now: Timestamp,
    ) -> Result<(), Denied> {
        let names_what_it_may = match model {
            Some(model) => self.may_name(provider, model),
            None => is_listed(&self.limits.providers, provider) && self.limits.models.is_empty(),
        };
        if !names_what_it_may || !is_listed(&self.limits.routes, operation_name(operation)) {
            return Err(Denied::Scope);
        }
        self.count_request(now)
    }

    /// Whether it may ask a provider or combo for this model.
    pub(crate) fn may_name(&self, provider: &str, model: &str) -> bool {
        let models = &self.limits.models;
        is_listed(&self.limits.providers, provider)
            && (is_listed(models, model) || is_listed(models, &format!("{provider}/{model}")))
    }

    /// Counts what an answer cost.
    pub(crate) fn spend(&self, tokens: u64, micros: u64, now: Timestamp) {
        if self.is_limited() {
            let mut used = self.used.lock();
            used.turn(now);
            used.tokens += tokens;
            used.spent_micros += micros;
        }
    }

    fn count_request(&self, now: Timestamp) -> Result<(), Denied> {
        if !self.is_limited() {
            return Ok(());
        }
        let mut used = self.used.lock();
        used.turn(now);
        if self.limits.spend_micros.is_some_and(|limit| used.spent_micros >= limit) {
            return Err(Denied::Limit(None));
        }
        let to_next_minute = 60 - u64::try_from(now.as_second().rem_euclid(60)).unwrap_or(0);
        let full = self.limits.requests_per_minute.is_some_and(|limit| used.requests >= u64::from(limit))
            || self.limits.tokens_per_minute.is_some_and(|limit| used.tokens >= limit);
        if full {
            return Err(Denied::Limit(Some(to_next_minute)));
        }
        used.requests += 1;
        Ok(())
    }

    /// Whether it may ask for some models only.
    pub(crate) fn is_held_to_models(&self) -> bool {
        !self.limits.models.is_empty()
    }

    /// Whether its requests and answers are kept with the log.
    pub(crate) fn keeps_bodies(&self) -> bool {
        self.limits.keep_bodies
    }

    fn is_limited(&self) -> bool {
        let limits = &self.limits;
        limits.requests_per_minute.is_some()
            || limits.tokens_per_minute.is_some()
            || limits.spend_micros.is_some()
    }
}

impl Used {
    /// Begins a new minute or month if one has come.
    fn turn(&mut self, now: Timestamp) {
        let minute = now.as_second().div_euclid(60);
        if self.minute != minute {
            *self = Self { minute, requests: 0, tokens: 0, ..*self };
            let date = now.to_zoned_datetime(jiff::tz::TimeZone::UTC).date();
            let month = (date.year(), date.month());
            if self.month != month {
                // The first month of this process began with what the store knew.
                if self.month != (0, 0) {
                    self.spent_micros = 0;
                }
                self.month = month;
            }
        }
    }
}

/// Whether a list that limits a client leaves a name to it; an empty one limits nothing.
fn is_listed(list: &[String], name: &str) -> bool {
    list.is_empty() || list.iter().any(|entry| entry == name)
}

/// The public name of an operation, as in a client's `routes` and in the log.
pub(crate) const fn operation_name(operation: Operation) -> &'static str {
    match operation {
        Operation::Generate => "generate",
        Operation::Compact => "compact",
        Operation::CountTokens => "count_tokens",
        Operation::Embeddings => "embeddings",
        Operation::Models => "models",
        Operation::Files => "files",
        Operation::Batches => "batches",
        Operation::Stored => "stored",
        Operation::Audio => "audio",
        Operation::Images => "images",
        Operation::Other => "other",
    }
}
