//! What the client gets in the end, as data; the gateway turns it into the client's own dialect.

use crate::{Class, Timestamp};

/// An error of our own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinalError {
    /// What kind of error it is; decides status and code.
    pub kind: FinalKind,
    /// The class that decided.
    pub class: Class,
    /// When the first route is expected back.
    pub retry_at: Option<Timestamp>,
    /// Whether the client should send the request again (`x-should-retry`).
    pub should_retry: bool,
}

/// The kinds of our own errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FinalKind {
    /// The prompt does not fit; says so in the dialect's own words and nothing about rates.
    ContextOverflow,
    /// Every key is refused, out of money or out of service.
    NoUsableKey,
    /// A setting is wrong.
    MisconfiguredRoute,
    /// Every route is over a limit.
    LimitReached,
    /// The provider lacks capacity.
    Overloaded,
    /// The provider or the way to it is down.
    UpstreamFailed,
    /// No content in time.
    TimedOut,
    /// Nobody recognised the failure, and it was no 4xx.
    UnrecognisedFailure,
    /// Our own fault.
    LocalFault,
    /// A call that must not be repeated, and whose outcome is not known.
    OutcomeUnknown,
}

impl FinalKind {
    /// The code of `x-backstop-error` and of the envelope.
    pub const fn code(self) -> &'static str {
        match self {
            Self::ContextOverflow => "context_length_exceeded",
            Self::NoUsableKey => "no_usable_key",
            Self::MisconfiguredRoute => "misconfigured_route",
            Self::LimitReached => "limit_reached",
            Self::Overloaded => "overloaded",
            Self::UpstreamFailed => "upstream_failed",
            Self::TimedOut => "timed_out",
            Self::UnrecognisedFailure => "unrecognised_failure",
            Self::LocalFault => "local_fault",
            Self::OutcomeUnknown => "outcome_unknown",
        }
    }

    /// The HTTP status; an overload has one of its own where the dialect knows 529.
    pub const fn status(self, dialect_has_529: bool) -> u16 {
        match self {
            Self::ContextOverflow => 400,
            Self::LimitReached => 429,
            Self::Overloaded if dialect_has_529 => 529,
            Self::Overloaded | Self::UpstreamFailed | Self::LocalFault => 503,
            Self::TimedOut => 504,
            Self::NoUsableKey
            | Self::MisconfiguredRoute
            | Self::UnrecognisedFailure
            | Self::OutcomeUnknown => 502,
        }
    }
}
