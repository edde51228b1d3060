//! What an answer cost, as the provider itself counts.

use serde::{Deserialize, Serialize};

/// The tokens of one call, in the same sense for every dialect. What the provider does not say is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the prompt, those read from and written to a cache included.
    pub input: Option<u64>,
    /// Tokens of the answer, reasoning included.
    pub output: Option<u64>,
    /// Tokens of the prompt that came from a cache.
    pub cache_read: Option<u64>,
    /// Tokens of the prompt that were written to a cache.
    pub cache_creation: Option<u64>,
    /// Tokens of the answer that were reasoning.
    pub reasoning: Option<u64>,
    /// The price in dollars, where the provider tells it.
    pub cost: Option<f64>,
}

impl Usage {
    /// Joins a later count: streams count upwards, so the larger number is the newer one.
    pub fn join(&mut self, later: Self) {
        self.input = self.input.max(later.input);
        self.output = self.output.max(later.output);
        self.cache_read = self.cache_read.max(later.cache_read);
        self.cache_creation = self.cache_creation.max(later.cache_creation);
        self.reasoning = self.reasoning.max(later.reasoning);
        self.cost = match (self.cost, later.cost) {
            (Some(cost), Some(other)) => Some(cost.max(other)),
            (cost, other) => cost.or(other),
        };
    }

    /// Tells whether the provider counted anything at all.
    pub fn is_known(&self) -> bool {
        *self != Self::default()
    }
}
