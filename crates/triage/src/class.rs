//! What a failure can be ([`Class`]), whom it hits ([`Scope`]) and which usage window it names ([`Window`]).
//!
//! The names are the public vocabulary: they stand in rules, logs, metrics, the API and the corpus.

use serde::{Deserialize, Serialize};

/// What kind of failure it is; decides the treatment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// The request is at fault, with any key: malformed, bad parameter, content policy, too large, client gone.
    RequestError,
    /// The prompt (plus output) exceeds the model's window.
    ContextOverflow,
    /// Looks like a format error, but succeeds when sent again.
    TransientRequest,
    /// This model is not there, or not for this key, plan, region or endpoint.
    ModelError,
    /// The credential is invalid, expired, revoked or suspended.
    AuthError,
    /// No money; waiting does not heal it.
    BillingExhausted,
    /// A usage window is full; heals at its reset.
    QuotaExhausted,
    /// A short throttle: per second, per minute, concurrency.
    RateLimit,
    /// The provider lacks capacity at the moment.
    Overloaded,
    /// A fault inside the provider.
    ServerError,
    /// No answer in time.
    Timeout,
    /// The connection failed.
    NetworkError,
    /// The set-up is wrong, here or in our address: a person changes a setting.
    ConfigurationError,
    /// Positively identified as local and transient.
    LocalFault,
    /// No rule recognises it.
    Unknown,
}

impl Class {
    /// Every class, in the order of the specification.
    pub const ALL: [Self; 15] = [
        Self::RequestError,
        Self::ContextOverflow,
        Self::TransientRequest,
        Self::ModelError,
        Self::AuthError,
        Self::BillingExhausted,
        Self::QuotaExhausted,
        Self::RateLimit,
        Self::Overloaded,
        Self::ServerError,
        Self::Timeout,
        Self::NetworkError,
        Self::ConfigurationError,
        Self::LocalFault,
        Self::Unknown,
    ];

    /// The public name; also the metric label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RequestError => "request_error",
            Self::ContextOverflow => "context_overflow",
            Self::TransientRequest => "transient_request",
            Self::ModelError => "model_error",
            Self::AuthError => "auth_error",
            Self::BillingExhausted => "billing_exhausted",
            Self::QuotaExhausted => "quota_exhausted",
            Self::RateLimit => "rate_limit",
            Self::Overloaded => "overloaded",
            Self::ServerError => "server_error",
            Self::Timeout => "timeout",
            Self::NetworkError => "network_error",
            Self::ConfigurationError => "configuration_error",
            Self::LocalFault => "local_fault",
            Self::Unknown => "unknown",
        }
    }

    /// Reads a public name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.as_str() == name)
    }
}

/// Whom the failure hits, and so whom its treatment may touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// This request alone.
    Request,
    /// This model, with any key; for limits: this key's use of this model.
    Model,
    /// This key.
    Key,
    /// Every key of the same account.
    Account,
    /// The provider as a whole.
    Provider,
    /// The way to the provider: our address, name resolution, an edge.
    Network,
    /// This machine.
    Local,
}

impl Scope {
    /// Every scope, narrowest first.
    pub const ALL: [Self; 7] =
        [Self::Request, Self::Model, Self::Key, Self::Account, Self::Provider, Self::Network, Self::Local];

    /// The public name; also the metric label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Model => "model",
            Self::Key => "key",
            Self::Account => "account",
            Self::Provider => "provider",
            Self::Network => "network",
            Self::Local => "local",
        }
    }
}

/// The usage window that a quota or rate limit names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Window {
    /// A minute (or less).
    #[serde(rename = "minute")]
    Minute,
    /// A rolling window of some hours, in practice five.
    #[serde(rename = "5h")]
    FiveHours,
    /// A day.
    #[serde(rename = "daily")]
    Daily,
    /// A week.
    #[serde(rename = "weekly")]
    Weekly,
    /// A month or billing cycle.
    #[serde(rename = "monthly")]
    Monthly,
}

impl Window {
    /// Every window, shortest first.
    pub const ALL: [Self; 5] = [Self::Minute, Self::FiveHours, Self::Daily, Self::Weekly, Self::Monthly];

    /// The public name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Minute => "minute",
            Self::FiveHours => "5h",
            Self::Daily => "daily",
            Self::Weekly => "weekly",
            Self::Monthly => "monthly",
        }
    }
}

macro_rules! display_as_str {
    ($($name:ty),*) => {$(
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }
    )*};
}
display_as_str!(Class, Scope, Window);
