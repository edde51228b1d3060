//! What a provider reports of a key's usage windows and balance.
//!
//! A snapshot is read by [`crate::probe`] from a usage endpoint, or put together from response headers. The
//! pool matches the window that a failure names to it, so that a key rests until its own window resets.

use serde::{Deserialize, Serialize};

use crate::{ModelId, Timestamp, Window};

/// The windows of one key at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuotaSnapshot {
    /// When it was taken.
    pub taken_at: Timestamp,
    /// The plan, as the provider names it.
    pub plan: Option<String>,
    /// Every window that was reported, in the order of the report.
    pub windows: Vec<QuotaWindow>,
}

/// One usage window, or a balance (no window, unit is a currency).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuotaWindow {
    /// Its length; `None` for a balance or a window of unknown length.
    pub window: Option<Window>,
    /// What it counts, for people: `tokens`, `requests`, `percent`, `usd`.
    pub unit: String,
    /// The model, where the window is one model's alone.
    pub model: Option<ModelId>,
    /// What is used up, in `unit`.
    pub used: Option<f64>,
    /// The ceiling, in `unit`.
    pub limit: Option<f64>,
    /// What is left, in `unit`; a balance can be negative.
    pub remaining: Option<f64>,
    /// When it opens again.
    pub resets_at: Option<Timestamp>,
    /// Whether nothing is left.
    pub exhausted: bool,
    /// Whether generation stops when it is exhausted; false for side allowances such as tool calls.
    pub gates: bool,
}

impl QuotaSnapshot {
    /// The exhausted windows that stop generation.
    pub fn exhausted(&self) -> impl Iterator<Item = &QuotaWindow> {
        self.windows.iter().filter(|window| window.gates && window.exhausted)
    }

    /// The latest reset among the exhausted windows that lies after `now`: the limiter is an AND.
    pub fn opens_at(&self, now: Timestamp) -> Option<Timestamp> {
        self.exhausted().filter_map(|window| window.resets_at).filter(|reset| *reset > now).max()
    }
}
