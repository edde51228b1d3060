//! What an attempt holds while it runs.
//!
//! A permit cannot be lost: dropping it, on whatever way out, puts its ticket into a tray that the pool empties
//! before it decides anything else.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use crate::{KeyId, ModelId, ProviderId, Timestamp, Verdict, pool::gate::Mark};

/// The right to make one upstream call with one key. Give it back through the pool, or drop it: then nobody is
/// blamed.
#[derive(Debug)]
pub struct Permit {
    ticket: Option<Ticket>,
    tray: Arc<Tray>,
}

impl Permit {
    pub(super) fn new(ticket: Ticket, tray: &Arc<Tray>) -> Self {
        Self { ticket: Some(ticket), tray: Arc::clone(tray) }
    }

    /// The key to call with.
    pub fn key(&self) -> KeyId {
        self.ticket().key
    }

    /// The provider to call.
    pub fn provider(&self) -> &ProviderId {
        &self.ticket().provider
    }

    /// The model it was given for.
    pub fn model(&self) -> &ModelId {
        &self.ticket().model
    }

    /// Whether the key is only coming back, so that this call is its test.
    pub(crate) fn is_trial(&self) -> bool {
        self.ticket().key_mark.permit
    }

    /// Whether the key is kept for this request alone while it climbs the ladder.
    pub(crate) fn is_climbing(&self) -> bool {
        self.ticket().climbing.is_some()
    }

    pub(super) fn ticket(&self) -> &Ticket {
        self.ticket.as_ref().expect("a permit has its ticket until it is taken apart")
    }

    pub(super) fn ticket_mut(&mut self) -> &mut Ticket {
        self.ticket.as_mut().expect("a permit has its ticket until it is taken apart")
    }

    pub(super) fn into_ticket(mut self) -> Ticket {
        self.ticket.take().expect("a permit has its ticket until it is taken apart")
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.tray.put(ticket);
        }
    }
}

/// What the pool must know of an attempt to settle it.
#[derive(Debug)]
pub(super) struct Ticket {
    pub(super) provider: ProviderId,
    pub(super) key: KeyId,
    /// Where the key stood when it was picked; only a hint.
    pub(super) slot: usize,
    pub(super) model: ModelId,
    /// The request it belongs to.
    pub(super) request: u64,
    pub(super) began: Timestamp,
    pub(super) key_mark: Mark,
    pub(super) account_mark: Option<Mark>,
    /// Of the key's use of the model.
    pub(super) use_mark: Mark,
    pub(super) model_probe: bool,
    pub(super) provider_probe: bool,
    /// Set while it climbs the last key's ladder: what the key rests for when the climb ends without success.
    pub(super) climbing: Option<Box<(Verdict, Option<u16>)>>,
}

/// Tickets that came back without a word.
#[derive(Debug, Default)]
pub(super) struct Tray {
    any: AtomicBool,
    tickets: Mutex<Vec<Ticket>>,
}

impl Tray {
    fn put(&self, ticket: Ticket) {
        self.tickets.lock().unwrap_or_else(PoisonError::into_inner).push(ticket);
        self.any.store(true, Ordering::Release);
    }

    pub(super) fn empty(&self) -> Vec<Ticket> {
        if !self.any.swap(false, Ordering::Acquire) {
            return Vec::new();
        }
        std::mem::take(&mut *self.tickets.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
