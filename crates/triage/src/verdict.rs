//! What the engine says of a failure.

use std::{fmt, sync::Arc, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Class, RuleId, Scope, SignedDuration, Timestamp, Window};

/// What a failure is, whom it hits, when it heals, and why we believe so.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// What kind of failure it is.
    pub class: Class,
    /// Whom the treatment may touch.
    pub scope: Scope,
    /// A stable snake_case word for people and metrics.
    pub reason: Reason,
    /// The usage window that the failure names.
    pub window: Option<Window>,
    /// When it heals, if the failure says so.
    pub heals: Option<Heals>,
    /// Whether the failure proves that the key is gone for good.
    pub disable_key: bool,
    /// A context length (tokens) or rate limit that the text states.
    pub limit: Option<u64>,
    /// What the verdict stands on.
    pub basis: Basis,
    /// The words that matched, redacted and short; empty without a match.
    pub matched: String,
}

impl Verdict {
    /// A verdict without time, window or match.
    pub fn new(class: Class, scope: Scope, reason: &str, basis: Basis) -> Self {
        Self {
            class,
            scope,
            reason: Reason::from(reason),
            window: None,
            heals: None,
            disable_key: false,
            limit: None,
            basis,
            matched: String::new(),
        }
    }

    /// The stated wait from `now` on, whichever form it was stated in.
    pub fn stated_wait(&self, now: Timestamp) -> Option<Duration> {
        self.heals.as_ref()?.wait(now)
    }
}

/// When a failure heals, as its evidence states it.
#[derive(Clone, Debug, PartialEq)]
pub struct Heals {
    /// A relative wait. At least 1 s.
    pub after: Option<Duration>,
    /// An absolute moment.
    pub at: Option<Timestamp>,
    /// Whether the statement is machine-readable (header or field) and so passes the cap for prose.
    pub trusted: bool,
    /// Where it was read.
    pub source: HealSource,
}

impl Heals {
    /// How long from `now` on; the longer of both forms; never below 1 s. A moment more than 5 s in the past, or
    /// more than 30 days away, is no time.
    pub fn wait(&self, now: Timestamp) -> Option<Duration> {
        let until_at = self.at.and_then(|at| {
            let ahead = at.duration_since(now);
            let believable = ahead >= -PAST_TOLERATED && ahead <= CEILING;
            believable.then(|| Duration::try_from(ahead).unwrap_or(Duration::ZERO))
        });
        let wait = match (self.after, until_at) {
            (Some(after), Some(at)) => after.max(at),
            (after, at) => after.or(at)?,
        };
        Some(wait.max(Duration::from_secs(1)))
    }
}

/// Where a time of healing was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HealSource {
    /// A response header.
    Header,
    /// A header nested in the body.
    NestedHeader,
    /// A JSON field.
    Field,
    /// Prose.
    Text,
}

/// Why the engine believes a verdict; visible in every log line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Basis {
    /// A rule matched.
    Rule(RuleId),
    /// The shape of the evidence (sizes, an empty answer) decided.
    Structure,
    /// Only the status decided.
    Status,
    /// The kind of transport fault, exit code or signal decided.
    Transport,
    /// Nothing recognised it.
    Nothing,
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(rule) => f.pad(rule.as_str()),
            Self::Structure => f.pad("structure"),
            Self::Status => f.pad("status"),
            Self::Transport => f.pad("transport"),
            Self::Nothing => f.pad("none"),
        }
    }
}

/// A stable snake_case word that says what exactly happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reason(Arc<str>);

impl Reason {
    /// The word.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Reason {
    fn from(word: &str) -> Self {
        Self(Arc::from(word))
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Reason {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|word| Self::from(word.as_str()))
    }
}

const PAST_TOLERATED: SignedDuration = SignedDuration::from_secs(5);
const CEILING: SignedDuration = SignedDuration::from_hours(30 * 24);
