//! Numbered migrations. Each runs once, in order, in one transaction; the number is kept in the database.

use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

/// Why a database could not be brought up to date.
pub(crate) enum MigrateError {
    /// A newer program wrote it.
    TooNew(u32),
    /// The database failed.
    Database(rusqlite::Error),
}

impl From<rusqlite::Error> for MigrateError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error)
    }
}

/// Brings the schema up to date.
pub(crate) fn migrate(connection: &mut Connection) -> Result<(), MigrateError> {
    migrate_to(connection, NEWEST)
}

/// Brings the schema up to an older version; the start of every migration test.
pub(crate) fn migrate_to(connection: &mut Connection, target: u32) -> Result<(), MigrateError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(VERSION_TABLE)?;
    let found: u32 = transaction
        .query_row("SELECT version FROM schema_version", [], |row| row.get(0))
        .optional()?
        .unwrap_or(0);
    if found > NEWEST {
        return Err(MigrateError::TooNew(found));
    }
    if found >= target {
        return Ok(());
    }
    for (_, sql) in (1..).zip(MIGRATIONS).filter(|(number, _)| (found + 1..=target).contains(number)) {
        transaction.execute_batch(sql)?;
    }
    transaction.execute("DELETE FROM schema_version", [])?;
    transaction.execute("INSERT INTO schema_version (version) VALUES (?1)", [target])?;
    transaction.commit()?;
    Ok(())
}

/// The schema that this program reads and writes.
pub(crate) const NEWEST: u32 = MIGRATIONS.len() as u32;

const VERSION_TABLE: &str = "CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL)";

/// Never edited once released; changes are appended.
const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_health.sql"),
    include_str!("migrations/0002_requests.sql"),
    include_str!("migrations/0003_keys.sql"),
    include_str!("migrations/0004_configuration.sql"),
    include_str!("migrations/0005_people.sql"),
];
