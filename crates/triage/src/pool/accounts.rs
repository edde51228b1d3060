//! Keys that share an account: a stated limit rests them all, money and credentials make the others suspect.

use std::time::Duration;

use crate::{
    AccountId, Penalty, Scope, Timestamp,
    ladder::Ladder,
    pool::{
        Health, RestSource,
        gate::{Mark, Proof},
        permit::Ticket,
        provider::{Provider, Timer},
        settle::{Case, add},
        term::{DAY, Term},
    },
};

impl Provider {
    pub(super) fn rest_account(&mut self, case: &Case<'_>, penalty: Penalty, term: Term, now: Timestamp) {
        let (Some(id), Some(mark)) = (self.keys[case.slot].account.clone(), case.account_mark) else {
            return;
        };
        let rest = self.rest(case, penalty, (term, mark.level), now);
        self.worsen_account(&id, mark, |health| add(health, rest, term.stated), now);
    }

    /// Whoever shares the account comes back one at a time.
    pub(super) fn suspect_siblings(&mut self, case: &Case<'_>, now: Timestamp) {
        let (Some(id), Some(mark)) = (self.keys[case.slot].account.clone(), case.account_mark) else {
            return;
        };
        let Some(account) = self.accounts.get(&id).filter(|account| account.members.len() > 1) else {
            return;
        };
        if case.verdict.scope != Scope::Account {
            return;
        }
        let ladder = Ladder::new(Duration::from_secs(self.settings.account_suspect_s), DAY);
        let step = account.gate.health.next_step(Penalty::RestDoubt);
        let term = Term { source: RestSource::Account, ..Term::guess(ladder, step) };
        let rest = self.rest(case, Penalty::RestDoubt, (term, mark.level), now);
        self.worsen_account(&id, mark, |health| health.add_guess(rest), now);
    }

    fn worsen_account(
        &mut self,
        id: &AccountId,
        mark: Mark,
        change: impl FnOnce(&mut Health),
        now: Timestamp,
    ) {
        let Some(account) = self.accounts.get_mut(id).filter(|account| account.gate.is_current(mark)) else {
            return;
        };
        if !account.gate.worsen(change) {
            return;
        }
        if let Some(until) = account.gate.health.until() {
            self.wake(until, Timer::Account(id.clone()));
        }
        self.refresh_account(id, now);
        self.note_account(id);
    }

    pub(super) fn prove_account(&mut self, ticket: &mut Ticket, slot: usize, now: Timestamp) {
        let Some(mark) = ticket.account_mark.as_mut().filter(|mark| mark.permit) else { return };
        let Some(id) = self.keys[slot].account.clone() else { return };
        let Some(account) = self.accounts.get_mut(&id) else { return };
        if account.gate.succeed(mark) == Proof::Renewed {
            self.note_account(&id);
        }
        self.refresh_account(&id, now);
    }
}
