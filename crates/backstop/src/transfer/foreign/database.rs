//! Rows of another gateway's database, as JSON objects. The file is opened for reading alone.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use rusqlite::{Connection, OpenFlags, types::ValueRef};
use serde_json::{Map, Value};

/// A database file.
pub(super) struct Database(Connection);

impl Database {
    /// Opens a file; one that is no SQLite database is told.
    pub(super) fn open(file: &Path) -> Result<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(file, flags)
            .with_context(|| format!("cannot read {}", file.display()))?;
        let count =
            connection.query_row("SELECT COUNT(*) FROM sqlite_master", [], |row| row.get::<_, i64>(0));
        count.with_context(|| {
            format!("{} is no SQLite database; export from MySQL or PostgreSQL as JSON first", file.display())
        })?;
        Ok(Self(connection))
    }

    /// Whether it has a table of this name.
    pub(super) fn has(&self, table: &str) -> Result<bool> {
        let sql = "SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = ?1";
        Ok(self.0.query_row(sql, [table], |row| row.get::<_, i64>(0))? > 0)
    }

    /// Every row that a query finds, each as an object of its columns.
    pub(super) fn rows(&self, sql: &'static str) -> Result<Vec<Value>> {
        let mut statement = self.0.prepare(sql)?;
        let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
        let rows = statement.query_map([], |row| {
            let mut object = Map::new();
            for (index, name) in names.iter().enumerate() {
                object.insert(name.clone(), value(row.get_ref(index)?));
            }
            Ok(Value::Object(object))
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }
}

/// Refuses a file that is not what it was called.
pub(super) fn refuse(file: &Path, what: &str) -> Result<()> {
    bail!("{} is no database of {what}: it lacks its tables", file.display())
}

/// A value of a column; JSON that is kept as text stays text.
fn value(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => number.into(),
        ValueRef::Real(number) => number.into(),
        ValueRef::Text(text) | ValueRef::Blob(text) => String::from_utf8_lossy(text).into_owned().into(),
    }
}
