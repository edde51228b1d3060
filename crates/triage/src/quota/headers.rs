//! Reading windows from the headers of an answer.
//!
//! Many providers tell with every answer what is left of a key's windows. A rule pack names the headers, window by
//! window (`[[quota]]` in `rules/*.toml`); this module reads them however they are written: counts, shares, a status
//! word, resets as moments, epochs, seconds or durations, and the structured `RateLimit` field of the IETF draft in
//! its forms. What an answer does not mention, or mentions unreadably, makes no window.

use serde::Deserialize;

use crate::{
    ModelId, QuotaSnapshot, QuotaSource, QuotaWindow, Timestamp, Window,
    probe::{Pointers, window_of_length},
    reset::{self, Frame, Stated},
};

/// The headers in which one provider tells of its windows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QuotaHeaders(Vec<HeaderWindow>);

/// Where the facts of one window stand: names of headers, in lower case.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HeaderWindow {
    /// The window, where the description knows it.
    pub window: Option<Window>,
    /// The window's length in minutes.
    pub window_minutes: Option<String>,
    /// What it counts, for people.
    pub unit: Option<String>,
    /// Whether each model has a window of its own.
    pub per_model: bool,
    /// The ceiling.
    pub limit: Option<String>,
    /// What is left.
    pub remaining: Option<String>,
    /// The used share, 0 to 100.
    pub used_percent: Option<String>,
    /// The used share, 0 to 1.
    pub used_ratio: Option<String>,
    /// A word for the window's state.
    pub status: Option<String>,
    /// The words that mean that nothing is left; where the word is told, it decides alone.
    pub exhausted_if: Vec<String>,
    /// When the window opens again, in any form; the first that is there.
    pub resets: Pointers,
    /// The structured field that lists windows, each with `r` and `t`.
    pub list: Option<String>,
    /// The structured field with the policies behind the list, each with `q` and `w`.
    pub policies: Option<String>,
}

impl QuotaHeaders {
    /// Whether no header would say anything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds descriptions; one whose headers are described already adds nothing.
    pub(crate) fn extend(&mut self, more: &[HeaderWindow]) {
        for window in more {
            if !self.0.iter().any(|known| known.gauges().any(|name| window.gauges().any(|own| own == name))) {
                self.0.push(window.clone());
            }
        }
    }

    /// Reads the headers of an answer to a request for `model`. `header` finds a header by its lower-case name.
    pub fn read<'h>(
        &self,
        header: impl Fn(&str) -> Option<&'h str>,
        model: &ModelId,
        now: Timestamp,
    ) -> Option<QuotaSnapshot> {
        let answer = Answer { header: &header, model, now };
        let windows: Vec<_> = self.0.iter().flat_map(|window| window.read(&answer)).collect();
        (!windows.is_empty()).then_some(QuotaSnapshot {
            taken_at: now,
            source: QuotaSource::Headers,
            plan: None,
            windows,
        })
    }
}

impl HeaderWindow {
    /// Says what is wrong with the description, if anything.
    pub(crate) fn check(&self) -> Result<(), (&'static str, &'static str)> {
        if self.gauges().next().is_none() {
            return Err((
                "the window has no gauge",
                "name the header of remaining, used_percent, used_ratio, status or list",
            ));
        }
        if self.status.is_some() && self.exhausted_if.is_empty() {
            return Err(("status is never exhausted", "name the words in exhausted_if"));
        }
        let is_lower = |name: &str| !name.bytes().any(|byte| byte.is_ascii_uppercase());
        if !self.gauges().all(is_lower) || !self.resets.iter().all(is_lower) {
            return Err(("a header's name has capitals", "write it in lower case"));
        }
        Ok(())
    }

    /// The headers that tell how full it is.
    fn gauges(&self) -> impl Iterator<Item = &str> {
        [&self.remaining, &self.used_percent, &self.used_ratio, &self.status, &self.list]
            .into_iter()
            .filter_map(Option::as_deref)
    }

    fn read(&self, answer: &Answer<'_, '_>) -> Vec<QuotaWindow> {
        if let Some(list) = answer.text(&self.list) {
            return self.listed(list, answer);
        }
        self.single(answer).into_iter().collect()
    }

    fn single(&self, answer: &Answer<'_, '_>) -> Option<QuotaWindow> {
        let percent = answer
            .number(&self.used_percent)
            .or_else(|| answer.number(&self.used_ratio).map(|ratio| ratio * 100.0));
        let counted = answer.number(&self.remaining).filter(|left| *left >= 0.0);
        let word = answer.text(&self.status);
        if percent.is_none() && counted.is_none() && word.is_none() {
            return None;
        }
        let limit = answer.number(&self.limit).filter(|limit| *limit > 0.0);
        let is_full =
            percent.is_some_and(|percent| percent >= 100.0) || counted.is_some_and(|left| left <= 0.0);
        let minutes = answer.number(&self.window_minutes);
        let gauge = match (percent, counted) {
            (Some(percent), _) => {
                Gauge { used: Some(percent), limit: Some(100.0), remaining: Some((100.0 - percent).max(0.0)) }
            }
            (None, left) => {
                Gauge { used: limit.zip(left).map(|(limit, left)| limit - left), limit, remaining: left }
            }
        };
        Some(QuotaWindow {
            resets_at: self.resets.iter().find_map(|name| answer.moment((answer.header)(name)?)),
            exhausted: word.map_or(is_full, |word| self.is_exhausted(word)),
            ..self.row(self.window.or_else(|| window_of_length(minutes? * 60.0)), gauge, answer)
        })
    }

    /// The draft's list: `"burst";r=5;t=30, "day";r=400;t=3600`, or its older form `limit=100, remaining=5, reset=30`.
    fn listed(&self, list: &str, answer: &Answer<'_, '_>) -> Vec<QuotaWindow> {
        if list.contains("remaining=") {
            let number = |name| list.split(',').find_map(|part| parameter(part, name));
            let gauge = Gauge { limit: number("limit"), remaining: number("remaining"), used: None };
            return vec![QuotaWindow {
                resets_at: number("reset").and_then(|seconds| answer.after(seconds)),
                ..self.row(self.window, gauge, answer)
            }];
        }
        let policies = answer.text(&self.policies).unwrap_or_default();
        let row = |item: &str| {
            let mut parts = item.split(';');
            let name = parts.next()?.trim();
            let number = |wanted| item.split(';').skip(1).find_map(|part| parameter(part, wanted));
            let policy =
                policies.split(',').find(|policy| policy.split(';').next().map(str::trim) == Some(name));
            let of_policy = |wanted| policy?.split(';').skip(1).find_map(|part| parameter(part, wanted));
            let gauge = Gauge { limit: of_policy("q"), remaining: Some(number("r")?), used: None };
            let window = self.window.or_else(|| window_of_length(of_policy("w")?));
            let resets_at = number("t").and_then(|seconds| answer.after(seconds));
            Some(QuotaWindow { resets_at, ..self.row(window, gauge, answer) })
        };
        list.split(',').take(MOST_LISTED).filter_map(row).collect()
    }

    fn row(&self, window: Option<Window>, gauge: Gauge, answer: &Answer<'_, '_>) -> QuotaWindow {
        let is_counted = self.remaining.is_some() || self.list.is_some();
        let usual = if is_counted { "requests" } else { "percent" };
        QuotaWindow {
            window,
            unit: self.unit.as_deref().unwrap_or(usual).to_owned(),
            model: self.per_model.then(|| answer.model.clone()),
            used: gauge.used.or_else(|| Some(gauge.limit? - gauge.remaining?)),
            limit: gauge.limit,
            remaining: gauge.remaining,
            resets_at: None,
            exhausted: gauge.remaining.is_some_and(|left| left <= 0.0),
            gates: true,
        }
    }

    fn is_exhausted(&self, word: &str) -> bool {
        self.exhausted_if.iter().any(|full| full.eq_ignore_ascii_case(word))
    }
}

/// What a window's numbers come to.
#[derive(Clone, Copy)]
struct Gauge {
    used: Option<f64>,
    limit: Option<f64>,
    remaining: Option<f64>,
}

/// The answer that is read.
struct Answer<'a, 'h> {
    header: &'a dyn Fn(&str) -> Option<&'h str>,
    model: &'a ModelId,
    now: Timestamp,
}

impl<'h> Answer<'_, 'h> {
    fn text(&self, name: &Option<String>) -> Option<&'h str> {
        (self.header)(name.as_deref()?).map(str::trim).filter(|text| !text.is_empty())
    }

    fn number(&self, name: &Option<String>) -> Option<f64> {
        let number: f64 = self.text(name)?.trim_end_matches('%').parse().ok()?;
        number.is_finite().then_some(number)
    }

    fn moment(&self, text: &str) -> Option<Timestamp> {
        self.later(reset::from_value(text, &Frame { now: self.now, zone: None })?)
    }

    fn after(&self, seconds: f64) -> Option<Timestamp> {
        self.later(Stated::wait(seconds)?)
    }

    fn later(&self, stated: Stated) -> Option<Timestamp> {
        let after = stated.after.and_then(|after| self.now.checked_add(after).ok());
        after.or(stated.at).filter(|reset| *reset > self.now)
    }
}

/// The number of a parameter such as `r=5`.
fn parameter(part: &str, name: &str) -> Option<f64> {
    let value = part.trim().strip_prefix(name)?.trim_start().strip_prefix('=')?;
    value.trim().parse().ok().filter(|number: &f64| number.is_finite())
}

const MOST_LISTED: usize = 8;
