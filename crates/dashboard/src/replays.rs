//! Answers to requests that carry an `Idempotency-Key`, so that asking again does nothing again.
//!
//! ```text
//!            begin                       finish
//!   nothing ───────> under way ──────────────────> answered ── a day, or too much to keep ──> nothing
//!                        └──── the answer is our own fault, or a stream; a panic ────> nothing
//! ```
//!
//! They are kept in memory only: some carry a client key, which is stored nowhere in the clear.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use backstop_triage::Timestamp;
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;

/// The answers that are kept. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Replays(Arc<Mutex<Kept>>);

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
    /// Nothing; whoever is told this carries it out.
    Nothing(UnderWay),
    /// It is being carried out.
    UnderWay,
    /// Its key was used for another request.
    Different,
    /// It was answered.
    Answered(Saved),
}

/// A request that is being carried out. Dropped without an answer, also by a panic, it may be repeated.
pub(crate) struct UnderWay {
    replays: Replays,
    name: Name,
}

#[derive(Default)]
struct Kept {
    entries: HashMap<Name, Entry>,
    /// The names of those that were answered, in that order.
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
                Known::Nothing(UnderWay { replays: self.clone(), name })
            }
        }
    }
}

impl UnderWay {
    /// Keeps the answer, if it is not too long.
    pub(crate) fn finish(self, answer: Saved) {
        if answer.body.len() > LONGEST {
            return;
        }
        let mut kept = self.replays.0.lock();
        let added = answer.body.len();
        if let Some(entry) = kept.entries.get_mut(&self.name) {
            entry.answer = Some(answer);
            kept.bytes += added;
            kept.order.push_back(self.name);
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut kept = self.replays.0.lock();
        if kept.entries.get(&self.name).is_some_and(|entry| entry.answer.is_none()) {
            kept.entries.remove(&self.name);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn under_way(replays: &Replays, name: Name) -> Option<UnderWay> {
        match replays.begin(name, [0; 32], Timestamp::UNIX_EPOCH) {
            Known::Nothing(under_way) => Some(under_way),
            Known::UnderWay | Known::Different | Known::Answered(_) => None,
        }
    }

    fn answer() -> Saved {
        Saved { status: StatusCode::OK, headers: HeaderMap::new(), body: Bytes::from_static(b"done") }
    }

    fn number(number: usize) -> Name {
        let mut name = [1; 32];
        name[..8].copy_from_slice(&number.to_le_bytes());
        name
    }

    #[test]
    fn a_request_that_ended_by_a_panic_may_be_repeated() {
        let replays = Replays::default();
        let carried = under_way(&replays, [0; 32]).expect("nothing is known");
        assert!(under_way(&replays, [0; 32]).is_none(), "it is under way");
        let ended = std::thread::spawn(move || {
            let _carried = carried;
            panic!("a mistake");
        });
        assert!(ended.join().is_err());
        under_way(&replays, [0; 32]).expect("it may be repeated").finish(answer());
        assert!(under_way(&replays, [0; 32]).is_none(), "it is answered");
    }

    #[test]
    fn many_answers_push_out_the_oldest_and_nothing_that_is_under_way() {
        let replays = Replays::default();
        let slow = under_way(&replays, [0; 32]).expect("nothing is known");
        for count in 0..2 * MOST {
            under_way(&replays, number(count)).expect("nothing is known").finish(answer());
        }
        assert!(under_way(&replays, [0; 32]).is_none(), "it is still under way");
        assert!(under_way(&replays, number(0)).is_some(), "the oldest answer is forgotten");
        assert!(under_way(&replays, number(2 * MOST - 1)).is_none(), "the newest is kept");
        slow.finish(answer());
        assert!(under_way(&replays, [0; 32]).is_none(), "its answer is kept");
        assert!(replays.0.lock().order.len() <= MOST);
    }
}
