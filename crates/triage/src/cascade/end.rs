//! What the client gets in the end, as data; the gateway turns it into the client's own dialect.

use std::time::Duration;

use crate::{
    Class, Timestamp, Verdict,
    breaker::Admission,
    cascade::{Call, Cascade, End, TriedResult},
    ladder::{after, until},
    pool::{Pool, heals_by_itself},
};

/// An error of our own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinalError {
    /// What kind of error it is; decides status and code.
    pub kind: FinalKind,
    /// The class that decided.
    pub class: Class,
    /// When the first route is expected back.
    pub retry_at: Option<Timestamp>,
    /// Whether the client should send the request again (`x-should-retry`).
    pub should_retry: bool,
}

impl FinalError {
    /// An error that no waiting mends.
    pub(super) fn of(kind: FinalKind, class: Class) -> Self {
        Self { kind, class, retry_at: None, should_retry: false }
    }

    /// The error that follows from one failure alone.
    pub(super) fn after(verdict: &Verdict, call: Call, now: Timestamp) -> Self {
        let heals = heals_by_itself(verdict.class);
        let at = after(now, verdict.stated_wait(now).unwrap_or(Duration::ZERO));
        Self::healing(verdict.class, heals.then_some(at), call, now)
    }

    fn healing(class: Class, retry_at: Option<Timestamp>, call: Call, now: Timestamp) -> Self {
        let kind = FinalKind::of(class);
        let repeatable = call == Call::Generation;
        let should_retry = match kind {
            FinalKind::LimitReached => retry_at.is_some_and(|at| until(now, at) <= WORTH_WAITING),
            FinalKind::Overloaded | FinalKind::LocalFault => true,
            FinalKind::UpstreamFailed | FinalKind::TimedOut => repeatable,
            FinalKind::ContextOverflow
            | FinalKind::NoUsableKey
            | FinalKind::MisconfiguredRoute
            | FinalKind::UnrecognisedFailure
            | FinalKind::OutcomeUnknown => false,
        };
        Self { kind, class, retry_at: retry_at.filter(|at| *at > now), should_retry }
    }
}

/// The kinds of our own errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FinalKind {
    /// The prompt does not fit; says so in the dialect's own words and nothing about rates.
    ContextOverflow,
    /// Every key is refused, out of money or out of service.
    NoUsableKey,
    /// A setting is wrong.
    MisconfiguredRoute,
    /// Every route is over a limit.
    LimitReached,
    /// The provider lacks capacity.
    Overloaded,
    /// The provider or the way to it is down.
    UpstreamFailed,
    /// No content in time.
    TimedOut,
    /// Nobody recognised the failure, and it was no 4xx.
    UnrecognisedFailure,
    /// Our own fault.
    LocalFault,
    /// A call that must not be repeated, and whose outcome is not known.
    OutcomeUnknown,
}

impl FinalKind {
    /// The kind that a class leads to.
    const fn of(class: Class) -> Self {
        match class {
            Class::ContextOverflow => Self::ContextOverflow,
            Class::AuthError | Class::BillingExhausted => Self::NoUsableKey,
            Class::ConfigurationError => Self::MisconfiguredRoute,
            Class::QuotaExhausted | Class::RateLimit => Self::LimitReached,
            Class::Overloaded => Self::Overloaded,
            Class::ServerError | Class::NetworkError => Self::UpstreamFailed,
            Class::Timeout => Self::TimedOut,
            Class::LocalFault => Self::LocalFault,
            Class::RequestError | Class::TransientRequest | Class::ModelError | Class::Unknown => {
                Self::UnrecognisedFailure
            }
        }
    }
}

/// Something that stands in the way of the request, and when it is over by itself.
#[derive(Clone, Copy, Debug)]
struct Obstacle {
    class: Class,
    over_at: Option<Timestamp>,
}

impl Cascade {
    /// What the client gets when nothing is left to try: the obstacle that is over soonest decides.
    pub(super) fn final_end(&self, pool: &mut Pool, now: Timestamp) -> End {
        if self.legs.iter().all(|stage| stage.leg.context_too_small) && !self.legs.is_empty() {
            return End::Error(FinalError::of(FinalKind::ContextOverflow, Class::ContextOverflow));
        }
        let obstacles = self.obstacles(pool, now);
        let soonest = obstacles.iter().rev().filter(|obstacle| obstacle.over_at.is_some());
        if let Some(first) = soonest.min_by_key(|obstacle| obstacle.over_at) {
            return End::Error(FinalError::healing(first.class, first.over_at, self.limits.call, now));
        }
        self.lasting_end(&obstacles)
    }

    /// The deadline has come.
    pub(super) fn out_of_time(&self, pool: &mut Pool, now: Timestamp) -> End {
        if self.attempts == 0
            && let End::Error(error) = self.final_end(pool, now)
            && error.kind != FinalKind::NoUsableKey
        {
            return End::Error(error);
        }
        End::Error(FinalError::healing(Class::Timeout, None, self.limits.call, now))
    }

    /// Nothing heals by itself.
    fn lasting_end(&self, obstacles: &[Obstacle]) -> End {
        let Some(last) = obstacles.last() else {
            return End::Error(FinalError::of(FinalKind::NoUsableKey, Class::ConfigurationError));
        };
        let of_one_kind = obstacles.iter().all(|obstacle| obstacle.class == last.class);
        if of_one_kind && self.last_answer_goes_back(last.class) {
            return End::Return;
        }
        let lasting =
            obstacles.iter().rev().find(|obstacle| obstacle.class != Class::Unknown).unwrap_or(last);
        let class = if of_one_kind { last.class } else { lasting.class };
        End::Error(FinalError::of(FinalKind::of(class), class))
    }

    /// Whether the upstream's own answer serves the client best: a model that is not there.
    fn last_answer_goes_back(&self, class: Class) -> bool {
        let last = self.trail.last().and_then(|tried| tried.result.class());
        class == Class::ModelError && last == Some(Class::ModelError)
    }

    /// What stood in the way, leg by leg, then attempt by attempt.
    fn obstacles(&self, pool: &mut Pool, now: Timestamp) -> Vec<Obstacle> {
        let mut obstacles = Vec::new();
        for at in 0..self.legs.len() {
            if self.legs[at].leg.context_too_small || self.legs[at].leg.models.is_empty() {
                continue;
            }
            let provider = self.legs[at].leg.provider.clone();
            let opening = pool.provider_breaker(&provider).and_then(|breaker| breaker.open.as_ref());
            if let Some(class) = opening.map(|opening| opening.why.class) {
                match pool.provider_admission(&provider, now) {
                    Admission::Open(until) => obstacles.push(Obstacle { class, over_at: Some(until) }),
                    Admission::Probing => {
                        obstacles.push(Obstacle { class, over_at: Some(after(now, SOON)) });
                    }
                    Admission::Closed | Admission::Probe => {}
                }
            }
            let outlook = self.outlook(at, 0, pool, now);
            obstacles.extend(outlook.lasting.map(|class| Obstacle { class, over_at: None }));
            obstacles
                .extend(outlook.back_at.map(|(back_at, class)| Obstacle { class, over_at: Some(back_at) }));
            if outlook.probing {
                obstacles.push(Obstacle { class: Class::RateLimit, over_at: Some(after(now, SOON)) });
            }
            if outlook.busy {
                obstacles.push(Obstacle { class: Class::LocalFault, over_at: Some(after(now, SOON)) });
            }
        }
        let limits_are_known =
            obstacles.iter().any(|obstacle| FinalKind::of(obstacle.class) == FinalKind::LimitReached);
        for tried in &self.trail {
            let TriedResult::Failed { verdict, .. } = &tried.result else { continue };
            let class = verdict.class;
            let is_limit = FinalKind::of(class) == FinalKind::LimitReached;
            if is_limit && limits_are_known {
                continue;
            }
            let stated =
                verdict.stated_wait(now).unwrap_or(if is_limit { LIMIT_GUESS } else { Duration::ZERO });
            let over_at = heals_by_itself(class).then(|| after(now, stated));
            obstacles.push(Obstacle { class, over_at });
        }
        obstacles
    }
}

/// A limit that is over within this time is worth the client's waiting for.
const WORTH_WAITING: Duration = Duration::from_secs(60);
/// When a key that others are trying will have been decided.
const SOON: Duration = Duration::from_secs(1);
const LIMIT_GUESS: Duration = Duration::from_secs(60);
