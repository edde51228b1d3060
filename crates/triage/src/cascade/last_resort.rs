//! What is left once the chain is used up: open breakers that may be ignored, others whose outcome may help, failures that
//! nobody knows and that may be over.

use std::time::Duration;

use crate::{
    Timestamp,
    breaker::Admission,
    cascade::{Action, Cascade, Plan, Step, Wake},
    ladder::after,
    pool::Pool,
};

impl Cascade {
    /// The chain is used up: breakers that may be ignored, probes that are under way, places that come free, an
    /// unknown failure that may be over; else the end.
    pub(super) fn last_resort(&mut self, pool: &mut Pool, now: Timestamp) -> Action {
        if let Some(action) = self.through_open_breaker(pool, now) {
            return action;
        }
        if let Some(wait) = self.wait_for_others(pool, now) {
            return wait;
        }
        for at in 0..self.legs.len() {
            let is_shut =
                self.legs[at].over || self.attempts_left(at, pool) == 0 || !self.is_admitted(at, pool, now);
            if is_shut || self.unknown.is_some() {
                continue;
            }
            let model = self.candidates(at, pool, now).first().copied().unwrap_or_default();
            if let Some(permit) = self.with_wish(at, model, |wish| pool.pick_unknown(wish, now)) {
                self.at = at;
                return self.attempt((permit, model), Step::UnknownProbe, pool, now);
            }
        }
        Action::Finish(self.final_end(pool, now))
    }

    /// If every candidate's breaker is open, the requested model is tried anyway.
    fn through_open_breaker(&mut self, pool: &mut Pool, now: Timestamp) -> Option<Action> {
        if self.attempts > 0 {
            return None;
        }
        for at in 0..self.legs.len() {
            if !self.legs[at].all_open || self.legs[at].over {
                continue;
            }
            if !self.is_admitted(at, pool, now) {
                continue;
            }
            if let Some(permit) = self.with_wish(at, 0, |wish| pool.pick(wish, now)) {
                self.at = at;
                return Some(self.attempt((permit, 0), Step::OpenBreaker, pool, now));
            }
        }
        None
    }

    /// Others are trying a key, or hold all places of one: their outcome may help.
    fn wait_for_others(&mut self, pool: &mut Pool, now: Timestamp) -> Option<Action> {
        for at in 0..self.legs.len() {
            if self.legs[at].over || self.attempts_left(at, pool) == 0 || !self.unknown_allows(at) {
                continue;
            }
            let provider = self.legs[at].leg.provider.clone();
            let admission = pool.provider_admission(&provider, now);
            if matches!(admission, Admission::Open(_)) {
                continue;
            }
            let outlook = self.outlook(at, 0, pool, now);
            let last = if outlook.busy && self.place(at, pool) {
                self.limits.deadline
            } else if outlook.probing || admission == Admission::Probing {
                *self.probe_wait.get_or_insert_with(|| after(now, PROBE_WAIT))
            } else {
                continue;
            };
            let until = self.within_time(last);
            if now < until {
                let next_leg = (0..self.legs.len()).find(|at| !self.legs[*at].over).unwrap_or(at);
                self.at = next_leg;
                self.plan = Plan::Key(if self.attempts == 0 { Step::First } else { Step::NextKey });
                return Some(Action::Wait { until, wake: Wake::PoolChange });
            }
        }
        None
    }

    /// Takes a place in the queue of a leg's provider; false if the queue is full.
    fn place(&mut self, at: usize, pool: &Pool) -> bool {
        if self.place.is_none() {
            self.place = pool.queue(&self.legs[at].leg.provider);
        }
        self.place.is_some()
    }
}

/// How long the outcome of other requests' probes is waited for.
const PROBE_WAIT: Duration = Duration::from_secs(5);
