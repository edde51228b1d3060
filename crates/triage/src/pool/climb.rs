//! The last key's ladder, as far as it concerns the key: one request holds it alone, and its rest begins when
//! the climb ends.

use crate::{
    Timestamp, Treatment, Verdict,
    breaker::Admission,
    pool::{RestSource, Why, gate::Phase, permit::Ticket, provider::Provider, settle::Case},
};

impl Provider {
    /// Begins or goes on with a climb after a failure; false if another request climbs already, or the key is
    /// only coming back and so has had its one try.
    pub(super) fn climb(
        &mut self,
        ticket: &mut Ticket,
        verdict: &Verdict,
        status: Option<u16>,
        now: Timestamp,
    ) -> bool {
        let Some(slot) = self.slot(ticket.key, ticket.slot) else { return false };
        let key = &self.keys[slot];
        let goes_on = ticket.climbing.is_some();
        if (key.climbed.is_some() && !goes_on) || key.gate.phase(now) != Phase::Open || key.is_paused(now) {
            return false;
        }
        self.count_for_breakers(ticket, verdict, status, now);
        self.release_probes(ticket);
        ticket.climbing = Some(Box::new((verdict.clone(), status)));
        self.keys[slot].climbed = Some(Why::of(verdict, status, RestSource::Setting));
        self.count_failure(&case_of(ticket, slot, verdict, status));
        self.refresh(slot, now);
        true
    }

    /// Counts another attempt; false if the key may not be used any more.
    pub(super) fn climb_on(&mut self, ticket: &mut Ticket, now: Timestamp) -> bool {
        let Some(slot) = self.slot(ticket.key, ticket.slot) else { return false };
        let is_shut = matches!(self.breaker.admission(now), Admission::Open(_) | Admission::Probing);
        let is_shut = is_shut || !self.others_admit(slot, &ticket.model, now);
        let key = &mut self.keys[slot];
        if is_shut || key.gate.phase(now) != Phase::Open || key.is_paused(now) {
            return false;
        }
        key.counters.attempts += 1;
        key.gate.pass_again(&mut ticket.key_mark);
        ticket.began = now;
        let account = key.account.as_ref().and_then(|account| self.accounts.get(account));
        if let (Some(account), Some(mark)) = (account, &mut ticket.account_mark) {
            account.gate.pass_again(mark);
        }
        if let Some(gate) = self.models.get(&ticket.model).and_then(|model| model.uses.get(&ticket.key)) {
            gate.pass_again(&mut ticket.use_mark);
        }
        true
    }

    /// Ends a climb whose request is gone: what the key rests for had happened.
    pub(super) fn rest_after_climb(
        &mut self,
        mut ticket: Ticket,
        verdict: &Verdict,
        status: Option<u16>,
        now: Timestamp,
    ) {
        let Some(slot) = self.slot(ticket.key, ticket.slot) else { return };
        let (key_mark, account_mark, use_mark) = (ticket.key_mark, ticket.account_mark, ticket.use_mark);
        self.release(&mut ticket, now);
        let case = Case { key_mark, account_mark, use_mark, ..case_of(&ticket, slot, verdict, status) };
        self.penalise(&case, Treatment::of(verdict, status).penalty, now);
    }
}

fn case_of<'a>(ticket: &'a Ticket, slot: usize, verdict: &'a Verdict, status: Option<u16>) -> Case<'a> {
    Case {
        slot,
        model: &ticket.model,
        request: ticket.request,
        key_mark: ticket.key_mark,
        account_mark: ticket.account_mark,
        use_mark: ticket.use_mark,
        climber: true,
        verdict,
        status,
    }
}
