//! Starts and ends of the process, and safe mode.
//!
//! A process that is killed again and again while it calls providers in vain would storm them with every start. Three
//! such ends in a row within a minute start it in safe mode: dashboard and probes answer, the data plane says 503 and
//! calls nobody, for a minute that doubles to a quarter of an hour with each further such end.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use backstop_store::{
    Store,
    boots::{BootRow, Progress},
};
use backstop_triage::Timestamp;

/// This run of the process.
#[derive(Debug)]
pub(crate) struct Boot {
    id: Option<u64>,
    traffic: AtomicBool,
    success: AtomicBool,
    safe_until: Option<Timestamp>,
}

impl Boot {
    /// Notes that a run begins, and looks how the last ones ended.
    pub(crate) fn begin(store: &Store, now: Timestamp) -> Self {
        let safe = store.boots().ok().and_then(|boots| safe_mode(&boots, now));
        if let Some(safe) = safe {
            tracing::error!(
                seconds = safe.as_secs(),
                "killed several times while calling providers in vain: safe mode, no upstream traffic for a while"
            );
        }
        // A store that cannot write does not keep traffic back.
        let id = store.begin_boot(now).wait().ok();
        let safe_until = safe.and_then(|safe| now.saturating_add(safe).ok());
        Self { id, traffic: AtomicBool::new(false), success: AtomicBool::new(false), safe_until }
    }

    /// How long safe mode lasts yet.
    pub(crate) fn safe_for(&self, now: Timestamp) -> Option<Duration> {
        let left = self.safe_until?.duration_since(now);
        Duration::try_from(left).ok().filter(|left| !left.is_zero())
    }

    /// A provider is being called.
    pub(crate) fn traffic(&self, store: &Store) {
        self.progress(&self.traffic, Progress::Traffic, store);
    }

    /// A call went well.
    pub(crate) fn success(&self, store: &Store) {
        self.progress(&self.success, Progress::Success, store);
    }

    /// Notes that the run ends in order.
    pub(crate) fn end(&self, store: &Store, now: Timestamp) {
        if let Some(id) = self.id {
            drop(store.end_boot(id, now));
        }
    }

    fn progress(&self, seen: &AtomicBool, progress: Progress, store: &Store) {
        if seen.load(Ordering::Relaxed) || seen.swap(true, Ordering::Relaxed) {
            return;
        }
        if let Some(id) = self.id {
            // Nobody waits for it: it is written as soon as the store comes to it.
            drop(store.boot_progress(id, progress));
        }
    }
}

/// How long safe mode lasts after these runs, newest first.
fn safe_mode(boots: &[BootRow], now: Timestamp) -> Option<Duration> {
    let mut ended_after = now;
    let in_vain = |boot: &&BootRow| {
        let age = ended_after.duration_since(boot.began_at);
        ended_after = boot.began_at;
        !boot.clean && boot.traffic && !boot.success && age.as_secs() <= LONGEST_LIFE
    };
    let streak = boots.iter().take_while(in_vain).count();
    let doublings = u32::try_from(streak.checked_sub(ENDS)?).unwrap_or(u32::MAX).min(4);
    Some((FIRST * 2_u32.pow(doublings)).min(LONGEST))
}

const ENDS: usize = 3;
/// Seconds that a run may have lasted to count among ends in quick succession.
const LONGEST_LIFE: i64 = 60;
const FIRST: Duration = Duration::from_secs(60);
const LONGEST: Duration = Duration::from_secs(15 * 60);

#[cfg(test)]
mod tests {
    use super::*;

    fn boots(ages: &[i64], success: bool) -> Option<Duration> {
        let now: Timestamp = "2026-11-30T12:00:00Z".parse().unwrap();
        let boot = |age: &i64| BootRow {
            id: 1,
            began_at: Timestamp::from_second(now.as_second() - age).unwrap(),
            ended_at: None,
            clean: false,
            traffic: true,
            success,
        };
        safe_mode(&ages.iter().map(boot).collect::<Vec<_>>(), now)
    }

    #[test]
    fn three_ends_in_vain_within_a_minute_start_safe_mode() {
        assert_eq!(boots(&[5, 10], false), None);
        assert_eq!(boots(&[5, 10, 15], false), Some(Duration::from_secs(60)));
        assert_eq!(boots(&[5, 10, 15, 20, 25], false), Some(Duration::from_secs(240)));
        assert_eq!(boots(&[5, 10, 300], false), None, "the third lived long");
        assert_eq!(boots(&[5, 10, 15], true), None, "they had success");
    }
}
