//! The last fifty errors of every key.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use backstop_triage::{Class, KeyId, Scope, Timestamp};
use rusqlite::{Row, Transaction, params};
use serde::Serialize;

use crate::{
    Store, StoreError,
    rows::{count, cut, millis, moment, signed},
};

/// One failure of one key, as its error history shows it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KeyError {
    /// The key.
    pub key: KeyId,
    /// When it failed.
    pub at: Timestamp,
    /// The request that it failed; none for a test or a probe.
    pub request: Option<String>,
    /// The model that was asked.
    pub model: Option<String>,
    /// The upstream status, if there was one.
    pub status: Option<u16>,
    /// What it was.
    pub class: Class,
    /// Whom it hit.
    pub scope: Scope,
    /// What exactly, in one word.
    pub reason: String,
    /// The rule, or what else the verdict stands on.
    pub basis: String,
    /// What was done with the key: `none`, `rest`, `quarantine` or `disable`.
    pub action: String,
    /// The upstream's words, redacted; at most [`MESSAGE`] bytes are kept.
    pub message: String,
    /// What arrived, redacted and shortened, in the form that `backstop classify` reads; empty if it is not known.
    #[serde(serialize_with = "as_json")]
    pub evidence: String,
}

impl Store {
    /// Adds an error to a key's history; never waits.
    pub fn record_error(&self, error: KeyError) {
        self.inner.queue.key_error(error);
    }

    /// A key's errors, newest first; those of the last fraction of a second may be missing.
    pub fn key_errors(&self, key: KeyId) -> Result<Vec<KeyError>, StoreError> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached(LIST)?;
            let errors = statement.query_map([signed(key.0)], |row| Ok(read(row, key)))?;
            errors.map(|error| error?).collect()
        })
    }

    /// The newest errors of all keys, newest first.
    pub fn newest_key_errors(&self, most: u32) -> Result<Vec<KeyError>, StoreError> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached(NEWEST)?;
            let errors = statement.query_map([most], |row| Ok(read(row, KeyId(count(row, "key_id")?))))?;
            errors.map(|error| error?).collect()
        })
    }

    /// How many errors the history of each key holds.
    pub fn key_error_counts(&self) -> Result<BTreeMap<KeyId, u64>, StoreError> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached(COUNTS)?;
            let rows =
                statement.query_map([], |row| Ok((KeyId(count(row, "key_id")?), count(row, "errors")?)))?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
    }
}

/// Writes errors, and forgets what is older than the fiftieth of each key.
pub(crate) fn write(transaction: &Transaction<'_>, errors: &VecDeque<KeyError>) -> rusqlite::Result<()> {
    for error in errors {
        transaction.prepare_cached(INSERT)?.execute(params![
            signed(error.key.0),
            millis(error.at),
            error.request,
            error.model,
            error.status,
            error.class.as_str(),
            error.scope.as_str(),
            error.reason,
            error.basis,
            error.action,
            cut(&error.message, MESSAGE),
            error.evidence,
        ])?;
    }
    for key in errors.iter().map(|error| error.key).collect::<BTreeSet<_>>() {
        transaction.prepare_cached(FORGET)?.execute(params![signed(key.0), KEPT])?;
    }
    Ok(())
}

fn read(row: &Row<'_>, key: KeyId) -> Result<KeyError, StoreError> {
    let class: String = row.get("class")?;
    let scope: String = row.get("scope")?;
    Ok(KeyError {
        key,
        at: moment(row, "at")?,
        request: row.get("request")?,
        model: row.get("model")?,
        status: row.get("status")?,
        class: Class::parse(&class).ok_or(StoreError::Unreadable("key_error"))?,
        scope: parse_scope(&scope).ok_or(StoreError::Unreadable("key_error"))?,
        reason: row.get("reason")?,
        basis: row.get("basis")?,
        action: row.get("action")?,
        message: row.get("message")?,
        evidence: row.get("evidence")?,
    })
}

/// Evidence is JSON already.
fn as_json<S: serde::Serializer>(evidence: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serde_json::from_str::<serde_json::Value>(evidence).unwrap_or_default().serialize(serializer)
}

/// Reads the public name of a scope.
pub(crate) fn parse_scope(name: &str) -> Option<Scope> {
    Scope::ALL.into_iter().find(|scope| scope.as_str() == name)
}

/// Errors kept per key.
pub const KEPT: u32 = 50;
/// Bytes kept of an upstream's message.
pub const MESSAGE: usize = 512;

const INSERT: &str = "INSERT INTO key_error
    (id, key_id, at, request, model, status, class, scope, reason, basis, action, message, evidence)
    VALUES ((SELECT COALESCE(MAX(id), 0) + 1 FROM key_error), ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
const FORGET: &str = "DELETE FROM key_error WHERE key_id = ?1 AND id <=
    (SELECT id FROM key_error WHERE key_id = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)";
const LIST: &str = "SELECT at, request, model, status, class, scope, reason, basis, action, message, evidence
    FROM key_error WHERE key_id = ?1 ORDER BY id DESC LIMIT 50";
const NEWEST: &str =
    "SELECT key_id, at, request, model, status, class, scope, reason, basis, action, message, evidence
    FROM key_error ORDER BY id DESC LIMIT ?1";
const COUNTS: &str = "SELECT key_id, COUNT(*) AS errors FROM key_error GROUP BY key_id";
