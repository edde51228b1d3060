//! Calls that the pool wants made off the path of any request: tests and usage probes.

use crate::{KeyId, ProviderId, Verdict, quota::QuotaSnapshot};

/// A call that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The provider.
    pub provider: ProviderId,
    /// The key to call it with.
    pub key: KeyId,
    /// What to call.
    pub kind: ProbeKind,
    /// Whom the answer concerns.
    pub(super) about: About,
}

/// Whom a probe's answer concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum About {
    /// The key, in the epoch of the time of asking.
    Key(u64),
    /// The provider: whether it answers again.
    Provider,
}

/// What a probe asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProbeKind {
    /// The free authenticated test: a model list or balance that needs the key.
    Test,
    /// The usage endpoint.
    Quota,
    /// The balance endpoint.
    Balance,
}

/// What a probe found.
#[derive(Clone, Debug, PartialEq)]
pub enum ProbeResult {
    /// The test was answered: the credential is good.
    Passed,
    /// The credential was refused.
    Refused(Verdict),
    /// The usage windows.
    Quota(QuotaSnapshot),
    /// Whether there is money.
    Money(bool),
    /// Nothing was learned: no connection, an outage, an answer that cannot be read.
    Inconclusive,
}
