//! The inbox of failures that no rule knows, one line per shape.
//!
//! Two failures have the same shape when they come from the same provider in the same way and their words are
//! the same once numbers, ids and quoted parts are left out.

use std::{collections::HashMap, fmt::Write as _};

use backstop_triage::Timestamp;
use rusqlite::{OptionalExtension, Row, Transaction, params};
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::{
    Pending, Store, StoreError,
    rows::{count, cut, millis, moment},
};

/// A failure that no rule knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownFailure {
    /// Whom it came from.
    pub provider: String,
    /// How it came: `http`, `stream`, `transport` or `process`.
    pub kind: String,
    /// Its status, if it had one.
    pub status: Option<u16>,
    /// Its words, redacted.
    pub text: String,
    /// The whole evidence, redacted, in the form that `backstop classify` reads.
    pub evidence: String,
    /// When it was seen.
    pub at: Timestamp,
}

impl UnknownFailure {
    /// What failures of the same kind have in common.
    pub fn shape(&self) -> String {
        let mut digest = Sha256::new();
        for part in
            [self.provider.as_str(), &self.kind, &self.status.unwrap_or(0).to_string(), &skeleton(&self.text)]
        {
            digest.update(part.as_bytes());
            digest.update([0]);
        }
        digest.finalize()[..8].iter().fold(String::new(), |mut text, byte| {
            let _infallible = write!(text, "{byte:02x}");
            text
        })
    }
}

/// A line of the inbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnknownRow {
    /// Its id.
    pub shape: String,
    /// Whom it came from.
    pub provider: String,
    /// How it came.
    pub kind: String,
    /// Its status, if it had one.
    pub status: Option<u16>,
    /// The words of the newest one.
    pub text: String,
    /// The evidence of the newest one.
    pub evidence: String,
    /// How often it was seen.
    pub count: u64,
    /// When first.
    pub first_at: Timestamp,
    /// When last.
    pub last_at: Timestamp,
    /// What became of it.
    pub state: UnknownState,
}

/// What became of a line of the inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum UnknownState {
    /// Nobody has looked.
    Open,
    /// A rule knows it.
    Ruled,
    /// A person does not care.
    Dismissed,
}

impl UnknownState {
    /// The public name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Ruled => "ruled",
            Self::Dismissed => "dismissed",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        [Self::Open, Self::Ruled, Self::Dismissed].into_iter().find(|state| state.as_str() == name)
    }
}

impl Store {
    /// Adds a failure to the inbox; never waits.
    pub fn record_unknown(&self, failure: UnknownFailure) {
        self.inner.queue.unknown(failure);
    }

    /// The inbox, last seen first; at most 500 lines.
    pub fn unknown_failures(&self) -> Result<Vec<UnknownRow>, StoreError> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached(LIST)?;
            let rows = statement.query_map([], |row| Ok(read(row)))?;
            rows.map(|row| row?).collect()
        })
    }

    /// One line of the inbox.
    pub fn unknown_failure(&self, shape: &str) -> Result<Option<UnknownRow>, StoreError> {
        self.read(|connection| {
            connection.prepare_cached(ONE)?.query_row([shape], |row| Ok(read(row))).optional()?.transpose()
        })
    }

    /// Says what became of a line.
    pub fn settle_unknown(&self, shape: &str, state: UnknownState) -> Pending<()> {
        let shape = shape.to_owned();
        self.write(move |transaction| match transaction.execute(SETTLE, params![shape, state.as_str()])? {
            0 => Err(StoreError::NotFound("unknown failure")),
            _ => Ok(()),
        })
    }
}

/// Failures of one shape that wait to be written.
#[derive(Clone, Debug)]
pub(crate) struct Sighting {
    newest: UnknownFailure,
    first_at: Timestamp,
    count: u64,
}

impl Sighting {
    pub(crate) fn new(failure: UnknownFailure) -> Self {
        Self { first_at: failure.at, newest: failure, count: 1 }
    }

    pub(crate) fn absorb(&mut self, other: Self) {
        self.count += other.count;
        self.first_at = self.first_at.min(other.first_at);
        if other.newest.at >= self.newest.at {
            self.newest = other.newest;
        }
    }
}

/// Adds sightings to the inbox; a dismissed line stays dismissed, one with a rule opens again.
pub(crate) fn write(
    transaction: &Transaction<'_>,
    sightings: &HashMap<String, Sighting>,
) -> rusqlite::Result<()> {
    for (shape, sighting) in sightings {
        let failure = &sighting.newest;
        transaction.prepare_cached(ADD)?.execute(params![
            shape,
            failure.provider,
            failure.kind,
            failure.status,
            cut(&failure.text, TEXT),
            cut(&failure.evidence, EVIDENCE),
            crate::rows::signed(sighting.count),
            millis(sighting.first_at),
            millis(failure.at),
        ])?;
    }
    Ok(())
}

/// The words of a text without what differs from one occurrence to the next.
fn skeleton(text: &str) -> String {
    let mut words = Vec::new();
    for word in
        text.split(|character: char| character.is_whitespace() || "\"'`,;:=(){}[]<>/".contains(character))
    {
        if word.is_empty() {
            continue;
        }
        words.push(if is_variable(word) { "*".to_owned() } else { word.to_lowercase() });
        if words.len() == WORDS {
            break;
        }
    }
    words.dedup_by(|later, earlier| later == "*" && earlier == "*");
    words.join(" ")
}

fn is_variable(word: &str) -> bool {
    word.len() > 24 || word.bytes().any(|byte| byte.is_ascii_digit())
}

fn read(row: &Row<'_>) -> Result<UnknownRow, StoreError> {
    let state: String = row.get("state")?;
    Ok(UnknownRow {
        shape: row.get("shape")?,
        provider: row.get("provider")?,
        kind: row.get("kind")?,
        status: row.get("status")?,
        text: row.get("text")?,
        evidence: row.get("evidence")?,
        count: count(row, "count")?,
        first_at: moment(row, "first_at")?,
        last_at: moment(row, "last_at")?,
        state: UnknownState::parse(&state).ok_or(StoreError::Unreadable("unknown_failure"))?,
    })
}

const WORDS: usize = 60;
const TEXT: usize = 512;
const EVIDENCE: usize = 16 * 1024;

const ADD: &str = "INSERT INTO unknown_failure
    (shape, provider, kind, status, text, evidence, count, first_at, last_at, state)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 'open') ON CONFLICT (shape) DO UPDATE SET
    text = excluded.text, evidence = excluded.evidence, count = unknown_failure.count + excluded.count,
    last_at = excluded.last_at,
    state = CASE unknown_failure.state WHEN 'ruled' THEN 'open' ELSE unknown_failure.state END";
const LIST: &str = "SELECT * FROM unknown_failure ORDER BY last_at DESC LIMIT 500";
const ONE: &str = "SELECT * FROM unknown_failure WHERE shape = ?1";
const SETTLE: &str = "UPDATE unknown_failure SET state = ?2 WHERE shape = ?1";

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(text: &str) -> UnknownFailure {
        UnknownFailure {
            provider: "p".into(),
            kind: "http".into(),
            status: Some(418),
            text: text.into(),
            evidence: "{}".into(),
            at: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn numbers_and_ids_do_not_make_a_new_shape() {
        let first = failure("Teapot 17 refused request req_01HZX9 after 3s");
        let second = failure("teapot 4711 refused request req_77YYK2 after 12s");
        assert_eq!(first.shape(), second.shape());
        assert_ne!(first.shape(), failure("Teapot 17 accepted request req_01HZX9 after 3s").shape());
    }

    #[test]
    fn another_status_is_another_shape() {
        let other = UnknownFailure { status: Some(599), ..failure("short and stout") };
        assert_ne!(other.shape(), failure("short and stout").shape());
    }
}
