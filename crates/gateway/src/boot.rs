//! Starts and ends of the process, and safe mode.
//!
//! A process that is killed again and again while it calls providers in vain would storm them with every start. Three
//! such ends in a row within a minute start it in safe mode: dashboard and probes answer, the data plane says 503 and
//! calls nobody, for a minute that doubles to a quarter of an hour with each further such end. How long a run called in
//! vain is counted from the end of its safe mode; one that is killed during it has the rest still before it.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use backstop_store::{
    Store,
    boots::{BootRow, Progress},
};
use backstop_triage::{SignedDuration, Timestamp};

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
        let id = store.begin_boot(now, safe.unwrap_or_default()).wait().ok();
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
    let newest = boots.first()?;
    // Killed while it called nobody: what it had before it is still to come.
    let left = Duration::try_from(safe_end(newest).duration_since(now)).unwrap_or_default();
    if !newest.clean && !newest.traffic && !left.is_zero() {
        return Some(left.min(LONGEST));
    }
    let mut ended = now;
    let mut streak: u32 = 0;
    for boot in boots {
        let life = ended.duration_since(safe_end(boot));
        let ended_safe = !boot.clean && !boot.traffic && life.is_negative();
        let in_vain = !boot.clean && boot.traffic && !boot.success && life <= LONGEST_LIFE;
        ended = boot.began_at;
        match (ended_safe, in_vain) {
            (true, _) => {}
            (false, true) => streak += 1,
            (false, false) => break,
        }
    }
    let doublings = streak.checked_sub(ENDS)?.min(MOST_DOUBLINGS);
    Some((FIRST * 2_u32.pow(doublings)).min(LONGEST))
}

/// When a run could begin to call anybody.
fn safe_end(boot: &BootRow) -> Timestamp {
    boot.began_at.saturating_add(boot.safe_for).unwrap_or(Timestamp::MAX)
}

const ENDS: u32 = 3;
/// How long a run may have called in vain to count among ends in quick succession.
const LONGEST_LIFE: SignedDuration = SignedDuration::from_secs(60);
const FIRST: Duration = Duration::from_secs(60);
const LONGEST: Duration = Duration::from_secs(15 * 60);
const MOST_DOUBLINGS: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-11-30T12:00:00Z".parse().unwrap()
    }

    /// A run that began so many seconds ago, was in safe mode for so long, and called in vain.
    fn vain(age: i64, safe_for: u64) -> BootRow {
        BootRow {
            id: 1,
            began_at: Timestamp::from_second(now().as_second() - age).unwrap(),
            safe_for: Duration::from_secs(safe_for),
            ended_at: None,
            clean: false,
            traffic: true,
            success: false,
        }
    }

    fn after(boots: &[BootRow]) -> Option<u64> {
        safe_mode(boots, now()).map(|safe| safe.as_secs())
    }

    #[test]
    fn three_ends_in_vain_within_a_minute_start_safe_mode() {
        assert_eq!(after(&[vain(5, 0), vain(10, 0)]), None);
        assert_eq!(after(&[vain(5, 0), vain(10, 0), vain(15, 0)]), Some(60));
        assert_eq!(after(&[vain(5, 0), vain(10, 0), vain(300, 0)]), None, "the third lived long");
        let successful = BootRow { success: true, ..vain(10, 0) };
        assert_eq!(after(&[vain(5, 0), successful, vain(15, 0), vain(20, 0)]), None, "one had success");
    }

    #[test]
    fn every_further_end_in_vain_doubles_it_however_long_the_safe_mode_before_it_was() {
        let before = [vain(5000, 0), vain(5010, 0), vain(5020, 0)];
        let fourth = [[vain(4995, 60)].as_slice(), &before].concat();
        assert_eq!(after(&fourth), None, "it called in vain for more than an hour");
        // It began 65 s ago, was safe for 60 s, and called in vain for 5 s.
        let first = [vain(65, 60), vain(70, 0), vain(75, 0), vain(80, 0)];
        assert_eq!(after(&first), Some(120));
        let second = [vain(125, 120), vain(190, 60), vain(195, 0), vain(200, 0), vain(205, 0)];
        assert_eq!(after(&second), Some(240));
        let many: Vec<BootRow> = (1..20).map(|number| vain(number * 905, 900)).collect();
        assert_eq!(after(&many), Some(900));
    }

    #[test]
    fn who_is_killed_in_safe_mode_stays_in_it() {
        let quiet = |age, safe_for| BootRow { traffic: false, ..vain(age, safe_for) };
        let before = [vain(50, 0), vain(55, 0), vain(60, 0)];
        let killed = [[quiet(40, 60)].as_slice(), &before].concat();
        assert_eq!(after(&killed), Some(20), "the rest of it");
        let again = [[vain(25, 20), quiet(45, 60)].as_slice(), &before].concat();
        assert_eq!(after(&again), Some(120), "and then the next end in vain counts on");
        let restarted = [[BootRow { clean: true, ..quiet(40, 60) }].as_slice(), &before].concat();
        assert_eq!(after(&restarted), None, "a person has stopped it");
    }

    #[test]
    fn ends_in_safe_mode_however_many_are_no_new_beginning() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let begin = |millis: i64| {
            let at = Timestamp::from_millisecond(now().as_millisecond() + millis).unwrap();
            let boot = Boot::begin(&store, at);
            (boot.id.unwrap(), boot.safe_for(at).map(|safe| safe.as_secs()))
        };
        let in_vain = |id| store.boot_progress(id, Progress::Traffic).wait().unwrap();
        for second in 0..3 {
            in_vain(begin(second * 1000).0);
        }
        assert_eq!(begin(3000).1, Some(60));
        for number in 1..300 {
            assert!(begin(3000 + number * 100).1.is_some(), "{number}");
        }
        in_vain(begin(62_000).0);
        assert_eq!(begin(65_000).1, Some(120), "the fourth in vain");
    }
}
