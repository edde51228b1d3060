//! Accounts that several seats share: a full window or an empty purse of one rests them all.
//!
//! The rest is a file; the right to try first after it is a lock. One seat tries, the others wait until its
//! process has proved itself (the rest is lifted) or has failed again (the rest begins anew). A seat that is
//! killed while it tries loses the lock with its life.

use std::{path::PathBuf, time::Duration};

use backstop_triage::{
    Class, Scope, Timestamp,
    respawn::{Decision, Failure, Seat},
};
use serde::{Deserialize, Serialize};

use crate::{
    SupervisorError,
    files::{self, Lock},
    seats::Seats,
};

/// What is kept of an account.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AccountRest {
    /// The rest; without a latest failure the account is in order.
    #[serde(flatten)]
    pub rest: Seat,
    /// The seat whose failure began it.
    pub seat: String,
}

/// An account as one seat sees it.
#[derive(Debug)]
pub(crate) struct Account {
    name: String,
    file: PathBuf,
    guard: PathBuf,
    turn: PathBuf,
    trying: Option<Lock>,
}

/// Whether a seat may start as far as its account is concerned.
#[derive(Debug, PartialEq)]
pub(crate) enum Leave {
    /// Yes.
    Granted,
    /// Not before then.
    Rests(Timestamp),
    /// The rest is over and another seat tries first.
    OtherTries,
}

impl Account {
    pub(crate) fn open(seats: &Seats, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            file: seats.account_path(name, "json"),
            guard: seats.account_path(name, "lock"),
            turn: seats.account_path(name, "turn"),
            trying: None,
        }
    }

    /// Asks for leave to start; a granted one that follows a rest holds the right to try first.
    pub(crate) fn ask(&mut self, now: Timestamp) -> Result<Leave, SupervisorError> {
        let kept = self.read();
        if let Some(until) = kept.rest.until.filter(|_| kept.rest.waits(now).is_some()) {
            return Ok(Leave::Rests(until));
        }
        if kept.rest.last.is_none() || self.trying.is_some() {
            return Ok(Leave::Granted);
        }
        self.trying = Lock::try_take(&self.turn)?;
        if self.trying.is_none() {
            return Ok(Leave::OtherTries);
        }
        // Between the look and the lock, the seat that tried before may have failed.
        match self.read().rest.waits(now) {
            Some(_) => {
                self.trying = None;
                self.ask(now)
            }
            None => Ok(Leave::Granted),
        }
    }

    /// Rests every seat of the account as long as the one that failed; a longer rest stays.
    pub(crate) fn fail(
        &mut self,
        decision: &Decision,
        scope: Scope,
        now: Timestamp,
    ) -> Result<(), SupervisorError> {
        let _guard = Lock::take(&self.guard)?;
        let mut kept = self.read();
        let wait = decision.until.duration_since(now);
        kept.rest.rest(Duration::try_from(wait).unwrap_or_default(), now);
        kept.rest.failures = kept.rest.failures.saturating_add(1);
        kept.rest.last = Some(Failure {
            class: decision.class,
            scope,
            reason: decision.reason.clone(),
            rule: decision.rule.clone(),
            at: now,
        });
        kept.seat.clone_from(&decision.seat);
        files::replace(&self.file, &kept)?;
        self.trying = None;
        Ok(())
    }

    /// The account serves again; says whether it had rested.
    pub(crate) fn recover(&mut self) -> Result<bool, SupervisorError> {
        let _guard = Lock::take(&self.guard)?;
        let had_failed = self.read().rest.last.is_some();
        if had_failed {
            files::replace(&self.file, &AccountRest::default())?;
        }
        self.trying = None;
        Ok(had_failed)
    }

    /// Gives the right to try first to another seat: this one's failure says nothing about the account.
    pub(crate) fn step_back(&mut self) {
        self.trying = None;
    }

    /// The class of the failure that rests it.
    pub(crate) fn class(&self) -> Option<Class> {
        self.read().rest.last.map(|last| last.class)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn read(&self) -> AccountRest {
        files::read(&self.file)
    }
}
