//! Remembers: health, errors, requests, settings, secrets.
//!
//! One thread writes, a small pool of connections reads, and nothing that carries traffic ever waits for the
//! disk. What arrives is sorted by what it is worth:
//!
//! * **Registers** ([`Register`]: health of keys, quota snapshots, alert stamps …) hold one state per subject.
//!   The newest state wins, so the queue is a map and cannot overflow. They are written first; an [`Ack`]
//!   resolves when they have reached the write-ahead log, and the log is synced within a second.
//! * **Operations** ([`Pending`]: adding a key, changing a setting) run one by one, each in its own transaction.
//! * **History** (requests, errors of keys, unknown failures) goes through bounded queues that drop the row, and
//!   count it, before they delay anybody. Sums of traffic are added up in memory and never dropped.
//!
//! When the disk is full, fails or loses the file, everything stays in memory, [`Stats::failing`] says so, and
//! the writer keeps trying; a lost or damaged file is written anew from what is left of it and from memory.
//! All SQL is constant and plain enough for PostgreSQL.

#![warn(missing_docs)]

pub mod audit;
pub mod boots;
pub mod clients;
pub mod configuration;
mod error;
mod folder;
mod hex;
pub mod key_errors;
pub mod keys;
mod migrate;
pub mod notices;
mod page;
mod pending;
mod queue;
mod readers;
pub mod registers;
pub mod requests;
mod retention;
mod rows;
mod secret;
mod sequence;
pub mod sessions;
pub mod spend;
pub mod traffic;
pub mod unknown;
mod vault;
mod writer;

use std::{path::Path, sync::Arc};

use parking_lot::Mutex;

pub use crate::{
    error::{OpenError, StoreError},
    folder::KeySource,
    page::Page,
    pending::{Ack, Pending},
    queue::{Failing, Stats},
    registers::Register,
    retention::Retention,
    secret::Secret,
};
use crate::{folder::Folder, queue::Queue, readers::Readers, vault::Vault, writer::Writer};

/// The open store; clones share it. Closed when the last clone is dropped, or by [`Store::close`].
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    queue: Arc<Queue>,
    readers: Arc<Readers>,
    vault: Vault,
    writer: Mutex<Option<std::thread::JoinHandle<()>>>,
    folder: Folder,
}

/// The schema of the database that this program reads and writes.
pub const SCHEMA: u32 = migrate::NEWEST;

impl Store {
    /// Opens the store in `data_dir`, making folder (0700), key file (0600) and database where they are missing.
    pub fn open(data_dir: &Path) -> Result<Self, OpenError> {
        Self::open_with(data_dir, &KeySource::Folder)
    }

    /// Opens the store with the key that seals secrets from elsewhere.
    pub fn open_with(data_dir: &Path, key: &KeySource) -> Result<Self, OpenError> {
        let folder = Folder::prepare(data_dir)?;
        let mut connection = writer::open_or_salvage(&folder)?;
        let vault = Vault::open(&mut connection, &folder, key)?;
        let queue =
            Arc::new(Queue::new(registers::load_all(&connection).map_err(|source| folder.fault(source))?));
        let readers = Arc::new(Readers::new(folder.database()));
        let writer = Writer::new(connection, folder.clone(), Arc::clone(&queue), Arc::clone(&readers));
        let thread =
            writer.spawn().map_err(|source| OpenError::Folder { path: data_dir.to_owned(), source })?;
        let inner = Inner { queue, readers, vault, writer: Mutex::new(Some(thread)), folder };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The folder that everything lies in.
    pub fn data_dir(&self) -> &Path {
        self.inner.folder.path()
    }

    /// What waits, what was dropped, and whether the disk fails.
    pub fn stats(&self) -> Stats {
        self.inner.queue.stats(self.inner.vault.locked())
    }

    /// Sets how long history is kept; acts within a minute and never holds up a write.
    pub fn set_retention(&self, retention: Retention) {
        self.inner.queue.set_retention(retention);
    }

    /// Writes what waits (or gives up on it when the disk fails), syncs, and closes the file. Blocks.
    pub fn close(&self) {
        self.inner.close();
    }

    fn read<T>(
        &self,
        read: impl FnOnce(&rusqlite::Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.inner.readers.read(read)
    }

    fn write<T: Send + 'static>(
        &self,
        write: impl FnOnce(&rusqlite::Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Pending<T> {
        self.inner.queue.operation(write)
    }

    fn vault(&self) -> &Vault {
        &self.inner.vault
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("data_dir", &self.data_dir()).finish_non_exhaustive()
    }
}

impl Inner {
    fn close(&self) {
        self.queue.close();
        if let Some(thread) = self.writer.lock().take()
            && thread.join().is_err()
        {
            tracing::error!("the store's writer ended by a panic");
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.close();
    }
}
