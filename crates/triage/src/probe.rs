//! Reading a usage endpoint's answer: a preset's description and a JSON body make a [`QuotaSnapshot`].
//!
//! Providers disagree about everything: numbers as strings, units with prefixes, `usage` for a ceiling,
//! `used` for what is left, epochs in milliseconds, a dead key inside a 200, a valid key without a plan that
//! looks like a failure. The description names where each fact lies; this module is tolerant about how it is
//! written. A refusal says nothing about the key unless the description lists it as the dead-key envelope.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::{
    ModelId, Timestamp, Window,
    preset::{Auth, resolve},
    quota::{QuotaSnapshot, QuotaSource, QuotaWindow},
};

mod length;
mod row;
mod value;

pub use length::Length;
pub use value::{Pointers, Test};

pub(crate) use length::of_length as window_of_length;
use length::{named, seconds};
use row::Row;
use value::{moment, number, text};

/// How one usage or balance endpoint is asked and read.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuotaProbe {
    /// A path below the base URL, one below its origin (`{origin}/api/x`), or a whole URL.
    pub url: String,
    /// How the key travels, where it is not the preset's own way.
    pub auth: Option<Auth>,
    /// Headers beside the preset's.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Values that a usable answer shows; an answer without them is not usable.
    #[serde(default)]
    pub ok: Conditions,
    /// Values that prove the key dead: any of them.
    #[serde(default)]
    pub dead: Conditions,
    /// Values that say the probe cannot be used with this key: any of them.
    #[serde(default)]
    pub not_usable: Conditions,
    /// Phrases, in lower case, of an answer that means: the key is valid, but has no plan.
    #[serde(default)]
    pub no_plan: Vec<String>,
    /// Where the plan's name stands.
    #[serde(default)]
    pub plan: Pointers,
    /// What to read; of a list's row the first description that fits.
    #[serde(default)]
    pub window: Vec<WindowProbe>,
}

/// Where one window's facts lie. Pointers are JSON pointers from the row; `$/…` begins at the document.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WindowProbe {
    /// The row's place; the document itself if empty.
    pub at: String,
    /// The place of a list or map, of which every entry is a row.
    pub each: Option<String>,
    /// Values that the row must show.
    pub when: Conditions,
    /// Values that make the row no limit at all.
    pub skip_if: Conditions,
    /// The window, where the description knows it.
    pub window: Option<Window>,
    /// A word of the row that names the window (`monthly`).
    pub window_from: Pointers,
    /// The window's length in the row.
    pub length: Option<Length>,
    /// The name of the model whose own window it is.
    pub model: Pointers,
    /// What is used up.
    pub used: Pointers,
    /// The ceiling.
    pub limit: Pointers,
    /// What is left.
    pub remaining: Pointers,
    /// The used share, 0 to 100.
    pub used_percent: Pointers,
    /// The share that is left, 0 to 100.
    pub remaining_percent: Pointers,
    /// The used share, 0 to 1.
    pub used_ratio: Pointers,
    /// The unit for people, or a pointer to it.
    pub unit: Option<String>,
    /// What one counted unit is worth in `unit`.
    pub scale: Option<f64>,
    /// A moment: RFC 3339, a date, epoch seconds or milliseconds.
    pub resets_at: Pointers,
    /// Seconds until the reset.
    pub resets_in: Pointers,
    /// Milliseconds until the reset.
    pub resets_in_ms: Pointers,
    /// Decides alone whether the window is exhausted, where given: any of them.
    pub exhausted_if: Conditions,
    /// Set for an allowance whose exhaustion does not stop generation.
    pub side: bool,
}

/// Pointers and tests of what stands there, in the language of rules (`"*"`, `"absent"`, `">0"`, a value, a list).
pub type Conditions = BTreeMap<String, Test>;

/// What an answer of a usage endpoint says.
#[derive(Clone, Debug, PartialEq)]
pub enum Reading {
    /// The key works and these are its windows.
    Windows(QuotaSnapshot),
    /// The answer is the provider's documented envelope for a dead key.
    DeadKey,
    /// The key is valid, but there is no plan behind it.
    NoPlan,
    /// Nothing can be concluded about key or windows.
    NotUsable,
}

impl QuotaProbe {
    /// The whole URL for a base URL.
    pub fn resolve(&self, base_url: &str) -> String {
        resolve(&self.url, base_url)
    }

    /// Reads an answer that arrived at `now`.
    pub fn read(&self, status: u16, body: &str, now: Timestamp) -> Reading {
        let Ok(document) = serde_json::from_str::<Value>(body) else { return Reading::NotUsable };
        let root = Row::of(&document);
        if root.any(&self.dead) {
            return Reading::DeadKey;
        }
        if !self.no_plan.is_empty() {
            let words = body.to_lowercase();
            if !root.all(&self.ok) && self.no_plan.iter().any(|phrase| words.contains(phrase.as_str())) {
                return Reading::NoPlan;
            }
        }
        if !(200..300).contains(&status) || !root.all(&self.ok) || root.any(&self.not_usable) {
            return Reading::NotUsable;
        }
        let windows = self.windows(root, now);
        if windows.is_empty() {
            return Reading::NotUsable;
        }
        let plan = root.first(&self.plan).and_then(text);
        Reading::Windows(QuotaSnapshot { taken_at: now, source: QuotaSource::Endpoint, plan, windows })
    }

    /// Says what is wrong with the description, if anything.
    pub(crate) fn check(&self) -> Result<(), (String, &'static str)> {
        if self.window.is_empty() {
            return Err((
                format!("the quota probe {:?} reads nothing", self.url),
                "add a [[preset.quota.window]]",
            ));
        }
        if !(self.url.starts_with('/')
            || self.url.starts_with("https://")
            || self.url.starts_with("{origin}/"))
        {
            let problem = format!("the quota probe {:?} has no address", self.url);
            return Err((problem, "write a path, {origin}/path, or an https URL"));
        }
        self.window.iter().try_for_each(|window| match &window.length {
            Some(length) if !length.unit.starts_with('/') && seconds(&length.unit).is_none() => Err((
                format!("{:?} is no unit of time", length.unit),
                "use second, minute, hour, day, week or month",
            )),
            Some(_) | None => Ok(()),
        })
    }

    fn windows(&self, root: Row<'_>, now: Timestamp) -> Vec<QuotaWindow> {
        let mut windows = Vec::new();
        let mut lists: Vec<&str> = Vec::new();
        for probe in &self.window {
            let Some(list) = probe.each.as_deref() else {
                windows.extend(root.at(&probe.at).and_then(|row| probe.read(row, now)));
                continue;
            };
            if lists.contains(&list) {
                continue;
            }
            lists.push(list);
            let describing = || self.window.iter().filter(|other| other.each.as_deref() == Some(list));
            for row in root.rows(list) {
                windows.extend(
                    describing().filter(|other| row.all(&other.when)).find_map(|other| other.read(row, now)),
                );
            }
        }
        windows
    }
}

impl WindowProbe {
    fn read(&self, row: Row<'_>, now: Timestamp) -> Option<QuotaWindow> {
        if row.is_null() || !row.all(&self.when) || row.any(&self.skip_if) {
            return None;
        }
        let gauge = self.gauge(row)?;
        let exhausted =
            if self.exhausted_if.is_empty() { gauge.is_empty() } else { row.any(&self.exhausted_if) };
        Some(QuotaWindow {
            window: self.window(row),
            unit: self.unit(row, gauge.share),
            model: row.first(&self.model).and_then(text).map(ModelId::from),
            used: gauge.used,
            limit: gauge.limit,
            remaining: gauge.remaining,
            resets_at: self.reset(row, now).filter(|reset| *reset > now),
            exhausted,
            gates: !self.side,
        })
    }

    fn gauge(&self, row: Row<'_>) -> Option<Gauge> {
        let scale = self.scale.unwrap_or(1.0);
        let count = |pointers| row.first(pointers).and_then(number).map(|count| count * scale);
        let (used, limit, remaining) = (count(&self.used), count(&self.limit), count(&self.remaining));
        let share = row
            .first(&self.used_percent)
            .and_then(number)
            .or_else(|| row.first(&self.remaining_percent).and_then(number).map(|left| 100.0 - left))
            .or_else(|| row.first(&self.used_ratio).and_then(number).map(|ratio| ratio * 100.0));
        let full = share.is_some_and(|percent| percent >= 100.0);
        if limit == Some(0.0) && share.is_none() {
            return None;
        }
        if let Some(limit) = limit.filter(|limit| *limit > 0.0)
            && (used.is_some() || remaining.is_some())
        {
            let used = used.or_else(|| remaining.map(|left| limit - left));
            let remaining = remaining.or_else(|| used.map(|used| limit - used));
            return Some(Gauge { used, limit: Some(limit), remaining, full, share: false });
        }
        if let Some(percent) = share {
            let left = Some((100.0 - percent).max(0.0));
            return Some(Gauge {
                used: Some(percent),
                limit: Some(100.0),
                remaining: left,
                full,
                share: true,
            });
        }
        let known = used.is_some() || remaining.is_some() || !self.exhausted_if.is_empty();
        known.then_some(Gauge { used, limit, remaining, full, share: false })
    }

    fn window(&self, row: Row<'_>) -> Option<Window> {
        self.window
            .or_else(|| named(&row.first(&self.window_from).and_then(text)?))
            .or_else(|| self.length.as_ref()?.window(row))
    }

    fn unit(&self, row: Row<'_>, share: bool) -> String {
        if share {
            return "percent".to_owned();
        }
        let unit = self.unit.as_deref().unwrap_or("units");
        if !unit.starts_with(['/', '$']) {
            return unit.to_owned();
        }
        row.get(unit).and_then(text).map_or_else(|| "units".to_owned(), |unit| unit.to_lowercase())
    }

    fn reset(&self, row: Row<'_>, now: Timestamp) -> Option<Timestamp> {
        let after = |pointers, per_second: f64| {
            let seconds = row.first(pointers).and_then(number)? / per_second;
            value::later(now, seconds)
        };
        row.first(&self.resets_at)
            .and_then(moment)
            .or_else(|| after(&self.resets_in, 1.0))
            .or_else(|| after(&self.resets_in_ms, 1000.0))
    }
}

/// What a window's numbers come to.
struct Gauge {
    used: Option<f64>,
    limit: Option<f64>,
    remaining: Option<f64>,
    full: bool,
    share: bool,
}

impl Gauge {
    fn is_empty(&self) -> bool {
        self.full || self.remaining.is_some_and(|left| left <= 0.0)
    }
}

#[cfg(test)]
mod tests;
