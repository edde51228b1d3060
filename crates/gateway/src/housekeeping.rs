//! What is done off the path of requests, by one task: idle connections, probes, tests of keys.

use std::{sync::Arc, time::Duration};

use backstop_triage::pool::Probe;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::{probe, settle, shared::Shared};

/// Keeps house until the process ends.
pub(crate) async fn keep(shared: Arc<Shared>) {
    // In safe mode nobody is called, by us neither.
    if shared.boot.safe_for(shared.clock.now()).is_none() {
        warm(&shared);
    }
    let mut sweep = interval_at(Instant::now() + SWEEP_EVERY, SWEEP_EVERY);
    sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let due = shared.pool.lock().next_probe_at();
        let by = due.map_or_else(|| Instant::now() + SWEEP_EVERY, |at| shared.clock.instant(at));
        let safe_for = shared.boot.safe_for(shared.clock.now());
        let by = safe_for.map_or(by, |left| by.max(Instant::now() + left));
        tokio::select! {
            _ = sweep.tick() => shared.plan.load().outlets().for_each(|outlet| outlet.upstream.sweep()),
            () = tokio::time::sleep_until(by.max(Instant::now() + LEAST_PAUSE)) => {}
            () = shared.probe_due.notified() => {}
        }
        for probe in due_probes(&shared) {
            tokio::spawn(probe::make(Arc::clone(&shared), probe));
        }
    }
}

fn due_probes(shared: &Arc<Shared>) -> Vec<Probe> {
    let now = shared.clock.now();
    if shared.boot.safe_for(now).is_some() {
        return Vec::new();
    }
    settle::work(shared, |pool| std::iter::from_fn(|| pool.poll_probe(now)).take(MOST_AT_ONCE).collect())
        .result
}

/// Opens one encrypted connection to each provider, so that the first request finds it.
fn warm(shared: &Arc<Shared>) {
    for outlet in shared.plan.load().outlets().filter(|outlet| outlet.config.base_url.tls) {
        let upstream = Arc::clone(&outlet.upstream);
        let provider = outlet.config.id.clone();
        tokio::spawn(async move {
            if let Err(broken) = upstream.warm().await {
                tracing::warn!(%provider, detail = broken.detail, "cannot be reached");
            }
        });
    }
}

const SWEEP_EVERY: Duration = Duration::from_secs(5);
const LEAST_PAUSE: Duration = Duration::from_millis(50);
const MOST_AT_ONCE: usize = 16;
