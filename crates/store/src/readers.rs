//! A small pool of read-only connections.

use std::{path::PathBuf, time::Duration};

use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags};

use crate::StoreError;

/// Connections that only read; opened when needed, kept up to a few, replaced when the file was replaced.
pub(crate) struct Readers {
    database: PathBuf,
    idle: Mutex<Idle>,
}

struct Idle {
    connections: Vec<Connection>,
    generation: u64,
}

impl Readers {
    pub(crate) fn new(database: PathBuf) -> Self {
        Self { database, idle: Mutex::new(Idle { connections: Vec::new(), generation: 0 }) }
    }

    pub(crate) fn read<T>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let (idle, generation) = {
            let mut idle = self.idle.lock();
            (idle.connections.pop(), idle.generation)
        };
        let connection = match idle {
            Some(connection) => connection,
            None => self.connect().map_err(StoreError::outward)?,
        };
        let value = read(&connection).map_err(StoreError::outward)?;
        let mut idle = self.idle.lock();
        if idle.generation == generation && idle.connections.len() < KEPT {
            idle.connections.push(connection);
        }
        Ok(value)
    }

    /// Drops all connections, because the file behind them has been replaced.
    pub(crate) fn renew(&self) {
        let mut idle = self.idle.lock();
        idle.generation += 1;
        idle.connections.clear();
    }

    fn connect(&self) -> Result<Connection, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.database, flags)?;
        connection.busy_timeout(Duration::from_secs(1))?;
        connection.set_prepared_statement_cache_capacity(64);
        Ok(connection)
    }
}

const KEPT: usize = 4;
