//! The health of every key, and who may be asked next.
//!
//! The pool acts at once and in memory; every transition is also handed out by [`Pool::poll_change`], to be
//! written and shown, and every call that it wants made off the path of requests by [`Pool::poll_probe`].

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
mod restore;
mod saved;
mod settle;
mod status;
mod term;

pub use health::{Disabled, Health, Rest, RestSource, Why};
pub use outlook::Outlook;
pub use people::Deed;
pub use permit::Permit;
pub use pick::Wish;
pub use probe::{Probe, ProbeKind, ProbeResult};
pub use saved::{Change, Notice, Pause, SavedKey, SavedState, Subject};
pub use status::{Counters, KeyState, KeyStatus, ModelRest};

pub(crate) use circuits::is_provider_fault;
pub(crate) use outlook::heals_by_itself;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use crate::{
    AccountId, KeyId, ModelId, ProviderId, QuotaSnapshot, Settings, Timestamp, Verdict,
    breaker::{Admission, BreakerState},
    pool::{
        budget::RetryBudget,
        circuits::Revival,
        gate::Mark,
        permit::{Ticket, Tray},
        provider::Provider,
        settle::Case,
    },
};

/// Every provider's keys and their health.
#[derive(Debug)]
pub struct Pool {
    seed: u64,
    providers: BTreeMap<ProviderId, Provider>,
    budget: RetryBudget,
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

    /// When the first resting key comes back for a model by itself; `None` if none does.
    pub fn earliest_recovery(
        &self,
        provider: &ProviderId,
        model: &ModelId,
        now: Timestamp,
    ) -> Option<Timestamp> {
        self.providers.get(provider)?.survey(model, &[], now).back_at.map(|(at, _)| at)
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

/// What the cascade alone needs.
impl Pool {
    pub(crate) fn settings(&self, provider: &ProviderId) -> Option<Arc<Settings>> {
        Some(Arc::clone(&self.providers.get(provider)?.settings))
    }

    pub(crate) fn answer_timeout(&self, provider: &ProviderId) -> Option<Duration> {
        self.providers.get(provider)?.answer_timeout
    }

    /// A place in the queue of those who wait for a busy key; `None` if as many wait as can be served at a time.
    pub(crate) fn queue(&self, provider: &ProviderId) -> Option<Arc<()>> {
        let provider = self.providers.get(provider)?;
        let waiting = Arc::strong_count(&provider.queue) - 1;
        let most = provider.keys.len().saturating_mul(provider.settings.max_concurrent as usize);
        (waiting < most).then(|| Arc::clone(&provider.queue))
    }

    pub(crate) fn label(&self, provider: &ProviderId, key: KeyId) -> String {
        let key = self.providers.get(provider).and_then(|provider| provider.key(key));
        key.map(|key| key.label.clone()).unwrap_or_default()
    }

    pub(crate) fn provider_admission(&self, provider: &ProviderId, now: Timestamp) -> Admission {
        self.providers.get(provider).map_or(Admission::Closed, |provider| provider.breaker.admission(now))
    }

    pub(crate) fn model_admission(
        &self,
        provider: &ProviderId,
        model: &ModelId,
        now: Timestamp,
    ) -> Admission {
        let model = self.providers.get(provider).and_then(|provider| provider.models.get(model));
        model.map_or(Admission::Closed, |model| model.breaker.admission(now))
    }

    pub(crate) fn outlook(&mut self, wish: &Wish<'_>, now: Timestamp) -> Outlook {
        self.empty_tray(now);
        let provider = self.providers.get_mut(wish.provider);
        provider.map(|provider| provider.outlook(wish.model, wish.excluded, now)).unwrap_or_default()
    }

    pub(crate) fn has_ready(&mut self, wish: &Wish<'_>, now: Timestamp) -> bool {
        self.empty_tray(now);
        self.providers.get_mut(wish.provider).is_some_and(|provider| provider.has_ready(wish, now))
    }

    /// Takes one certain key, if it is ready.
    pub(crate) fn pick_key(&mut self, wish: &Wish<'_>, key: KeyId, now: Timestamp) -> Option<Permit> {
        self.empty_tray(now);
        let provider = self.providers.get_mut(wish.provider)?;
        let slot = provider.slot(key, 0)?;
        if !provider.is_ready(slot, wish.model, now) {
            return None;
        }
        Some(Permit::new(provider.take(slot, wish, now), &self.tray))
    }

    /// Takes a key that rests over an unknown failure, if it is time for a probe.
    pub(crate) fn pick_unknown(&mut self, wish: &Wish<'_>, now: Timestamp) -> Option<Permit> {
        self.empty_tray(now);
        let provider = self.providers.get_mut(wish.provider)?;
        let slot = provider.find_unknown(wish, now)?;
        Some(Permit::new(provider.take(slot, wish, now), &self.tray))
    }

    pub(crate) fn succeed(&mut self, permit: &mut Permit, now: Timestamp) {
        let Some(provider) = self.providers.get_mut(permit.provider()) else { return };
        provider.succeed(permit.ticket_mut(), now);
        self.changes.extend(provider.changes.drain(..));
    }

    /// Settles a failure; says whether the whole provider is suspected of refusing good keys.
    pub(crate) fn fail(
        &mut self,
        permit: Permit,
        verdict: &Verdict,
        status: Option<u16>,
        now: Timestamp,
    ) -> bool {
        self.empty_tray(now);
        let ticket = permit.into_ticket();
        let provider = ticket.provider.clone();
        self.with(&provider, |provider| provider.fail(ticket, verdict, status, now)).unwrap_or(false)
    }

    /// Keeps the key for the request alone while it climbs the ladder; its rest begins when the climb ends.
    pub(crate) fn climb(
        &mut self,
        permit: &mut Permit,
        verdict: &Verdict,
        status: Option<u16>,
        now: Timestamp,
    ) -> bool {
        let provider = permit.provider().clone();
        let ticket = permit.ticket_mut();
        self.with(&provider, |provider| provider.climb(ticket, verdict, status, now)).unwrap_or(false)
    }

    /// Counts another attempt of a climb; false if the key can be used no more.
    pub(crate) fn climb_on(&mut self, permit: &mut Permit, now: Timestamp) -> bool {
        let provider = permit.provider().clone();
        self.with(&provider, |provider| provider.climb_on(permit.ticket_mut(), now)).unwrap_or(false)
    }

    /// Rests a key whose sibling answered the request that it failed.
    pub(crate) fn blame(&mut self, fault: &Fault, now: Timestamp) {
        self.with(&fault.provider, |provider| {
            let Some(slot) = provider.slot(fault.key, 0) else { return };
            let case = Case {
                slot,
                model: &fault.model,
                request: fault.request,
                key_mark: fault.mark,
                account_mark: None,
                use_mark: Mark::default(),
                climber: false,
                verdict: &fault.verdict,
                status: fault.status,
            };
            provider.blame(&case, now);
        });
    }

    /// Whether other requests in a row have met the provider's own fault, with no answer in between.
    pub(crate) fn is_down(&self, provider: &ProviderId, request: u64, now: Timestamp) -> bool {
        self.providers.get(provider).is_some_and(|provider| provider.is_down(request, now))
    }

    /// A request left a provider over the provider's own fault.
    pub(crate) fn leave(&mut self, provider: &ProviderId, why: Why, now: Timestamp) {
        self.with(provider, |provider| provider.leave(why, now));
    }

    pub(crate) fn earn(&mut self) {
        self.budget.earn();
    }

    pub(crate) fn pay(&mut self, now: Timestamp) -> bool {
        self.budget.pay(now)
    }
}

/// A failure that may turn out to be the key's own fault.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) key: KeyId,
    provider: ProviderId,
    model: ModelId,
    request: u64,
    mark: Mark,
    verdict: Verdict,
    status: Option<u16>,
}

impl Fault {
    pub(crate) fn of(permit: &Permit, verdict: &Verdict, status: Option<u16>) -> Self {
        let ticket = permit.ticket();
        Self {
            key: ticket.key,
            provider: ticket.provider.clone(),
            model: ticket.model.clone(),
            request: ticket.request,
            mark: ticket.key_mark,
            verdict: verdict.clone(),
            status,
        }
    }
}
