//! Monotonic time anchored to the wall clock once, at the start: a wall clock that is set moves nothing.

use backstop_triage::Timestamp;
use tokio::time::Instant;

/// The time of this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    wall: Timestamp,
    anchor: Instant,
}

impl Clock {
    /// Anchors to the wall clock as it stands.
    pub(crate) fn start() -> Self {
        Self { wall: Timestamp::now(), anchor: Instant::now() }
    }

    /// What the decisions call `now`.
    pub(crate) fn now(&self) -> Timestamp {
        self.at(Instant::now())
    }

    /// The moment of a timer as a time stamp.
    pub(crate) fn at(&self, instant: Instant) -> Timestamp {
        let elapsed = instant.saturating_duration_since(self.anchor);
        self.wall.saturating_add(elapsed).unwrap_or(Timestamp::MAX)
    }

    /// The moment of a time stamp as a timer; past ones are due at once, far ones sixty days away.
    pub(crate) fn instant(&self, at: Timestamp) -> Instant {
        let ahead = std::time::Duration::try_from(at.duration_since(self.wall)).unwrap_or_default();
        self.anchor + ahead.min(FARTHEST)
    }
}

const FARTHEST: std::time::Duration = std::time::Duration::from_secs(60 * 24 * 3600);
