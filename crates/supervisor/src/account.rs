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

#[cfg(test)]
mod tests {
    use backstop_triage::{Basis, Scope, Verdict, respawn::Jitter};

    use super::*;

    #[test]
    fn nine_seats_wait_for_four_in_the_morning_and_then_one_tries() {
        let folder = tempfile::tempdir().unwrap();
        let mut nine = seats_of(folder.path(), 9);
        let midnight = at("2026-08-18T00:00:00Z");
        let four = at("2026-08-18T04:00:00Z");
        assert_eq!(granted(&mut nine, midnight), 9, "all run while the account is in order");
        full_until(&mut nine[3], four, midnight);
        for minute in 0..240 {
            let now = midnight + Duration::from_secs(minute * 60);
            assert_eq!(granted(&mut nine, now), 0, "nobody probes at {now}");
        }
        assert_eq!(granted(&mut nine, four), 1);
        assert_eq!(granted(&mut nine, four + Duration::from_secs(3)), 1, "still the same one");
    }

    #[test]
    fn the_one_that_tries_opens_the_way_or_rests_all_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut seats = seats_of(folder.path(), 3);
        let midnight = at("2026-08-18T00:00:00Z");
        let four = at("2026-08-18T04:00:00Z");
        full_until(&mut seats[0], four, midnight);
        assert_eq!(seats[1].ask(four).unwrap(), Leave::Granted);
        full_until(&mut seats[1], at("2026-08-18T09:00:00Z"), four);
        assert_eq!(granted(&mut seats, at("2026-08-18T05:00:00Z")), 0);
        let nine = at("2026-08-18T09:00:00Z");
        assert_eq!(seats[2].ask(nine).unwrap(), Leave::Granted);
        assert!(seats[2].recover().unwrap());
        assert_eq!(granted(&mut seats, nine), 3);
    }

    #[test]
    fn a_failure_that_says_nothing_about_the_account_passes_the_turn_on() {
        let folder = tempfile::tempdir().unwrap();
        let mut seats = seats_of(folder.path(), 2);
        let four = at("2026-08-18T04:00:00Z");
        full_until(&mut seats[0], four, at("2026-08-18T00:00:00Z"));
        assert_eq!(seats[0].ask(four).unwrap(), Leave::Granted);
        assert_eq!(seats[1].ask(four).unwrap(), Leave::OtherTries);
        seats[0].step_back();
        assert_eq!(seats[1].ask(four).unwrap(), Leave::Granted);
    }

    fn seats_of(folder: &std::path::Path, count: usize) -> Vec<Account> {
        let seats = Seats::open(folder).unwrap();
        (0..count).map(|_| Account::open(&seats, "main")).collect()
    }

    fn granted(seats: &mut [Account], now: Timestamp) -> usize {
        let leaves: Vec<Leave> = seats.iter_mut().map(|seat| seat.ask(now).unwrap()).collect();
        leaves.iter().filter(|leave| **leave == Leave::Granted).count()
    }

    fn full_until(account: &mut Account, until: Timestamp, now: Timestamp) {
        let verdict = Verdict::new(Class::QuotaExhausted, Scope::Account, "window_full", Basis::Nothing);
        let mut decision = Seat::default().fail("seat", &verdict, Jitter::Off, now);
        decision.until = until;
        account.fail(&decision, Scope::Account, now).unwrap();
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }
}
