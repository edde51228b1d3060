//! The settings of the cascade: names, defaults and meaning. Global, and each may be set per provider.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Every tunable of pool and cascade under its public name. Seconds end in `_s`, milliseconds in `_ms`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Repeats of a `transient_request` on the same key.
    pub transient_retries: u32,
    /// Wait before an overloaded provider is asked again, unless it states a longer one.
    pub overload_wait_s: u64,
    /// The longest stated wait that is sat out for an overload; a longer one leaves at once.
    pub overload_wait_cap_s: u64,
    /// Repeats on the same key while overloaded, per leg.
    pub overload_retries: u32,
    /// Whether a model error tries the provider's next model.
    pub model_fallback: bool,
    /// Rest after a rate limit that states no time.
    pub rate_limit_backoff_s: u64,
    /// Rest after a full window of unknown end, and the cap for times read from prose. 60 to 86400.
    pub quota_backoff_s: u64,
    /// Whether a timeout tries the next key.
    pub retry_on_timeout: bool,
    /// First rest of a key whose sibling answered the request it failed; doubles to 300 s.
    pub fault_backoff_s: u64,
    /// Rest of the siblings of a key whose account failed over money or credentials.
    pub account_suspect_s: u64,
    /// Wait before a quarantined key without a free test is probed; doubles to 24 h.
    pub quarantine_s: u64,
    /// Further keys that may be tried after an unknown failure.
    pub unknown_max_keys: u32,
    /// Rest after an unknown failure that is not a 4xx.
    pub unknown_backoff_s: u64,
    /// Spacing of probes while nothing but unknown failures is left.
    pub unknown_probe_s: u64,
    /// How an attempt that may have been accepted upstream is repeated.
    pub ambiguous_retry: AmbiguousRetry,
    /// Whether all keys are tried or a fixed number.
    pub key_retry_mode: KeyRetryMode,
    /// Keys tried per leg in `fixed` mode.
    pub key_retry_limit: u32,
    /// Upstream calls per request.
    pub max_attempts: u32,
    /// Time to the first content, unless the client states its own.
    pub request_deadline_s: u64,
    /// Time to the first meaningful event of a stream; for other answers only if set for the provider.
    pub timeout_ms: u64,
    /// Silence between bytes of a stream.
    pub idle_timeout_ms: u64,
    /// Failures of scope provider or network that end a leg.
    pub provider_fault_limit: u32,
    /// Waits on the last eligible key of a leg; empty turns the ladder off.
    pub last_key_ladder_s: Vec<u64>,
    /// How long to wait for the earliest key when all rest.
    pub patience_s: u64,
    /// Failures in a row that open a model's breaker.
    pub model_circuit_threshold: u32,
    /// How long a model's breaker stays open after model errors. 30 to 86400.
    pub model_circuit_permanent_cooldown_s: u64,
    /// How long a model's breaker stays open after overloads and limits. 10 to 3600.
    pub model_circuit_transient_cooldown_s: u64,
    /// Requests within 60 s that must leave a provider for its breaker to open.
    pub circuit_breaker_threshold: u32,
    /// How long a provider's breaker stays open at first; doubles to 15 min.
    pub circuit_breaker_cooldown_s: u64,
    /// Silence after which a client's stream is kept alive with comments; 0 turns it off.
    pub keepalive_s: u64,
    /// How keys take turns.
    pub rotation: Rotation,
    /// Requests before round robin moves on.
    pub requests_per_key: u32,
    /// Whether a session stays with its key while the key is healthy.
    pub sticky: Sticky,
    /// Calls that one key may serve at a time; 0 is without limit.
    pub max_concurrent: u32,
    /// A model with a larger window that gets one attempt after an overflow.
    pub context_fallback: Option<String>,
    /// The window in tokens of a model that nobody knows.
    pub default_context: u64,
    /// The shortest time between two announcements of one alert; for the whole gateway.
    pub alert_repeat_s: u64,
    /// How long a condition must be quiet before its alert counts as over; for the whole gateway.
    pub alert_clear_s: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            transient_retries: 1,
            overload_wait_s: 2,
            overload_wait_cap_s: 10,
            overload_retries: 2,
            model_fallback: false,
            rate_limit_backoff_s: 60,
            quota_backoff_s: 1800,
            retry_on_timeout: true,
            fault_backoff_s: 10,
            account_suspect_s: 300,
            quarantine_s: 300,
            unknown_max_keys: 1,
            unknown_backoff_s: 900,
            unknown_probe_s: 60,
            ambiguous_retry: AmbiguousRetry::Bounded,
            key_retry_mode: KeyRetryMode::All,
            key_retry_limit: 5,
            max_attempts: 32,
            request_deadline_s: 600,
            timeout_ms: 120_000,
            idle_timeout_ms: 120_000,
            provider_fault_limit: 3,
            last_key_ladder_s: vec![1, 2, 4],
            patience_s: 0,
            model_circuit_threshold: 2,
            model_circuit_permanent_cooldown_s: 1800,
            model_circuit_transient_cooldown_s: 120,
            circuit_breaker_threshold: 5,
            circuit_breaker_cooldown_s: 30,
            keepalive_s: 15,
            rotation: Rotation::OnError,
            requests_per_key: 1,
            sticky: Sticky::Off,
            max_concurrent: 0,
            context_fallback: None,
            default_context: crate::context::DEFAULT_CONTEXT,
            alert_repeat_s: 3600,
            alert_clear_s: 120,
        }
    }
}

impl Settings {
    /// The rest after a rate limit without a stated time.
    pub fn rate_limit_backoff(&self) -> Duration {
        Duration::from_secs(self.rate_limit_backoff_s)
    }

    /// The rest after an unknown failure: never shorter than the first delay of any recognised transient class.
    pub fn unknown_backoff(&self) -> Duration {
        Duration::from_secs(self.unknown_backoff_s).max(self.first_transient_delay())
    }

    /// The spacing of probes while nothing but unknown failures is left; bounded like the rest.
    pub fn unknown_probe(&self) -> Duration {
        Duration::from_secs(self.unknown_probe_s).max(self.first_transient_delay())
    }

    /// The longest first delay of a class that is recognised and transient.
    pub fn first_transient_delay(&self) -> Duration {
        let ladder = self.last_key_ladder_s.first().copied().unwrap_or_default();
        let longest =
            self.rate_limit_backoff_s.max(self.fault_backoff_s).max(self.overload_wait_s).max(ladder);
        Duration::from_secs(longest)
    }

    /// The rest after a full window of unknown end.
    pub fn quota_backoff(&self) -> Duration {
        Duration::from_secs(self.quota_backoff_s)
    }
}

/// How an attempt that may have been accepted upstream is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AmbiguousRetry {
    /// As its class says, within `provider_fault_limit`.
    Bounded,
    /// At most one repeat per request.
    Once,
    /// Never.
    Never,
}

/// How many keys a leg may try.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeyRetryMode {
    /// Every eligible key.
    All,
    /// At most `key_retry_limit`.
    Fixed,
}

/// How keys take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rotation {
    /// The first eligible key, until it fails.
    OnError,
    /// In turn, `requests_per_key` each.
    RoundRobin,
}

/// Whether a session stays with its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sticky {
    /// No.
    Off,
    /// By session id, as long as the key is healthy.
    Session,
}
