//! What pages, the API and the demo show of a key.

use std::fmt;

use serde::Serialize;

use crate::{
    AccountId, KeyId, ModelId, Timestamp,
    pool::{Pause, Why},
    quota::QuotaSnapshot,
};

/// A key as people see it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KeyStatus {
    /// The key.
    pub id: KeyId,
    /// Its label.
    pub label: String,
    /// The account it belongs to, if that is known.
    pub account: Option<AccountId>,
    /// Its state in one word.
    pub state: KeyState,
    /// The state that a pause is laid over; the same as `state` otherwise.
    pub beneath: KeyState,
    /// Since when it is in that state, where it is not simply active.
    pub since: Option<Timestamp>,
    /// Until when.
    pub until: Option<Timestamp>,
    /// Why, and where the time was read.
    pub why: Option<Why>,
    /// A person's pause.
    pub paused: Option<Pause>,
    /// Failures in a row that count against it.
    pub consecutive_errors: u32,
    /// What it did since the start of the process.
    pub counters: Counters,
    /// When it last answered.
    pub last_success: Option<Timestamp>,
    /// Calls under way.
    pub in_flight: u32,
    /// Models that it does not serve for a time.
    pub models: Vec<ModelRest>,
    /// What is known of its usage windows.
    pub quota: Option<QuotaSnapshot>,
}

/// A model that a key does not serve for a time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelRest {
    /// The model.
    pub model: ModelId,
    /// Since when.
    pub since: Option<Timestamp>,
    /// Until when; `None` while it is coming back, a few calls at a time.
    pub until: Option<Timestamp>,
    /// Why; `None` once it has answered again.
    pub why: Option<Why>,
}

/// The states of a key, under their public names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyState {
    /// In use.
    Active,
    /// More than three errors in a row, still used.
    Unstable,
    /// Not used until a known moment.
    Resting,
    /// Coming back, a few calls at a time.
    HalfOpen,
    /// Set aside until a test has decided.
    Quarantined,
    /// Out of service.
    Disabled,
    /// Paused by a person.
    Paused,
}

impl KeyState {
    /// Every state.
    pub const ALL: [Self; 7] = [
        Self::Active,
        Self::Unstable,
        Self::Resting,
        Self::HalfOpen,
        Self::Quarantined,
        Self::Disabled,
        Self::Paused,
    ];

    /// The public name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Unstable => "unstable",
            Self::Resting => "resting",
            Self::HalfOpen => "half_open",
            Self::Quarantined => "quarantined",
            Self::Disabled => "disabled",
            Self::Paused => "paused",
        }
    }
}

impl fmt::Display for KeyState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What a key did since the start of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Calls that were sent.
    pub attempts: u64,
    /// Calls that gave content.
    pub successes: u64,
    /// Calls that failed, the request's own faults included.
    pub failures: u64,
}
