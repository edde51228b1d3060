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

/// Never edited, as a test sees to; changes are appended.
const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_health.sql"),
    include_str!("migrations/0002_requests.sql"),
    include_str!("migrations/0003_keys.sql"),
    include_str!("migrations/0004_configuration.sql"),
    include_str!("migrations/0005_people.sql"),
    include_str!("migrations/0006_safe_mode.sql"),
    include_str!("migrations/0007_evidence.sql"),
    include_str!("migrations/0008_spend.sql"),
    include_str!("migrations/0009_attempts.sql"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::{hash_text, token_hash};

    fn tables(connection: &Connection) -> Vec<String> {
        let mut statement = connection
            .prepare("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name")
            .expect("the schema can be read");
        let rows = statement.query_map([], |row| row.get(0)).expect("the schema can be read");
        rows.collect::<rusqlite::Result<_>>().expect("the schema can be read")
    }

    /// The SHA-256 of each migration, as far as it takes to see an edit. A new one is added here; none is ever changed, since
    /// databases that have run it would keep another schema.
    const FROZEN: &[&str] = &[
        "0a237b8a2d8ae463",
        "30404feec3c559b8",
        "49d01e5a9247619b",
        "4eda8b458982aff7",
        "de6778cf9df5fea3",
        "9c68c80b920f371a",
        "fc777878b772554b",
        "8e9d323ddf209d1e",
        "b242f6d0c9fc64d4",
    ];

    #[test]
    fn no_migration_that_a_database_may_have_run_is_edited() {
        let sums: Vec<String> =
            MIGRATIONS.iter().map(|sql| hash_text(&token_hash(sql))[..16].to_owned()).collect();
        assert_eq!(sums, FROZEN);
    }

    #[test]
    fn a_log_in_another_form_goes_and_keys_stay() {
        let mut connection = Connection::open_in_memory().expect("memory");
        assert!(migrate_to(&mut connection, 8).is_ok());
        let attempt = "INSERT INTO attempt (request_seq, ordinal, after_ms, provider, model, key_id, key_label, waited_ms, took_ms)
            VALUES (1, 0, 0, 'p', 'm', 1, 'k', 0, 0)";
        connection.execute(attempt, []).expect("a row");
        let key = "INSERT INTO api_key (id, provider, label, origin, present, position, hint, fingerprint, version, created_at)
            VALUES (1, 'p', 'k', 'added', 1, 0, '', x'00', 1, 0)";
        connection.execute(key, []).expect("a row");
        assert!(migrate(&mut connection).is_ok());
        let count = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, u32>(0)).expect("a count");
        assert_eq!(count("SELECT COUNT(*) FROM attempt WHERE id >= 0"), 0);
        assert_eq!(count("SELECT COUNT(*) FROM api_key"), 1);
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
