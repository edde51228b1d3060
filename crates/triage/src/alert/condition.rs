//! The conditions that people hear of, and how grave they are.

use serde::{Deserialize, Serialize};

/// A thing that can be on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// A provider has no usable key.
    ProviderDown,
    /// A key is disabled: its credential is refused.
    KeyDisabled,
    /// A usage window of a key is full.
    KeyQuotaExhausted,
    /// An account has no money left.
    AccountOutOfMoney,
    /// A provider's breaker is open.
    CircuitOpen,
    /// A model's breaker is open.
    ModelCircuitOpen,
    /// Requests are served by a fallback.
    FallbackInUse,
    /// Failures that no rule knows.
    UnknownFailures,
    /// A seat or the gateway itself restarts again and again.
    CrashLoop,
    /// The store cannot write.
    StoreFailing,
    /// Little room is left on the disk.
    DiskLow,
    /// A certificate is not trusted: it has expired, is of another name, or nobody known has signed it.
    CertificateTrouble,
    /// A region, client or base URL is refused.
    MisconfiguredRoute,
    /// Many keys were refused at once, so that none was disabled.
    MassRefusal,
    /// A changed configuration is wrong; the old one stays.
    ConfigReloadFailed,
    /// A stored key cannot be decrypted.
    KeyLocked,
}

impl Condition {
    /// Every condition.
    pub const ALL: [Self; 16] = [
        Self::ProviderDown,
        Self::KeyDisabled,
        Self::KeyQuotaExhausted,
        Self::AccountOutOfMoney,
        Self::CircuitOpen,
        Self::ModelCircuitOpen,
        Self::FallbackInUse,
        Self::UnknownFailures,
        Self::CrashLoop,
        Self::StoreFailing,
        Self::DiskLow,
        Self::CertificateTrouble,
        Self::MisconfiguredRoute,
        Self::MassRefusal,
        Self::ConfigReloadFailed,
        Self::KeyLocked,
    ];

    /// The public name; also the metric label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ProviderDown => "provider_down",
            Self::KeyDisabled => "key_disabled",
            Self::KeyQuotaExhausted => "key_quota_exhausted",
            Self::AccountOutOfMoney => "account_out_of_money",
            Self::CircuitOpen => "circuit_open",
            Self::ModelCircuitOpen => "model_circuit_open",
            Self::FallbackInUse => "fallback_in_use",
            Self::UnknownFailures => "unknown_failures",
            Self::CrashLoop => "crash_loop",
            Self::StoreFailing => "store_failing",
            Self::DiskLow => "disk_low",
            Self::CertificateTrouble => "certificate_trouble",
            Self::MisconfiguredRoute => "misconfigured_route",
            Self::MassRefusal => "mass_refusal",
            Self::ConfigReloadFailed => "config_reload_failed",
            Self::KeyLocked => "key_locked",
        }
    }

    /// Reads a public name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|condition| condition.as_str() == name)
    }

    /// How grave it is while it is on.
    pub const fn severity(self) -> Severity {
        match self {
            Self::ProviderDown
            | Self::KeyDisabled
            | Self::AccountOutOfMoney
            | Self::CircuitOpen
            | Self::CrashLoop
            | Self::StoreFailing
            | Self::MassRefusal
            | Self::KeyLocked => Severity::Critical,
            Self::KeyQuotaExhausted
            | Self::FallbackInUse
            | Self::ModelCircuitOpen
            | Self::UnknownFailures
            | Self::MisconfiguredRoute
            | Self::DiskLow
            | Self::CertificateTrouble
            | Self::ConfigReloadFailed => Severity::Warning,
        }
    }

    /// What it says of one group, as the headline of an alert.
    pub const fn headline(self) -> &'static str {
        match self {
            Self::ProviderDown => "no usable key",
            Self::KeyDisabled => "key disabled",
            Self::KeyQuotaExhausted => "usage window full",
            Self::AccountOutOfMoney => "out of money",
            Self::CircuitOpen => "circuit open",
            Self::ModelCircuitOpen => "model circuit open",
            Self::FallbackInUse => "served by a fallback",
            Self::UnknownFailures => "failures that no rule knows",
            Self::CrashLoop => "crash loop",
            Self::StoreFailing => "the store cannot write",
            Self::DiskLow => "little disk space left",
            Self::CertificateTrouble => "certificate trouble",
            Self::MisconfiguredRoute => "route refused: region, client or base URL",
            Self::MassRefusal => "many keys refused at once",
            Self::ConfigReloadFailed => "the changed configuration is wrong",
            Self::KeyLocked => "a stored key cannot be decrypted",
        }
    }

    /// The conditions of the same group that already say what this one says: one cause, one alert.
    pub(super) const fn wider(self) -> &'static [Self] {
        match self {
            Self::KeyDisabled => &[Self::ProviderDown, Self::MassRefusal],
            Self::MassRefusal
            | Self::KeyQuotaExhausted
            | Self::AccountOutOfMoney
            | Self::CircuitOpen
            | Self::ModelCircuitOpen
            | Self::FallbackInUse
            | Self::UnknownFailures
            | Self::KeyLocked => &[Self::ProviderDown],
            Self::ProviderDown
            | Self::CrashLoop
            | Self::StoreFailing
            | Self::DiskLow
            | Self::CertificateTrouble
            | Self::MisconfiguredRoute
            | Self::ConfigReloadFailed => &[],
        }
    }

    /// Its place in one round of announcements: what speaks for others comes first.
    pub(super) const fn breadth(self) -> u8 {
        match self.wider() {
            [] => 0,
            [_] => 1,
            [_, ..] => 2,
        }
    }
}

impl std::fmt::Display for Condition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// How grave an alert is; the least grave first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Good to know: recoveries.
    #[default]
    Info,
    /// Somebody should look today.
    Warning,
    /// Somebody should look at once.
    Critical,
}

impl Severity {
    /// The public name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

impl std::fmt::Display for Severity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}
