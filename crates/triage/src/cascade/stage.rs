//! A leg of a request and what has happened on it.

use crate::{
    KeyId, Timestamp,
    cascade::Leg,
    pool::{Fault, Why},
};

/// A leg and what has happened on it.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) leg: Leg,
    /// Keys that were left behind.
    pub(super) spent: Vec<KeyId>,
    /// Models that are no use with any key.
    pub(super) dead_models: Vec<usize>,
    /// Routes that were tried: key and position of the model.
    pub(super) tried: Vec<(KeyId, usize)>,
    pub(super) overload_retries: u32,
    /// Whether the one further key after an overload has been granted.
    pub(super) overload_key: bool,
    pub(super) provider_faults: u32,
    /// Failures that are the key's own fault if a sibling answers.
    pub(super) faults: Vec<Fault>,
    pub(super) ladder_step: usize,
    /// Set while the last failure was the provider's.
    pub(super) leaving_over: Option<Why>,
    /// Whether it must not be visited again.
    pub(super) over: bool,
    /// Whether it was skipped because every model's breaker is open.
    pub(super) all_open: bool,
    pub(super) patient_until: Option<Timestamp>,
}

impl Stage {
    pub(super) fn new(leg: Leg) -> Self {
        let over = leg.context_too_small || leg.models.is_empty();
        Self {
            leg,
            spent: Vec::new(),
            dead_models: Vec::new(),
            tried: Vec::new(),
            overload_retries: 0,
            overload_key: false,
            provider_faults: 0,
            faults: Vec::new(),
            ladder_step: 0,
            leaving_over: None,
            over,
            all_open: false,
            patient_until: None,
        }
    }

    pub(super) fn keys_tried(&self) -> usize {
        let mut keys: Vec<KeyId> = self.tried.iter().map(|(key, _)| *key).collect();
        keys.sort_unstable();
        keys.dedup();
        keys.len()
    }
}
