//! Tests of header and field values: `"*"`, `"absent"`, `">60"`, `"~part"`, or the value itself.

use crate::facts::fold::fold;

/// A test of one value; a list in TOML means any of them.
#[derive(Clone, Debug, PartialEq)]
pub enum ValueTest {
    /// `"*"`: there is a value.
    Present,
    /// `"absent"`: there is none.
    Absent,
    /// `">60"`: it is a number and compares so.
    Compare(Comparison),
    /// `"~part"`: it contains this, folded.
    Contains(String),
    /// It is this, folded.
    Equals(String),
    /// One of these holds.
    Any(Vec<Self>),
}

impl ValueTest {
    /// Reads a test from its text.
    pub fn parse(text: &str) -> Self {
        if text == "*" {
            return Self::Present;
        }
        if text == "absent" {
            return Self::Absent;
        }
        if let Some(comparison) = Comparison::parse(text) {
            return Self::Compare(comparison);
        }
        match text.strip_prefix('~') {
            Some(part) => Self::Contains(fold(part)),
            None => Self::Equals(fold(text)),
        }
    }

    /// Whether a value (or its absence) passes.
    pub fn passes(&self, value: Option<&str>) -> bool {
        match (self, value) {
            (Self::Any(tests), _) => tests.iter().any(|test| test.passes(value)),
            (Self::Absent, None) => true,
            (Self::Absent, Some(_)) => false,
            (_, None) => false,
            (Self::Present, Some(_)) => true,
            (Self::Compare(comparison), Some(value)) => {
                value.trim().parse().is_ok_and(|number| comparison.holds(number))
            }
            (Self::Contains(part), Some(value)) => fold(value).contains(part.as_str()),
            (Self::Equals(wanted), Some(value)) => fold(value) == *wanted,
        }
    }
}

/// A comparison with a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    order: Order,
    bound: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Order {
    Less,
    AtMost,
    AtLeast,
    More,
}

impl Comparison {
    /// Reads `">60"`, `">=60"`, `"<60"` or `"<=60"`.
    pub fn parse(text: &str) -> Option<Self> {
        let (order, number) = match text.split_at_checked(2) {
            Some(("<=", number)) => (Order::AtMost, number),
            Some((">=", number)) => (Order::AtLeast, number),
            _ => match text.split_at_checked(1)? {
                ("<", number) => (Order::Less, number),
                (">", number) => (Order::More, number),
                _ => return None,
            },
        };
        let bound = number.trim().parse::<f64>().ok().filter(|bound| bound.is_finite())?;
        Some(Self { order, bound })
    }

    /// Whether a number compares so.
    pub fn holds(self, number: f64) -> bool {
        match self.order {
            Order::Less => number < self.bound,
            Order::AtMost => number <= self.bound,
            Order::AtLeast => number >= self.bound,
            Order::More => number > self.bound,
        }
    }
}
