//! The health of every key, and who may be asked next.
//!
//! The pool acts at once and in memory; every transition is also handed out by [`Pool::poll_change`], to be
//! written and shown, and every call that it wants made off the path of requests by [`Pool::poll_probe`].

mod accounts;
mod budget;
mod circuits;
mod climb;
mod gate;
mod health;
mod outlook;
mod people;
mod permit;
mod pick;
mod probe;
mod probing;
mod provider;
mod ready;
mod refusal;
mod restore;
mod saved;
mod serving;
mod settle;
mod status;
mod term;

pub use health::{Disabled, Health, Rest, RestSource, Why};
pub use people::Deed;
pub use permit::Permit;
pub use pick::Wish;
pub use probe::{Probe, ProbeKind, ProbeResult};
pub use saved::{Change, Notice, Pause, SavedKey, SavedState, Subject};
pub use status::{Counters, KeyState, KeyStatus, ModelRest};

pub(crate) use circuits::is_provider_fault;
pub(crate) use outlook::{Outlook, heals_by_itself};
pub(crate) use serving::Fault;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use crate::{
    AccountId, KeyId, ModelId, ProviderId, QuotaSnapshot, Settings, Timestamp, Verdict,
    breaker::BreakerState,
    pool::{
        budget::RetryBudget,
        circuits::Revival,
        permit::{Ticket, Tray},
        provider::Provider,
    },
};

/// Every provider's keys and their health.
#[derive(Debug)]
pub struct Pool {
    seed: u64,
    providers: BTreeMap<ProviderId, Provider>,
    budget: RetryBudget,
    refused_repeats: u64,
    changes: VecDeque<Change>,
    tray: Arc<Tray>,
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
        Self {
            seed,
            providers: BTreeMap::new(),
            budget: RetryBudget::full(),
            refused_repeats: 0,
            changes: VecDeque::new(),
            tray: Arc::default(),
        }
    }

    /// Adds or changes a provider; keys that stay keep their health.
    pub fn set_provider(&mut self, spec: ProviderSpec, now: Timestamp) {
        let seed = self.seed;
        let id = spec.id.clone();
        self.providers.entry(id.clone()).or_insert_with(|| Provider::new(id, seed)).configure(spec, now);
    }

    /// Removes a provider and all it knows.
    pub fn remove_provider(&mut self, id: &ProviderId) {
        self.providers.remove(id);
    }

    /// Takes up a state from before a restart; call it after [`Pool::set_provider`]. A clock that was set meanwhile
    /// moves no end further away than it was. What belongs to no known subject is dropped.
    pub fn restore(&mut self, subject: &Subject, state: SavedState, now: Timestamp) {
        if let Some(provider) = self.providers.get_mut(subject.provider()) {
            provider.restore(subject, state, now);
        }
    }

    /// The next transition to write and show.
    pub fn poll_change(&mut self) -> Option<Change> {
        self.changes.pop_front()
    }

    /// The next call that is due off the path of requests.
    pub fn poll_probe(&mut self, now: Timestamp) -> Option<Probe> {
        self.empty_tray(now);
        self.providers.values_mut().find_map(|provider| provider.next_probe(now))
    }

    /// When the next such call is due.
    pub fn next_probe_at(&self) -> Option<Timestamp> {
        let due = |provider: &Provider| [provider.due.first().map(|due| due.0), provider.revival.due];
        self.providers.values().flat_map(due).flatten().min()
    }

    /// Takes in what a probe found.
    pub fn probe_result(&mut self, probe: &Probe, result: ProbeResult, now: Timestamp) {
        self.with(&probe.provider, |provider| provider.take_result(probe, result, now));
    }

    /// The keys that rest.
    pub fn resting(&self, now: Timestamp) -> impl Iterator<Item = KeyId> {
        self.providers.values().flat_map(move |provider| provider.resting(now))
    }

    /// Repeats that were not made because the budget for them was used up, since the start.
    pub fn refused_repeats(&self) -> u64 {
        self.refused_repeats
    }

    /// Takes in what an answer's headers say of a key's usage windows.
    pub fn record_quota(
        &mut self,
        provider: &ProviderId,
        key: KeyId,
        snapshot: &QuotaSnapshot,
        now: Timestamp,
    ) {
        self.with(provider, |provider| provider.record_quota(key, snapshot, now));
    }

    /// The keys of a provider as people see them, in order of priority.
    pub fn snapshot(&self, provider: &ProviderId, now: Timestamp) -> Vec<KeyStatus> {
        self.providers.get(provider).map(|provider| provider.statuses(now)).unwrap_or_default()
    }

    /// The providers, by id.
    pub fn providers(&self) -> impl Iterator<Item = &ProviderId> {
        self.providers.keys()
    }

    /// The state of a provider's breaker.
    pub fn provider_breaker(&self, provider: &ProviderId) -> Option<&BreakerState> {
        Some(self.providers.get(provider)?.breaker.state())
    }

    /// The breakers of a provider's models that are not at rest.
    pub fn model_breakers(&self, provider: &ProviderId) -> impl Iterator<Item = (&ModelId, &BreakerState)> {
        let models = self.providers.get(provider).into_iter().flat_map(|provider| &provider.models);
        models
            .filter(|(_, model)| model.breaker.state().open.is_some())
            .map(|(id, model)| (id, model.breaker.state()))
    }

    /// Does to a key what a person wants; says whether there is such a key.
    pub fn act(&mut self, provider: &ProviderId, key: KeyId, deed: Deed, now: Timestamp) -> bool {
        self.with(provider, |provider| provider.do_to_key(key, deed, now)).unwrap_or(false)
    }

    /// Takes in what a person's test of a key proved: it is refused, for good. Says whether it was in service.
    pub fn refused_by_test(
        &mut self,
        provider: &ProviderId,
        key: KeyId,
        (verdict, status): (&Verdict, Option<u16>),
        now: Timestamp,
    ) -> bool {
        self.with(provider, |provider| provider.refuse_key(key, (verdict, status), now)).unwrap_or(false)
    }

    /// Closes a model's breaker.
    pub fn reset_model(&mut self, provider: &ProviderId, model: &ModelId) {
        self.with(provider, |provider| {
            if let Some(entry) = provider.models.get_mut(model) {
                entry.breaker.reset();
                provider.note_model(model, Some(Notice::Recovered));
            }
        });
    }

    /// Closes a provider's breaker.
    pub fn reset_provider(&mut self, provider: &ProviderId) {
        self.with(provider, |provider| {
            provider.breaker.reset();
            provider.revival = Revival::default();
            provider.leavers.clear();
            provider.outlook.forget();
            provider.note_provider(Some(Notice::Recovered));
        });
    }

    /// Picks a key and takes it for one attempt.
    pub fn pick(&mut self, wish: &Wish<'_>, now: Timestamp) -> Option<Permit> {
        self.empty_tray(now);
        let provider = self.providers.get_mut(wish.provider)?;
        let slot = provider.find(wish, now)?;
        Some(Permit::new(provider.take(slot, wish, now), &self.tray))
    }

    /// Settles an attempt: `None` says that its first content came, and the permit must still be released; a
    /// verdict ends it.
    pub fn settle(&mut self, mut permit: Permit, verdict: Option<(&Verdict, Option<u16>)>, now: Timestamp) {
        match verdict {
            Some((verdict, status)) => {
                self.fail(permit, verdict, status, now);
            }
            None => {
                self.succeed(&mut permit, now);
                self.release(permit, now);
            }
        }
    }

    /// Gives a permit back; nobody is blamed.
    pub fn release(&mut self, permit: Permit, now: Timestamp) {
        self.return_ticket(permit.into_ticket(), now);
    }

    /// Takes back the permits that were dropped. Everything that decides does so first; call it to have their places
    /// free at once.
    pub fn take_back(&mut self, now: Timestamp) {
        self.empty_tray(now);
    }

    fn return_ticket(&mut self, mut ticket: Ticket, now: Timestamp) {
        let Some(provider) = self.providers.get_mut(&ticket.provider) else { return };
        match ticket.climbing.take() {
            // The climb was given up half-way, but what the key rests for had happened.
            Some(failure) => {
                ticket.climbing = Some(failure.clone());
                provider.rest_after_climb(ticket, &failure.0, failure.1, now);
            }
            None => provider.release(&mut ticket, now),
        }
        self.changes.extend(provider.changes.drain(..));
    }

    fn empty_tray(&mut self, now: Timestamp) {
        for ticket in self.tray.empty() {
            self.return_ticket(ticket, now);
        }
    }

    /// Lets a provider change, and takes over what it has to tell.
    fn with<R>(&mut self, id: &ProviderId, change: impl FnOnce(&mut Provider) -> R) -> Option<R> {
        let provider = self.providers.get_mut(id)?;
        let result = change(provider);
        self.changes.extend(provider.changes.drain(..));
        Some(result)
    }
}
