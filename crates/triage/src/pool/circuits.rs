//! The breakers of a provider and of its models: what trips them and what closes them.

use std::time::Duration;

use crate::{
    Class, Scope, Timestamp, Verdict,
    breaker::Admission,
    ladder::{Ladder, after},
    pool::{Notice, Probe, ProbeKind, RestSource, Why, permit::Ticket, probe::About, provider::Provider},
};

impl Provider {
    /// An answer proves the model and the provider, as far as it was asked for after they were given up.
    pub(super) fn prove_breakers(&mut self, ticket: &mut Ticket) {
        let mut closed = false;
        if let Some(model) = self.models.get_mut(&ticket.model) {
            closed = model.breaker.prove(ticket.began);
        }
        if closed {
            self.note_model(&ticket.model, Some(Notice::Recovered));
        }
        // One answer makes up for one request that left: a provider that answers in between is not down.
        self.leavers.pop_front();
        self.failing.clear();
        if self.breaker.prove(ticket.began) {
            self.leavers.clear();
            self.revival = Revival::default();
            self.note_provider(Some(Notice::Recovered));
        }
        self.release_probes(ticket);
    }

    pub(super) fn release_probes(&mut self, ticket: &mut Ticket) {
        if std::mem::take(&mut ticket.model_probe)
            && let Some(model) = self.models.get_mut(&ticket.model)
        {
            model.breaker.release_probe();
        }
        if std::mem::take(&mut ticket.provider_probe) {
            self.breaker.release_probe();
            self.outlook.forget();
        }
    }

    /// Counts a failure where it counts.
    pub(super) fn count_for_breakers(
        &mut self,
        ticket: &Ticket,
        verdict: &Verdict,
        status: Option<u16>,
        now: Timestamp,
    ) {
        let why = || Why::of(verdict, status, RestSource::Setting);
        if let Some(cooldown) = self.model_cooldown(verdict) {
            let threshold = self.settings.model_circuit_threshold.max(1);
            let breaker = &mut self.model(&ticket.model, now).breaker;
            if breaker.count() >= threshold || ticket.model_probe {
                let was_open = matches!(breaker.admission(now), Admission::Open(_));
                breaker.open(cooldown, why(), now);
                if !was_open {
                    self.note_model(&ticket.model, Some(Notice::BreakerOpened));
                }
            }
        }
        if is_provider_fault(verdict) {
            self.failing
                .retain(|(at, request)| *request != ticket.request && now.duration_since(*at) <= WINDOW);
            self.failing.push_back((now, ticket.request));
            if self.failing.len() > FAILING_KEPT {
                self.failing.pop_front();
            }
        }
        if !ticket.provider_probe {
            return;
        }
        if is_provider_fault(verdict) {
            self.open_breaker(why(), now);
        } else if self.breaker.prove(ticket.began) {
            self.note_provider(Some(Notice::Recovered));
        }
    }

    /// A request left the provider over the provider's own fault.
    pub(super) fn leave(&mut self, why: Why, now: Timestamp) {
        if self.breaker.admission(now) != Admission::Closed {
            return;
        }
        self.leavers.retain(|left| now.duration_since(*left) <= WINDOW);
        self.leavers.push_back(now);
        if self.leavers.len() >= self.settings.circuit_breaker_threshold.max(1) as usize {
            self.open_breaker(why, now);
        }
    }

    /// Whether so many other requests in a row have met the provider's own fault that a repeat is pointless,
    /// although none of them has left yet: a provider that hangs is known long before the first gives up.
    pub(super) fn is_down(&self, request: u64, now: Timestamp) -> bool {
        let counts = |(at, other): &&(Timestamp, u64)| *other != request && now.duration_since(*at) <= WINDOW;
        let recent = self.failing.iter().filter(counts).count();
        recent >= self.settings.circuit_breaker_threshold.max(1) as usize
    }

    fn open_breaker(&mut self, why: Why, now: Timestamp) {
        let ladder = Ladder::new(self.first_cooldown(), BREAKER_CEILING);
        let relapses = self.breaker.next_relapse();
        let cooldown = ladder.delay(relapses);
        self.plan_revival(relapses, now);
        self.breaker.open(cooldown, why, now);
        self.leavers.clear();
        self.outlook.forget();
        self.note_provider(Some(Notice::BreakerOpened));
    }

    /// While the breaker is open for longer than its first cooldown, a free test looks every such cooldown whether
    /// the provider answers again. A test that passed only for the next probe to fail has lied: then time alone
    /// decides until the provider has answered.
    fn plan_revival(&mut self, relapses: u32, now: Timestamp) {
        self.revival.in_vain |= self.revival.passed;
        self.revival.passed = false;
        let wanted = self.probes.test && relapses > 0 && !self.revival.in_vain;
        self.revival.due = wanted.then(|| after(now, self.first_cooldown()));
    }

    /// The test of the provider that is due.
    pub(super) fn next_revival(&mut self, now: Timestamp) -> Option<Probe> {
        self.revival.due.filter(|due| *due <= now)?;
        self.revival.due = None;
        let Admission::Open(_) = self.breaker.admission(now) else { return None };
        let slot = self.ready.next(0)?;
        let key = self.keys[slot].id;
        Some(Probe { provider: self.id.clone(), key, kind: ProbeKind::Test, about: About::Provider })
    }

    /// What a test of the provider showed; a refusal is an answer too.
    pub(super) fn take_revival(&mut self, answers: bool, now: Timestamp) {
        let Admission::Open(_) = self.breaker.admission(now) else { return };
        if answers {
            self.revival.passed = true;
            self.breaker.shorten(now);
            self.outlook.forget();
            self.note_provider(None);
        } else {
            self.revival.due = Some(after(now, self.first_cooldown()));
        }
    }

    fn first_cooldown(&self) -> Duration {
        Duration::from_secs(self.settings.circuit_breaker_cooldown_s)
    }

    /// How long a failure closes the model, if it counts against the model at all.
    fn model_cooldown(&self, verdict: &Verdict) -> Option<Duration> {
        let of_model = verdict.scope == Scope::Model;
        let seconds = match verdict.class {
            Class::ModelError if of_model || verdict.scope == Scope::Provider => {
                self.settings.model_circuit_permanent_cooldown_s
            }
            Class::Overloaded | Class::RateLimit if of_model => {
                self.settings.model_circuit_transient_cooldown_s
            }
            Class::RequestError
            | Class::ContextOverflow
            | Class::TransientRequest
            | Class::ModelError
            | Class::AuthError
            | Class::BillingExhausted
            | Class::QuotaExhausted
            | Class::RateLimit
            | Class::Overloaded
            | Class::ServerError
            | Class::Timeout
            | Class::NetworkError
            | Class::ConfigurationError
            | Class::LocalFault
            | Class::Unknown => return None,
        };
        Some(Duration::from_secs(seconds))
    }
}

/// Looking for the end of an outage beside the path of requests.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Revival {
    pub(super) due: Option<Timestamp>,
    passed: bool,
    in_vain: bool,
}

/// Whether a failure says that the provider, or the way to it, is down for everybody.
pub(crate) fn is_provider_fault(verdict: &Verdict) -> bool {
    if !matches!(verdict.scope, Scope::Provider | Scope::Network) {
        return false;
    }
    match verdict.class {
        Class::Overloaded
        | Class::ServerError
        | Class::Timeout
        | Class::NetworkError
        | Class::ConfigurationError
        | Class::AuthError
        | Class::BillingExhausted
        | Class::Unknown => true,
        Class::RequestError
        | Class::ContextOverflow
        | Class::TransientRequest
        | Class::ModelError
        | Class::QuotaExhausted
        | Class::RateLimit
        | Class::LocalFault => false,
    }
}

const WINDOW: jiff::SignedDuration = jiff::SignedDuration::from_secs(60);
const BREAKER_CEILING: Duration = Duration::from_secs(15 * 60);
const FAILING_KEPT: usize = 64;
