//! Registers: one state per subject, the newest wins.

use std::collections::{BTreeMap, HashMap};

use rusqlite::{Connection, OptionalExtension, Transaction, params};

use crate::{Ack, Store, StoreError, rows::millis};

/// A table of newest-wins states. A state is text, by habit JSON, that only its owner reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Register {
    /// Health of keys, accounts, models and providers, by the subject's text form.
    Health,
    /// Quota snapshots, by key.
    Quota,
    /// Which alerts are on and since when, by condition and subject.
    Alert,
    /// Supervised seats, by name.
    Seat,
    /// Learned context lengths, by model and endpoint.
    Context,
    /// Objects made upstream (files, batches, stored answers) and the key that made them, by object id.
    Object,
}

impl Register {
    /// Every register.
    pub const ALL: [Self; 6] =
        [Self::Health, Self::Quota, Self::Alert, Self::Seat, Self::Context, Self::Object];

    /// Whether all its states are held in memory too. Upstream objects are too many for that.
    pub(crate) fn is_mirrored(self) -> bool {
        match self {
            Self::Health | Self::Quota | Self::Alert | Self::Seat | Self::Context => true,
            Self::Object => false,
        }
    }

    fn sql(self) -> &'static Sql {
        match self {
            Self::Health => &HEALTH,
            Self::Quota => &QUOTA,
            Self::Alert => &ALERT,
            Self::Seat => &SEAT,
            Self::Context => &CONTEXT,
            Self::Object => &OBJECT,
        }
    }
}

impl Store {
    /// Every saved health state, as (subject, state).
    pub fn load_health(&self) -> Vec<(String, String)> {
        self.register(Register::Health)
    }

    /// Saves health states; of several for one subject the newest wins.
    pub fn save_health(&self, changes: Vec<(String, String)>) -> Ack {
        self.save(changes.into_iter().map(|(subject, state)| (Register::Health, subject, Some(state))))
    }

    /// Every state of a register that is held in memory, as (subject, state); empty for [`Register::Object`].
    pub fn register(&self, register: Register) -> Vec<(String, String)> {
        self.inner.queue.mirrored(register)
    }

    /// The state of one subject, as last saved, whether written yet or not.
    pub fn state(&self, register: Register, subject: &str) -> Result<Option<String>, StoreError> {
        if let Some(known) = self.inner.queue.state(register, subject) {
            return Ok(known);
        }
        if register.is_mirrored() {
            return Ok(None);
        }
        self.read(|connection| {
            let mut statement = connection.prepare_cached(register.sql().one)?;
            Ok(statement.query_row([subject], |row| row.get(0)).optional()?)
        })
    }

    /// Saves states, or removes them where the state is none.
    pub fn save(&self, changes: impl IntoIterator<Item = (Register, String, Option<String>)>) -> Ack {
        self.inner.queue.save(changes)
    }
}

/// States that wait to be written, or all states of the mirrored registers.
pub(crate) type Mirror = HashMap<Register, BTreeMap<String, String>>;

/// Reads every mirrored register.
pub(crate) fn load_all(connection: &Connection) -> rusqlite::Result<Mirror> {
    let mut mirror = Mirror::new();
    for register in Register::ALL.into_iter().filter(|register| register.is_mirrored()) {
        let mut statement = connection.prepare(register.sql().all)?;
        let states = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        mirror.insert(register, states.collect::<rusqlite::Result<_>>()?);
    }
    Ok(mirror)
}

/// Writes changes; none removes the state.
pub(crate) fn write(
    transaction: &Transaction<'_>,
    changes: &HashMap<(Register, String), Option<String>>,
    now: jiff::Timestamp,
) -> rusqlite::Result<()> {
    for ((register, subject), state) in changes {
        match state {
            Some(state) => transaction.prepare_cached(register.sql().save)?.execute(params![
                subject,
                state,
                millis(now)
            ])?,
            None => transaction.prepare_cached(register.sql().forget)?.execute([subject])?,
        };
    }
    Ok(())
}

struct Sql {
    all: &'static str,
    one: &'static str,
    save: &'static str,
    forget: &'static str,
}

macro_rules! sql {
    ($table:literal) => {
        Sql {
            all: concat!("SELECT subject, state FROM ", $table),
            one: concat!("SELECT state FROM ", $table, " WHERE subject = ?1"),
            save: concat!(
                "INSERT INTO ",
                $table,
                " (subject, state, changed_at) VALUES (?1, ?2, ?3) ON CONFLICT (subject)",
                " DO UPDATE SET state = excluded.state, changed_at = excluded.changed_at"
            ),
            forget: concat!("DELETE FROM ", $table, " WHERE subject = ?1"),
        }
    };
}

const HEALTH: Sql = sql!("health");
const QUOTA: Sql = sql!("quota");
const ALERT: Sql = sql!("alert_stamp");
const SEAT: Sql = sql!("seat");
const CONTEXT: Sql = sql!("context_length");
const OBJECT: Sql = sql!("upstream_object");
