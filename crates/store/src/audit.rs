//! Who changed what, without values.

use backstop_triage::Timestamp;
use rusqlite::params;
use serde::Serialize;

use crate::{
    Page, Pending, Store, StoreError, page,
    rows::{count, millis, moment, signed},
};

/// One change by a person or a script.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AuditRow {
    /// Its id.
    pub id: u64,
    /// When.
    pub at: Timestamp,
    /// Who: `session`, `token` or `file`.
    pub actor: String,
    /// What was done: `keys.add`, `settings.change` …
    pub action: String,
    /// To what.
    pub subject: String,
    /// Which parts; never a value.
    pub detail: String,
}

impl Store {
    /// Notes a change.
    pub fn audit(&self, actor: &str, action: &str, subject: &str, detail: &str) -> Pending<()> {
        let row = [actor, action, subject, detail].map(str::to_owned);
        self.write(move |transaction| {
            let [actor, action, subject, detail] = row;
            let now = millis(Timestamp::now());
            transaction.execute(INSERT, params![now, actor, action, subject, detail])?;
            Ok(())
        })
    }

    /// A page of changes, newest first.
    pub fn audit_log(&self, cursor: Option<&str>, limit: usize) -> Result<Page<AuditRow>, StoreError> {
        let limit = limit.clamp(1, page::LIMIT);
        let before = page::before(cursor)?;
        let rows = self.read(|connection| {
            let mut statement = connection.prepare_cached(LIST)?;
            let rows = statement.query_map(params![before, signed(limit as u64 + 1)], |row| {
                Ok(AuditRow {
                    id: count(row, "id")?,
                    at: moment(row, "at")?,
                    actor: row.get("actor")?,
                    action: row.get("action")?,
                    subject: row.get("subject")?,
                    detail: row.get("detail")?,
                })
            })?;
            Ok(rows.collect::<rusqlite::Result<Vec<_>>>()?)
        })?;
        Ok(page::page(rows, limit, |row| signed(row.id)))
    }
}

const INSERT: &str = "INSERT INTO audit (id, at, actor, action, subject, detail)
    VALUES ((SELECT COALESCE(MAX(id), 0) + 1 FROM audit), ?1, ?2, ?3, ?4, ?5)";
const LIST: &str = "SELECT * FROM audit WHERE id < ?1 ORDER BY id DESC LIMIT ?2";
