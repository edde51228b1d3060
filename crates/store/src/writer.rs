//! The one thread that writes, and what it does when the disk or the file fails.
//!
//! ```text
//!            +--------------------- work ----------------------+
//!            v                                                 |
//!   writing: states, acks -> operations -> a chunk of history -+-> sync point, within a second of a write
//!      |  ^
//!  a   |  | written again (states from memory, history from the queue)
//!  write  |
//!  fails  |
//!      v  |
//!   failing: nothing is lost from memory; tries again after 0.1 s, doubling to 5 s; a damaged file is set aside
//! ```
//!
//! A commit reaches the write-ahead log, which survives the end of this process; the sync point is one commit
//! with full synchronisation, which takes everything before it to the disk.

use std::{
    io,
    path::Path,
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use backstop_triage::Timestamp;
use rusqlite::{Connection, TransactionBehavior};

use crate::{
    OpenError, error, folder::Folder, key_errors, migrate, migrate::MigrateError, queue::History,
    queue::Queue, queue::Work, readers::Readers, registers, requests, retention, sequence, traffic, unknown,
};

/// The writer thread's own state.
pub(crate) struct Writer {
    connection: Option<Connection>,
    identity: Option<(u64, u64)>,
    folder: Folder,
    queue: Arc<Queue>,
    readers: Arc<Readers>,
    backoff: Option<(Instant, Duration)>,
    sync_at: Option<Instant>,
    check_at: Instant,
    clean_at: Instant,
}

impl Writer {
    pub(crate) fn new(
        connection: Connection,
        folder: Folder,
        queue: Arc<Queue>,
        readers: Arc<Readers>,
    ) -> Self {
        let now = Instant::now();
        Self {
            identity: folder.database_identity(),
            connection: Some(connection),
            folder,
            queue,
            readers,
            backoff: None,
            sync_at: None,
            check_at: now + CHECK,
            clean_at: now + CLEAN,
        }
    }

    pub(crate) fn spawn(self) -> io::Result<JoinHandle<()>> {
        thread::Builder::new().name("store".into()).spawn(|| self.run())
    }

    fn run(mut self) {
        loop {
            let timer = self.sync_at.into_iter().fold(self.check_at.min(self.clean_at), Instant::min);
            let work = self.queue.next(timer, self.backoff.map(|(at, _)| at));
            let closing = work.closing;
            let idle = work.states.is_empty() && work.history.is_none();
            self.turn(work);
            if closing && (idle || self.backoff.is_some()) {
                break;
            }
        }
        self.sync();
    }

    fn turn(&mut self, work: Work) {
        let now = Instant::now();
        if now >= self.check_at {
            self.check_at = now + CHECK;
            self.notice_replaced_file();
        }
        if self.connection.is_none() && self.backoff.is_none_or(|(at, _)| now >= at) {
            self.reconnect();
        }
        self.carry_out(work);
        if self.sync_at.is_some_and(|at| now >= at) {
            self.sync();
        }
        if now >= self.clean_at {
            self.clean(now);
        }
    }

    fn carry_out(&mut self, mut work: Work) {
        let Some(connection) = &mut self.connection else {
            let reason = "the disk or the database file fails; see the status page".to_owned();
            return self.hand_back(work, &reason);
        };
        let mut wrote = false;
        if !work.states.is_empty() || !work.acks.is_empty() {
            match write_states(connection, &work) {
                Ok(()) => acknowledge(&mut work),
                Err(error) => return self.fail(work, &error),
            }
            wrote |= !work.states.is_empty();
            work.states.clear();
        }
        while let Some(operation) = work.operations.pop_front() {
            if let Err(error) = operation(Ok(connection)) {
                return self.fail(work, &error);
            }
            wrote = true;
        }
        if let Some(history) = &mut work.history {
            if let Err(error) = flush(&self.queue, connection, history) {
                return self.fail(work, &error);
            }
            wrote = true;
        }
        if wrote {
            self.succeed();
        }
    }

    fn succeed(&mut self) {
        self.sync_at.get_or_insert_with(|| Instant::now() + SYNC);
        self.backoff = None;
        if let Some(failing) = self.queue.recovered() {
            tracing::info!(since = %failing.since, "the store works again");
        }
    }

    /// Keeps what could not be written, and decides how to try again.
    fn fail(&mut self, work: Work, error: &rusqlite::Error) {
        let reason = error.to_string();
        if error::is_damaged(error) {
            self.salvage(&reason);
        } else if !is_full(error) {
            // After a failed write or sync the pages that the kernel holds are in doubt: a new connection, and
            // everything that memory knows once more.
            self.connection = None;
            self.queue.rewrite_all();
        }
        self.back_off(&reason);
        self.hand_back(work, &reason);
    }

    fn hand_back(&self, work: Work, reason: &str) {
        for operation in work.operations {
            if let Err(error) = operation(Err(reason)) {
                tracing::debug!(%error, "an operation failed after the file did");
            }
        }
        self.queue.put_back(work.states, work.acks, work.history);
    }

    fn back_off(&mut self, reason: &str) {
        let delay = self.backoff.map_or(FIRST_BACKOFF, |(_, delay)| (delay * 2).min(LONGEST_BACKOFF));
        if self.backoff.is_none() {
            tracing::warn!(
                error = reason,
                "the store fails; health and history stay in memory until it works again"
            );
        }
        self.backoff = Some((Instant::now() + delay, delay));
        self.queue.failed(reason);
    }

    fn reconnect(&mut self) {
        match connect(&self.folder) {
            Ok(connection) => {
                self.connection = Some(connection);
                self.identity = self.folder.database_identity();
                self.readers.renew();
                self.queue.rewrite_all();
            }
            Err(MigrateError::Database(error)) if error::is_damaged(&error) => {
                self.salvage(&error.to_string());
                self.back_off(&error.to_string());
            }
            Err(MigrateError::Database(error)) => self.back_off(&error.to_string()),
            Err(MigrateError::TooNew(found)) => {
                self.back_off(&format!("the file has the newer schema {found}"))
            }
        }
    }

    /// Sets a damaged file aside and begins a new one with what can still be read of it.
    fn salvage(&mut self, reason: &str) {
        self.connection = None;
        match salvage(&self.folder) {
            Ok(connection) => {
                tracing::warn!(error = reason, "the database was damaged and has been written anew");
                self.connection = Some(connection);
                self.identity = self.folder.database_identity();
                self.queue.salvaged();
            }
            Err(error) => tracing::warn!(%error, "the damaged database cannot be written anew yet"),
        }
        self.readers.renew();
        self.queue.rewrite_all();
    }

    /// A deleted file lives on behind the open connection: its content is copied to a new one at the old path.
    fn notice_replaced_file(&mut self) {
        let (Some(connection), Some(identity)) = (&self.connection, self.identity) else { return };
        if self.folder.database_identity() == Some(identity) {
            return;
        }
        match self.copy_to_path(connection) {
            Ok(()) => {
                tracing::warn!("the database file was removed and has been put back");
                self.queue.salvaged();
            }
            Err(error) => {
                tracing::warn!(%error, "the database file was removed and cannot be put back whole")
            }
        }
        self.connection = None;
        self.reconnect();
    }

    fn copy_to_path(&self, connection: &Connection) -> Result<(), Box<dyn std::error::Error>> {
        if self.folder.database_identity().is_some() {
            self.folder.set_aside()?;
        } else {
            remove_companions(&self.folder)?;
        }
        let path = self.folder.database();
        connection.execute("VACUUM INTO ?1", [path.to_string_lossy()])?;
        restrict(&path)?;
        Ok(())
    }

    fn sync(&mut self) {
        self.sync_at = None;
        let Some(connection) = &self.connection else { return };
        if let Err(error) = sync(connection) {
            let nothing = Work {
                states: Default::default(),
                acks: Vec::new(),
                operations: Default::default(),
                history: None,
                closing: false,
            };
            self.fail(nothing, &error);
        }
    }

    fn clean(&mut self, now: Instant) {
        self.clean_at = now + CLEAN;
        let Some(connection) = &self.connection else { return };
        match retention::clean(connection, &self.queue.retention(), Timestamp::now()) {
            Ok(true) => self.clean_at = now + CLEAN_ON,
            Ok(false) => {}
            Err(error) => tracing::debug!(%error, "old history could not be removed"),
        }
    }
}

/// Opens the database for a first time; what is damaged is set aside and what can be read is kept.
pub(crate) fn open_or_salvage(folder: &Folder) -> Result<Connection, OpenError> {
    let opened = connect(folder).and_then(|connection| {
        connection.query_row("SELECT COUNT(*) FROM health", [], |row| row.get::<_, i64>(0))?;
        Ok(connection)
    });
    match opened {
        Ok(connection) => Ok(connection),
        Err(MigrateError::TooNew(found)) => {
            Err(OpenError::TooNew { path: folder.database(), found, known: migrate::NEWEST })
        }
        Err(MigrateError::Database(error)) if error::is_damaged(&error) => {
            tracing::warn!(%error, "the database is damaged; it is set aside and what can be read of it is kept");
            salvage(folder)
        }
        Err(MigrateError::Database(error)) => Err(folder.fault(error)),
    }
}

fn connect(folder: &Folder) -> Result<Connection, MigrateError> {
    folder.touch_database().map_err(|error| {
        let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CANTOPEN);
        rusqlite::Error::SqliteFailure(code, Some(error.to_string()))
    })?;
    let mut connection = Connection::open(folder.database())?;
    connection.busy_timeout(Duration::from_millis(500))?;
    connection.set_prepared_statement_cache_capacity(64);
    connection.pragma_update(None, "page_size", 2048)?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "journal_size_limit", 4 * 1024 * 1024)?;
    connection.pragma_update(None, "secure_delete", true)?;
    migrate::migrate(&mut connection)?;
    // After the schema, so that a new database fits into a small disk once and not twice.
    connection.pragma_update(None, "journal_mode", "WAL")?;
    Ok(connection)
}

fn salvage(folder: &Folder) -> Result<Connection, OpenError> {
    let aside =
        folder.set_aside().map_err(|source| OpenError::Folder { path: folder.path().to_owned(), source })?;
    let connection = match connect(folder) {
        Ok(connection) => connection,
        Err(MigrateError::Database(error)) => return Err(folder.fault(error)),
        Err(MigrateError::TooNew(found)) => {
            return Err(OpenError::TooNew { path: folder.database(), found, known: migrate::NEWEST });
        }
    };
    if let Err(error) = copy_readable(&connection, &aside) {
        tracing::warn!(%error, path = %aside.display(), "nothing of the damaged database can be read");
    }
    Ok(connection)
}

/// Copies row by row what a damaged file still yields, table by table, oldest rows first.
fn copy_readable(connection: &Connection, aside: &Path) -> rusqlite::Result<()> {
    connection.execute("ATTACH DATABASE ?1 AS damaged", [aside.to_string_lossy()])?;
    let tables: Vec<String> = connection
        .prepare("SELECT name FROM main.sqlite_master WHERE type = 'table' AND name <> 'schema_version'")?
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    for table in tables {
        let copied = copy_table(connection, &table);
        if let Err(error) = copied {
            tracing::warn!(%error, table, "some rows of the damaged database are lost");
        }
    }
    connection.execute("DETACH DATABASE damaged", [])?;
    sequence::repair(connection)
}

fn copy_table(connection: &Connection, table: &str) -> rusqlite::Result<()> {
    let mut read = connection.prepare(&["SELECT * FROM damaged.", table].concat())?;
    let columns = read.column_names().collect::<Vec<_>>().join(", ");
    let marks = vec!["?"; read.column_count()].join(", ");
    let insert = ["INSERT OR IGNORE INTO main.", table, " (", &columns, ") VALUES (", &marks, ")"].concat();
    let mut write = connection.prepare(&insert)?;
    let width = read.column_count();
    let mut rows = read.query([])?;
    while let Some(row) = rows.next()? {
        let values: Vec<rusqlite::types::Value> =
            (0..width).map(|index| row.get(index)).collect::<rusqlite::Result<_>>()?;
        write.execute(rusqlite::params_from_iter(values))?;
    }
    Ok(())
}

/// Tells everybody whose change is written; who has stopped waiting is not missed.
fn acknowledge(work: &mut Work) {
    for ack in work.acks.drain(..) {
        let _gone = ack.send(());
    }
}

fn write_states(connection: &mut Connection, work: &Work) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    registers::write(&transaction, &work.states, Timestamp::now())?;
    transaction.commit()
}

/// Writes a chunk of history and the sums, unless somebody reads those; history that is refused is dropped.
fn flush(queue: &Queue, connection: &mut Connection, history: &mut History) -> rusqlite::Result<()> {
    let taken = queue.take_sums();
    let _held = taken.map(|(guard, sums)| {
        history.sums = sums;
        guard
    });
    let Err(error) = write_history(connection, history) else { return Ok(()) };
    queue.put_back_sums(std::mem::take(&mut history.sums));
    if error::is_failing(&error) {
        return Err(error);
    }
    tracing::error!(%error, "a piece of history cannot be written and is dropped");
    queue.dropped(history);
    Ok(())
}

fn write_history(connection: &mut Connection, history: &History) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    traffic::write(&transaction, &history.sums)?;
    key_errors::write(&transaction, &history.key_errors)?;
    unknown::write(&transaction, &history.unknown)?;
    requests::write(&transaction, &history.requests)?;
    transaction.commit()
}

/// Takes every commit so far to the disk.
pub(crate) fn sync(connection: &Connection) -> rusqlite::Result<()> {
    // The database skips a write that changes nothing, and with it the synchronisation: the header's free number counts.
    let count: i32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    let synced = connection.pragma_update(None, "user_version", count.wrapping_add(1));
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    synced
}

fn is_full(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(
            rusqlite::ErrorCode::DiskFull
                | rusqlite::ErrorCode::DatabaseBusy
                | rusqlite::ErrorCode::DatabaseLocked
        )
    )
}

fn remove_companions(folder: &Folder) -> io::Result<()> {
    for suffix in ["-wal", "-shm"] {
        match std::fs::remove_file(format!("{}{suffix}", folder.database().display())) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn restrict(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
}

/// From a write to the sync that takes it to the disk.
const SYNC: Duration = Duration::from_millis(700);
/// How often the file is checked for having been removed or replaced.
const CHECK: Duration = Duration::from_secs(1);
const CLEAN: Duration = Duration::from_secs(60);
/// Between two pieces of a clean-up that has more to remove.
const CLEAN_ON: Duration = Duration::from_millis(100);
const FIRST_BACKOFF: Duration = Duration::from_millis(100);
const LONGEST_BACKOFF: Duration = Duration::from_secs(5);
