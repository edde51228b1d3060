//! What waits for the writer thread: bounded where it could grow, a map where the newest wins.
//!
//! Everybody who carries traffic only ever holds the one short lock here, never the disk.

use std::{
    collections::{HashMap, VecDeque},
    time::{Duration, Instant},
};

use backstop_triage::{KeyId, Timestamp};
use parking_lot::{Condvar, Mutex, RwLock, RwLockWriteGuard};
use rusqlite::{Connection, Transaction, TransactionBehavior};
use serde::Serialize;
use tokio::sync::oneshot;

use crate::{
    Ack, Pending, Register, Retention, StoreError,
    key_errors::KeyError,
    registers::Mirror,
    requests::RequestRow,
    traffic::Sums,
    unknown::{Sighting, UnknownFailure},
    writer,
};

/// The state of the store itself.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Stats {
    /// The disk or the file fails since then; none when all is well.
    pub failing: Option<Failing>,
    /// States that wait to be written.
    pub waiting_states: usize,
    /// Requests that wait to be written.
    pub waiting_requests: usize,
    /// Requests that were never written, because history must not delay traffic.
    pub dropped_requests: u64,
    /// Errors of keys that were never written.
    pub dropped_key_errors: u64,
    /// Unknown failures that were never written.
    pub dropped_unknown: u64,
    /// Writes that failed, since the start.
    pub failed_writes: u64,
    /// Times that a lost or damaged file was written anew.
    pub salvages: u64,
    /// Why secrets cannot be opened; none when they can.
    pub locked: Option<String>,
}

/// A failing disk or file.
#[derive(Clone, Debug, Serialize)]
pub struct Failing {
    /// When it began.
    pub since: Timestamp,
    /// What the database said last.
    pub error: String,
}

/// An operation for the writer: gets the connection, or why there is none; returns the error if the file failed it.
pub(crate) type Operation =
    Box<dyn FnOnce(Result<&mut Connection, &str>) -> Result<(), rusqlite::Error> + Send>;

/// The queue between everybody and the writer thread.
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    wake: Condvar,
    flushing: RwLock<()>,
}

/// What waits, and what is known about the store.
pub(crate) struct Waiting {
    pub(crate) states: HashMap<(Register, String), Option<String>>,
    pub(crate) acks: Vec<oneshot::Sender<()>>,
    pub(crate) operations: VecDeque<Operation>,
    pub(crate) history: History,
    pub(crate) retention: Retention,
    pub(crate) closing: bool,
    stats: Stats,
    mirror: Mirror,
}

/// What may wait a little and, short of room, be dropped.
#[derive(Default)]
pub(crate) struct History {
    pub(crate) requests: VecDeque<RequestRow>,
    pub(crate) key_errors: VecDeque<KeyError>,
    pub(crate) unknown: HashMap<String, Sighting>,
    pub(crate) sums: Sums,
    request_bytes: usize,
}

impl History {
    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.requests.is_empty()
            && self.key_errors.is_empty()
            && self.unknown.is_empty()
            && self.sums.is_empty()
    }

    fn pop_chunk(&mut self) -> Self {
        let requests: VecDeque<_> = self.requests.drain(..self.requests.len().min(CHUNK)).collect();
        let request_bytes: usize = requests.iter().map(RequestRow::weight).sum();
        self.request_bytes = self.request_bytes.saturating_sub(request_bytes);
        Self {
            requests,
            request_bytes,
            key_errors: self.key_errors.drain(..self.key_errors.len().min(CHUNK)).collect(),
            unknown: std::mem::take(&mut self.unknown),
            sums: Sums::default(),
        }
    }

    fn push_back(&mut self, chunk: Self) {
        for request in chunk.requests.into_iter().rev() {
            self.request_bytes += request.weight();
            self.requests.push_front(request);
        }
        for error in chunk.key_errors.into_iter().rev() {
            self.key_errors.push_front(error);
        }
        for (shape, sighting) in chunk.unknown {
            match self.unknown.entry(shape) {
                std::collections::hash_map::Entry::Occupied(mut newer) => newer.get_mut().absorb(sighting),
                std::collections::hash_map::Entry::Vacant(empty) => {
                    empty.insert(sighting);
                }
            }
        }
        self.sums.absorb(chunk.sums);
    }
}

/// What the writer does next.
pub(crate) struct Work {
    pub(crate) states: HashMap<(Register, String), Option<String>>,
    pub(crate) acks: Vec<oneshot::Sender<()>>,
    pub(crate) operations: VecDeque<Operation>,
    pub(crate) history: Option<History>,
    pub(crate) closing: bool,
}

impl Queue {
    pub(crate) fn new(mirror: Mirror) -> Self {
        let waiting = Waiting {
            states: HashMap::new(),
            acks: Vec::new(),
            operations: VecDeque::new(),
            history: History::default(),
            retention: Retention::default(),
            closing: false,
            stats: Stats::default(),
            mirror,
        };
        Self { waiting: Mutex::new(waiting), wake: Condvar::new(), flushing: RwLock::new(()) }
    }

    /// Takes states in; the newest of a subject wins.
    pub(crate) fn save(&self, changes: impl IntoIterator<Item = (Register, String, Option<String>)>) -> Ack {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = self.waiting.lock();
        if waiting.closing {
            return Ack(receiver);
        }
        for (register, subject, state) in changes {
            if register.is_mirrored() {
                let mirror = waiting.mirror.entry(register).or_default();
                match &state {
                    Some(state) => mirror.insert(subject.clone(), state.clone()),
                    None => mirror.remove(&subject),
                };
            }
            waiting.states.insert((register, subject), state);
        }
        waiting.acks.push(sender);
        drop(waiting);
        self.wake.notify_one();
        Ack(receiver)
    }

    pub(crate) fn mirrored(&self, register: Register) -> Vec<(String, String)> {
        let waiting = self.waiting.lock();
        let Some(states) = waiting.mirror.get(&register) else { return Vec::new() };
        states.iter().map(|(subject, state)| (subject.clone(), state.clone())).collect()
    }

    /// The state of a subject in memory: none if memory does not know, `Some(None)` if it is being removed.
    pub(crate) fn state(&self, register: Register, subject: &str) -> Option<Option<String>> {
        let waiting = self.waiting.lock();
        if let Some(state) = waiting.mirror.get(&register).and_then(|states| states.get(subject)) {
            return Some(Some(state.clone()));
        }
        waiting.states.get(&(register, subject.to_owned())).cloned()
    }

    /// Queues an operation that runs in a transaction of its own.
    pub(crate) fn operation<T: Send + 'static>(
        &self,
        write: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Pending<T> {
        self.enqueue(|connection| transact(connection, write))
    }

    /// Queues an operation that is on the disk, and not only in the log, when it is answered.
    pub(crate) fn durable_operation<T: Send + 'static>(
        &self,
        write: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Pending<T> {
        self.enqueue(|connection| {
            let result = transact(connection, write)?;
            writer::sync(connection)?;
            Ok(result)
        })
    }

    fn enqueue<T: Send + 'static>(
        &self,
        carry_out: impl FnOnce(&mut Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Pending<T> {
        let (sender, pending) = Pending::new();
        let mut waiting = self.waiting.lock();
        let refusal = if waiting.closing {
            Some(StoreError::Closed)
        } else if waiting.operations.len() >= OPERATIONS {
            Some(StoreError::Busy)
        } else {
            None
        };
        if let Some(refusal) = refusal {
            let _gone = sender.send(Err(refusal));
            return pending;
        }
        waiting.operations.push_back(Box::new(move |connection| {
            let result = match connection {
                Ok(connection) => carry_out(connection),
                Err(reason) => Err(StoreError::Failing(reason.to_owned())),
            };
            let fault = match &result {
                Err(StoreError::Database(error)) if crate::error::is_failing(error) => Err(copy(error)),
                Ok(_) | Err(_) => Ok(()),
            };
            let result = result.map_err(StoreError::outward);
            let _gone = sender.send(result);
            fault
        }));
        drop(waiting);
        self.wake.notify_one();
        pending
    }

    /// Takes a request in, or only its sums when there is no room.
    pub(crate) fn request(&self, request: RequestRow) {
        let mut waiting = self.waiting.lock();
        waiting.history.sums.add(&request);
        let weight = request.weight();
        if waiting.history.requests.len() >= REQUESTS
            || waiting.history.request_bytes + weight > REQUEST_BYTES
        {
            waiting.stats.dropped_requests += 1;
            return;
        }
        waiting.history.request_bytes += weight;
        waiting.history.requests.push_back(request);
        let notify = matches!(waiting.history.requests.len(), 1 | CHUNK);
        drop(waiting);
        if notify {
            self.wake.notify_one();
        }
    }

    /// Takes the error of a key in, if there is room.
    pub(crate) fn key_error(&self, error: KeyError) {
        let mut waiting = self.waiting.lock();
        if waiting.history.key_errors.len() >= KEY_ERRORS {
            waiting.stats.dropped_key_errors += 1;
            return;
        }
        waiting.history.key_errors.push_back(error);
        drop(waiting);
        self.wake.notify_one();
    }

    /// Takes an unknown failure in; the same shape is only counted.
    pub(crate) fn unknown(&self, failure: UnknownFailure) {
        let shape = failure.shape();
        let mut waiting = self.waiting.lock();
        let room = waiting.history.unknown.len() < UNKNOWN;
        if let Some(known) = waiting.history.unknown.get_mut(&shape) {
            known.absorb(Sighting::new(failure));
        } else if room {
            waiting.history.unknown.insert(shape, Sighting::new(failure));
        } else {
            waiting.stats.dropped_unknown += 1;
            return;
        }
        drop(waiting);
        self.wake.notify_one();
    }

    /// Takes in which keys rest.
    pub(crate) fn rest(&self, keys: &[KeyId], now: Timestamp) {
        self.waiting.lock().history.sums.rest(keys, now);
    }

    /// Reads sums from the database together with those that wait, none missing and none counted twice.
    pub(crate) fn with_waiting_sums<T>(
        &self,
        read: impl FnOnce(Sums) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let _no_flush = self.flushing.read();
        let sums = self.waiting.lock().history.sums.clone();
        read(sums)
    }

    /// Takes the sums out for a flush, unless somebody is reading them; the guard is held until they are written.
    pub(crate) fn take_sums(&self) -> Option<(RwLockWriteGuard<'_, ()>, Sums)> {
        let guard = self.flushing.try_write()?;
        let sums = std::mem::take(&mut self.waiting.lock().history.sums);
        Some((guard, sums))
    }

    /// Takes back sums that could not be written.
    pub(crate) fn put_back_sums(&self, sums: Sums) {
        self.waiting.lock().history.sums.absorb(sums);
    }

    pub(crate) fn set_retention(&self, retention: Retention) {
        self.waiting.lock().retention = retention;
    }

    pub(crate) fn retention(&self) -> Retention {
        self.waiting.lock().retention.clone()
    }

    pub(crate) fn stats(&self, locked: Option<String>) -> Stats {
        let waiting = self.waiting.lock();
        Stats {
            waiting_states: waiting.states.len(),
            waiting_requests: waiting.history.requests.len(),
            locked,
            ..waiting.stats.clone()
        }
    }

    pub(crate) fn close(&self) {
        self.waiting.lock().closing = true;
        self.wake.notify_one();
    }

    /// Blocks the writer until there is something to do or `until` has come; history waits for `history_at`.
    pub(crate) fn next(&self, until: Instant, not_before: Option<Instant>) -> Work {
        let mut waiting = self.waiting.lock();
        let mut history_at: Option<Instant> = None;
        loop {
            let now = Instant::now();
            let urgent = !waiting.operations.is_empty() || waiting.closing;
            let held = not_before.is_some_and(|moment| now < moment);
            if !waiting.history.is_empty() && history_at.is_none() {
                history_at = Some(now + HISTORY_DELAY);
            }
            let full = waiting.history.requests.len() >= CHUNK;
            let history_due = full || history_at.is_some_and(|moment| now >= moment);
            if urgent || now >= until || (!held && (!waiting.states.is_empty() || history_due)) {
                let with_history = history_due || waiting.closing;
                return waiting.take(with_history);
            }
            let mut deadline = until;
            if let Some(moment) = not_before.filter(|_| held) {
                deadline = deadline.min(moment);
            } else if let Some(moment) = history_at {
                deadline = deadline.min(moment);
            }
            self.wake.wait_until(&mut waiting, deadline);
        }
    }

    /// Takes back what could not be written.
    pub(crate) fn put_back(
        &self,
        states: HashMap<(Register, String), Option<String>>,
        acks: Vec<oneshot::Sender<()>>,
        history: Option<History>,
    ) {
        let mut waiting = self.waiting.lock();
        for (subject, state) in states {
            waiting.states.entry(subject).or_insert(state);
        }
        waiting.acks.extend(acks);
        if let Some(history) = history {
            waiting.history.push_back(history);
        }
    }

    /// Marks every mirrored state as waiting, because the file may have lost any of them.
    pub(crate) fn rewrite_all(&self) {
        let mut waiting = self.waiting.lock();
        let Waiting { mirror, states, .. } = &mut *waiting;
        for (register, mirrored) in mirror {
            for (subject, state) in mirrored {
                states.entry((*register, subject.clone())).or_insert_with(|| Some(state.clone()));
            }
        }
    }

    pub(crate) fn failed(&self, error: &str) {
        let mut waiting = self.waiting.lock();
        let since = waiting.stats.failing.as_ref().map_or_else(Timestamp::now, |failing| failing.since);
        waiting.stats.failing = Some(Failing { since, error: error.to_owned() });
        waiting.stats.failed_writes += 1;
    }

    pub(crate) fn recovered(&self) -> Option<Failing> {
        self.waiting.lock().stats.failing.take()
    }

    /// Counts history that can never be written.
    pub(crate) fn dropped(&self, history: &History) {
        let mut waiting = self.waiting.lock();
        waiting.stats.dropped_requests += history.requests.len() as u64;
        waiting.stats.dropped_key_errors += history.key_errors.len() as u64;
        waiting.stats.dropped_unknown += history.unknown.len() as u64;
    }

    pub(crate) fn salvaged(&self) {
        self.waiting.lock().stats.salvages += 1;
    }
}

impl Waiting {
    fn take(&mut self, history: bool) -> Work {
        Work {
            states: std::mem::take(&mut self.states),
            acks: std::mem::take(&mut self.acks),
            operations: std::mem::take(&mut self.operations),
            history: (history && !self.history.is_empty()).then(|| self.history.pop_chunk()),
            closing: self.closing,
        }
    }
}

fn transact<T>(
    connection: &mut Connection,
    write: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(StoreError::Database)?;
    let value = write(&transaction)?;
    transaction.commit().map_err(StoreError::Database)?;
    Ok(value)
}

fn copy(error: &rusqlite::Error) -> rusqlite::Error {
    let code = error.sqlite_error().map_or(rusqlite::ffi::SQLITE_IOERR, |inner| inner.extended_code);
    rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), Some(error.to_string()))
}

/// Rows of history per transaction: few enough that a health change never waits long behind them.
pub(crate) const CHUNK: usize = 256;
const HISTORY_DELAY: Duration = Duration::from_millis(200);
const OPERATIONS: usize = 1024;
const REQUESTS: usize = 8192;
const REQUEST_BYTES: usize = 64 * 1024 * 1024;
const KEY_ERRORS: usize = 4096;
const UNKNOWN: usize = 1024;
