//! Starts of the process and how they ended, from which safe mode is decided.

use std::time::Duration;

use backstop_triage::Timestamp;
use rusqlite::{Row, params};
use serde::Serialize;

use crate::{
    Pending, Store, StoreError,
    rows::{count, millis, moment, moment_or_none, signed},
    sequence::next_id,
};

/// One run of the process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BootRow {
    /// Its id.
    pub id: u64,
    /// When it began.
    pub began_at: Timestamp,
    /// How long it calls nobody, from its beginning on.
    pub safe_for: Duration,
    /// When it ended; none while it runs, and when it was killed.
    pub ended_at: Option<Timestamp>,
    /// Whether it ended by itself and in order.
    pub clean: bool,
    /// Whether it called a provider.
    pub traffic: bool,
    /// Whether any such call went well.
    pub success: bool,
}

/// What a run has done so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It has called a provider.
    Traffic,
    /// A call went well.
    Success,
}

impl Store {
    /// Notes that a run begins, and how long it will call nobody; its id.
    pub fn begin_boot(&self, now: Timestamp, safe_for: Duration) -> Pending<u64> {
        self.write(move |transaction| {
            let id = next_id(transaction, "boot")?;
            let safe_for = i64::try_from(safe_for.as_millis()).unwrap_or(i64::MAX);
            transaction.execute(BEGIN, params![signed(id), millis(now), safe_for])?;
            Ok(id)
        })
    }

    /// Notes the first call, or the first success, of a run.
    pub fn boot_progress(&self, id: u64, progress: Progress) -> Pending<()> {
        self.write(move |transaction| {
            let sql = match progress {
                Progress::Traffic => "UPDATE boot SET traffic = 1 WHERE id = ?1",
                Progress::Success => "UPDATE boot SET traffic = 1, success = 1 WHERE id = ?1",
            };
            transaction.execute(sql, [signed(id)])?;
            Ok(())
        })
    }

    /// Notes that a run ends in order.
    pub fn end_boot(&self, id: u64, now: Timestamp) -> Pending<()> {
        self.write(move |transaction| {
            transaction.execute(END, params![signed(id), millis(now)])?;
            Ok(())
        })
    }

    /// The last runs, newest first. So many that one that is started several times a second does not push those out that
    /// safe mode is counted from, however long it lasts.
    pub fn boots(&self) -> Result<Vec<BootRow>, StoreError> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached(LIST)?;
            let rows = statement.query_map([], read)?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
    }
}

fn read(row: &Row<'_>) -> rusqlite::Result<BootRow> {
    Ok(BootRow {
        id: count(row, "id")?,
        began_at: moment(row, "began_at")?,
        safe_for: Duration::from_millis(count(row, "safe_for")?),
        ended_at: moment_or_none(row, "ended_at")?,
        clean: row.get("clean")?,
        traffic: row.get("traffic")?,
        success: row.get("success")?,
    })
}

const BEGIN: &str =
    "INSERT INTO boot (id, began_at, clean, traffic, success, safe_for) VALUES (?1, ?2, 0, 0, 0, ?3)";
const END: &str = "UPDATE boot SET ended_at = ?2, clean = 1 WHERE id = ?1";
const LIST: &str = "SELECT * FROM boot ORDER BY id DESC LIMIT 10000";
