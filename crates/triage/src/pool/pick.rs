//! Which key is asked next.

use std::collections::BTreeMap;

use crate::{
    KeyId, ModelId, ProviderId, Timestamp,
    breaker::Admission,
    ladder::until,
    pool::{
        gate::{Mark, Phase},
        permit::Ticket,
        provider::Provider,
    },
    settings::{Rotation, Sticky},
};

/// What a request wants of a provider.
#[derive(Clone, Copy, Debug)]
pub struct Wish<'a> {
    /// The provider.
    pub provider: &'a ProviderId,
    /// The model.
    pub model: &'a ModelId,
    /// Keys that the request must not use (again).
    pub excluded: &'a [KeyId],
    /// Its session, hashed.
    pub session: Option<u64>,
    /// The key whose account must serve it.
    pub pinned: Option<KeyId>,
    /// The request, by a number of its own.
    pub request: u64,
}

/// Whose turn it is in round robin.
#[derive(Debug, Default)]
pub(super) struct Turn {
    slot: usize,
    served: u32,
}

impl Provider {
    /// The first key that is ready, by rotation, session and pin; nothing is taken yet.
    pub(super) fn find(&mut self, wish: &Wish<'_>, now: Timestamp) -> Option<usize> {
        self.tick(now);
        if let Some(pinned) = wish.pinned {
            return self.find_pinned(pinned, wish);
        }
        if let Some(slot) = self.find_sticky(wish) {
            return Some(slot);
        }
        let slot = match self.settings.rotation {
            Rotation::OnError => self.ready_from(0, wish)?,
            Rotation::RoundRobin => self.next_turn(wish)?,
        };
        if let (Sticky::Session, Some(session)) = (self.settings.sticky, wish.session) {
            self.sessions.put(session, self.keys[slot].id);
        }
        Some(slot)
    }

    /// Whether a key is ready that the wish does not exclude.
    pub(super) fn has_ready(&mut self, wish: &Wish<'_>, now: Timestamp) -> bool {
        self.tick(now);
        match wish.pinned {
            Some(pinned) => self.find_pinned(pinned, wish).is_some(),
            None => self.ready_from(0, wish).is_some(),
        }
    }

    /// Whether this very key is ready for the model.
    pub(super) fn is_ready(&mut self, slot: usize, model: &ModelId, now: Timestamp) -> bool {
        self.tick(now);
        match self.models.get(model).filter(|model| !model.uses.is_empty()) {
            Some(model) => model.ready.contains(slot),
            None => self.ready.contains(slot),
        }
    }

    /// Takes a key for an attempt.
    pub(super) fn take(&mut self, slot: usize, wish: &Wish<'_>, now: Timestamp) -> Ticket {
        let key = &mut self.keys[slot];
        key.in_flight += 1;
        key.counters.attempts += 1;
        let id = key.id;
        let key_mark = key.gate.take(now);
        let mut counted = key_mark.permit || self.settings.max_concurrent > 0;
        let account = key.account.clone();
        let account_mark = account
            .as_ref()
            .and_then(|account| self.accounts.get_mut(account))
            .map(|account| account.gate.take(now));
        let mut use_mark = Mark::default();
        let mut model_probe = false;
        if let Some(model) = self.models.get_mut(wish.model) {
            if let Some(gate) = model.uses.get_mut(&id) {
                use_mark = gate.take(now);
                counted |= use_mark.permit;
            }
            model_probe = model.breaker.admission(now) == Admission::Probe;
            if model_probe {
                model.breaker.take_probe();
            }
        }
        let provider_probe = self.breaker.admission(now) == Admission::Probe;
        if provider_probe {
            self.breaker.take_probe();
        }
        match (account, account_mark) {
            (Some(account), Some(mark)) if mark.permit => self.refresh_account(&account, now),
            (_, _) if counted => self.refresh(slot, now),
            (_, _) => {}
        }
        Ticket {
            provider: self.id.clone(),
            key: id,
            slot,
            model: wish.model.clone(),
            request: wish.request,
            began: now,
            key_mark,
            account_mark,
            use_mark,
            model_probe,
            provider_probe,
            climbing: None,
        }
    }

    /// A key that rests over an unknown failure, at most one per `unknown_probe_s`; for a request that has no
    /// other route left.
    pub(super) fn find_unknown(&mut self, wish: &Wish<'_>, now: Timestamp) -> Option<usize> {
        if self.last_unknown.is_some_and(|last| until(last, now) < self.settings.unknown_probe()) {
            return None;
        }
        let candidates: Vec<KeyId> =
            self.unknown_resting.iter().copied().filter(|key| !wish.excluded.contains(key)).collect();
        for id in candidates {
            let slot = self.slot(id, 0)?;
            let key = &self.keys[slot];
            let rests = matches!(key.gate.phase(now), Phase::Resting(_)) && key.rests_over_unknown();
            if !rests {
                self.unknown_resting.remove(&id);
            } else if !key.is_paused(now) && key.in_flight == 0 && self.others_admit(slot, wish.model, now) {
                self.last_unknown = Some(now);
                return Some(slot);
            }
        }
        None
    }

    /// Whether the key's account and its use of the model let a call through, whatever the key's own state.
    pub(super) fn others_admit(&self, slot: usize, model: &ModelId, now: Timestamp) -> bool {
        let key = &self.keys[slot];
        let account = key.account.as_ref().and_then(|account| self.accounts.get(account));
        let used = self.models.get(model).and_then(|model| model.uses.get(&key.id));
        account.is_none_or(|account| account.gate.admits(now)) && used.is_none_or(|gate| gate.admits(now))
    }

    fn ready_from(&self, from: usize, wish: &Wish<'_>) -> Option<usize> {
        let ready = match self.models.get(wish.model) {
            Some(model) if !model.uses.is_empty() => &model.ready,
            Some(_) | None => &self.ready,
        };
        let mut from = from;
        loop {
            let slot = ready.next(from)?;
            if !wish.excluded.contains(&self.keys[slot].id) {
                return Some(slot);
            }
            from = slot + 1;
        }
    }

    fn next_turn(&mut self, wish: &Wish<'_>) -> Option<usize> {
        let slot = self.ready_from(self.turn.slot, wish).or_else(|| self.ready_from(0, wish))?;
        if slot != self.turn.slot {
            self.turn = Turn { slot, served: 0 };
        }
        self.turn.served += 1;
        if self.turn.served >= self.settings.requests_per_key.max(1) {
            self.turn = Turn { slot: slot + 1, served: 0 };
        }
        Some(slot)
    }

    fn find_sticky(&mut self, wish: &Wish<'_>) -> Option<usize> {
        if self.settings.sticky == Sticky::Off {
            return None;
        }
        let key = self.sessions.find(wish.session?)?;
        let slot = self.slot(key, 0)?;
        let free = self.ready_from(slot, wish) == Some(slot);
        free.then_some(slot)
    }

    fn find_pinned(&self, pinned: KeyId, wish: &Wish<'_>) -> Option<usize> {
        let slot = self.slot(pinned, 0)?;
        let account = self.keys[slot].account.as_ref().and_then(|account| self.accounts.get(account));
        let siblings = account.map_or(&[][..], |account| &account.members);
        let mut candidates = std::iter::once(slot).chain(siblings.iter().copied());
        candidates.find(|slot| self.ready_from(*slot, wish) == Some(*slot))
    }
}

/// Which key a session used last. Bounded: of more sessions than it holds, those that were used last stay.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    recent: BTreeMap<u64, KeyId>,
    older: BTreeMap<u64, KeyId>,
}

impl Sessions {
    fn find(&mut self, session: u64) -> Option<KeyId> {
        if let Some(key) = self.recent.get(&session) {
            return Some(*key);
        }
        let key = self.older.remove(&session)?;
        self.put(session, key);
        Some(key)
    }

    fn put(&mut self, session: u64, key: KeyId) {
        if self.recent.len() >= SESSIONS_KEPT / 2 && !self.recent.contains_key(&session) {
            self.older = std::mem::take(&mut self.recent);
        }
        self.recent.insert(session, key);
    }
}

const SESSIONS_KEPT: usize = 20_000;
