//! One request's journey: which key, model and provider is tried next, and what the client gets in the end.
//!
//! The cascade is a state machine without clock or socket. The gateway drives it in one loop: it asks for the
//! next [`Action`], carries it out, and reports the [`Outcome`]. Reporting settles the key's health too, so that
//! it cannot be forgotten; a cascade that is dropped half-way gives its permit back and blames nobody.

mod action;
mod end;
mod journey;

pub use action::{Action, Attempt, End, Outcome, Progress, Step, Tried, TriedResult, Wake};
pub use end::{FinalError, FinalKind};
pub use journey::{Call, Leg, Limits};

use crate::{Timestamp, pool::Pool};

/// One request's journey.
#[derive(Debug)]
pub struct Cascade {
    trail: Vec<Tried>,
}

impl Cascade {
    /// A journey over `legs`, the first one first. `seed` is the request's own.
    pub fn new(_legs: Vec<Leg>, _limits: Limits, _seed: u64) -> Self {
        Self { trail: Vec::new() }
    }

    /// The next step. Asking twice without a report in between changes nothing but the time.
    pub fn next(&mut self, _pool: &mut Pool, _now: Timestamp) -> Action {
        Action::Finish(End::Abandoned)
    }

    /// Takes in what became of the attempt, and settles the health of all it touched.
    pub fn report(&mut self, _outcome: Outcome, _pool: &mut Pool, _now: Timestamp) {}

    /// The attempts so far.
    pub fn trail(&self) -> &[Tried] {
        &self.trail
    }
}
