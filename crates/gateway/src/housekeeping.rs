//! What is done off the path of requests, by one task: idle connections, probes, tests of keys.

use std::{collections::HashSet, sync::Arc, time::Duration};

use backstop_triage::{KeyId, pool::Probe};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::{probe, settle, shared::Shared};

/// Keeps house until the process ends.
pub(crate) async fn keep(shared: Arc<Shared>) {
    // In safe mode nobody is called, by us neither.
    if shared.boot.safe_for(shared.clock.now()).is_none() {
        warm(&shared);
    }
    let mut rests = Rests::default();
    let mut sweep = interval_at(Instant::now() + SWEEP_EVERY, SWEEP_EVERY);
    sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let due = shared.pool.lock().next_probe_at();
        let by = due.map_or_else(|| Instant::now() + SWEEP_EVERY, |at| shared.clock.instant(at));
        let safe_for = shared.boot.safe_for(shared.clock.now());
        let by = safe_for.map_or(by, |left| by.max(Instant::now() + left));
        tokio::select! {
            _ = sweep.tick() => {
                shared.plan.load().outlets().for_each(|outlet| outlet.upstream.sweep());
                rests.note(&shared);
            }
            () = tokio::time::sleep_until(by.max(Instant::now() + LEAST_PAUSE)) => {}
            () = shared.probe_due.notified() => {}
        }
        for probe in due_probes(&shared) {
            tokio::spawn(probe::make(Arc::clone(&shared), probe));
        }
    }
}

/// Which keys are known to have rested in the present half hour.
#[derive(Default)]
struct Rests {
    half_hour: i64,
    noted: HashSet<KeyId>,
}

impl Rests {
    fn note(&mut self, shared: &Shared) {
        let now = shared.clock.now();
        let half_hour = now.as_second() / HALF_HOUR;
        if half_hour != self.half_hour {
            *self = Self { half_hour, noted: HashSet::new() };
        }
        let resting: Vec<KeyId> = shared.pool.lock().resting(now).collect();
        let fresh: Vec<KeyId> = resting.into_iter().filter(|key| self.noted.insert(*key)).collect();
        if !fresh.is_empty() {
            shared.store.note_resting(&fresh, now);
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
const HALF_HOUR: i64 = 1800;
const LEAST_PAUSE: Duration = Duration::from_millis(50);
const MOST_AT_ONCE: usize = 16;
