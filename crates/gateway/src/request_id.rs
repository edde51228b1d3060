//! Ids of requests: unique over restarts, cheap, and good as seeds.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
};

/// Gives ids out.
#[derive(Debug)]
pub(crate) struct Ids {
    process: u64,
    next: AtomicU64,
}

/// The id of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestId {
    process: u64,
    number: u64,
}

impl Ids {
    pub(crate) fn new(seed: u64) -> Self {
        Self { process: seed, next: AtomicU64::new(0) }
    }

    pub(crate) fn next(&self) -> RequestId {
        RequestId { process: self.process, number: self.next.fetch_add(1, Ordering::Relaxed) }
    }
}

impl RequestId {
    /// A number that looks random, the same for the same id.
    pub(crate) fn seed(self) -> u64 {
        mixed(self.process ^ mixed(self.number))
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "req_{:016x}{:08x}", mixed(self.process), self.number)
    }
}

/// The finalizer of splitmix64.
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
