//! What clients let through about themselves: their patience, their retries, their session.

use std::time::Duration;

use http::HeaderMap;

use crate::Head;

/// What a client's headers say about this call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientHints {
    /// How long the client waits before it gives up.
    pub patience: Option<Duration>,
    /// How often the client has already repeated this call.
    pub retries: u32,
}

impl ClientHints {
    /// Reads the hints of a request's headers; of several time limits the shortest counts.
    pub fn read(headers: &HeaderMap) -> Self {
        let seconds = ["x-stainless-read-timeout", "x-stainless-timeout"]
            .into_iter()
            .filter_map(|name| duration(headers, name, 1.0));
        let milliseconds = duration(headers, "x-request-timeout-ms", 1e-3);
        let retries = text(headers, "x-stainless-retry-count").and_then(|count| count.parse().ok());
        Self { patience: seconds.chain(milliseconds).min(), retries: retries.unwrap_or(0) }
    }
}

/// The session that a call belongs to, as a number that is the same on every run; for keys that stick to
/// sessions because prompt caches belong to keys.
pub fn session(headers: &HeaderMap, head: &Head<'_>) -> Option<u64> {
    let by_header = SESSION_HEADERS.iter().find_map(|name| text(headers, name));
    let id = by_header.or(head.prompt_cache_key.as_deref()).or(head.user_id.as_deref())?;
    Some(fnv1a(id.as_bytes()))
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let value = headers.get(name)?.to_str().ok()?.trim();
    (!value.is_empty()).then_some(value)
}

fn duration(headers: &HeaderMap, name: &str, unit: f64) -> Option<Duration> {
    let number: f64 = text(headers, name)?.parse().ok()?;
    let seconds = number * unit;
    (seconds > 0.0).then(|| Duration::try_from_secs_f64(seconds).ok()).flatten()
}

fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The headers in which agents name their session, the surest first.
const SESSION_HEADERS: [&str; 7] = [
    "x-claude-code-session-id",
    "session_id",
    "session-id",
    "thread-id",
    "conversation_id",
    "x-session-affinity",
    "x-session-id",
];
