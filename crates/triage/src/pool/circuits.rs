//! The breakers of a provider and of its models: what trips them and what closes them.

use std::time::Duration;

use crate::{
    Class, Scope, Timestamp, Verdict,
    breaker::Admission,
    ladder::Ladder,
    pool::{Notice, RestSource, Why, permit::Ticket, provider::Provider},
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
        if self.breaker.prove(ticket.began) {
            self.leavers.clear();
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
        self.leavers.retain(|left| now.duration_since(*left) <= LEAVERS_WINDOW);
        self.leavers.push_back(now);
        if self.leavers.len() >= self.settings.circuit_breaker_threshold.max(1) as usize {
            self.open_breaker(why, now);
        }
    }

    fn open_breaker(&mut self, why: Why, now: Timestamp) {
        let ladder =
            Ladder::new(Duration::from_secs(self.settings.circuit_breaker_cooldown_s), BREAKER_CEILING);
        let cooldown = ladder.delay(self.breaker.next_relapse());
        self.breaker.open(cooldown, why, now);
        self.leavers.clear();
        self.outlook.forget();
        self.note_provider(Some(Notice::BreakerOpened));
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

const LEAVERS_WINDOW: jiff::SignedDuration = jiff::SignedDuration::from_secs(60);
const BREAKER_CEILING: Duration = Duration::from_secs(15 * 60);
