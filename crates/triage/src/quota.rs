//! What a provider reports of a key's usage windows and balance.
//!
//! A snapshot is read by [`crate::probe`] from a usage endpoint, or by [`QuotaHeaders`] from an answer's headers. The
//! pool matches the window that a failure names to it, so that a key rests until its own window resets.

mod headers;

use serde::{Deserialize, Serialize};

pub use self::headers::{HeaderWindow, QuotaHeaders};
use crate::{ModelId, Timestamp, Window};

/// The windows of one key at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuotaSnapshot {
    /// When it was taken.
    pub taken_at: Timestamp,
    /// Where the newest part of it was read.
    #[serde(default)]
    pub source: QuotaSource,
    /// The plan, as the provider names it.
    pub plan: Option<String>,
    /// Every window that was reported, in the order of the report.
    pub windows: Vec<QuotaWindow>,
}

/// Where windows were read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuotaSource {
    /// In the headers of an answer.
    #[default]
    Headers,
    /// At a usage endpoint.
    Endpoint,
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

    /// When a failure heals that says `named` is full: the latest reset among that window and all exhausted ones,
    /// because a key that waits for its five hours and then meets its full week has waited for nothing. Resets
    /// that have passed say nothing.
    pub fn heals_at(&self, named: Option<Window>, model: &ModelId, now: Timestamp) -> Option<Timestamp> {
        self.windows
            .iter()
            .filter(|row| row.gates && row.model.as_ref().is_none_or(|own| own == model))
            .filter(|row| row.exhausted || (named.is_some() && row.window == named))
            .filter_map(|row| row.resets_at)
            .filter(|reset| *reset > now)
            .max()
    }

    /// Takes over what a newer snapshot knows; windows that it does not mention stay.
    pub fn update(&mut self, newer: &Self) {
        if newer.taken_at >= self.taken_at {
            self.taken_at = newer.taken_at;
            self.source = newer.source;
        }
        self.plan = newer.plan.clone().or_else(|| self.plan.take());
        for row in &newer.windows {
            let is_same = |known: &&mut QuotaWindow| {
                (known.window, &known.model, &known.unit) == (row.window, &row.model, &row.unit)
            };
            match self.windows.iter_mut().find(is_same) {
                Some(known) => *known = row.clone(),
                None => self.windows.push(row.clone()),
            }
        }
        // Windows of single models are as many as clients ask for: the oldest give way.
        while self.windows.len() > MOST_WINDOWS {
            self.windows.remove(0);
        }
    }

    /// Whether it knows `window` and has room in it.
    pub fn allows(&self, window: Window) -> bool {
        has_room(self.gating().filter(|row| row.window == Some(window)))
    }

    /// Whether it knows windows shorter than a month, and all of them have room.
    pub fn short_windows_are_open(&self) -> bool {
        has_room(self.gating().filter(|row| row.window.is_some_and(|window| window < Window::Monthly)))
    }

    /// Whether it knows windows, and all that stop generation have room.
    pub fn is_open(&self) -> bool {
        has_room(self.gating())
    }

    fn gating(&self) -> impl Iterator<Item = &QuotaWindow> {
        self.windows.iter().filter(|row| row.gates)
    }
}

fn has_room<'a>(rows: impl Iterator<Item = &'a QuotaWindow>) -> bool {
    let mut rows = rows.peekable();
    rows.peek().is_some() && rows.all(|row| !row.exhausted)
}

const MOST_WINDOWS: usize = 64;
