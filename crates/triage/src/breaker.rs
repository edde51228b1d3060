//! A circuit breaker: keeps requests away from a model or provider that fails as a whole.
//!
//! ```text
//!            threshold reached                 cooldown over
//!   closed ---------------------> open ----------------------> half-open (one probe)
//!      ^                            ^                               |    |
//!      |                            +---------- probe fails --------+    |
//!      +------------------------------ probe succeeds -------------------+
//! ```
//!
//! The breaker counts nothing by itself: who owns it says when it trips and for how long.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    Timestamp,
    ladder::{after, until},
    pool::Why,
};

/// A breaker with its probe permit.
#[derive(Clone, Debug, Default)]
pub struct Breaker {
    state: BreakerState,
    probing: bool,
}

/// What a restart must not forget of a breaker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BreakerState {
    /// Failures in a row while closed.
    pub failures: u32,
    /// Set while open or half-open.
    pub open: Option<Opening>,
}

/// Why and until when a breaker is open.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Opening {
    /// When it opened (the last time).
    pub since: Timestamp,
    /// From when on one probe may pass.
    pub until: Timestamp,
    /// How often in a row a probe has failed.
    pub relapses: u32,
    /// What opened it.
    pub why: Why,
}

/// What a breaker lets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Everything.
    Closed,
    /// One probe, which is free to be taken.
    Probe,
    /// Nothing until the probe that is under way has ended.
    Probing,
    /// Nothing until then.
    Open(Timestamp),
}

impl Breaker {
    /// What it lets through at `now`.
    pub fn admission(&self, now: Timestamp) -> Admission {
        match &self.state.open {
            None => Admission::Closed,
            Some(opening) if opening.until > now => Admission::Open(opening.until),
            Some(_) if self.probing => Admission::Probing,
            Some(_) => Admission::Probe,
        }
    }

    /// Takes the probe's permit.
    pub fn take_probe(&mut self) {
        self.probing = true;
    }

    /// Gives the probe's permit back.
    pub fn release_probe(&mut self) {
        self.probing = false;
    }

    /// Counts a failure while closed and says how many there are in a row.
    pub fn count(&mut self) -> u32 {
        self.state.failures = self.state.failures.saturating_add(1);
        self.state.failures
    }

    /// Opens it, or lengthens nothing if it is open already.
    pub fn open(&mut self, cooldown: Duration, why: Why, now: Timestamp) {
        let relapses = match &self.state.open {
            Some(opening) if opening.until > now => return,
            Some(opening) => opening.relapses.saturating_add(1),
            None => 0,
        };
        self.state.open = Some(Opening { since: now, until: after(now, cooldown), relapses, why });
        self.state.failures = 0;
    }

    /// Lets the probe pass from `now` on, because there is reason to believe that it will succeed.
    pub fn shorten(&mut self, now: Timestamp) {
        if let Some(opening) = &mut self.state.open {
            opening.until = opening.until.min(now);
        }
    }

    /// How often in a row it has relapsed, counting the failure that is about to open it again.
    pub fn next_relapse(&self) -> u32 {
        self.state.open.as_ref().map_or(0, |opening| opening.relapses.saturating_add(1))
    }

    /// Closes it if an answer that was asked for at `asked` proves that all is well; says whether anything
    /// changed that must be remembered.
    pub fn prove(&mut self, asked: Timestamp) -> bool {
        self.state.failures = 0;
        if self.state.open.as_ref().is_some_and(|opening| opening.since <= asked) {
            self.state.open = None;
            return true;
        }
        false
    }

    /// Forgets everything.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    /// What a restart must not forget.
    pub fn state(&self) -> &BreakerState {
        &self.state
    }

    /// Whether it holds nothing worth keeping.
    pub fn is_idle(&self) -> bool {
        self.state == BreakerState::default() && !self.probing
    }

    /// Takes up a state from before a restart; a clock that was set meanwhile moves no end further away than
    /// it was.
    pub fn restore(&mut self, mut state: BreakerState, now: Timestamp) {
        if let Some(opening) = &mut state.open {
            let whole = until(opening.since, opening.until);
            opening.until = after(now, until(now, opening.until).min(whole));
            opening.since = opening.since.min(now);
        }
        *self = Self { state, probing: false };
    }
}
