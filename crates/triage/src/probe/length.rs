//! How long a window is, and what windows of that length are called.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{
    row::Row,
    value::{number, text},
};
use crate::Window;

/// A window's length as count and unit.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Length {
    /// The pointer to the count.
    pub count: String,
    /// `second`, `minute`, `hour`, `day`, `week`, `month`, or a pointer to such a word.
    pub unit: String,
    /// What the provider's own unit codes mean.
    #[serde(default)]
    pub units: BTreeMap<String, String>,
}

impl Length {
    /// The window of that length, if there is one.
    pub(super) fn window(&self, row: Row<'_>) -> Option<Window> {
        let count = row.get(&self.count).and_then(number)?;
        let word =
            if self.unit.starts_with('/') { row.get(&self.unit).and_then(text)? } else { self.unit.clone() };
        let word = self.units.get(&word).unwrap_or(&word).to_lowercase();
        of_length(count * seconds(word.strip_prefix("time_unit_").unwrap_or(&word))?)
    }
}

/// How long a unit of time is.
pub(super) fn seconds(unit: &str) -> Option<f64> {
    Some(match unit.trim_end_matches('s') {
        "second" => 1.0,
        "minute" => 60.0,
        "hour" => 3600.0,
        "day" => DAY,
        "week" => 7.0 * DAY,
        "month" => 30.0 * DAY,
        _ => return None,
    })
}

/// The window of so many seconds.
pub(crate) fn of_length(seconds: f64) -> Option<Window> {
    let within = |least: f64, most: f64| (least..=most).contains(&seconds);
    match seconds {
        _ if within(1.0, 60.0) => Some(Window::Minute),
        _ if within(4.0 * 3600.0, 6.0 * 3600.0) => Some(Window::FiveHours),
        _ if within(DAY, DAY) => Some(Window::Daily),
        _ if within(7.0 * DAY, 7.0 * DAY) => Some(Window::Weekly),
        _ if within(28.0 * DAY, 31.0 * DAY) => Some(Window::Monthly),
        _ => None,
    }
}

/// The window that a word names.
pub(super) fn named(word: &str) -> Option<Window> {
    match word.to_lowercase().as_str() {
        "daily" | "day" => Some(Window::Daily),
        "weekly" | "week" => Some(Window::Weekly),
        "monthly" | "month" => Some(Window::Monthly),
        _ => None,
    }
}

const DAY: f64 = 86_400.0;
