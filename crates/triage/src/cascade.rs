//! One request's journey: which key, model and provider is tried next, and what the client gets in the end.
//!
//! The cascade is a state machine without clock or socket. The gateway drives it in one loop: it asks for the
//! next [`Action`], carries it out, and reports the [`Outcome`]. Reporting settles the key's health too, so that
//! it cannot be forgotten; a cascade that is dropped half-way gives its permit back and blames nobody.
//!
//! ```text
//!          +------------------------------ next ------------------------------+
//!          v                                                                   |
//!   plan: a key -> this key again -> its next model -> the chain -> last resort
//!          ^                                                                   |
//!          +---------------- report: the class decides (`decide`) -------------+
//! ```
//!
//! What is *planned* after a failure is decided in [`decide`] from the verdict alone; whether it is possible is
//! seen in [`walk`], when it is carried out. What the client gets when nothing is left is worked out in [`end`].

mod action;
mod decide;
mod end;
mod journey;
mod last_resort;
mod plan;
mod stage;
mod view;
mod walk;

pub use action::{Action, Attempt, End, Outcome, Progress, Step, Tried, TriedResult, Wake};
pub use end::{FinalError, FinalKind};
pub use journey::{Call, Leg, Limits};

use std::{sync::Arc, time::Duration};

use self::{
    plan::{Again, Otherwise, Plan},
    stage::Stage,
};
use crate::{
    Class, KeyId, ProviderId, Scope, Timestamp, Verdict,
    ladder::{Chance, until},
    pool::{Permit, Pool},
};

/// One request's journey.
#[derive(Debug)]
pub struct Cascade {
    legs: Vec<Stage>,
    limits: Limits,
    request: u64,
    chance: Chance,
    /// The leg that is walked.
    at: usize,
    plan: Plan,
    /// The attempt under way, or the key that is kept while its ladder is climbed.
    held: Option<Held>,
    attempts: u32,
    trail: Vec<Tried>,
    /// Keys whose credential or account was refused in this request.
    refused: Vec<(ProviderId, KeyId)>,
    /// What is left of the tries that an unknown failure allows; `None` before the first.
    unknown: Option<UnknownAllowance>,
    transient_retries: u32,
    ambiguous_repeats: u32,
    /// Set while the model with the larger window is tried: the overflow to return if it fails.
    overflowed: bool,
    /// Whether a connection that broke near the window has had its fresh try.
    overflow_retried: bool,
    /// Set once a pooled connection has proved stale.
    fresh_only: bool,
    began: Option<Timestamp>,
    idle_since: Option<Timestamp>,
    /// Until when the outcome of other requests' probes is waited for.
    probe_wait: Option<Timestamp>,
    /// A place in the queue for a key that is busy.
    place: Option<Arc<()>>,
}

#[derive(Debug)]
struct Held {
    permit: Permit,
    attempt: Attempt,
    model: usize,
    /// Whether the client has seen content.
    committed: bool,
}

#[derive(Clone, Copy, Debug)]
struct UnknownAllowance {
    keys: u32,
    legs: u32,
}

impl Cascade {
    /// A journey over `legs`, the first one first. `seed` is the request's own.
    pub fn new(legs: Vec<Leg>, limits: Limits, seed: u64) -> Self {
        Self {
            legs: legs.into_iter().map(Stage::new).collect(),
            limits,
            request: seed,
            chance: Chance::new(seed),
            at: 0,
            plan: Plan::Key(Step::First),
            held: None,
            attempts: 0,
            trail: Vec::new(),
            refused: Vec::new(),
            unknown: None,
            transient_retries: 0,
            ambiguous_repeats: 0,
            overflowed: false,
            overflow_retried: false,
            fresh_only: false,
            began: None,
            idle_since: None,
            probe_wait: None,
            place: None,
        }
    }

    /// The next step. Asking twice without a report in between changes nothing but the time.
    pub fn next(&mut self, pool: &mut Pool, now: Timestamp) -> Action {
        if let Some(held) = self.held.as_ref().filter(|_| self.plan != Plan::Fresh && !self.is_climbing()) {
            return Action::Attempt(held.attempt.clone());
        }
        if self.began.is_none() {
            self.began = Some(now);
            self.idle_since = Some(now);
            pool.earn();
        }
        let action = self.walk(pool, now);
        if let Action::Finish(end) = &action {
            self.plan = Plan::Over(end.clone());
            self.held = None;
            self.place = None;
        }
        action
    }

    /// Takes in what became of the attempt, and settles the health of all it touched.
    pub fn report(&mut self, outcome: Outcome, pool: &mut Pool, now: Timestamp) {
        let Some(held) = self.held.take() else { return };
        match outcome {
            Outcome::Committed => self.committed(held, pool, now),
            Outcome::Completed => {
                let mut held = held;
                if !held.committed {
                    self.answered(&mut held, pool, now);
                }
                pool.release(held.permit, now);
                self.plan = Plan::Over(End::Answered);
            }
            Outcome::Failed { verdict, progress, status } => {
                self.failed(held, (verdict, progress, status), pool, now)
            }
            Outcome::Abandoned => {
                if !held.committed {
                    self.close_trail(TriedResult::Abandoned, now);
                }
                pool.release(held.permit, now);
                self.plan = Plan::Over(End::Abandoned);
            }
        }
        self.idle_since = Some(now);
    }

    /// The attempts so far.
    pub fn trail(&self) -> &[Tried] {
        &self.trail
    }

    /// Attempts that count against the request's bound; a stale connection does not.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// The end, once a report has decided it.
    pub fn decided(&self) -> Option<End> {
        match &self.plan {
            Plan::Over(end) => Some(end.clone()),
            Plan::Key(_)
            | Plan::Same(_)
            | Plan::Climb { .. }
            | Plan::Model { .. }
            | Plan::LargerWindow { .. }
            | Plan::Fresh
            | Plan::Leg => None,
        }
    }

    /// Repeats of attempts that may have been accepted upstream.
    pub fn ambiguous_repeats(&self) -> u32 {
        self.ambiguous_repeats
    }

    fn committed(&mut self, mut held: Held, pool: &mut Pool, now: Timestamp) {
        if !held.committed {
            self.answered(&mut held, pool, now);
            held.committed = true;
        }
        self.held = Some(held);
    }

    /// Content came: whoever failed this request before on the same provider was itself at fault.
    fn answered(&mut self, held: &mut Held, pool: &mut Pool, now: Timestamp) {
        self.close_trail(TriedResult::Answered, now);
        pool.succeed(&mut held.permit, now);
        let key = held.permit.key();
        for fault in std::mem::take(&mut self.legs[self.at].faults) {
            if fault.key != key {
                pool.blame(&fault, now);
            }
        }
        self.plan = Plan::Over(End::Answered);
    }

    fn failed(
        &mut self,
        held: Held,
        (verdict, progress, status): (Verdict, Progress, Option<u16>),
        pool: &mut Pool,
        now: Timestamp,
    ) {
        if held.committed || progress == Progress::Committed {
            self.close_trail(
                TriedResult::Failed {
                    verdict: Box::new(verdict.clone()),
                    status,
                    progress: Progress::Committed,
                },
                now,
            );
            pool.fail(held.permit, &verdict, status, now);
            let error = FinalError::after(&verdict, self.limits.call, now);
            self.plan = Plan::Over(End::Error(FinalError { should_retry: false, ..error }));
            return;
        }
        self.close_trail(TriedResult::Failed { verdict: Box::new(verdict.clone()), status, progress }, now);
        if progress == Progress::StaleConnection && !held.attempt.fresh_connection {
            self.plan = Plan::Fresh;
            self.fresh_only = true;
            self.attempts -= 1;
            self.held = Some(held);
            return;
        }
        self.decide(held, &Failure { verdict, progress, status }, pool, now);
    }

    fn close_trail(&mut self, result: TriedResult, now: Timestamp) {
        if let Some(tried) = self.trail.last_mut() {
            tried.ended = Some(now);
            tried.result = result;
        }
    }

    fn is_climbing(&self) -> bool {
        matches!(self.plan, Plan::Climb { .. })
    }

    fn stage(&mut self) -> &mut Stage {
        &mut self.legs[self.at]
    }

    /// Whether something that takes until `then` can still be followed by an attempt.
    fn is_in_time(&self, then: Timestamp) -> bool {
        until(then, self.limits.deadline) >= LEAST_TIME
    }
}

/// A failure as it was reported.
#[derive(Clone, Debug)]
struct Failure {
    verdict: Verdict,
    progress: Progress,
    status: Option<u16>,
}

impl Failure {
    fn class(&self) -> Class {
        self.verdict.class
    }

    /// Whether another key would most likely meet the same.
    fn is_provider_wide(&self) -> bool {
        match self.verdict.scope {
            Scope::Provider | Scope::Network => true,
            Scope::Model => {
                matches!(self.verdict.class, Class::ServerError | Class::Timeout | Class::NetworkError)
            }
            Scope::Request | Scope::Key | Scope::Account | Scope::Local => false,
        }
    }
}

/// Nothing starts with less time left.
const LEAST_TIME: Duration = Duration::from_secs(1);
