//! Answers to requests that carry an `Idempotency-Key`, so that asking again does nothing again.
//!
//! ```text
//!            begin                       finish
//!   nothing ───────> under way ──────────────────> answered ── a day, or too much to keep ──> nothing
//!                        └──── the answer is our own fault, or a stream ────> nothing
//! ```
//!
//! They are kept in memory only: some carry a client key, which is stored nowhere in the clear.

use std::collections::{HashMap, VecDeque};

use backstop_triage::Timestamp;
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;

/// The answers that are kept.
#[derive(Default)]
pub(crate) struct Replays(Mutex<Kept>);

/// Who asked, under which key.
pub(crate) type Name = [u8; 32];
/// What was asked.
pub(crate) type Fingerprint = [u8; 32];

/// An answer, whole.
#[derive(Clone, Debug)]
pub(crate) struct Saved {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// What is known of a request when it comes.
pub(crate) enum Known {
    /// Nothing; whoever is told this has to finish it.
    Nothing,
    /// It is being carried out.
    UnderWay,
    /// Its key was used for another request.
    Different,
    /// It was answered.
    Answered(Saved),
}

#[derive(Default)]
struct Kept {
    entries: HashMap<Name, Entry>,
    /// The names in order of their coming.
    order: VecDeque<Name>,
    bytes: usize,
}

struct Entry {
    began: Timestamp,
    fingerprint: Fingerprint,
    answer: Option<Saved>,
}

impl Replays {
    /// Looks whether a request is known, and takes it in if not.
    pub(crate) fn begin(&self, name: Name, fingerprint: Fingerprint, now: Timestamp) -> Known {
        let mut kept = self.0.lock();
        kept.forget_old(now);
        match kept.entries.get(&name) {
            Some(entry) if entry.fingerprint != fingerprint => Known::Different,
            Some(Entry { answer: Some(answer), .. }) => Known::Answered(answer.clone()),
            Some(_) => Known::UnderWay,
            None => {
                kept.entries.insert(name, Entry { began: now, fingerprint, answer: None });
                kept.order.push_back(name);
                Known::Nothing
            }
        }
    }

    /// Keeps the answer to a request; without one, the request may be repeated.
    pub(crate) fn finish(&self, name: &Name, answer: Option<Saved>) {
        let mut kept = self.0.lock();
        match answer.filter(|answer| answer.body.len() <= LONGEST) {
            Some(answer) => {
                let added = answer.body.len();
                if let Some(entry) = kept.entries.get_mut(name) {
                    entry.answer = Some(answer);
                    kept.bytes += added;
                }
            }
            None => {
                kept.entries.remove(name);
                kept.order.retain(|known| known != name);
            }
        }
    }
}

impl Kept {
    fn forget_old(&mut self, now: Timestamp) {
        while let Some(name) = self.order.front() {
            let entry = self.entries.get(name);
            let is_old = entry.is_none_or(|entry| now.duration_since(entry.began) > LIFE);
            if !is_old && self.bytes <= MOST_BYTES && self.order.len() < MOST {
                return;
            }
            let name = *name;
            self.order.pop_front();
            let answer = self.entries.remove(&name).and_then(|entry| entry.answer);
            self.bytes -= answer.map_or(0, |answer| answer.body.len());
        }
    }
}

const LIFE: jiff::SignedDuration = jiff::SignedDuration::from_hours(24);
const MOST: usize = 1000;
const MOST_BYTES: usize = 32 << 20;
/// The longest answer that is kept: ten thousand keys, item by item.
const LONGEST: usize = 4 << 20;
