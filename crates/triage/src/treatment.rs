//! What a verdict leads to: the policy on one page.
//!
//! [`Treatment::of`] says what the failure costs the key and where the request goes first, assuming that
//! there is a second key and a chain. Pool and cascade apply it; `classify` prints it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Basis, Class, Evidence, Kind, Scope, Timestamp, Verdict, settings::Settings};

/// The consequence of a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Treatment {
    /// What the key suffers.
    pub penalty: Penalty,
    /// Where the request goes first.
    pub next: Next,
}

impl Treatment {
    /// The treatment of a verdict. `status` is the HTTP status, where there was one: an unknown 4xx is most
    /// likely the request's own fault and costs the key nothing.
    pub fn of(verdict: &Verdict, status: Option<u16>) -> Self {
        let (penalty, next) = match verdict.class {
            Class::RequestError | Class::ContextOverflow | Class::LocalFault => (Penalty::None, Next::Return),
            Class::TransientRequest => (Penalty::None, Next::RetrySame),
            Class::ModelError => (model_penalty(verdict), Next::NextModel),
            Class::AuthError => (refusal_penalty(verdict), refusal_next(verdict)),
            Class::BillingExhausted => (money_penalty(verdict), refusal_next(verdict)),
            Class::QuotaExhausted => (limit_penalty(verdict, Penalty::RestQuota), Next::NextKey),
            Class::RateLimit => (limit_penalty(verdict, Penalty::RestRateLimit), Next::NextKey),
            Class::Overloaded => (Penalty::None, Next::RetrySame),
            Class::ServerError | Class::Timeout | Class::NetworkError => (Penalty::Count, Next::NextKey),
            Class::ConfigurationError => match verdict.scope {
                Scope::Key => (Penalty::None, Next::NextKey),
                Scope::Request
                | Scope::Model
                | Scope::Account
                | Scope::Provider
                | Scope::Network
                | Scope::Local => (Penalty::None, Next::NextProvider),
            },
            Class::Unknown => match status {
                Some(400..=499) => (Penalty::CountUnknown, Next::NextKey),
                Some(_) | None => (Penalty::RestUnknown, Next::NextKey),
            },
        };
        Self { penalty, next }
    }

    /// The first wait that follows, without jitter: the rest of the key, or the wait before the same key is
    /// asked again. `None` where nothing waits.
    pub fn first_wait(self, verdict: &Verdict, settings: &Settings, now: Timestamp) -> Option<Duration> {
        if self.next == Next::RetrySame {
            let overloaded = verdict.class == Class::Overloaded;
            return Some(
                overloaded.then(|| overload_wait(verdict, settings, now)).flatten().unwrap_or(Duration::ZERO),
            );
        }
        self.penalty.first_rest(verdict, settings, now)
    }
}

/// The wait before an overloaded provider is asked again on the same key; `None` if the stated wait is
/// longer than what a request sits out, so that it leaves at once.
pub fn overload_wait(verdict: &Verdict, settings: &Settings, now: Timestamp) -> Option<Duration> {
    let usual = Duration::from_secs(settings.overload_wait_s);
    match verdict.stated_wait(now) {
        None => Some(usual),
        Some(stated) if stated > Duration::from_secs(settings.overload_wait_cap_s) => None,
        Some(stated) => Some(stated.max(usual)),
    }
}

/// What a failure costs the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Penalty {
    /// Nothing.
    None,
    /// Counted; rests only if a sibling then answers the same request.
    Count,
    /// Counted; rests after unknowns from three different requests in a row.
    CountUnknown,
    /// Rests the stated time or `rate_limit_backoff_s`.
    RestRateLimit,
    /// Rests until its own window resets.
    RestQuota,
    /// Rests 1800 s, doubling to 24 h on relapse: permission, service, a cap, a relay's own account.
    RestDoubt,
    /// Rests `unknown_backoff_s`.
    RestUnknown,
    /// (key, model) rests 1800 s: this key's plan lacks the model.
    RestModelPlan,
    /// (key, model) rests 24 h: no money for this model.
    RestModelMoney,
    /// (key, model) rests the stated time or the class's default.
    RestModelLimit,
    /// Set aside until a free test or a probe has decided.
    Quarantine,
    /// Disabled until a person (or a free balance check) brings it back.
    Disable,
}

impl Penalty {
    /// What it means to the key, in one word of the public vocabulary.
    pub const fn key_action(self) -> KeyAction {
        match self {
            Self::None | Self::Count | Self::CountUnknown => KeyAction::None,
            Self::RestRateLimit
            | Self::RestQuota
            | Self::RestDoubt
            | Self::RestUnknown
            | Self::RestModelPlan
            | Self::RestModelMoney
            | Self::RestModelLimit => KeyAction::Rest,
            Self::Quarantine => KeyAction::Quarantine,
            Self::Disable => KeyAction::Disable,
        }
    }

    /// How long the first rest is, without snapshots, probes, relapse and jitter.
    pub fn first_rest(self, verdict: &Verdict, settings: &Settings, now: Timestamp) -> Option<Duration> {
        let stated = || stated_rest(verdict, settings, now);
        match self {
            Self::None | Self::Count | Self::CountUnknown | Self::Disable => None,
            Self::RestRateLimit => Some(stated().unwrap_or_else(|| settings.rate_limit_backoff())),
            Self::RestQuota => Some(stated().unwrap_or_else(|| settings.quota_backoff())),
            Self::RestModelLimit if verdict.class == Class::QuotaExhausted => {
                Some(stated().unwrap_or_else(|| settings.quota_backoff()))
            }
            Self::RestModelLimit => Some(stated().unwrap_or_else(|| settings.rate_limit_backoff())),
            Self::RestDoubt => Some(DOUBT_REST.max(stated().unwrap_or_default())),
            Self::RestUnknown => Some(settings.unknown_backoff().max(stated().unwrap_or_default())),
            Self::RestModelPlan => Some(DOUBT_REST),
            Self::RestModelMoney => Some(MODEL_MONEY_REST),
            Self::Quarantine => Some(Duration::from_secs(settings.quarantine_s)),
        }
    }
}

/// The stated time of healing: machine-readable up to 30 days, prose up to `quota_backoff_s`.
fn stated_rest(verdict: &Verdict, settings: &Settings, now: Timestamp) -> Option<Duration> {
    let heals = verdict.heals.as_ref()?;
    let wait = heals.wait(now)?;
    Some(if heals.trusted { wait.min(REST_CEILING) } else { wait.min(settings.quota_backoff()) })
}

fn model_penalty(verdict: &Verdict) -> Penalty {
    if verdict.scope == Scope::Key { Penalty::RestModelPlan } else { Penalty::None }
}

fn limit_penalty(verdict: &Verdict, otherwise: Penalty) -> Penalty {
    if verdict.scope == Scope::Model { Penalty::RestModelLimit } else { otherwise }
}

fn refusal_penalty(verdict: &Verdict) -> Penalty {
    if verdict.disable_key {
        return Penalty::Disable;
    }
    if verdict.scope == Scope::Model {
        return Penalty::RestModelMoney;
    }
    if DOUBTFUL_REFUSALS.contains(&verdict.reason.as_str()) {
        Penalty::RestDoubt
    } else {
        Penalty::Quarantine
    }
}

fn money_penalty(verdict: &Verdict) -> Penalty {
    if verdict.scope == Scope::Request {
        return Penalty::None;
    }
    if verdict.disable_key {
        return Penalty::Disable;
    }
    if verdict.scope == Scope::Model {
        return Penalty::RestModelMoney;
    }
    if verdict.basis == Basis::Status { Penalty::Quarantine } else { Penalty::RestDoubt }
}

fn refusal_next(verdict: &Verdict) -> Next {
    if verdict.scope == Scope::Model { Next::NextModel } else { Next::NextKey }
}

/// The key's fate in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyAction {
    /// It stays as it is.
    None,
    /// It rests for a time.
    Rest,
    /// It is set aside until a test decides.
    Quarantine,
    /// It is disabled.
    Disable,
}

/// Where the request goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Next {
    /// Back to the client.
    Return,
    /// The same key again.
    RetrySame,
    /// The provider's next model.
    NextModel,
    /// The next key.
    NextKey,
    /// The next provider of the chain.
    NextProvider,
}

/// The HTTP status of a failure, where it has one.
pub fn status_of(evidence: &Evidence) -> Option<u16> {
    match evidence.kind {
        Kind::Http { status } | Kind::Stream { status } => Some(status).filter(|status| *status != 0),
        Kind::Transport(_) | Kind::Process { .. } => None,
    }
}

/// Refusals of a genuine credential: it works the moment somebody grants the right, so no test helps.
const DOUBTFUL_REFUSALS: [&str; 5] = [
    "permission_missing",
    "service_not_enabled",
    "login_not_allowed",
    "temporarily_banned",
    "account_disabled",
];

/// The longest rest that a statement of the provider can cause.
pub const REST_CEILING: Duration = Duration::from_secs(30 * 24 * 3600);
/// The first rest over a refusal that proves nothing about the key.
pub const DOUBT_REST: Duration = Duration::from_secs(1800);
/// The rest of (key, model) when there is no money for the model.
pub const MODEL_MONEY_REST: Duration = Duration::from_secs(24 * 3600);
