//! The time of this process: the wall clock once, at the start, and from then on what has really passed.
//!
//! A wall clock that is set moves nothing. A machine that slept was away for as long as it slept: the kernel's time since
//! boot counts that, which timers do not.

use std::time::Duration;

use backstop_triage::Timestamp;
use rustix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

/// The time of this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    wall: Timestamp,
    /// The time since boot when the wall clock was read.
    anchor: Duration,
}

impl Clock {
    /// Anchors to the wall clock as it stands.
    pub(crate) fn start() -> Self {
        Self { wall: Timestamp::now(), anchor: since_boot() }
    }

    /// What the decisions call `now`.
    pub(crate) fn now(&self) -> Timestamp {
        let elapsed = since_boot().saturating_sub(self.anchor);
        self.wall.saturating_add(elapsed).unwrap_or(Timestamp::MAX)
    }

    /// The moment of a timer as a time stamp.
    pub(crate) fn at(&self, instant: Instant) -> Timestamp {
        let (now, timer) = (self.now(), Instant::now());
        let moved = match timer.checked_duration_since(instant) {
            Some(ago) => now.saturating_sub(ago),
            None => now.saturating_add(instant - timer),
        };
        moved.unwrap_or(now)
    }

    /// The moment of a time stamp as a timer; past ones are due at once, far ones sixty days away.
    pub(crate) fn instant(&self, at: Timestamp) -> Instant {
        let ahead = Duration::try_from(at.duration_since(self.now())).unwrap_or_default();
        Instant::now() + ahead.min(FARTHEST)
    }
}

fn since_boot() -> Duration {
    Duration::try_from(clock_gettime(SINCE_BOOT)).unwrap_or_default()
}

/// Goes on while the machine sleeps.
#[cfg(target_os = "linux")]
const SINCE_BOOT: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const SINCE_BOOT: ClockId = ClockId::Monotonic;
const FARTHEST: Duration = Duration::from_secs(60 * 24 * 3600);

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock of a process that began at noon, and how long the machine has slept since; timers know nothing of it.
    fn after_sleep() -> (Clock, Duration) {
        let wall = "2026-11-30T12:00:00Z".parse().unwrap();
        let slept = since_boot() / 2;
        (Clock { wall, anchor: since_boot() - slept }, slept)
    }

    #[test]
    fn the_time_that_a_machine_sleeps_passes() {
        let (clock, slept) = after_sleep();
        let passed = clock.now().duration_since(clock.wall);
        assert!(passed >= slept.try_into().unwrap(), "{passed:?}");
        let rest_ends = clock.wall.saturating_add(slept).unwrap();
        assert!(clock.instant(rest_ends) <= Instant::now(), "a rest that long is over");
    }

    #[test]
    fn time_stamps_and_timers_lead_to_each_other() {
        let (clock, _) = after_sleep();
        let (span, slack) = (Duration::from_secs(600), Duration::from_secs(60));
        let later = Instant::now() + span;
        let back = clock.instant(clock.at(later));
        assert!(back.max(later) - back.min(later) < slack);
        let now = Instant::now();
        // A machine that has just started has no earlier moment than that.
        let earlier = now.checked_sub(span).unwrap_or(now);
        let ago = clock.now().duration_since(clock.at(earlier));
        let off = ago - (now - earlier).try_into().unwrap();
        assert!(off.unsigned_abs() < slack, "{off:?}");
        assert!(clock.instant(clock.at(earlier)) <= Instant::now(), "what is past is due at once");
    }
}
