//! When does it heal? Reads every form in which providers state a time of recovery.
//!
//! The most machine-like statement wins: headers, then headers nested in the body, then JSON fields, then
//! prose. Of several windows only the exhausted ones count, and of those the last to reset. Nothing beyond
//! thirty days is believed, nothing below a second is returned, and a time without a zone is read in the
//! provider's own.

mod clock;
mod duration;
mod field;
mod header;
mod prose;
mod window;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp, tz::TimeZone};

pub use self::{duration::parse as parse_duration, window::window_in};
use crate::{Evidence, HealSource, Heals, facts::Facts};

/// Everything that an absolute time is read against.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'z> {
    /// The moment of the failure.
    pub now: Timestamp,
    /// The zone of times without a zone; UTC if the provider has none.
    pub zone: Option<&'z TimeZone>,
}

impl Frame<'_> {
    fn zone(&self) -> TimeZone {
        self.zone.cloned().unwrap_or(TimeZone::UTC)
    }

    /// A moment, unless it is further away than anybody may be believed.
    fn sane(&self, at: Timestamp) -> Option<Timestamp> {
        let distance = at.duration_since(self.now);
        (distance <= BELIEVED && distance >= -BELIEVED).then_some(at)
    }
}

/// One statement: a wait, a moment, or both.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stated {
    /// A wait from the moment of the failure on.
    pub after: Option<Duration>,
    /// A moment.
    pub at: Option<Timestamp>,
}

impl Stated {
    /// A wait, unless it is longer than anybody may be believed. Never below a second.
    pub fn wait(seconds: f64) -> Option<Self> {
        if !seconds.is_finite() || seconds < 0.0 || seconds > BELIEVED.as_secs_f64() {
            return None;
        }
        let after = Duration::from_secs_f64(seconds.max(1.0));
        Some(Self { after: Some(after), at: None })
    }

    /// A moment, unless it is too far away.
    pub fn moment(at: Timestamp, frame: &Frame<'_>) -> Option<Self> {
        Some(Self { after: None, at: Some(frame.sane(at)?) })
    }

    /// A bare number: small ones are seconds to wait, larger ones epoch seconds, the largest milliseconds.
    pub fn number(number: f64, frame: &Frame<'_>) -> Option<Self> {
        if number < DELTA_BELOW {
            return Self::wait(number);
        }
        let seconds = if number < SECONDS_BELOW { number } else { number / 1000.0 };
        if !(0.0..SECONDS_BELOW).contains(&seconds) {
            return None;
        }
        let at = Timestamp::UNIX_EPOCH.checked_add(SignedDuration::from_secs_f64(seconds)).ok()?;
        Self::moment(at, frame)
    }

    /// The later of two statements, form by form.
    fn later(self, other: Self) -> Self {
        Self { after: self.after.max(other.after), at: self.at.max(other.at) }
    }

    fn is_empty(self) -> bool {
        self.after.is_none() && self.at.is_none()
    }
}

/// When a failure says that it heals.
pub fn heals(facts: &Facts<'_>, evidence: &Evidence, frame: &Frame<'_>) -> Option<Heals> {
    let sources: [(HealSource, &dyn Fn() -> Stated); 4] = [
        (HealSource::Header, &|| header::stated(&evidence.headers, frame)),
        (HealSource::NestedHeader, &|| header::stated(&facts.nested_headers, frame)),
        (HealSource::Field, &|| field::stated(facts, frame)),
        (HealSource::Text, &|| prose::stated(&facts.text, frame)),
    ];
    let mut heals: Option<Heals> = None;
    for (source, read) in sources {
        let stated = read();
        if stated.is_empty() {
            continue;
        }
        let trusted = source != HealSource::Text;
        match &mut heals {
            None => heals = Some(Heals { after: stated.after, at: stated.at, trusted, source }),
            Some(known) => {
                known.after = known.after.or(stated.after);
                let agrees = trusted || agrees(known, stated.at, frame.now);
                known.at = known.at.or_else(|| stated.at.filter(|_| agrees));
            }
        }
    }
    heals
}

/// When folded prose says that it heals.
pub fn from_text(folded: &str, frame: &Frame<'_>) -> Stated {
    prose::stated(folded, frame)
}

/// When a reset header's value says that it is: a number, a duration, or a moment in any form.
pub fn from_value(value: &str, frame: &Frame<'_>) -> Option<Stated> {
    header::reset(value.trim(), frame)
}

/// When headers say that it heals; names in lower case.
pub fn from_headers(headers: &[(String, String)], frame: &Frame<'_>) -> Stated {
    header::stated(headers, frame)
}

/// Whether a moment in prose fits a machine-readable wait; stamps in prose often lack their zone.
fn agrees(known: &Heals, at: Option<Timestamp>, now: Timestamp) -> bool {
    let (Some(after), Some(at)) = (known.after, at) else {
        return true;
    };
    let stated = at.duration_since(now).as_secs_f64();
    (stated - after.as_secs_f64()).abs() <= 120.0 + after.as_secs_f64() * 0.1
}

/// Nobody is believed further ahead.
const BELIEVED: SignedDuration = SignedDuration::from_hours(30 * 24 + 1);
/// Smaller numbers are seconds to wait: they are less than four months.
const DELTA_BELOW: f64 = 1e7;
/// Smaller numbers are epoch seconds.
const SECONDS_BELOW: f64 = 1e11;
