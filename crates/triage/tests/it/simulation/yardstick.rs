//! The two yardsticks: one that sees the truth before a call, one that sees it after the first failure.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, BinaryHeap},
    time::Duration,
};

use backstop_triage::{
    Class, Timestamp,
    ladder::{after, until},
};

use super::{
    policy::{Move, PATIENCE, Policy},
    truth::{Bad, Resource, Scenario, Truth, at},
};

/// Knows of each resource until when it need not be asked.
pub(crate) struct Yardstick {
    foresight: bool,
    free: BTreeSet<u64>,
    returns: BinaryHeap<Reverse<(Timestamp, u64)>>,
    /// Resources in an episode: when it began and until when nobody asks.
    known: BTreeMap<Resource, Known>,
    requests: BTreeMap<u64, Request>,
}

#[derive(Clone, Copy)]
struct Known {
    began: Timestamp,
    until: Option<Timestamp>,
    /// Whether one request is finding out if the episode is over.
    probed: bool,
    class: Class,
}

#[derive(Clone, Copy)]
struct Request {
    since: Timestamp,
    call: Option<(u64, usize, Timestamp)>,
    probing: Option<Resource>,
    over: Option<Move>,
    /// The key that gave an unknown failure, which is the request's own with that key.
    odd: Option<u64>,
}

impl Yardstick {
    pub(crate) fn oracle(scenario: &Scenario) -> Self {
        Self::new(scenario, true)
    }

    pub(crate) fn least(scenario: &Scenario) -> Self {
        Self::new(scenario, false)
    }

    fn new(scenario: &Scenario, foresight: bool) -> Self {
        Self {
            foresight,
            free: (0..scenario.keys).collect(),
            returns: BinaryHeap::new(),
            known: BTreeMap::new(),
            requests: BTreeMap::new(),
        }
    }

    fn tick(&mut self, now: Timestamp) {
        while let Some(Reverse((_, key))) = self.returns.peek().copied().filter(|Reverse((at, _))| *at <= now)
        {
            self.returns.pop();
            self.free.insert(key);
        }
    }

    /// Whether a resource may be asked: freely, as its one probe, or not before a time.
    fn admits(&self, resource: Resource, now: Timestamp) -> Result<Option<Resource>, Option<Timestamp>> {
        match self.known.get(&resource) {
            None => Ok(None),
            Some(known) if known.until.is_none() => Err(None),
            Some(known) if known.until.is_some_and(|until| until > now) => Err(known.until),
            Some(known) if known.probed => Err(Some(after(now, Duration::from_millis(200)))),
            Some(_) => Ok(Some(resource)),
        }
    }

    /// A key and a model, and whose episode the call may find ended; or when to ask again. Another model than the
    /// requested one is second best: an overload is waited for as long as patience lasts.
    fn choose(
        &self,
        (since, odd): (Timestamp, Option<u64>),
        now: Timestamp,
    ) -> Result<(u64, usize, Option<Resource>), Option<Timestamp>> {
        let provider = self.admits(Resource::Provider, now)?;
        let (model, model_probe) = match self.admits(Resource::Model(0), now) {
            Ok(probe) => (0, probe),
            Err(Some(back)) if self.is_overload(Resource::Model(0)) && back <= after(since, PATIENCE) => {
                return Err(Some(back));
            }
            Err(_) => (1, None),
        };
        let mut soonest = self.returns.peek().map(|Reverse((at, _))| *at);
        for key in self.free.iter().filter(|key| Some(**key) != odd) {
            match self.admits(Resource::Key(*key), now) {
                Ok(probe) => return Ok((*key, model, provider.or(model_probe).or(probe))),
                Err(at) => soonest = [soonest, at].into_iter().flatten().min(),
            }
        }
        Err(soonest)
    }

    fn is_overload(&self, resource: Resource) -> bool {
        self.known.get(&resource).is_some_and(|known| known.class == Class::Overloaded)
    }

    fn foresee(&mut self, request: u64, truth: &Truth, now: Timestamp) -> Move {
        let since = self.requests[&request].since;
        loop {
            let Some(key) = self.free.first().copied() else {
                let soonest = self.returns.peek().map(|Reverse((at, _))| *at);
                return patient(since, soonest, now);
            };
            let Some(bad) = truth.meets(request, key, 0, now) else { return Move::Call { key, model: 0 } };
            match bad.resource {
                Resource::Request if truth.is_wrong(request) => return Move::Call { key, model: 0 },
                Resource::Request | Resource::Model(_) => {
                    let other = self.free.iter().copied().find_map(|key| {
                        [0, 1]
                            .into_iter()
                            .find(|model| truth.meets(request, key, *model, now).is_none())
                            .map(|model| (key, model))
                    });
                    if let Some((key, model)) = other {
                        return Move::Call { key, model };
                    }
                    return patient(since, Some(at(now, 1)), now);
                }
                Resource::Key(_) => {
                    self.free.remove(&key);
                    if let Some(end) = bad.end {
                        self.returns.push(Reverse((end, key)));
                    }
                }
                Resource::Provider => return patient(since, bad.end, now),
            }
        }
    }

    fn learn(&mut self, bad: &Bad, asked: Timestamp, now: Timestamp) {
        let known = self.known.get(&bad.resource).copied();
        // Calls that were under way when the first one failed teach nothing new.
        if known.is_some_and(|known| known.until.is_none_or(|until| until > now) && !known.probed) {
            return;
        }
        let began = known.filter(|_| !bad.stated).map_or(asked, |known| known.began);
        let doubled = at(began, 1).max(after(now, until(began, now)));
        // A model that is missed is asked for every half hour: only asking shows that it is back.
        let half_an_hour = at(now, 1800);
        let doubled = if bad.class == Class::ModelError { doubled.min(half_an_hour) } else { doubled };
        let until = if bad.stated { bad.end } else { Some(doubled) };
        self.known.insert(bad.resource, Known { began, until, probed: false, class: bad.class });
        if let Resource::Key(key) = bad.resource {
            self.free.remove(&key);
            if let Some(until) = until {
                self.returns.push(Reverse((until, key)));
            }
        }
    }
}

impl Policy for Yardstick {
    fn next(&mut self, request: u64, truth: &Truth, now: Timestamp) -> Move {
        self.tick(now);
        let fresh = Request { since: now, call: None, probing: None, over: None, odd: None };
        let entry = self.requests.entry(request).or_insert(fresh);
        if let Some(over) = entry.over {
            self.requests.remove(&request);
            return over;
        }
        let chosen = if self.foresight {
            self.foresee(request, truth, now)
        } else {
            let (since, odd) = (entry.since, entry.odd);
            match self.choose((since, odd), now) {
                Ok((key, model, probing)) => {
                    if let Some(known) = probing.and_then(|resource| self.known.get_mut(&resource)) {
                        known.probed = true;
                    }
                    if let Some(entry) = self.requests.get_mut(&request) {
                        entry.probing = probing;
                    }
                    Move::Call { key, model }
                }
                Err(soonest) => patient(since, soonest, now),
            }
        };
        match chosen {
            Move::Call { key, model } => {
                if let Some(entry) = self.requests.get_mut(&request) {
                    entry.call = Some((key, model, now));
                }
            }
            Move::Over => {
                self.requests.remove(&request);
            }
            Move::Wait { .. } | Move::Answered => {}
        }
        chosen
    }

    fn report(&mut self, request: u64, result: Result<(), &Bad>, now: Timestamp) {
        let Some(entry) = self.requests.get_mut(&request) else { return };
        let Some((key, model, asked)) = entry.call.take() else { return };
        let probing = entry.probing.take();
        match result {
            Ok(()) => {
                entry.over = Some(Move::Answered);
                for resource in [Resource::Provider, Resource::Model(model), Resource::Key(key)] {
                    if self.known.get(&resource).is_some_and(|known| known.began <= asked) {
                        self.known.remove(&resource);
                    }
                }
            }
            Err(bad) if bad.resource == Resource::Request => {
                entry.odd = Some(key);
                if bad.class == Class::RequestError {
                    entry.over = Some(Move::Over);
                }
                if let Some(known) = probing.and_then(|resource| self.known.get_mut(&resource)) {
                    known.probed = false;
                }
            }
            Err(bad) => {
                self.learn(bad, asked, now);
                if let Some(known) = probing.and_then(|resource| self.known.get_mut(&resource)) {
                    known.probed = false;
                }
            }
        }
    }
}

/// Waits for what is back soon enough, and gives up otherwise.
fn patient(since: Timestamp, soonest: Option<Timestamp>, now: Timestamp) -> Move {
    let last = after(since, PATIENCE);
    match soonest {
        Some(at) if at <= last && at > now => Move::Wait { until: at, on_change: true },
        Some(_) | None => Move::Over,
    }
}
