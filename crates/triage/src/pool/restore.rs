//! Taking up the states from before a restart.

use crate::{
    Timestamp,
    ladder::after,
    pool::{
        ProbeKind, SavedKey, SavedState, Subject,
        gate::Gate,
        provider::{Provider, Timer},
        refusal::BALANCE_FIRST,
    },
};

impl Provider {
    pub(super) fn restore(&mut self, subject: &Subject, state: SavedState, now: Timestamp) {
        match (subject, state) {
            (Subject::Key(_, key), SavedState::Key(saved)) => self.restore_key(*key, *saved, now),
            (Subject::KeyModel(_, key, model), SavedState::Health(mut health)) => {
                let Some(slot) = self.slot(*key, 0) else { return };
                health.anchor(now);
                if let Some(until) = health.until() {
                    self.wake(until, Timer::Key(*key));
                }
                *self.use_gate(*key, model, now) = Gate::restored(health);
                self.refresh(slot, now);
            }
            (Subject::Account(_, id), SavedState::Health(mut health)) => {
                let Some(account) = self.accounts.get_mut(id) else { return };
                health.anchor(now);
                let until = health.until();
                account.gate = Gate::restored(health);
                if let Some(until) = until {
                    self.wake(until, Timer::Account(id.clone()));
                }
                self.refresh_account(id, now);
            }
            (Subject::Model(_, model), SavedState::Breaker(state)) => {
                self.model(model, now).breaker.restore(state, now);
            }
            (Subject::Provider(_), SavedState::Breaker(state)) => self.breaker.restore(state, now),
            // A state of another kind is none of this subject's; it starts healthy.
            (
                Subject::Key(..)
                | Subject::KeyModel(..)
                | Subject::Account(..)
                | Subject::Model(..)
                | Subject::Provider(..),
                SavedState::Key(_) | SavedState::Health(_) | SavedState::Breaker(_),
            ) => {}
        }
    }

    fn restore_key(&mut self, id: crate::KeyId, mut saved: SavedKey, now: Timestamp) {
        let Some(slot) = self.slot(id, 0) else { return };
        saved.health.anchor(now);
        let health = &saved.health;
        for until in [health.until(), saved.paused.and_then(|pause| pause.until)].into_iter().flatten() {
            self.wake(until, Timer::Key(id));
        }
        if health.quarantine.is_some()
            && health.disabled.is_none()
            && self.probes.test
            && saved.vain_tests == 0
        {
            self.due.insert((now, id, ProbeKind::Test));
        }
        if health.disabled.as_ref().is_some_and(super::Disabled::is_for_money) && self.probes.balance {
            self.due.insert((after(now, BALANCE_FIRST), id, ProbeKind::Balance));
        }
        if health.decisive().is_some_and(|rest| rest.penalty == crate::Penalty::RestUnknown) {
            self.unknown_resting.insert(id);
            self.last_unknown = Some(now);
        }
        let key = &mut self.keys[slot];
        key.gate = Gate::restored(saved.health);
        key.paused = saved.paused;
        key.last_success = saved.last_success;
        key.quota = saved.quota.map(Box::new);
        key.consecutive_errors = saved.consecutive_errors;
        key.vain_tests = saved.vain_tests;
        self.refresh(slot, now);
    }
}
