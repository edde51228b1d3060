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
        // The name under which this database keeps a 64-bit key without a second index for it.
        transaction.execute_batch(&sql.replace("BIGINT PRIMARY KEY", "INTEGER PRIMARY KEY"))?;
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
    include_str!("migrations/0006_safe_mode.sql"),
    include_str!("migrations/0007_evidence.sql"),
    include_str!("migrations/0008_spend.sql"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn tables(connection: &Connection) -> Vec<String> {
        let mut statement = connection
            .prepare("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name")
            .expect("the schema can be read");
        let rows = statement.query_map([], |row| row.get(0)).expect("the schema can be read");
        rows.collect::<rusqlite::Result<_>>().expect("the schema can be read")
    }

    #[test]
    fn every_older_version_becomes_the_newest_and_keeps_its_rows() {
        let mut fresh = Connection::open_in_memory().expect("memory");
        assert!(migrate(&mut fresh).is_ok());
        for older in 1..=NEWEST {
            let mut connection = Connection::open_in_memory().expect("memory");
            assert!(migrate_to(&mut connection, older).is_ok());
            connection.execute("INSERT INTO health VALUES ('key/1', 'resting', 1)", []).expect("a row");
            assert!(migrate(&mut connection).is_ok());
            assert_eq!(tables(&connection), tables(&fresh), "from version {older}");
            let kept: String =
                connection.query_row("SELECT state FROM health", [], |row| row.get(0)).expect("the row");
            assert_eq!(kept, "resting");
        }
    }

    #[test]
    fn a_newer_schema_is_refused() {
        let mut connection = Connection::open_in_memory().expect("memory");
        assert!(migrate(&mut connection).is_ok());
        connection.execute("UPDATE schema_version SET version = 4711", []).expect("an update");
        assert!(matches!(migrate(&mut connection), Err(MigrateError::TooNew(4711))));
    }
}
