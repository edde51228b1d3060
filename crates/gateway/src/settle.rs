//! Writes the pool's transitions through to the store.

use std::{sync::Arc, time::Duration};

use backstop_store::Ack;
use backstop_triage::pool::{Change, Notice, Pool};

use crate::shared::Shared;

/// Takes the transitions that have not been written yet. To be called with the pool's lock held.
pub(crate) fn transitions(pool: &mut Pool) -> Vec<Change> {
    std::iter::from_fn(|| pool.poll_change()).collect()
}

/// Queues transitions for the store. The result resolves when they are written.
pub(crate) fn save(shared: &Shared, changes: &[Change]) -> Option<Ack> {
    if !changes.is_empty() {
        shared.probe_due.notify_one();
    }
    for change in changes {
        announce(change);
    }
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
