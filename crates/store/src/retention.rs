//! How long history is kept, and its removal in pieces small enough that no write waits for it.

use std::time::Duration;

use backstop_triage::Timestamp;
use rusqlite::Connection;

use crate::{
    Pending, Store,
    rows::{millis, signed},
    spend::DAY_MS,
};

/// How long history is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Requests, their attempts and unknown failures that were dealt with. Default 7 days; none keeps all.
    pub requests: Option<Duration>,
    /// Stored bodies. Default 1 day; never longer than their request.
    pub bodies: Duration,
    /// Room for stored bodies in bytes, newest kept. Default 256 MiB.
    pub body_bytes: u64,
    /// Audit log, boots and daily spending. Default 365 days.
    pub audit: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        Self { requests: Some(7 * DAY), bodies: DAY, body_bytes: 256 * 1024 * 1024, audit: 365 * DAY }
    }
}

impl Store {
    /// Removes a piece of what is too old at once; whether there is more. The writer does so by itself every minute.
    pub fn clean_up(&self) -> Pending<bool> {
        let retention = self.inner.queue.retention();
        self.write(move |transaction| Ok(clean(transaction, &retention, Timestamp::now())?))
    }
}

/// Removes at most a chunk of what is too old from each table; whether there is more.
pub(crate) fn clean(
    connection: &Connection,
    retention: &Retention,
    now: Timestamp,
) -> rusqlite::Result<bool> {
    let before = |age: Duration| millis(now).saturating_sub(millis_of(age));
    let mut more = false;
    if let Some(age) = retention.requests {
        let newest: i64 = connection.prepare_cached(NEWEST)?.query_row([], |row| row.get(0))?;
        let ahead = newest.max(millis(now)).saturating_add(millis_of(DAY));
        more |= connection.prepare_cached(OLD_REQUESTS)?.execute([before(age), ahead])? >= CHUNK;
        connection.execute(ORPHAN_ATTEMPTS, [])?;
        connection.execute(ORPHAN_BODIES, [])?;
        more |= chunk(connection, OLD_UNKNOWN, before(age))?;
    }
    more |= chunk(connection, OLD_BODIES, before(retention.bodies))?;
    let bytes: i64 = connection.query_row(BODY_BYTES, [], |row| row.get(0))?;
    if bytes > signed(retention.body_bytes) {
        more |= connection.execute(OLDEST_BODIES, [])? > 0;
    }
    more |= chunk(connection, OLD_OBJECTS, before(30 * DAY))?;
    more |= chunk(connection, OLD_KEY_TRAFFIC, millis(now) / SLOT_MS - 7 * 48)?;
    more |= chunk(connection, OLD_SPEND, before(retention.audit) / DAY_MS)?;
    more |= chunk(connection, OLD_AUDIT, before(retention.audit))?;
    more |= chunk(connection, OLD_BOOTS, before(retention.audit))?;
    Ok(more)
}

fn chunk(connection: &Connection, sql: &'static str, before: i64) -> rusqlite::Result<bool> {
    Ok(connection.prepare_cached(sql)?.execute([before])? >= CHUNK)
}

fn millis_of(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

const DAY: Duration = Duration::from_secs(86_400);
/// Half an hour, the grain of traffic sums.
pub(crate) const SLOT_MS: i64 = 1_800_000;
/// Rows removed per statement; the number that stands in the SQL below.
const CHUNK: usize = 200;

/// The moment up to which rows are believed: a clock that starts in the past must not make all of them future ones.
const NEWEST: &str = "SELECT COALESCE(MAX(at), 0) FROM (SELECT at FROM request ORDER BY seq DESC LIMIT 200)";
/// Rows are old in the order they were written in; those of a clock that ran ahead would keep all behind them.
const OLD_REQUESTS: &str = "DELETE FROM request WHERE seq IN
    (SELECT seq FROM request ORDER BY seq LIMIT 200) AND (at < ?1 OR at > ?2)";
const ORPHAN_ATTEMPTS: &str =
    "DELETE FROM attempt WHERE id < (SELECT COALESCE(MIN(seq) * 1024, 9223372036854775807) FROM request)";
const ORPHAN_BODIES: &str = "DELETE FROM request_body WHERE request_seq < (SELECT COALESCE(MIN(seq), 9223372036854775807) FROM request)";
const OLD_UNKNOWN: &str = "DELETE FROM unknown_failure WHERE shape IN (SELECT shape FROM unknown_failure WHERE state <> 'open' AND last_at < ?1 LIMIT 200)";
const OLD_BODIES: &str = "DELETE FROM request_body WHERE request_seq IN (SELECT request_seq FROM request_body WHERE at < ?1 LIMIT 200)";
const BODY_BYTES: &str = "SELECT COALESCE(SUM(LENGTH(sealed)), 0) FROM request_body";
const OLDEST_BODIES: &str = "DELETE FROM request_body WHERE request_seq IN (SELECT request_seq FROM request_body ORDER BY request_seq LIMIT 20)";
const OLD_OBJECTS: &str = "DELETE FROM upstream_object WHERE subject IN (SELECT subject FROM upstream_object WHERE changed_at < ?1 LIMIT 200)";
const OLD_KEY_TRAFFIC: &str = "DELETE FROM key_traffic WHERE key_id IN (SELECT key_id FROM key_traffic WHERE slot < ?1 LIMIT 200) AND slot < ?1";
const OLD_SPEND: &str =
    "DELETE FROM spend WHERE day IN (SELECT day FROM spend WHERE day < ?1 LIMIT 1) AND day < ?1";
const OLD_AUDIT: &str = "DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE at < ?1 LIMIT 200)";
const OLD_BOOTS: &str = "DELETE FROM boot WHERE id IN (SELECT id FROM boot WHERE began_at < ?1 LIMIT 200)";
