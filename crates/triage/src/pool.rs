//! The health of every key, and who may be asked next.
//!
//! The pool acts at once and in memory; every transition is also handed out by [`Pool::poll_change`], to be
//! written and shown, and every call that it wants made off the path of requests by [`Pool::poll_probe`].

mod health;
mod probe;
mod saved;
mod status;

pub use health::{Disabled, Health, Rest, RestSource, Why};
pub use probe::{Probe, ProbeKind, ProbeResult};
pub use saved::{Change, Notice, Pause, SavedKey, SavedState, Subject};
pub use status::{Counters, KeyState, KeyStatus, ModelRest};

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use crate::{AccountId, KeyId, ModelId, ProviderId, Settings, Timestamp, quota::QuotaSnapshot};

/// Every provider's keys and their health.
#[derive(Debug)]
pub struct Pool {
    seed: u64,
    providers: BTreeMap<ProviderId, ProviderSpec>,
}

/// A key as it is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySpec {
    /// The key.
    pub id: KeyId,
    /// Its label.
    pub label: String,
    /// The account it belongs to, if that is known.
    pub account: Option<AccountId>,
}

/// A provider as it is configured.
#[derive(Clone, Debug)]
pub struct ProviderSpec {
    /// Its id.
    pub id: ProviderId,
    /// Its keys in order of priority.
    pub keys: Vec<KeySpec>,
    /// Its settings, the global ones filled in.
    pub settings: Arc<Settings>,
    /// Which calls off the path it offers.
    pub probes: Probes,
    /// The time an answer that is no stream may take, where one is set for the provider.
    pub answer_timeout: Option<Duration>,
}

/// Which calls off the path of requests a provider's preset offers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Probes {
    /// A free authenticated test.
    pub test: bool,
    /// A usage endpoint.
    pub quota: bool,
    /// A free balance endpoint.
    pub balance: bool,
}

impl Pool {
    /// A pool without providers. `seed` decides all chance.
    pub fn new(seed: u64) -> Self {
        Self { seed, providers: BTreeMap::new() }
    }

    /// Adds or changes a provider; keys that stay keep their health.
    pub fn set_provider(&mut self, spec: ProviderSpec, _now: Timestamp) {
        self.providers.insert(spec.id.clone(), spec);
    }

    /// Removes a provider and all it knows.
    pub fn remove_provider(&mut self, id: &ProviderId) {
        self.providers.remove(id);
    }

    /// Takes up a state from before a restart; call it after [`Pool::set_provider`]. A clock that was set meanwhile
    /// moves no end further away than it was. What belongs to no known subject is dropped.
    pub fn restore(&mut self, _subject: &Subject, _state: SavedState, _now: Timestamp) {}

    /// The next transition to write and show.
    pub fn poll_change(&mut self) -> Option<Change> {
        None
    }

    /// The next call that is due off the path of requests.
    pub fn poll_probe(&mut self, _now: Timestamp) -> Option<Probe> {
        None
    }

    /// When the next such call is due.
    pub fn next_probe_at(&self) -> Option<Timestamp> {
        None
    }

    /// Takes in what a probe found.
    pub fn probe_result(&mut self, _probe: &Probe, _result: ProbeResult, _now: Timestamp) {}

    /// Takes in what an answer's headers say of a key's usage windows.
    pub fn record_quota(
        &mut self,
        _provider: &ProviderId,
        _key: KeyId,
        _snapshot: &QuotaSnapshot,
        _now: Timestamp,
    ) {
    }

    /// When the first key that rests comes back for a model; `None` if none does by itself, or one is ready.
    pub fn earliest_recovery(
        &self,
        _provider: &ProviderId,
        _model: &ModelId,
        _now: Timestamp,
    ) -> Option<Timestamp> {
        None
    }

    /// The keys of a provider as people see them, in order of priority.
    pub fn snapshot(&self, _provider: &ProviderId, _now: Timestamp) -> Vec<KeyStatus> {
        let _ = self.seed;
        Vec::new()
    }

    /// Pauses a key, for a time or until it is resumed. Like every action on a key it says whether the key exists.
    pub fn pause(&mut self, _key: (&ProviderId, KeyId), _until: Option<Timestamp>, _now: Timestamp) -> bool {
        false
    }

    /// Ends a key's pause.
    pub fn resume(&mut self, _key: (&ProviderId, KeyId), _now: Timestamp) -> bool {
        false
    }

    /// Puts a key back into service, whatever was wrong.
    pub fn enable(&mut self, _key: (&ProviderId, KeyId), _now: Timestamp) -> bool {
        false
    }

    /// Takes a key out of service.
    pub fn disable(&mut self, _key: (&ProviderId, KeyId), _now: Timestamp) -> bool {
        false
    }

    /// Forgets all that is known of a key: rests, ladders, errors, models.
    pub fn reset(&mut self, _key: (&ProviderId, KeyId), _now: Timestamp) -> bool {
        false
    }

    /// Ends a key's rest or quarantine; a disabled key stays disabled.
    pub fn end_rest(&mut self, _key: (&ProviderId, KeyId), _now: Timestamp) -> bool {
        false
    }

    /// Closes a model's breaker.
    pub fn reset_model(&mut self, _provider: &ProviderId, _model: &ModelId) {}

    /// Closes a provider's breaker.
    pub fn reset_provider(&mut self, _provider: &ProviderId) {}
}
