//! The budget for repeats: what keeps a bad hour upstream from becoming a worse one.
//!
//! One bucket for the process. Every request adds a little and time adds a little; asking the same key again
//! and repeating after a provider-wide fault cost one each. Moving to another key is free.

use crate::{Timestamp, ladder::until};

/// The bucket.
#[derive(Clone, Debug)]
pub(super) struct RetryBudget {
    tokens: f64,
    filled_at: Option<Timestamp>,
}

impl RetryBudget {
    pub(super) fn full() -> Self {
        Self { tokens: CAPACITY, filled_at: None }
    }

    /// Earns a request's share.
    pub(super) fn earn(&mut self) {
        self.tokens = (self.tokens + PER_REQUEST).min(CAPACITY);
    }

    /// Pays for one repeat, if there is enough.
    pub(super) fn pay(&mut self, now: Timestamp) -> bool {
        if let Some(filled_at) = self.filled_at {
            self.tokens = until(filled_at, now).as_secs_f64().mul_add(PER_SECOND, self.tokens).min(CAPACITY);
        }
        self.filled_at = Some(self.filled_at.map_or(now, |filled_at| filled_at.max(now)));
        let pays = self.tokens >= 1.0;
        if pays {
            self.tokens -= 1.0;
        }
        pays
    }
}

const CAPACITY: f64 = 100.0;
const PER_REQUEST: f64 = 0.2;
const PER_SECOND: f64 = 10.0;
