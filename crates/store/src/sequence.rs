//! Ids that are never given twice, also when the rows that had them are gone.

use rusqlite::{Connection, Transaction, params};

/// The next id of a kind of object.
pub(crate) fn next_id(transaction: &Transaction<'_>, name: &str) -> rusqlite::Result<u64> {
    let id: i64 = transaction.prepare_cached(NEXT)?.query_row(params![name, 1], |row| row.get(0))?;
    Ok(u64::try_from(id).unwrap_or(0))
}

/// Takes `count` ids at once; the last of them.
pub(crate) fn next_ids(transaction: &Transaction<'_>, name: &str, count: usize) -> rusqlite::Result<i64> {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    transaction.prepare_cached(NEXT)?.query_row(params![name, count], |row| row.get(0))
}

/// Moves every sequence behind the ids that rows have, for a database of which parts were lost.
pub(crate) fn repair(connection: &Connection) -> rusqlite::Result<()> {
    for (name, highest) in HIGHEST {
        let highest: i64 = connection.query_row(highest, [], |row| row.get(0))?;
        connection.execute(RAISE, params![name, highest])?;
    }
    Ok(())
}

const NEXT: &str = "INSERT INTO sequence (name, last) VALUES (?1, ?2)
    ON CONFLICT (name) DO UPDATE SET last = sequence.last + excluded.last RETURNING last";
const RAISE: &str = "INSERT INTO sequence (name, last) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET
    last = CASE WHEN sequence.last < excluded.last THEN excluded.last ELSE sequence.last END";
const HIGHEST: [(&str, &str); 8] = [
    ("key", "SELECT COALESCE(MAX(id), 0) FROM api_key"),
    ("client", "SELECT COALESCE(MAX(id), 0) FROM client"),
    ("fallback", "SELECT COALESCE(MAX(id), 0) FROM fallback"),
    ("notification", "SELECT COALESCE(MAX(id), 0) FROM notification"),
    ("outbox", "SELECT COALESCE(MAX(id), 0) FROM outbox"),
    ("boot", "SELECT COALESCE(MAX(id), 0) FROM boot"),
    ("request", "SELECT COALESCE(MAX(seq), 0) FROM request"),
    ("request", "SELECT COALESCE(MAX(id) / 1024, 0) FROM attempt"),
];
