//! What can go wrong with the store, apart for opening it (a person has to act) and for using it (the caller goes on).

use std::{io, path::PathBuf};

/// Why the store could not be opened. Every message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The data folder cannot be made or entered.
    #[error("cannot use the data folder {path}: {source}; create it for this user or choose another with --data-dir", path = path.display())]
    Folder {
        /// The data folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another process holds the data folder.
    #[error("another backstop is using the data folder {path}; stop it first or choose another with --data-dir", path = path.display())]
    InUse {
        /// The data folder.
        path: PathBuf,
    },
    /// The database was written by a newer program.
    #[error("{path} has schema {found} and this program knows {known}; install the newer version again or restore the backup from before it", path = path.display())]
    TooNew {
        /// The database file.
        path: PathBuf,
        /// The schema in the file.
        found: u32,
        /// The newest schema that this program can read.
        known: u32,
    },
    /// The key file cannot be read or made.
    #[error("cannot use the key file {path}: {detail}; restore it from a backup, or give it mode 0600 and this user as owner", path = path.display())]
    KeyFile {
        /// The key file.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
    /// The database file cannot be read or written.
    #[error("cannot open {path}: {source}; check its permissions and the free space of the disk", path = path.display())]
    Database {
        /// The database file.
        path: PathBuf,
        /// What the database said.
        source: rusqlite::Error,
    },
}

impl OpenError {
    /// Whether starting again cannot help until a person has changed something (exit code 78).
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::Folder { .. } | Self::TooNew { .. } | Self::KeyFile { .. } => true,
            Self::InUse { .. } | Self::Database { .. } => false,
        }
    }
}

/// Why a single operation failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The disk or the file fails; the store keeps trying by itself.
    #[error("the store cannot be used at the moment: {0}")]
    Failing(String),
    /// Too many operations are waiting.
    #[error("the store has too much to do, try again in a moment")]
    Busy,
    /// The store has been closed.
    #[error("the store is closed")]
    Closed,
    /// The object is not there.
    #[error("there is no such {0}")]
    NotFound(&'static str),
    /// The object exists already.
    #[error("the {0} exists already")]
    Exists(&'static str),
    /// The object was changed by somebody else in the meantime.
    #[error("the {what} has been changed meanwhile (it is at version {current})")]
    Changed {
        /// What kind of object.
        what: &'static str,
        /// Its version in the store.
        current: u64,
    },
    /// Secrets cannot be sealed or opened, because the key file is not the one that sealed the others.
    #[error("secrets are locked: {0}")]
    Locked(String),
    /// The file that a new key was to come from is the one with the key in force.
    #[error("this file holds the key in force; write the new one into another file and name that")]
    KeyInForce,
    /// A cursor that no page returned.
    #[error("the cursor is not one that a page returned")]
    BadCursor,
    /// A row holds something that this program cannot read.
    #[error("a row of {0} cannot be read")]
    Unreadable(&'static str),
    /// The database refused an operation, and not because it is failing.
    #[error("database: {0}")]
    Database(rusqlite::Error),
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error)
    }
}

impl StoreError {
    /// The error as its caller sees it: a failing file apart from a refused operation.
    pub(crate) fn outward(self) -> Self {
        match self {
            Self::Database(error) if is_failing(&error) => Self::Failing(error.to_string()),
            other => other,
        }
    }
}

/// Whether an error comes from the disk or the file rather than from the operation.
pub(crate) fn is_failing(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::*;
    matches!(
        error.sqlite_error_code(),
        Some(
            PermissionDenied
                | DatabaseBusy
                | DatabaseLocked
                | OutOfMemory
                | ReadOnly
                | SystemIoFailure
                | DatabaseCorrupt
                | DiskFull
                | CannotOpen
                | FileLockingProtocolFailed
                | NotADatabase
        )
    )
}

/// Whether the file itself is damaged, so that trying again with it cannot help.
pub(crate) fn is_damaged(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::*;
    matches!(error.sqlite_error_code(), Some(DatabaseCorrupt | NotADatabase))
}
