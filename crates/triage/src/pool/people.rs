//! What people do to keys, and what they see of them.

use crate::{
    Class, KeyId, Reason, Timestamp, Verdict,
    pool::{
        Disabled, KeyState, KeyStatus, ModelRest, Notice, Pause, RestSource, Why,
        gate::{Gate, Phase},
        provider::{Key, Provider, Timer},
    },
};

/// Something that a person does to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Pauses it, for a time or until it is resumed.
    Pause(Option<Timestamp>),
    /// Ends a pause.
    Resume,
    /// Puts it back into service, whatever was wrong.
    Enable,
    /// Takes it out of service.
    Disable,
    /// Forgets all that is known of it: rests, ladders, errors, models.
    Reset,
    /// Ends a rest or quarantine; a disabled key stays disabled.
    EndRest,
}

impl Provider {
    pub(super) fn do_to_key(&mut self, id: KeyId, deed: Deed, now: Timestamp) -> bool {
        let Some(slot) = self.slot(id, 0) else { return false };
        let key = &mut self.keys[slot];
        let mut notice = None;
        match deed {
            Deed::Pause(until) => {
                key.paused = Some(Pause { since: now, until });
                if let Some(until) = until {
                    self.wake(until, Timer::Key(id));
                }
            }
            Deed::Resume => key.paused = None,
            Deed::Enable | Deed::Reset => {
                if deed == Deed::Enable {
                    key.paused = None;
                }
                notice = Some(Notice::Recovered);
                self.clear(slot, now);
            }
            Deed::Disable => {
                let why = Why {
                    class: Class::ConfigurationError,
                    reason: Reason::from("disabled_by_hand"),
                    status: None,
                    window: None,
                    source: RestSource::Hand,
                };
                key.gate.disable_by_hand(Disabled { since: now, why });
            }
            Deed::EndRest => {
                if key.gate.health.disabled.is_none() {
                    self.clear(slot, now);
                }
            }
        }
        self.refresh(slot, now);
        self.note_key(slot, notice);
        true
    }

    /// Takes a key out of service because a test that a person asked for has proved it refused.
    pub(super) fn refuse_key(
        &mut self,
        id: KeyId,
        (verdict, status): (&Verdict, Option<u16>),
        now: Timestamp,
    ) -> bool {
        let Some(slot) = self.slot(id, 0) else { return false };
        self.disable_for(slot, Why::of(verdict, status, RestSource::Test), now)
    }

    /// Opens a new epoch for a key, for its use of every model, and for the account that holds it back.
    fn clear(&mut self, slot: usize, now: Timestamp) {
        let key = &mut self.keys[slot];
        key.gate.renew();
        key.consecutive_errors = 0;
        key.unknowns = 0;
        key.vain_tests = 0;
        let (id, account) = (key.id, key.account.clone());
        self.due.retain(|(_, key, _)| *key != id);
        self.unknown_resting.remove(&id);
        let mut changed = Vec::new();
        for (name, model) in &mut self.models {
            if let Some(gate) = model.uses.get_mut(&id).filter(|gate| gate.phase(now) != Phase::Open) {
                gate.renew();
                changed.push(name.clone());
            }
        }
        for model in changed {
            self.note_use(id, &model);
        }
        if let Some(account) = account
            && let Some(held) =
                self.accounts.get_mut(&account).filter(|held| held.gate.phase(now) != Phase::Open)
        {
            held.gate.renew();
            self.note_account(&account);
            self.refresh_account(&account, now);
        }
    }

    pub(super) fn statuses(&self, now: Timestamp) -> Vec<KeyStatus> {
        self.keys.iter().map(|key| self.status(key, now)).collect()
    }

    /// The keys that rest, for themselves or with their account.
    pub(super) fn resting(&self, now: Timestamp) -> impl Iterator<Item = KeyId> {
        let rests = move |gate: &Gate| matches!(gate.phase(now), Phase::Resting(_));
        let is_resting = move |key: &&Key| {
            let account = key.account.as_ref().and_then(|account| self.accounts.get(account));
            rests(&key.gate) || account.is_some_and(|account| rests(&account.gate))
        };
        self.keys.iter().filter(is_resting).map(|key| key.id)
    }

    fn status(&self, key: &Key, now: Timestamp) -> KeyStatus {
        let account = key.account.as_ref().and_then(|account| self.accounts.get(account));
        let gate = match account {
            Some(account) if badness(&account.gate, now) > badness(&key.gate, now) => &account.gate,
            Some(_) | None => &key.gate,
        };
        let beneath = state(gate, key, now);
        let (since, until, why) = particulars(gate, key, now);
        let models = self
            .models
            .iter()
            .filter_map(|(name, model)| Some((name, model.uses.get(&key.id)?)))
            .filter(|(_, gate)| gate.phase(now) != Phase::Open)
            .map(|(name, gate)| {
                let rest = gate.health.decisive();
                ModelRest {
                    model: name.clone(),
                    since: rest.map(|rest| rest.since),
                    until: rest.map(|rest| rest.until).filter(|until| *until > now),
                    why: rest.map(|rest| rest.why.clone()),
                }
            })
            .collect();
        let paused = key.paused.filter(|_| key.is_paused(now));
        KeyStatus {
            id: key.id,
            label: key.label.clone(),
            account: key.account.clone(),
            state: if paused.is_some() { KeyState::Paused } else { beneath },
            beneath,
            since,
            until,
            why,
            paused,
            consecutive_errors: key.consecutive_errors,
            counters: key.counters,
            last_success: key.last_success,
            in_flight: key.in_flight,
            models,
            quota: key.quota.as_deref().cloned(),
        }
    }
}

/// Orders gates by how much they keep a key from working.
fn badness(gate: &Gate, now: Timestamp) -> (u8, Timestamp) {
    match gate.phase(now) {
        Phase::Open => (0, Timestamp::MIN),
        Phase::HalfOpen => (1, Timestamp::MIN),
        Phase::Resting(until) => (2, until),
        Phase::Disabled => (3, Timestamp::MAX),
    }
}

fn state(gate: &Gate, key: &Key, now: Timestamp) -> KeyState {
    match gate.phase(now) {
        Phase::Disabled => KeyState::Disabled,
        Phase::Resting(_) if gate.health.decisive() == gate.health.quarantine.as_ref() => {
            KeyState::Quarantined
        }
        Phase::Resting(_) => KeyState::Resting,
        Phase::HalfOpen => KeyState::HalfOpen,
        Phase::Open if key.climbed.is_some() => KeyState::Resting,
        Phase::Open if key.consecutive_errors > ERRORS_TO_UNSTABLE => KeyState::Unstable,
        Phase::Open => KeyState::Active,
    }
}

/// Since when, until when and why a key is not simply active.
fn particulars(
    gate: &Gate,
    key: &Key,
    now: Timestamp,
) -> (Option<Timestamp>, Option<Timestamp>, Option<Why>) {
    if let Some(disabled) = &gate.health.disabled {
        return (Some(disabled.since), None, Some(disabled.why.clone()));
    }
    match gate.health.decisive() {
        Some(rest) => {
            (Some(rest.since), Some(rest.until).filter(|until| *until > now), Some(rest.why.clone()))
        }
        None => (None, None, key.climbed.clone()),
    }
}

const ERRORS_TO_UNSTABLE: u32 = 3;
