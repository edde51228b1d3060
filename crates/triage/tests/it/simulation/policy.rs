//! The interface of those who are measured, and ourselves behind it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use backstop_triage::{
    Class, KeyId, ModelId, ProviderId, Settings, Timestamp,
    cascade::{Action, Cascade, End, Leg, Limits, Outcome, Wake},
    pool::{KeySpec, Pool, ProbeResult, Probes, ProviderSpec},
};

use super::truth::{Bad, Resource, START, Scenario, Truth, at};

/// What a policy wants to do with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    Call {
        key: u64,
        model: usize,
    },
    Wait {
        until: Timestamp,
        on_change: bool,
    },
    Answered,
    /// Over without an answer, and whether the policy holds the request itself to be wrong.
    Over,
}

/// One who has to answer requests.
pub(crate) trait Policy {
    fn next(&mut self, request: u64, truth: &Truth, now: Timestamp) -> Move;
    fn report(&mut self, request: u64, result: Result<(), &Bad>, now: Timestamp);
}

/// The pool and its cascades.
pub(crate) struct Backstop {
    pool: Pool,
    requests: BTreeMap<u64, Cascade>,
}

impl Backstop {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let settings = Settings { model_fallback: true, ..Settings::default() };
        let keys =
            (0..scenario.keys).map(|id| KeySpec { id: KeyId(id), label: String::new(), account: None });
        let mut pool = Pool::new(scenario.seed);
        let spec = ProviderSpec {
            id: ProviderId::from("p"),
            keys: keys.collect(),
            settings: Arc::new(settings),
            probes: Probes { test: true, ..Probes::default() },
            answer_timeout: None,
        };
        pool.set_provider(spec, START);
        Self { pool, requests: BTreeMap::new() }
    }
}

impl Backstop {
    /// Runs the free tests that are due: a list of models, which fails with the provider and with a dead key.
    fn test(&mut self, truth: &Truth, now: Timestamp) {
        while let Some(probe) = self.pool.poll_probe(now) {
            let result = match truth.meets(0, probe.key.0, 1, now) {
                Some(bad) if bad.class == Class::AuthError => ProbeResult::Refused(bad.verdict(now)),
                Some(bad) if bad.resource == Resource::Provider => ProbeResult::Inconclusive,
                Some(_) | None => ProbeResult::Passed,
            };
            self.pool.probe_result(&probe, result, now);
        }
    }
}

impl Policy for Backstop {
    fn next(&mut self, request: u64, truth: &Truth, now: Timestamp) -> Move {
        self.test(truth, now);
        let cascade = self.requests.entry(request).or_insert_with(|| {
            let models = vec![ModelId::from("m"), ModelId::from("n")];
            let leg = Leg { provider: ProviderId::from("p"), models, context_too_small: false };
            Cascade::new(vec![leg], Limits::streaming(at(now, 600)), request)
        });
        let action = cascade.next(&mut self.pool, now);
        while self.pool.poll_change().is_some() {}
        match action {
            Action::Attempt(attempt) => {
                Move::Call { key: attempt.key.0, model: usize::from(attempt.model.as_str() == "n") }
            }
            Action::Wait { until, wake } => Move::Wait { until, on_change: wake == Wake::PoolChange },
            Action::Finish(end) => {
                self.requests.remove(&request);
                if end == End::Answered { Move::Answered } else { Move::Over }
            }
        }
    }

    fn report(&mut self, request: u64, result: Result<(), &Bad>, now: Timestamp) {
        let Some(cascade) = self.requests.get_mut(&request) else { return };
        let outcome = match result {
            Ok(()) => Outcome::Completed,
            Err(bad) => {
                Outcome::Failed { verdict: bad.verdict(now), progress: bad.progress, status: bad.status }
            }
        };
        cascade.report(outcome, &mut self.pool, now);
    }
}

/// How long a policy lets a request wait for a resource to come back.
pub(crate) const PATIENCE: Duration = Duration::from_secs(8);
