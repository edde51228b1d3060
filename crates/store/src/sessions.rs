//! Sessions of people who signed in to the dashboard. Only hashes of their tokens are kept.

use std::time::Duration;

use backstop_triage::Timestamp;
use rusqlite::{OptionalExtension, params};

use crate::{
    Pending, Secret, Store, StoreError,
    clients::{random_token, token_hash},
    rows::{cut, millis, moment},
};

impl Store {
    /// Begins a session; its token is returned once. Sessions that have ended are removed on the way.
    pub fn begin_session(&self, agent: &str, now: Timestamp) -> Pending<Secret> {
        let token = random_token("");
        let agent = cut(agent, 200).to_owned();
        self.write(move |transaction| {
            transaction.execute(SWEEP, params![millis(now) - ms(IDLE), millis(now) - ms(LONGEST)])?;
            let hash = token_hash(token.expose());
            transaction.execute(BEGIN, params![hash.as_slice(), millis(now), agent])?;
            Ok(token)
        })
    }

    /// Whether a token belongs to a session that is alive; being seen keeps it so.
    pub fn session_alive(&self, token: &str, now: Timestamp) -> Result<bool, StoreError> {
        let hash = token_hash(token);
        let found = self.read(|connection| {
            let mut statement = connection.prepare_cached(FIND)?;
            let row = statement.query_row([hash.as_slice()], |row| {
                Ok((moment(row, "created_at")?, moment(row, "seen_at")?))
            });
            Ok(row.optional()?)
        })?;
        let Some((created_at, seen_at)) = found else { return Ok(false) };
        let age = |since: Timestamp| Duration::try_from(now.duration_since(since)).unwrap_or(Duration::ZERO);
        if age(created_at) > LONGEST || age(seen_at) > IDLE {
            return Ok(false);
        }
        if age(seen_at) > SEEN_GRAIN {
            drop(self.write(move |transaction| {
                transaction.execute(SEEN, params![hash.as_slice(), millis(now)])?;
                Ok(())
            }));
        }
        Ok(true)
    }

    /// Ends a session, or all of them.
    pub fn end_sessions(&self, token: Option<&str>) -> Pending<()> {
        let hash = token.map(token_hash);
        self.write(move |transaction| {
            match hash {
                Some(hash) => {
                    transaction.execute("DELETE FROM session WHERE hash = ?1", [hash.as_slice()])?
                }
                None => transaction.execute("DELETE FROM session", [])?,
            };
            Ok(())
        })
    }
}

fn ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// A session ends after so long without being seen.
pub const IDLE: Duration = Duration::from_secs(12 * 3600);
/// A session ends after so long in any case.
pub const LONGEST: Duration = Duration::from_secs(7 * 86_400);
const SEEN_GRAIN: Duration = Duration::from_secs(60);

const SWEEP: &str = "DELETE FROM session WHERE seen_at < ?1 OR created_at < ?2";
const BEGIN: &str = "INSERT INTO session (hash, created_at, seen_at, agent) VALUES (?1, ?2, ?2, ?3)";
const FIND: &str = "SELECT created_at, seen_at FROM session WHERE hash = ?1";
const SEEN: &str = "UPDATE session SET seen_at = ?2 WHERE hash = ?1";
