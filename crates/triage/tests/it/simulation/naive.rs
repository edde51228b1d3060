//! What gateways do who do not read failures.

use std::{collections::BTreeMap, time::Duration};

use backstop_triage::{Class, Timestamp, ladder::after};

use super::{
    policy::{Move, Policy},
    truth::{Bad, Scenario, Truth},
};

/// Up to five attempts, chosen by one simple idea.
pub(crate) struct Naive {
    idea: Idea,
    keys: u64,
    turn: u64,
    resting: BTreeMap<u64, Timestamp>,
    disabled: BTreeMap<u64, ()>,
    requests: BTreeMap<u64, Request>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Idea {
    /// Another key in turn after a second, whatever it was.
    RetryAll,
    /// Rests the key a minute, whatever it was.
    RestAMinute,
    /// Takes the key out of service on 401, 402 and 403, rests it a minute on 429.
    DisableOnRefusal,
    /// From the first key on, every time.
    NoMemory,
}

#[derive(Default)]
struct Request {
    tried: Vec<u64>,
    model: usize,
    not_before: Option<Timestamp>,
    over: Option<Move>,
}

impl Naive {
    pub(crate) fn new(name: &str, scenario: &Scenario) -> Self {
        let idea = match name {
            "retry all" => Idea::RetryAll,
            "rest 60 s" => Idea::RestAMinute,
            "disable on 4xx" => Idea::DisableOnRefusal,
            _ => Idea::NoMemory,
        };
        Self {
            idea,
            keys: scenario.keys,
            turn: 0,
            resting: BTreeMap::new(),
            disabled: BTreeMap::new(),
            requests: BTreeMap::new(),
        }
    }

    fn choose(&mut self, tried: &[u64], now: Timestamp) -> Option<u64> {
        match self.idea {
            Idea::RetryAll => {
                self.turn += 1;
                Some(self.turn % self.keys)
            }
            Idea::NoMemory => (0..self.keys).find(|key| !tried.contains(key)),
            Idea::RestAMinute | Idea::DisableOnRefusal => {
                self.resting.retain(|_, until| *until > now);
                (0..self.keys).find(|key| {
                    !tried.contains(key)
                        && !self.resting.contains_key(key)
                        && !self.disabled.contains_key(key)
                })
            }
        }
    }
}

impl Policy for Naive {
    fn next(&mut self, request: u64, _truth: &Truth, now: Timestamp) -> Move {
        let entry = self.requests.remove(&request).unwrap_or_default();
        if let Some(over) = entry.over {
            return over;
        }
        if let Some(until) = entry.not_before.filter(|until| *until > now) {
            self.requests.insert(request, entry);
            return Move::Wait { until, on_change: false };
        }
        let Some(key) = (entry.tried.len() < ATTEMPTS).then(|| self.choose(&entry.tried, now)).flatten()
        else {
            return Move::Over;
        };
        let Request { mut tried, model, .. } = entry;
        tried.push(key);
        self.requests.insert(request, Request { tried, model, ..Request::default() });
        Move::Call { key, model }
    }

    fn report(&mut self, request: u64, result: Result<(), &Bad>, now: Timestamp) {
        let Some(entry) = self.requests.get_mut(&request) else { return };
        let Some(key) = entry.tried.last().copied() else { return };
        let Err(bad) = result else {
            entry.over = Some(Move::Answered);
            return;
        };
        // Everybody here knows a second model to turn to; nobody remembers that the first is gone.
        if bad.class == Class::ModelError {
            entry.model = 1;
            entry.tried.pop();
            return;
        }
        let minute = after(now, Duration::from_secs(60));
        match self.idea {
            Idea::RetryAll => entry.not_before = Some(after(now, Duration::from_secs(1))),
            Idea::NoMemory => {}
            Idea::RestAMinute => {
                self.resting.insert(key, minute);
            }
            Idea::DisableOnRefusal => match bad.status {
                Some(401..=403) => {
                    self.disabled.insert(key, ());
                }
                Some(429) => {
                    self.resting.insert(key, minute);
                }
                Some(400) => entry.over = Some(Move::Over),
                Some(_) | None => {}
            },
        }
    }
}

const ATTEMPTS: usize = 5;
