//! Reading single values, however a provider writes them.

use jiff::{SignedDuration, civil, tz::TimeZone};
use serde::Deserialize;
use serde_json::Value;

use crate::{Timestamp, rules::ValueTest};

/// Places where a fact may stand, in order; in TOML one pointer or a list of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "OneOrMany")]
pub struct Pointers(Vec<String>);

impl Pointers {
    /// The pointers in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

impl From<OneOrMany> for Pointers {
    fn from(written: OneOrMany) -> Self {
        match written {
            OneOrMany::One(pointer) => Self(vec![pointer]),
            OneOrMany::Many(pointers) => Self(pointers),
        }
    }
}

/// A test of one value, as rules test header and field values.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(from = "OneOrMany")]
pub struct Test(ValueTest);

impl Test {
    /// Whether a value, or its absence, passes; null is absence.
    pub(super) fn passes(&self, value: Option<&Value>) -> bool {
        self.0.passes(value.and_then(text).as_deref())
    }
}

impl From<OneOrMany> for Test {
    fn from(written: OneOrMany) -> Self {
        match written {
            OneOrMany::One(test) => Self(ValueTest::parse(&test)),
            OneOrMany::Many(tests) => {
                Self(ValueTest::Any(tests.iter().map(|test| ValueTest::parse(test)).collect()))
            }
        }
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

/// A number, also one written as text; never an infinite one.
pub(super) fn number(value: &Value) -> Option<f64> {
    let number = match value {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => text.trim().trim_end_matches('%').parse().ok()?,
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
    };
    number.is_finite().then_some(number)
}

/// A word, number or truth value as text.
pub(super) fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(truth.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// A moment: RFC 3339, a date at midnight UTC, epoch seconds or milliseconds by magnitude.
pub(super) fn moment(value: &Value) -> Option<Timestamp> {
    if let Some(epoch) = number(value) {
        return of_epoch(epoch);
    }
    let text = value.as_str()?.trim();
    if let Ok(moment) = text.parse::<Timestamp>() {
        return Some(moment);
    }
    let day: civil::Date = text.parse().ok()?;
    day.to_zoned_datetime(TimeZone::UTC).ok().map(|midnight| midnight.timestamp())
}

/// `seconds` after `now`, unless that is beyond any calendar.
pub(super) fn later(now: Timestamp, seconds: f64) -> Option<Timestamp> {
    now.checked_add(SignedDuration::try_from_secs_f64(seconds).ok()?).ok()
}

fn of_epoch(epoch: f64) -> Option<Timestamp> {
    let milliseconds = if epoch >= LEAST_MILLISECONDS { epoch } else { epoch * 1000.0 };
    if !(LEAST_MILLISECONDS..1.0e14).contains(&milliseconds) {
        return None;
    }
    // Within the range just checked the cast is exact enough.
    Timestamp::from_millisecond(milliseconds as i64).ok()
}

/// 1973 in milliseconds, the year 5138 in seconds: no epoch of today is on the wrong side.
const LEAST_MILLISECONDS: f64 = 1.0e11;
