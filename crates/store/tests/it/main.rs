//! The store through its public face, on real files.

mod canary;
mod disk;
mod durability;
mod history;
mod keys;
mod newest_wins;
mod people;

use std::{
    sync::mpsc,
    time::{Duration, Instant},
};

use backstop_store::{
    Store,
    requests::{AttemptFailure, AttemptRow, Outcome, RequestRow, Tokens},
};
use backstop_triage::{Class, KeyId, Scope, Timestamp};

fn open(folder: &tempfile::TempDir) -> Store {
    Store::open(folder.path()).expect("the store opens")
}

/// Waits until something holds; fails after a while that is long for any machine.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let (_sender, pause) = mpsc::channel::<()>();
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_secs(60), "never came: {what}");
        let _elapsed = pause.recv_timeout(Duration::from_millis(5));
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).expect("in range")
}

fn request(id: &str, second: i64) -> RequestRow {
    RequestRow {
        id: id.into(),
        at: at(second),
        client_id: Some(1),
        client: Some("laptop".into()),
        operation: "generate".into(),
        dialect: "openai-chat".into(),
        provider: "alpha".into(),
        model: Some("large-1".into()),
        served_provider: Some("alpha".into()),
        served_model: Some("large-1".into()),
        stream: true,
        fallback: false,
        outcome: Outcome::Succeeded,
        status: 200,
        class: None,
        duration_ms: 1200,
        first_content_ms: Some(300),
        tokens: Tokens { input: Some(10), output: Some(20), cache_read: None, cache_write: None },
        cost_micros: Some(7),
        cost_reported: false,
        attempts: vec![attempt(1, Some("too many requests")), attempt(2, None)],
        bodies: None,
    }
}

fn attempt(key: u64, failure: Option<&str>) -> AttemptRow {
    AttemptRow {
        after_ms: 3,
        provider: "alpha".into(),
        model: "large-1".into(),
        key: KeyId(key),
        key_label: format!("key {key}"),
        status: Some(if failure.is_some() { 429 } else { 200 }),
        failure: failure.map(|message| AttemptFailure {
            class: Class::RateLimit,
            scope: Scope::Key,
            reason: "requests_per_minute".into(),
            basis: "generic/429".into(),
            matched: "too many".into(),
            message: message.into(),
        }),
        waited_ms: 0,
        took_ms: 100,
        upstream_id: Some("up-1".into()),
    }
}
