//! What an attempt's outcome does to everything that it touched.

use crate::{
    Class, ModelId, Penalty, Scope, Timestamp, Treatment, Verdict,
    ladder::after,
    pool::{
        Health, Notice, ProbeKind, Rest, RestSource, Why,
        gate::{Mark, Proof},
        permit::Ticket,
        provider::{Provider, Timer},
        term::{Known, Term, snapshot_says},
    },
};

/// A failure together with where it hit.
#[derive(Clone, Debug)]
pub(super) struct Case<'a> {
    pub(super) slot: usize,
    pub(super) model: &'a ModelId,
    pub(super) request: u64,
    pub(super) key_mark: Mark,
    pub(super) account_mark: Option<Mark>,
    pub(super) use_mark: Mark,
    /// Whether the request held the key alone.
    pub(super) climber: bool,
    pub(super) verdict: &'a Verdict,
    pub(super) status: Option<u16>,
}

impl Provider {
    /// The first content came.
    pub(super) fn succeed(&mut self, ticket: &mut Ticket, now: Timestamp) {
        self.prove_breakers(ticket);
        let Some(slot) = self.slot(ticket.key, ticket.slot) else { return };
        let climbed = ticket.climbing.take().is_some();
        let key = &mut self.keys[slot];
        key.counters.successes += 1;
        key.last_success = Some(now);
        key.consecutive_errors = 0;
        key.unknowns = 0;
        key.vain_tests = 0;
        if climbed {
            key.climbed = None;
        }
        let had_permit = ticket.key_mark.permit;
        let proof = key.gate.succeed(&mut ticket.key_mark);
        if proof == Proof::Renewed {
            self.note_key(slot, Some(Notice::Recovered));
        }
        if climbed || had_permit {
            self.refresh(slot, now);
        }
        self.prove_account(ticket, slot, now);
        self.prove_use(ticket, slot, now);
    }

    /// The attempt is over and nobody is blamed for anything (more).
    pub(super) fn release(&mut self, ticket: &mut Ticket, now: Timestamp) {
        self.release_probes(ticket);
        let limited = self.settings.max_concurrent > 0;
        let Some(slot) = self.slot(ticket.key, ticket.slot) else { return };
        let key = &mut self.keys[slot];
        key.in_flight = key.in_flight.saturating_sub(1);
        let mut freed = limited | key.gate.release(&mut ticket.key_mark);
        if ticket.climbing.take().is_some() {
            key.climbed = None;
            freed = true;
        }
        if let Some(gate) =
            self.models.get_mut(&ticket.model).and_then(|model| model.uses.get_mut(&ticket.key))
        {
            freed |= gate.release(&mut ticket.use_mark);
        }
        if freed {
            self.refresh(slot, now);
        }
        if let Some(mark) = ticket.account_mark.as_mut().filter(|mark| mark.permit)
            && let Some(account) = self.keys[slot].account.clone()
            && self.accounts.get_mut(&account).is_some_and(|account| account.gate.release(mark))
        {
            self.refresh_account(&account, now);
        }
    }

    /// The attempt failed. Says whether the whole provider is suspected of refusing good keys.
    pub(super) fn fail(
        &mut self,
        mut ticket: Ticket,
        verdict: &Verdict,
        status: Option<u16>,
        now: Timestamp,
    ) -> bool {
        self.count_for_breakers(&ticket, verdict, status, now);
        let marks = (ticket.key_mark, ticket.account_mark, ticket.use_mark);
        let climber = ticket.climbing.is_some();
        self.release(&mut ticket, now);
        let Some(slot) = self.slot(ticket.key, ticket.slot) else { return false };
        let (key_mark, account_mark, use_mark) = marks;
        let case = Case {
            slot,
            model: &ticket.model,
            request: ticket.request,
            key_mark,
            account_mark,
            use_mark,
            climber,
            verdict,
            status,
        };
        self.count_failure(&case);
        self.penalise(&case, Treatment::of(verdict, status).penalty, now)
    }

    /// A key failed a request that its sibling then answered: the fault was the key's.
    pub(super) fn blame(&mut self, case: &Case<'_>, now: Timestamp) {
        self.rest_key(case, Penalty::Count, now);
    }

    pub(super) fn penalise(&mut self, case: &Case<'_>, penalty: Penalty, now: Timestamp) -> bool {
        match penalty {
            Penalty::None | Penalty::Count => {}
            Penalty::CountUnknown => self.count_unknown(case, now),
            Penalty::RestRateLimit | Penalty::RestQuota | Penalty::RestUnknown => {
                self.rest_key(case, penalty, now)
            }
            Penalty::RestDoubt => {
                self.rest_key(case, penalty, now);
                self.suspect_siblings(case, now);
            }
            Penalty::RestModelPlan | Penalty::RestModelMoney | Penalty::RestModelLimit => {
                self.rest_use(case, penalty, now);
            }
            Penalty::Quarantine => {
                self.suspect_siblings(case, now);
                return self.quarantine(case, now);
            }
            Penalty::Disable => {
                self.disable(case, now);
                self.suspect_siblings(case, now);
            }
        }
        false
    }

    pub(super) fn count_failure(&mut self, case: &Case<'_>) {
        let key = &mut self.keys[case.slot];
        key.counters.failures += 1;
        if counts_against_key(case.verdict) {
            key.consecutive_errors = key.consecutive_errors.saturating_add(1);
        }
        if case.verdict.class != Class::Unknown {
            key.unknowns = 0;
            key.last_unknown = None;
        }
    }

    fn count_unknown(&mut self, case: &Case<'_>, now: Timestamp) {
        let key = &mut self.keys[case.slot];
        if key.last_unknown != Some(case.request) {
            key.last_unknown = Some(case.request);
            key.unknowns = key.unknowns.saturating_add(1);
        }
        if key.unknowns >= UNKNOWNS_TO_REST {
            self.rest_key(case, Penalty::RestUnknown, now);
        }
    }

    /// Rests the key; or the whole account, if the failure is the account's and states when it heals.
    fn rest_key(&mut self, case: &Case<'_>, penalty: Penalty, now: Timestamp) {
        let key = &self.keys[case.slot];
        if !key.gate.is_current(case.key_mark) {
            return;
        }
        let snapshot = snapshot_says(key.quota.as_deref(), case.verdict, case.model, now);
        let known = Known {
            health: &key.gate.health,
            level: case.key_mark.level,
            snapshot_says: snapshot.filter(|_| penalty == Penalty::RestQuota),
            last_success: key.last_success,
        };
        let Some(term) = Term::of(penalty, case.verdict, known, &self.settings, now) else { return };
        if key.climbed.is_some() && !case.climber && !term.stated {
            return;
        }
        if term.stated
            && term.source != RestSource::MonthlyCycle
            && case.verdict.scope == Scope::Account
            && is_limit(case.verdict)
            && key.account.is_some()
        {
            self.rest_account(case, penalty, term, now);
            return;
        }
        let (id, level) = (key.id, case.key_mark.level);
        let rest = self.rest(case, penalty, (term, level), now);
        let key = &mut self.keys[case.slot];
        if !key.gate.worsen(|health| add(health, rest, term.stated)) {
            return;
        }
        self.after_key_worsened(case.slot, None, now);
        if penalty == Penalty::RestUnknown {
            self.unknown_resting.insert(id);
            self.last_unknown = Some(now);
        }
        let guessed = !term.stated || term.source == RestSource::MonthlyCycle;
        if penalty == Penalty::RestQuota && guessed && self.probes.quota {
            self.due.insert((now, id, ProbeKind::Quota));
        }
    }

    /// Rests the key's use of the model.
    fn rest_use(&mut self, case: &Case<'_>, penalty: Penalty, now: Timestamp) {
        let key = &self.keys[case.slot];
        let (id, last_success) = (key.id, key.last_success);
        let snapshot = snapshot_says(key.quota.as_deref(), case.verdict, case.model, now);
        let snapshot = snapshot.filter(|_| case.verdict.class == Class::QuotaExhausted);
        let settings = self.settings.clone();
        let gate = self.use_gate(id, case.model, now);
        if !gate.is_current(case.use_mark) {
            return;
        }
        let health = gate.health.clone();
        let known =
            Known { health: &health, level: case.use_mark.level, snapshot_says: snapshot, last_success };
        let Some(term) = Term::of(penalty, case.verdict, known, &settings, now) else { return };
        let rest = self.rest(case, penalty, (term, case.use_mark.level), now);
        let gate = self.use_gate(id, case.model, now);
        if gate.worsen(|health| add(health, rest, term.stated)) {
            if let Some(until) = gate.health.until() {
                self.wake(until, Timer::Key(id));
            }
            self.note_use(id, case.model);
        }
        self.refresh(case.slot, now);
    }

    pub(super) fn after_key_worsened(&mut self, slot: usize, notice: Option<Notice>, now: Timestamp) {
        let key = &self.keys[slot];
        if let Some(until) = key.gate.health.until() {
            let id = key.id;
            self.wake(until, Timer::Key(id));
        }
        self.refresh(slot, now);
        self.note_key(slot, notice);
    }

    pub(super) fn rest(
        &self,
        case: &Case<'_>,
        penalty: Penalty,
        (term, level): (Term, u32),
        now: Timestamp,
    ) -> Rest {
        let key = &self.keys[case.slot];
        let chance = self.chance.about(key.id.0).about(key.gate.health.epoch).about(level.into());
        Rest {
            level: level.saturating_add(1),
            step: term.step,
            penalty,
            since: now,
            until: after(now, chance.later(term.wait)),
            why: Why::of(case.verdict, case.status, term.source),
        }
    }

    fn prove_use(&mut self, ticket: &mut Ticket, slot: usize, now: Timestamp) {
        if !ticket.use_mark.permit {
            return;
        }
        let Some(model) = self.models.get_mut(&ticket.model) else { return };
        let Some(gate) = model.uses.get_mut(&ticket.key) else { return };
        if gate.succeed(&mut ticket.use_mark) == Proof::Renewed {
            self.note_use(ticket.key, &ticket.model);
        }
        self.refresh(slot, now);
    }
}

pub(super) fn add(health: &mut Health, rest: Rest, stated: bool) {
    if stated {
        health.add_stated(rest);
    } else {
        health.add_guess(rest);
    }
}

fn is_limit(verdict: &Verdict) -> bool {
    matches!(verdict.class, Class::QuotaExhausted | Class::RateLimit)
}

/// Whether a failure says something about the key, as opposed to the request, the model or ourselves.
fn counts_against_key(verdict: &Verdict) -> bool {
    match verdict.class {
        Class::RequestError
        | Class::ContextOverflow
        | Class::TransientRequest
        | Class::ModelError
        | Class::Overloaded
        | Class::ConfigurationError
        | Class::LocalFault => false,
        Class::BillingExhausted => verdict.scope != Scope::Request,
        Class::AuthError
        | Class::QuotaExhausted
        | Class::RateLimit
        | Class::ServerError
        | Class::Timeout
        | Class::NetworkError
        | Class::Unknown => true,
    }
}

const UNKNOWNS_TO_REST: u32 = 3;
