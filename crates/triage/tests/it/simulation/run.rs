//! Requests arrive, calls take their time, and everything that happens is counted.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    time::Duration,
};

use backstop_triage::{
    Class, Timestamp,
    ladder::{Chance, after},
};

use super::{
    policy::{Move, Policy},
    truth::{Bad, START, Scenario, Truth},
};

/// What a policy made of a scenario.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) requests: u64,
    pub(crate) lost: u64,
    pub(crate) calls: u64,
    /// Calls that failed, those that failed by the request's own fault apart.
    pub(crate) wasted: u64,
    pub(crate) wasted_on: BTreeMap<Class, u64>,
}

impl Tally {
    /// Requests lost beyond what the oracle lost, in percent of all.
    pub(crate) fn lost_beyond(&self, oracle: &Self) -> f64 {
        (self.lost as f64 - oracle.lost as f64) * 100.0 / self.requests.max(1) as f64
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Ended(u64),
    Due(u64),
    Arrives(u64),
}

/// Drives a policy through a scenario.
pub(crate) fn run(policy: &mut dyn Policy, scenario: &Scenario) -> Tally {
    let mut world = World {
        truth: Truth::new(scenario),
        events: BinaryHeap::new(),
        under_way: BTreeMap::new(),
        waiting: BTreeMap::new(),
        tally: Tally::default(),
    };
    let arrivals = Chance::new(scenario.seed).about(99);
    world.events.push(Reverse((START, Event::Arrives(1))));
    while let Some(Reverse((now, event))) = world.events.pop() {
        match event {
            Event::Arrives(request) => {
                world.tally.requests += 1;
                // Exponential gaps: calls arrive independently of each other.
                let gap = -(1.0 - arrivals.about(request).fraction()).ln() / scenario.rate;
                let next = after(now, Duration::from_secs_f64(gap));
                if next < scenario.end() {
                    world.events.push(Reverse((next, Event::Arrives(request + 1))));
                }
                world.ask(policy, request, now);
            }
            Event::Due(request) => {
                if world.waiting.get(&request).is_some_and(|(until, _)| *until <= now) {
                    world.waiting.remove(&request);
                    world.ask(policy, request, now);
                }
            }
            Event::Ended(request) => {
                if let Some(result) = world.under_way.remove(&request) {
                    policy.report(request, result.as_ref().copied(), now);
                    world.ask(policy, request, now);
                    let woken =
                        |(request, (_, on_change)): (&u64, &(Timestamp, bool))| on_change.then_some(*request);
                    for request in world.waiting.iter().filter_map(woken).collect::<Vec<_>>() {
                        world.ask(policy, request, now);
                    }
                }
            }
        }
    }
    world.tally
}

struct World {
    truth: Truth,
    events: BinaryHeap<Reverse<(Timestamp, Event)>>,
    under_way: BTreeMap<u64, Result<(), Bad>>,
    /// Until when a request waits, and whether a change wakes it.
    waiting: BTreeMap<u64, (Timestamp, bool)>,
    tally: Tally,
}

impl World {
    fn ask(&mut self, policy: &mut dyn Policy, request: u64, now: Timestamp) {
        let waited = self.waiting.remove(&request);
        match policy.next(request, &self.truth, now) {
            Move::Call { key, model } => {
                self.tally.calls += 1;
                let (takes, result) = match self.truth.call(request, key, model, now) {
                    Ok(takes) => (takes, Ok(())),
                    Err(bad) => {
                        if bad.class != Class::RequestError {
                            self.tally.wasted += 1;
                            *self.tally.wasted_on.entry(bad.class).or_default() += 1;
                        }
                        (bad.takes, Err(bad))
                    }
                };
                self.under_way.insert(request, result);
                self.events.push(Reverse((after(now, takes), Event::Ended(request))));
            }
            Move::Wait { until, on_change } => {
                self.waiting.insert(request, (until, on_change));
                if waited.is_none_or(|(due, _)| due != until) {
                    self.events.push(Reverse((until, Event::Due(request))));
                }
            }
            Move::Answered => {}
            Move::Over => {
                if !self.truth.is_wrong(request) {
                    self.tally.lost += 1;
                }
            }
        }
    }
}
