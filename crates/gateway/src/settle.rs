//! Writes the pool's transitions through to the store.

use std::{sync::Arc, time::Duration};

use backstop_store::Ack;
use backstop_triage::pool::{Change, Notice, Pool};

use crate::shared::Shared;

/// What a piece of work on the pool led to.
pub(crate) struct Settled<T> {
    pub(crate) result: T,
    /// The transitions, queued for the store.
    pub(crate) changes: Vec<Change>,
    /// Resolves when they are written; `None` if there were none.
    pub(crate) ack: Option<Ack>,
}

/// Works on the pool under its lock, and queues the transitions for the store before the lock is let go: two workers
/// that change one key one after the other are written in the same order.
pub(crate) fn work<T>(shared: &Shared, deed: impl FnOnce(&mut Pool) -> T) -> Settled<T> {
    let settled = {
        let mut pool = shared.pool.lock();
        let result = deed(&mut pool);
        let changes: Vec<Change> = std::iter::from_fn(|| pool.poll_change()).collect();
        let ack = queue(shared, &changes);
        Settled { result, changes, ack }
    };
    if !settled.changes.is_empty() {
        shared.alarms.changed(&settled.changes);
        shared.probe_due.notify_one();
    }
    settled.changes.iter().for_each(announce);
    settled
}

fn queue(shared: &Shared, changes: &[Change]) -> Option<Ack> {
    let rows: Vec<(String, String)> = changes
        .iter()
        .filter_map(|change| Some((change.subject.to_string(), serde_json::to_string(&change.state).ok()?)))
        .collect();
    (!rows.is_empty()).then(|| shared.store.save_health(rows))
}

/// Waits for a write, but never longer than an answer may be held up for it.
pub(crate) async fn written(shared: &Arc<Shared>, ack: Option<Ack>) {
    let Some(ack) = ack else { return };
    if tokio::time::timeout(LONGEST_WAIT, ack).await.is_err() {
        shared.meters.store_waits.add(1);
    }
}

fn announce(change: &Change) {
    let subject = &change.subject;
    match change.notice {
        Some(Notice::Disabled) => tracing::warn!(%subject, "a key is out of service"),
        Some(Notice::MassRefusal) => {
            tracing::warn!(%subject, "several keys are refused at once, the provider or the network is at fault");
        }
        Some(Notice::BreakerOpened) => {
            tracing::warn!(%subject, "too many failures, asking it no more for a while")
        }
        Some(Notice::Recovered) => tracing::info!(%subject, "back in service"),
        None => tracing::debug!(%subject, "changed"),
    }
}

const LONGEST_WAIT: Duration = Duration::from_millis(20);
