//! From a failure to the plan: the order of the specification, class by class.

use std::time::Duration;

use crate::{
    Class, Scope, Settings, Timestamp,
    cascade::{
        Again, Call, Cascade, End, Failure, FinalError, FinalKind, Held, Otherwise, Plan, Progress, Step,
        UnknownAllowance,
    },
    ladder::after,
    pool::{Fault, Pool, RestSource, Why, is_provider_fault},
    settings::{AmbiguousRetry, KeyRetryMode},
    treatment::overload_wait,
};

impl Cascade {
    /// Settles a failure and plans what follows.
    pub(super) fn decide(&mut self, mut held: Held, failure: &Failure, pool: &mut Pool, now: Timestamp) {
        let Some(settings) = pool.settings(held.permit.provider()) else {
            self.plan = Plan::Leg;
            return;
        };
        self.count(&held, failure);
        let mut plan = match self.end_at_once(failure, &settings, now) {
            Some(end) => Plan::Over(end),
            None => self.by_class(&held, failure, &mut Scene { settings: &settings, pool, now }),
        };
        if matches!(plan, Plan::Over(_)) {
            self.leave_over_fault(&held, pool, now);
        } else if self.stage().provider_faults >= settings.provider_fault_limit.max(1)
            || (is_provider_fault(&failure.verdict)
                && pool.is_down(held.permit.provider(), self.request, now))
        {
            plan = Plan::Leg;
        } else if matches!(plan, Plan::Key(_) | Plan::Model { otherwise: Otherwise::FurtherKey, .. }) {
            if let Some(at) = self.ladder(&held, failure, &mut Scene { settings: &settings, pool, now })
                && pool.climb(&mut held.permit, &failure.verdict, failure.status, now)
            {
                self.stage().ladder_step += 1;
                self.plan = Plan::Climb { at };
                self.held = Some(held);
                return;
            }
            if failure.is_provider_wide() && !pool.pay(now) {
                plan = Plan::Leg;
            }
        }
        let mass_refusal = pool.fail(held.permit, &failure.verdict, failure.status, now);
        if mass_refusal && !matches!(plan, Plan::Over(_)) {
            plan = Plan::Leg;
        }
        if plan == Plan::Leg {
            self.stage().over = true;
        }
        self.plan = plan;
    }

    /// Remembers what the failure means to this request.
    fn count(&mut self, held: &Held, failure: &Failure) {
        let key = held.permit.key();
        if matches!(failure.class(), Class::AuthError | Class::BillingExhausted)
            && !matches!(failure.verdict.scope, Scope::Model | Scope::Request)
        {
            self.refused.push((held.permit.provider().clone(), key));
        }
        let stage = self.stage();
        stage.leaving_over = is_provider_fault(&failure.verdict)
            .then(|| Why::of(&failure.verdict, failure.status, RestSource::Setting));
        let ambiguous = failure.progress == Progress::MaybeAccepted;
        // An overload that is sat out is one fault, however often it is asked again; else its own repeats would
        // use up the leg before the next model or a further key is tried.
        let sat_out = failure.class() == Class::Overloaded && held.attempt.step == Step::RetrySame;
        if (failure.is_provider_wide() && !sat_out) || ambiguous {
            stage.provider_faults += 1;
        }
        if matches!(failure.class(), Class::ServerError | Class::Timeout | Class::NetworkError) {
            stage.faults.push(Fault::of(&held.permit, &failure.verdict, failure.status));
        }
    }

    /// Failures after which nothing may be tried, whatever their class.
    fn end_at_once(&self, failure: &Failure, settings: &Settings, now: Timestamp) -> Option<End> {
        if self.overflowed {
            return Some(End::Error(FinalError::of(FinalKind::ContextOverflow, Class::ContextOverflow)));
        }
        let begun = matches!(failure.progress, Progress::MaybeAccepted | Progress::Started);
        if self.limits.call == Call::Stateful && begun {
            let kind = if failure.class() == Class::Timeout {
                FinalKind::TimedOut
            } else {
                FinalKind::OutcomeUnknown
            };
            return Some(End::Error(FinalError::of(kind, failure.class())));
        }
        let may_repeat = match settings.ambiguous_retry {
            AmbiguousRetry::Bounded => true,
            AmbiguousRetry::Once => self.ambiguous_repeats == 0,
            AmbiguousRetry::Never => false,
        };
        let ambiguous = failure.progress == Progress::MaybeAccepted;
        (ambiguous && !may_repeat)
            .then(|| End::Error(FinalError::after(&failure.verdict, self.limits.call, now)))
    }

    fn by_class(&mut self, held: &Held, failure: &Failure, scene: &mut Scene<'_>) -> Plan {
        let (settings, now) = (scene.settings, scene.now);
        let (key, scope) = (held.permit.key(), failure.verdict.scope);
        match failure.class() {
            Class::RequestError => Plan::Over(End::Return),
            Class::ContextOverflow => self.after_overflow(held, failure, scene),
            Class::TransientRequest => {
                let again = self.transient_retries < settings.transient_retries && scene.pool.pay(now);
                self.transient_retries += 1;
                if again {
                    Plan::Same(Again { key, model: held.model, at: now })
                } else {
                    Plan::Over(End::Return)
                }
            }
            Class::Overloaded => self.after_overload(held, failure, scene),
            Class::ModelError => {
                let otherwise = match scope {
                    Scope::Key | Scope::Account => Otherwise::Key,
                    Scope::Request | Scope::Model | Scope::Provider | Scope::Network | Scope::Local => {
                        self.stage().dead_models.push(held.model);
                        Otherwise::Leg
                    }
                };
                Plan::Model { key, otherwise }
            }
            Class::AuthError | Class::BillingExhausted if scope == Scope::Model => {
                Plan::Model { key, otherwise: Otherwise::Key }
            }
            Class::ConfigurationError if scope != Scope::Key => Plan::Leg,
            Class::AuthError
            | Class::BillingExhausted
            | Class::QuotaExhausted
            | Class::RateLimit
            | Class::ServerError
            | Class::NetworkError
            | Class::ConfigurationError => self.next_key(key, settings),
            Class::Timeout if settings.retry_on_timeout || failure.progress == Progress::NotSent => {
                self.next_key(key, settings)
            }
            Class::Timeout => {
                Plan::Over(End::Error(FinalError::after(&failure.verdict, self.limits.call, now)))
            }
            Class::LocalFault => {
                Plan::Over(End::Error(FinalError::after(&failure.verdict, self.limits.call, now)))
            }
            Class::Unknown => self.after_unknown(held, settings),
        }
    }

    fn next_key(&mut self, key: crate::KeyId, settings: &Settings) -> Plan {
        let stage = self.stage();
        stage.spent.push(key);
        let limit = settings.key_retry_limit.max(1) as usize;
        if settings.key_retry_mode == KeyRetryMode::Fixed && stage.keys_tried() >= limit {
            return Plan::Leg;
        }
        Plan::Key(Step::NextKey)
    }

    fn after_overflow(&mut self, held: &Held, failure: &Failure, scene: &mut Scene<'_>) -> Plan {
        let (settings, now) = (scene.settings, scene.now);
        // A connection that broke near the window may also have just broken: it gets one fresh try.
        if failure.progress != Progress::Rejected && !self.overflow_retried && scene.pool.pay(now) {
            self.overflow_retried = true;
            return Plan::Same(Again { key: held.permit.key(), model: held.model, at: now });
        }
        let tried = held.attempt.step == Step::LargerWindow;
        let larger =
            settings.context_fallback.as_deref().filter(|model| *model != held.permit.model().as_str());
        if larger.is_some() && !tried {
            return Plan::LargerWindow { key: held.permit.key() };
        }
        Plan::Over(End::Error(FinalError::of(FinalKind::ContextOverflow, Class::ContextOverflow)))
    }

    fn after_overload(&mut self, held: &Held, failure: &Failure, scene: &mut Scene<'_>) -> Plan {
        let (settings, now) = (scene.settings, scene.now);
        let key = held.permit.key();
        let chance = self.chance.about(u64::from(self.attempts));
        let wait = overload_wait(&failure.verdict, settings, now).map(|wait| {
            let stated = failure.verdict.stated_wait(now).is_some_and(|stated| stated >= wait);
            if stated { chance.beyond(wait) } else { chance.around(wait).max(stated_wait(failure, now)) }
        });
        // What passes an open breaker is one call, not a series.
        if held.attempt.step == Step::OpenBreaker {
            return Plan::Leg;
        }
        let may_retry = self.stage().overload_retries < settings.overload_retries;
        if let Some(at) = wait.map(|wait| after(now, wait)).filter(|at| may_retry && self.is_in_time(*at))
            && self.stage().provider_faults < settings.provider_fault_limit.max(1)
            && scene.pool.pay(now)
        {
            self.stage().overload_retries += 1;
            return Plan::Same(Again { key, model: held.model, at });
        }
        if self.stage().overload_key {
            return Plan::Leg;
        }
        Plan::Model { key, otherwise: Otherwise::FurtherKey }
    }

    /// Nobody knows what it is: one further key, one further leg, and never this route again.
    fn after_unknown(&mut self, held: &Held, settings: &Settings) -> Plan {
        if self.unknown.is_none() {
            self.unknown = Some(UnknownAllowance { keys: settings.unknown_max_keys, legs: 1 });
        }
        self.next_key(held.permit.key(), settings)
    }

    /// When the last key's ladder has its next step, if it has one for this failure.
    fn ladder(&mut self, held: &Held, failure: &Failure, scene: &mut Scene<'_>) -> Option<Timestamp> {
        let (settings, now) = (scene.settings, scene.now);
        let pool = &mut *scene.pool;
        if !matches!(failure.class(), Class::RateLimit | Class::ServerError | Class::NetworkError) {
            return None;
        }
        if held.permit.is_trial() || held.attempt.step == Step::OpenBreaker || self.unknown.is_some() {
            return None;
        }
        let stated = stated_wait(failure, now);
        let longest = settings.last_key_ladder_s.iter().max().copied().map(Duration::from_secs)?;
        let step =
            settings.last_key_ladder_s.get(self.stage().ladder_step).copied().map(Duration::from_secs)?;
        if stated > longest || self.attempts_left(self.at, pool) == 0 {
            return None;
        }
        let chance = self.chance.about(u64::from(self.attempts));
        let at =
            after(now, if stated >= step { chance.beyond(stated) } else { chance.around(step).max(stated) });
        let is_last = !self.has_other_key(held.model, pool, now);
        (is_last && self.is_in_time(at) && pool.pay(now)).then_some(at)
    }

    /// Tells the pool if the request leaves this provider over the provider's own fault.
    pub(super) fn leave_over_fault(&mut self, held: &Held, pool: &mut Pool, now: Timestamp) {
        if let Some(why) = self.stage().leaving_over.take() {
            pool.leave(held.permit.provider(), why, now);
        }
    }
}

/// What a decision looks at beside the failure.
struct Scene<'a> {
    settings: &'a Settings,
    pool: &'a mut Pool,
    now: Timestamp,
}

fn stated_wait(failure: &Failure, now: Timestamp) -> Duration {
    failure.verdict.stated_wait(now).unwrap_or(Duration::ZERO)
}
