//! What the headers of answers tell of a key's usage windows, handed to the pool.
//!
//! Every failure's headers are read, before the failure is judged: they say when the key's full window opens. Of the
//! good answers one a second for each key is enough to show people how full its windows are; after a failure the next
//! good answer is read at once, since it may end a rest. What an answer tells is as old as its request: one that was
//! sent before a rest began does not end it.

use std::sync::atomic::{AtomicI64, Ordering};

use backstop_triage::Timestamp;
use http::response;

use crate::{
    config::AuthMode,
    drive::{Journey, Route},
    settle,
};

/// When the windows of a key are read from a good answer again.
#[derive(Debug, Default)]
pub(crate) struct Windows {
    /// Milliseconds of the epoch.
    next: AtomicI64,
}

impl Windows {
    /// Whether an answer is worth reading; told once for each time that it is.
    fn is_due(&self, is_good: bool, now: Timestamp) -> bool {
        let now = now.as_millisecond();
        if !is_good {
            self.next.store(now, Ordering::Relaxed);
            return true;
        }
        let next = self.next.load(Ordering::Relaxed);
        let claim = || self.next.compare_exchange(next, now + EVERY_MS, Ordering::Relaxed, Ordering::Relaxed);
        now >= next && claim().is_ok()
    }
}

impl Journey {
    /// Reads what an answer says of the windows of the key that it was got with.
    pub(crate) fn read_windows(&mut self, head: &response::Parts) {
        let now = self.shared.clock.now();
        let is_due = |route: &&Route| {
            route.outlet.config.auth == AuthMode::Managed
                && route.held.windows.is_due(head.status.is_success(), now)
        };
        let Some(Route { outlet, key, model, .. }) = self.route.as_ref().filter(is_due).cloned() else {
            return;
        };
        let catalog = self.shared.catalog.load_full();
        let header = |name: &str| head.headers.get(name)?.to_str().ok();
        let Some(mut snapshot) = catalog.quota_headers(&outlet.config.rules).read(header, &model, now) else {
            return;
        };
        snapshot.taken_at = self.trail().last().map_or(now, |tried| tried.began);
        let settled =
            settle::work(&self.shared, |pool| pool.record_quota(&outlet.config.id, key, &snapshot, now));
        if settled.changes.iter().any(|change| change.notice.is_some()) {
            self.shared.pool_changed.notify_waiters();
            self.await_write(settled.ack);
        }
    }
}

const EVERY_MS: i64 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_good_answer_is_read_once_a_second_and_at_once_after_a_failure() {
        let windows = Windows::default();
        let at = |ms: i64| Timestamp::from_millisecond(1_800_000_000_000 + ms).unwrap();
        assert!(windows.is_due(true, at(0)));
        assert!(!windows.is_due(true, at(999)));
        assert!(windows.is_due(true, at(1000)));
        assert!(windows.is_due(false, at(1001)), "failures always");
        assert!(windows.is_due(true, at(1001)));
        assert!(!windows.is_due(true, at(1002)));
    }
}
