//! Carrying a plan out: what is possible becomes an attempt, what is not leads on.

use std::time::Duration;

use crate::{
    Class, KeyId, ModelId, Timestamp,
    cascade::{
        Action, Again, Attempt, Cascade, End, FinalError, FinalKind, Held, Otherwise, Plan, Progress, Step,
        Tried, TriedResult, Wake,
    },
    ladder::{after, until},
    pool::{Permit, Pool},
};

impl Cascade {
    pub(super) fn walk(&mut self, pool: &mut Pool, now: Timestamp) -> Action {
        // Every turn either ends the walk, or leaves a leg, or moves to a coarser plan: it cannot go on for ever.
        loop {
            if let Plan::Over(end) = &self.plan {
                return Action::Finish(end.clone());
            }
            if !self.is_in_time(now) {
                return Action::Finish(self.out_of_time(pool, now));
            }
            if let Some(action) = self.step(pool, now) {
                return action;
            }
        }
    }

    /// One turn; `None` if the plan has only changed.
    fn step(&mut self, pool: &mut Pool, now: Timestamp) -> Option<Action> {
        match self.plan.clone() {
            Plan::Over(end) => Some(Action::Finish(end)),
            Plan::Fresh => self.held.take().and_then(|held| self.fresh(held, pool, now)),
            Plan::Climb { at } => self.climb(at, pool, now),
            Plan::Same(again) => self.same(again, pool, now),
            Plan::Model { key, otherwise } => self.next_model(key, otherwise, pool, now),
            Plan::LargerWindow { key } => self.larger_window(key, pool, now),
            Plan::Key(step) => self.any_key(step, pool, now),
            Plan::Leg => self.leave_leg(pool, now),
        }
    }

    /// The same route on a fresh connection; the key may have come to rest meanwhile.
    fn fresh(&mut self, mut held: Held, pool: &mut Pool, now: Timestamp) -> Option<Action> {
        if held.permit.is_climbing() && pool.climb_on(&mut held.permit, now) {
            return Some(self.attempt((held.permit, held.model), Step::FreshConnection, pool, now));
        }
        let key = held.permit.key();
        pool.release(held.permit, now);
        let permit = self
            .is_admitted(self.at, pool, now)
            .then(|| self.with_wish(self.at, held.model, |wish| pool.pick_key(wish, key, now)))
            .flatten();
        if permit.is_none() {
            self.plan = Plan::Key(Step::NextKey);
        }
        permit.map(|permit| self.attempt((permit, held.model), Step::FreshConnection, pool, now))
    }

    fn climb(&mut self, at: Timestamp, pool: &mut Pool, now: Timestamp) -> Option<Action> {
        if now < at {
            return Some(Action::Wait { until: at, wake: Wake::Time });
        }
        let mut held = self.held.take()?;
        if pool.climb_on(&mut held.permit, now) {
            return Some(self.attempt((held.permit, held.model), Step::Ladder, pool, now));
        }
        // Given back, the permit brings the key the rest that the climb had put off.
        pool.release(held.permit, now);
        self.plan = Plan::Leg;
        None
    }

    fn same(&mut self, again: Again, pool: &mut Pool, now: Timestamp) -> Option<Action> {
        let Again { key, model, at } = again;
        if now < at {
            return Some(Action::Wait { until: at, wake: Wake::Time });
        }
        let permit = (self.attempts_left(self.at, pool) > 0 && self.is_admitted(self.at, pool, now))
            .then(|| self.with_wish(self.at, model, |wish| pool.pick_key(wish, key, now)))
            .flatten();
        match permit {
            Some(permit) => Some(self.attempt((permit, model), Step::RetrySame, pool, now)),
            None => {
                self.stage().spent.push(key);
                self.plan = Plan::Key(Step::NextKey);
                None
            }
        }
    }

    fn next_model(
        &mut self,
        key: KeyId,
        otherwise: Otherwise,
        pool: &mut Pool,
        now: Timestamp,
    ) -> Option<Action> {
        if self.attempts_left(self.at, pool) > 0 && self.is_admitted(self.at, pool, now) {
            for model in self.candidates(self.at, pool, now) {
                if self.legs[self.at].tried.contains(&(key, model)) {
                    continue;
                }
                if let Some(permit) = self.with_wish(self.at, model, |wish| pool.pick_key(wish, key, now)) {
                    return Some(self.attempt((permit, model), Step::NextModel, pool, now));
                }
            }
        }
        let stage = self.stage();
        stage.spent.push(key);
        self.plan = match otherwise {
            Otherwise::Key => Plan::Key(Step::NextKey),
            Otherwise::FurtherKey if !stage.overload_key => {
                stage.overload_key = true;
                Plan::Key(Step::NextKey)
            }
            Otherwise::FurtherKey | Otherwise::Leg => {
                stage.over = true;
                Plan::Leg
            }
        };
        None
    }

    fn larger_window(&mut self, key: KeyId, pool: &mut Pool, now: Timestamp) -> Option<Action> {
        self.overflowed = true;
        let settings = self.settings(self.at, pool);
        let larger = settings.as_deref().and_then(|settings| settings.context_fallback.as_deref());
        if let Some(larger) = larger.map(ModelId::from)
            && self.attempts_left(self.at, pool) > 0
        {
            let models = &mut self.stage().leg.models;
            let model = models.iter().position(|model| *model == larger).unwrap_or_else(|| {
                models.push(larger);
                models.len() - 1
            });
            if let Some(permit) = self.with_wish(self.at, model, |wish| pool.pick_key(wish, key, now)) {
                return Some(self.attempt((permit, model), Step::LargerWindow, pool, now));
            }
        }
        self.plan =
            Plan::Over(End::Error(FinalError::of(FinalKind::ContextOverflow, Class::ContextOverflow)));
        None
    }

    fn any_key(&mut self, step: Step, pool: &mut Pool, now: Timestamp) -> Option<Action> {
        if self.legs.get(self.at).is_none_or(|stage| stage.over) {
            self.plan = Plan::Leg;
            return None;
        }
        if self.attempts_left(self.at, pool) == 0
            || !self.is_admitted(self.at, pool, now)
            || !self.unknown_allows(self.at)
        {
            self.plan = Plan::Leg;
            return None;
        }
        let model = self.candidates(self.at, pool, now).first().copied();
        self.stage().all_open = model.is_none();
        let Some(model) = model else {
            self.plan = Plan::Leg;
            return None;
        };
        if let Some(permit) = self.with_wish(self.at, model, |wish| pool.pick(wish, now)) {
            return Some(self.attempt((permit, model), step, pool, now));
        }
        if let Some(wait) = self.patience(model, pool, now) {
            return Some(wait);
        }
        self.plan = Plan::Leg;
        None
    }

    /// Waits for the leg's first key, if it is back soon enough.
    fn patience(&mut self, model: usize, pool: &mut Pool, now: Timestamp) -> Option<Action> {
        let settings = self.settings(self.at, pool)?;
        if settings.patience_s == 0 {
            return None;
        }
        let (at, _) = self.outlook(self.at, model, pool, now).back_at?;
        let patient_until = *self
            .stage()
            .patient_until
            .get_or_insert_with(|| after(now, Duration::from_secs(settings.patience_s)));
        if at > patient_until || !self.is_in_time(at) {
            return None;
        }
        self.forgive_limits();
        Some(Action::Wait { until: at, wake: Wake::PoolChange })
    }

    /// Whoever waits for a key that was over its limit may ask that key again.
    fn forgive_limits(&mut self) {
        let at = self.at;
        let trail = &self.trail;
        let was_limited = |key: &KeyId| {
            let last = trail.iter().rev().find(|tried| tried.leg == at && tried.key == *key);
            let class = last.and_then(|tried| tried.result.class());
            matches!(class, Some(Class::RateLimit | Class::QuotaExhausted))
        };
        self.legs[at].spent.retain(|key| !was_limited(key));
    }

    /// Goes to the next leg; after the last one, to the last resort.
    fn leave_leg(&mut self, pool: &mut Pool, now: Timestamp) -> Option<Action> {
        if let Some(stage) = self.legs.get_mut(self.at)
            && let Some(why) = stage.leaving_over.take()
        {
            pool.leave(&stage.leg.provider, why, now);
        }
        let next = (self.at + 1..self.legs.len()).find(|at| !self.legs[*at].over);
        if let Some(next) = next {
            self.at = next;
            let first = self.attempts == 0;
            self.plan = Plan::Key(if first { Step::First } else { Step::NextProvider });
            return None;
        }
        Some(self.last_resort(pool, now))
    }

    /// The latest moment of a wait that still leaves time for an attempt.
    pub(super) fn within_time(&self, then: Timestamp) -> Timestamp {
        let least = jiff::SignedDuration::from_secs(1);
        let last = self.limits.deadline.checked_sub(least).unwrap_or(self.limits.deadline);
        then.min(last)
    }

    pub(super) fn attempt(
        &mut self,
        (permit, model): (Permit, usize),
        step: Step,
        pool: &Pool,
        now: Timestamp,
    ) -> Action {
        let (provider, key) = (permit.provider().clone(), permit.key());
        let settings = pool.settings(&provider).unwrap_or_default();
        let timeout = if self.limits.streaming {
            Some(Duration::from_millis(settings.timeout_ms))
        } else {
            pool.answer_timeout(&provider)
        };
        self.attempts += 1;
        if matches!(
            self.trail.last().map(|tried| &tried.result),
            Some(TriedResult::Failed { progress: Progress::MaybeAccepted, .. })
        ) {
            self.ambiguous_repeats += 1;
        }
        self.place = None;
        let attempt = Attempt {
            leg: self.at,
            provider: provider.clone(),
            model: permit.model().clone(),
            key,
            ordinal: self.attempts,
            fresh_connection: self.fresh_only,
            first_content_by: timeout
                .map_or(self.limits.deadline, |timeout| after(now, timeout).min(self.limits.deadline)),
            idle_timeout: Duration::from_millis(settings.idle_timeout_ms),
            step,
        };
        self.trail.push(Tried {
            leg: self.at,
            label: pool.label(&provider, key),
            provider,
            model: attempt.model.clone(),
            key,
            step,
            waited: self.idle_since.map_or(Duration::ZERO, |since| until(since, now)),
            began: now,
            ended: None,
            result: TriedResult::Pending,
        });
        let stage = &mut self.legs[self.at];
        if let Some(allowance) = &mut self.unknown {
            if stage.tried.is_empty() {
                allowance.legs = allowance.legs.saturating_sub(1);
            } else if stage.tried.iter().all(|(tried, _)| *tried != key) {
                allowance.keys = allowance.keys.saturating_sub(1);
            }
        }
        if !stage.tried.contains(&(key, model)) {
            stage.tried.push((key, model));
        }
        self.plan = Plan::Key(step);
        self.held = Some(Held { permit, attempt: attempt.clone(), model, committed: false });
        Action::Attempt(attempt)
    }
}
