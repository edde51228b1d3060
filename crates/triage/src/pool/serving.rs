//! What the cascade alone asks of the pool: settings, keys for an attempt, prospects, and what becomes of a climb.

use std::{sync::Arc, time::Duration};

use crate::{
    KeyId, ModelId, ProviderId, Settings, Timestamp, Verdict,
    breaker::Admission,
    pool::{Outlook, Permit, Pool, Why, Wish, gate::Mark, settle::Case},
};

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
        let pays = self.budget.pay(now);
        self.refused_repeats += u64::from(!pays);
        pays
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
