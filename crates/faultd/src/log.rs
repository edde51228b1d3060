//! What happened: one entry a call, and counts.

use std::time::Duration;

use bytes::Bytes;

use crate::shape::{Operation, Shape};

/// One request that reached the provider.
#[derive(Clone, Debug)]
pub struct Call {
    /// Its number, from 1, since the start or the last change of script.
    pub number: u64,
    /// The connection it came on, from 1.
    pub connection: u64,
    /// The credential, from whichever header or query parameter carried it.
    pub key: Option<String>,
    /// The model, from the body or the path.
    pub model: Option<String>,
    /// The method.
    pub method: String,
    /// Path and query as they came.
    pub path: String,
    /// The shape that the path belongs to.
    pub shape: Shape,
    /// What the path asks for.
    pub operation: Operation,
    /// Whether a stream was asked for.
    pub streaming: bool,
    /// The headers in order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body as it came, without its framing.
    pub body: Bytes,
    /// [`hash`] of the body.
    pub body_hash: u64,
    /// When the request was complete, since the provider started.
    pub at: Duration,
    /// The status of the reply; 0 for one that has none.
    pub status: u16,
    /// The rule that replied, counted from 0 in the order of the script.
    pub rule: Option<usize>,
    /// How it ended.
    pub ended: Ended,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It has not.
    Open,
    /// The reply went out as scripted, to its end.
    Complete,
    /// The reply broke off as scripted.
    Cut,
    /// The client left before the end.
    ClientGone {
        /// When that was seen, since the provider started.
        at: Duration,
    },
}

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Connections accepted.
    pub connections: u64,
    /// Requests read to their end.
    pub calls: u64,
    /// Calls without an end so far.
    pub open: u64,
    /// Calls whose client left before the end.
    pub client_gone: u64,
    /// Connections whose bytes were no request.
    pub malformed: u64,
}

impl Call {
    /// The first header of this name, given in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// The hash by which bodies are compared (FNV-1a, 64 bits).
#[must_use]
pub fn hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
