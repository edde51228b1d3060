//! Who may pass a subject of a given health: everybody, a counted few, or nobody.
//!
//! ```text
//!            failure                    its end has passed
//!   open ---------------> resting ----------------------------> half-open: 1 permit
//!    ^                       ^                                        |  first success: new epoch
//!    |                       +------------- failure ------------------+  2 permits
//!    |                       +------------- failure ------------------+  4 permits, second success
//!    +----------------------------- third success --------------------+
//! ```

use crate::{
    Timestamp,
    pool::{Disabled, Health},
};

/// A health together with the permits of coming back.
#[derive(Clone, Debug, Default)]
pub(super) struct Gate {
    pub(super) health: Health,
    /// Successes since the rest ended; meaningful while coming back.
    successes: u8,
    /// Permits that are out.
    used: u8,
    /// Whether it is coming back with its rests cleared: after the first success, before the third.
    returning: bool,
}

/// How a gate stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Open,
    HalfOpen,
    Resting(Timestamp),
    Disabled,
}

/// What an attempt remembers of a gate it has passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) epoch: u64,
    pub(super) level: u32,
    pub(super) permit: bool,
    until: Option<Timestamp>,
}

/// What a success means to a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// Nothing changes.
    Nothing,
    /// One more permit, or fully back.
    Wider,
    /// A new epoch: what was wrong is forgotten.
    Renewed,
}

impl Gate {
    pub(super) fn restored(health: Health) -> Self {
        Self { health, ..Self::default() }
    }

    pub(super) fn phase(&self, now: Timestamp) -> Phase {
        if self.health.disabled.is_some() {
            return Phase::Disabled;
        }
        match self.health.until() {
            Some(until) if until > now => Phase::Resting(until),
            Some(_) => Phase::HalfOpen,
            None if self.returning => Phase::HalfOpen,
            None => Phase::Open,
        }
    }

    pub(super) fn admits(&self, now: Timestamp) -> bool {
        match self.phase(now) {
            Phase::Open => true,
            Phase::HalfOpen => self.used < 1 << self.successes,
            Phase::Resting(_) | Phase::Disabled => false,
        }
    }

    /// Passes it. The caller has made sure that it admits, or lets a probe through although it does not.
    pub(super) fn take(&mut self, now: Timestamp) -> Mark {
        let permit = self.phase(now) != Phase::Open;
        if permit {
            self.used = self.used.saturating_add(1);
        }
        Mark { epoch: self.health.epoch, level: self.health.level(), permit, until: self.health.until() }
    }

    /// Begins another attempt with the same pass: it belongs to the epoch of today.
    pub(super) fn pass_again(&self, mark: &mut Mark) {
        *mark = Mark {
            epoch: self.health.epoch,
            level: self.health.level(),
            permit: mark.permit && self.is_current(*mark),
            until: self.health.until(),
        };
    }

    /// Gives the permit back; says whether one came free.
    pub(super) fn release(&mut self, mark: &mut Mark) -> bool {
        let returned = mark.permit && mark.epoch == self.health.epoch;
        if returned {
            self.used = self.used.saturating_sub(1);
        }
        mark.permit = false;
        returned
    }

    /// The first content came. A success of an older epoch, or one that began before the running rest, proves
    /// nothing.
    pub(super) fn succeed(&mut self, mark: &mut Mark) -> Proof {
        let proves = mark.permit && self.is_current(*mark) && mark.until == self.health.until();
        self.release(mark);
        if !proves || self.health.disabled.is_some() {
            return Proof::Nothing;
        }
        self.successes += 1;
        if !self.health.is_clear() {
            let successes = self.successes;
            self.renew();
            self.successes = successes;
            self.returning = true;
            // What this very attempt still comes to belongs to the epoch that it opened.
            *mark = Mark { epoch: self.health.epoch, ..Mark::default() };
            return Proof::Renewed;
        }
        if self.successes >= SUCCESSES_TO_RETURN {
            self.returning = false;
            self.successes = 0;
            self.used = 0;
        }
        Proof::Wider
    }

    /// Whether a failure with this mark still counts.
    pub(super) fn is_current(&self, mark: Mark) -> bool {
        mark.epoch == self.health.epoch
    }

    /// Changes its health because of a failure, and says whether that made a difference: then coming back begins
    /// again with one permit.
    pub(super) fn worsen(&mut self, change: impl FnOnce(&mut Health)) -> bool {
        let before = self.health.clone();
        change(&mut self.health);
        let worse = self.health != before;
        if worse {
            self.successes = 0;
            self.returning = false;
        }
        worse
    }

    /// Forgets everything that was wrong.
    pub(super) fn renew(&mut self) {
        self.health.renew();
        self.successes = 0;
        self.used = 0;
        self.returning = false;
    }

    /// Takes it out of service, in a new epoch, so that nothing under way brings it back.
    pub(super) fn disable_by_hand(&mut self, disabled: Disabled) {
        self.renew();
        self.health.disable(disabled);
    }
}

const SUCCESSES_TO_RETURN: u8 = 3;
