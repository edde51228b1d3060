//! What holds in every history, shown on random ones.
//!
//! A history is a walk of one seed: requests begin, attempts end in random ways, clients leave, probes answer,
//! people interfere, time passes. `BACKSTOP_HISTORIES` and `BACKSTOP_STEPS` set how many and how long.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    fmt::Write as _,
};

use backstop_triage::{
    Class, KeyId, ModelId, Penalty, ProviderId, Reason, Scope, Settings, Timestamp, Verdict, Window,
    cascade::{Action, Attempt, Call, Cascade, Limits, Outcome, Progress, Step},
    ladder::Chance,
    pool::{Deed, Disabled, Health, KeyState, KeyStatus, ProbeResult, Probes, Rest, RestSource, Why, Wish},
};
use proptest::prelude::*;

use crate::world::{Reply, START, World, fail, key_spec, later, leg};

/// Numbers of a seed.
struct Dice {
    chance: Chance,
    thrown: u64,
}

impl Dice {
    fn new(seed: u64) -> Self {
        Self { chance: Chance::new(seed), thrown: 0 }
    }

    fn fraction(&mut self) -> f64 {
        self.thrown += 1;
        self.chance.about(self.thrown).fraction()
    }

    fn below(&mut self, sides: usize) -> usize {
        ((self.fraction() * sides as f64) as usize).min(sides - 1)
    }

    fn once_in(&mut self, sides: usize) -> bool {
        self.below(sides) == 0
    }
}

/// One random history and what is known of it beside the pool.
struct History {
    world: World,
    dice: Dice,
    settings: Settings,
    requests: Vec<Running>,
    /// The longest stated end of each key's epoch, as an outsider can know it.
    stated: BTreeMap<KeyId, Timestamp>,
    /// When the last epoch of a key began, as a serial number.
    renewed: BTreeMap<KeyId, u64>,
    serial: u64,
    begun: u32,
    repeats: u32,
    log: String,
}

struct Running {
    cascade: Cascade,
    limits: Limits,
    attempt: Option<(Attempt, u64, KeyState)>,
    asked: u32,
    refused: BTreeSet<(ProviderId, KeyId)>,
    unknown_on: BTreeSet<(ProviderId, KeyId, ModelId)>,
    unknown_at: Option<usize>,
    routes: BTreeSet<(ProviderId, KeyId, ModelId)>,
}

impl History {
    fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let settings = Settings {
            model_fallback: dice.once_in(2),
            max_concurrent: u32::try_from(dice.below(3)).unwrap_or_default(),
            ..Settings::default()
        };
        let mut world = World::new();
        let probes = Probes { test: dice.once_in(2), quota: dice.once_in(2), balance: dice.once_in(2) };
        let keys = 1 + dice.below(8) as u64;
        let account = |id: u64| id.is_multiple_of(3).then_some("shared");
        world.configure(
            "p",
            (1..=keys).map(|id| key_spec(id, account(id))).collect(),
            settings.clone(),
            probes,
        );
        world.configure(
            "q",
            vec![key_spec(90, None), key_spec(91, None)],
            settings.clone(),
            Probes::default(),
        );
        Self {
            world,
            dice,
            settings,
            requests: Vec::new(),
            stated: BTreeMap::new(),
            renewed: BTreeMap::new(),
            serial: 0,
            begun: 0,
            repeats: 0,
            log: String::new(),
        }
    }

    fn run(&mut self, steps: u32) {
        for _ in 0..steps {
            match self.dice.below(16) {
                0 | 1 => self.let_time_pass(),
                2..=4 => self.begin(),
                5 => self.lose_a_client(),
                6 => self.answer_probes(),
                7 => self.interfere(),
                8 => self.look(),
                _ => self.advance(),
            }
        }
        self.finish();
    }

    fn let_time_pass(&mut self) {
        let seconds = match self.dice.below(20) {
            0 => 6 * 3600,
            1 => 1800,
            2..=4 => 300,
            _ => self.dice.below(30) as u64,
        };
        self.world.pass(seconds);
    }

    fn begin(&mut self) {
        self.begun += 1;
        let call = if self.dice.once_in(6) { Call::Stateful } else { Call::Generation };
        let deadline = later(self.world.now, 20 + 10 * self.dice.below(60) as u64);
        let client_retries = u32::from(self.dice.once_in(5));
        let limits = Limits { call, client_retries, ..Limits::streaming(deadline) };
        let legs = vec![leg("p", &["m", "n"]), leg("q", &["m"])];
        let cascade = self.world.request(legs, limits.clone());
        self.requests.push(Running {
            cascade,
            limits,
            attempt: None,
            asked: 0,
            refused: BTreeSet::new(),
            unknown_on: BTreeSet::new(),
            unknown_at: None,
            routes: BTreeSet::new(),
        });
    }

    fn advance(&mut self) {
        if self.requests.is_empty() {
            return;
        }
        let index = self.dice.below(self.requests.len());
        if self.requests[index].attempt.is_some() {
            self.report(index);
        } else if self.ask(index) {
            self.requests.swap_remove(index);
        }
    }

    /// Asks a request for its next step; says whether it is over.
    fn ask(&mut self, index: usize) -> bool {
        self.world.pool.take_back(self.world.now);
        let before: BTreeMap<(ProviderId, KeyId), KeyStatus> = ["p", "q"]
            .into_iter()
            .flat_map(|id| {
                let id = ProviderId::from(id);
                self.world
                    .pool
                    .snapshot(&id, self.world.now)
                    .into_iter()
                    .map(move |key| ((id.clone(), key.id), key))
            })
            .collect();
        let running = &mut self.requests[index];
        running.asked += 1;
        assert!(running.asked < 2000, "a request must end");
        match running.cascade.next(&mut self.world.pool, self.world.now) {
            Action::Finish(end) => {
                let _ = writeln!(self.log, "{:?}", end);
                true
            }
            Action::Wait { until, .. } => {
                assert!(until > self.world.now, "a wait must lead on");
                assert!(until <= running.limits.deadline);
                false
            }
            Action::Attempt(attempt) => {
                let _ = writeln!(self.log, "{attempt:?}");
                let status = &before[&(attempt.provider.clone(), attempt.key)];
                self.check(index, &attempt, status);
                self.serial += 1;
                self.requests[index].attempt = Some((attempt, self.serial, status.state));
                false
            }
        }
    }

    fn check(&mut self, index: usize, attempt: &Attempt, status: &KeyStatus) {
        let now = self.world.now;
        let running = &mut self.requests[index];
        let mut steps = running.cascade.trail().iter().rev().map(|tried| tried.step);
        let own_climb = steps.find(|step| *step != Step::FreshConnection) == Some(Step::Ladder);
        let may_rest = own_climb || attempt.step == Step::UnknownProbe;
        match status.state {
            KeyState::Active | KeyState::Unstable | KeyState::HalfOpen => {}
            KeyState::Resting | KeyState::Quarantined => {
                assert!(may_rest, "a resting key was asked: {attempt:?}")
            }
            KeyState::Disabled | KeyState::Paused => {
                panic!("a key out of service was asked: {attempt:?} {status:?}")
            }
        }
        let rests_for_model =
            status.models.iter().any(|rest| rest.model == attempt.model && rest.until.is_some());
        assert!(own_climb || !rests_for_model, "a key was asked for a model that it does not serve");
        let stated = self.stated.get(&attempt.key).copied();
        assert!(
            may_rest || stated.is_none_or(|stated| stated <= now),
            "asked before the stated reset: {attempt:?}"
        );
        let most = if running.limits.client_retries > 0 { 8 } else { 32 };
        assert!(running.cascade.attempts() <= most && attempt.ordinal <= most);
        assert!(later(now, 1) <= running.limits.deadline, "nothing starts in the last second");
        assert!(attempt.first_content_by <= running.limits.deadline);
        let route = (attempt.provider.clone(), attempt.key, attempt.model.clone());
        let repeats = matches!(attempt.step, Step::RetrySame | Step::Ladder);
        self.repeats += u32::from(repeats);
        let again = repeats || attempt.step == Step::FreshConnection;
        assert!(running.routes.insert(route.clone()) || again, "a route was tried twice: {attempt:?}");
        assert!(!running.unknown_on.contains(&route), "an unknown failure was repeated: {attempt:?}");
        assert!(
            !running.refused.contains(&(attempt.provider.clone(), attempt.key)),
            "a refused key was asked again"
        );
        if let Some(at) = running.unknown_at {
            let since: BTreeSet<_> =
                running.cascade.trail()[at..].iter().map(|tried| (tried.leg, tried.key)).collect();
            assert!(since.len() <= 3, "an unknown failure allows one further key and one further leg");
        }
    }

    fn random_failure(&mut self) -> Reply {
        let class = Class::ALL[self.dice.below(Class::ALL.len())];
        let scope = Scope::ALL[self.dice.below(Scope::ALL.len())];
        let mut failure = fail(class, scope);
        if self.dice.once_in(3) {
            failure = failure.stated(1 + self.dice.below(4000) as u64);
        } else if self.dice.once_in(4) {
            failure = failure.said(1 + self.dice.below(9000) as u64);
        }
        if self.dice.once_in(3) {
            failure = failure.window(Window::ALL[self.dice.below(Window::ALL.len())]);
        }
        if matches!(class, Class::AuthError | Class::BillingExhausted) && self.dice.once_in(2) {
            failure = failure.proven();
        }
        if class == Class::Unknown && self.dice.once_in(2) {
            failure = failure.status(302);
        }
        let progress = [
            Progress::NotSent,
            Progress::StaleConnection,
            Progress::MaybeAccepted,
            Progress::Started,
            Progress::Committed,
        ];
        if self.dice.once_in(4) {
            failure.progress(progress[self.dice.below(progress.len())])
        } else {
            failure
        }
    }

    fn report(&mut self, index: usize) {
        let Some((attempt, serial, state)) = self.requests[index].attempt.take() else { return };
        let key = attempt.key;
        let failure = self.random_failure();
        let Reply::Fail { verdict, progress, status, .. } = failure else { return };
        let outcome = match self.dice.below(6) {
            0 => Outcome::Abandoned,
            1..=2 => Outcome::Completed,
            _ => Outcome::Failed { verdict: verdict.clone(), progress, status },
        };
        match &outcome {
            Outcome::Completed if state == KeyState::HalfOpen || attempt.step == Step::UnknownProbe => {
                self.renew(key);
            }
            Outcome::Failed { .. } => self.note(index, &attempt, serial, (&verdict, progress)),
            Outcome::Completed | Outcome::Abandoned | Outcome::Committed => {}
        }
        let running = &mut self.requests[index];
        running.cascade.report(outcome, &mut self.world.pool, self.world.now);
    }

    /// Remembers what a failure forbids.
    fn note(
        &mut self,
        index: usize,
        attempt: &Attempt,
        serial: u64,
        (verdict, progress): (&Verdict, Progress),
    ) {
        let is_stale = progress == Progress::StaleConnection && !attempt.fresh_connection;
        let key = attempt.key;
        if is_stale {
            let route = (attempt.provider.clone(), key, attempt.model.clone());
            self.requests[index].routes.remove(&route);
            return;
        }
        let epoch = self.renewed.get(&key).copied().unwrap_or_default();
        let limit = matches!(verdict.class, Class::RateLimit | Class::QuotaExhausted);
        let trusted = verdict.heals.as_ref().is_some_and(|heals| heals.trusted);
        if limit && trusted && serial > epoch && matches!(verdict.scope, Scope::Key | Scope::Provider) {
            let wait = verdict.stated_wait(self.world.now).expect("stated");
            let end = crate::world::later_by(self.world.now, wait);
            // What the ladder sits out itself does not become a rest.
            if wait.as_secs() > 4 {
                let stated = self.stated.entry(key).or_insert(end);
                *stated = (*stated).max(end);
            }
        }
        let running = &mut self.requests[index];
        let route = (attempt.provider.clone(), key, attempt.model.clone());
        if verdict.class == Class::Unknown {
            running.unknown_on.insert(route);
            let at = running.cascade.trail().len() - 1;
            running.unknown_at.get_or_insert(at);
        }
        let refuses = matches!(verdict.class, Class::AuthError | Class::BillingExhausted);
        if refuses && !matches!(verdict.scope, Scope::Model | Scope::Request) {
            running.refused.insert((attempt.provider.clone(), key));
        }
    }

    fn lose_a_client(&mut self) {
        if !self.requests.is_empty() {
            let index = self.dice.below(self.requests.len());
            self.requests.swap_remove(index);
        }
    }

    fn answer_probes(&mut self) {
        while let Some(probe) = self.world.pool.poll_probe(self.world.now) {
            let result = match self.dice.below(4) {
                0 => ProbeResult::Passed,
                1 => ProbeResult::Money(true),
                2 => ProbeResult::Refused(match fail(Class::AuthError, Scope::Key).proven() {
                    Reply::Fail { verdict, .. } => verdict,
                    Reply::Answer | Reply::Leave => return,
                }),
                _ => ProbeResult::Inconclusive,
            };
            self.renew(probe.key);
            self.world.pool.probe_result(&probe, result, self.world.now);
        }
    }

    fn renew(&mut self, key: KeyId) {
        self.stated.remove(&key);
        self.serial += 1;
        self.renewed.insert(key, self.serial);
    }

    fn interfere(&mut self) {
        if !self.dice.once_in(4) {
            return;
        }
        let key = KeyId(1 + self.dice.below(8) as u64);
        let until = later(self.world.now, 100);
        let deeds =
            [Deed::Pause(Some(until)), Deed::Resume, Deed::Enable, Deed::Disable, Deed::Reset, Deed::EndRest];
        let deed = deeds[self.dice.below(deeds.len())];
        if !matches!(deed, Deed::Pause(_) | Deed::Resume) {
            self.renew(key);
        }
        self.world.pool.act(&"p".into(), key, deed, self.world.now);
    }

    /// The bitmap and the states say the same, and what is shown is sound.
    fn look(&mut self) {
        let (provider, model) = (ProviderId::from("p"), ModelId::from("m"));
        let now = self.world.now;
        self.world.pool.take_back(now);
        let keys = self.world.pool.snapshot(&provider, now);
        let max = self.settings.max_concurrent;
        let serves = |key: &&KeyStatus| {
            matches!(key.state, KeyState::Active | KeyState::Unstable)
                && key.models.iter().all(|rest| rest.model != model)
                && (max == 0 || key.in_flight < max)
        };
        let wish = Wish {
            provider: &provider,
            model: &model,
            excluded: &[],
            session: None,
            pinned: None,
            request: 0,
        };
        let picked = self.world.pool.pick(&wish, now).map(|permit| permit.key());
        let first = keys.iter().find(serves).map(|key| key.id);
        assert!(first.is_none() || picked.is_some(), "a key is free but was not found");
        let tried_again = |key: &KeyStatus| key.state == KeyState::HalfOpen || !key.models.is_empty();
        if let (Some(picked), Some(first)) = (picked, first) {
            let found = keys.iter().find(|key| key.id == picked).expect("a key of the provider");
            assert!(picked == first || (picked < first && tried_again(found)), "on error the first is asked");
        }
        for key in keys {
            if let (Some(why), Some(since), Some(until)) = (&key.why, key.since, key.until)
                && why.class == Class::Unknown
            {
                let rest = backstop_triage::ladder::until(since, until);
                assert!(rest >= self.settings.first_transient_delay(), "unknown is never the eager class");
            }
        }
    }

    /// Everybody leaves: nothing may be held any more.
    fn finish(&mut self) {
        self.requests.clear();
        self.world.pool.take_back(self.world.now);
        for id in ["p", "q"] {
            for key in self.world.pool.snapshot(&id.into(), self.world.now) {
                assert_eq!(key.in_flight, 0, "a permit was lost: {key:?}");
            }
        }
        let elapsed = self.world.now.duration_since(START).as_secs_f64();
        let budget = 101.0 + 0.2 * f64::from(self.begun) + 10.0 * elapsed;
        assert!(f64::from(self.repeats) <= budget, "{} repeats, budget {budget}", self.repeats);
    }
}

fn setting(name: &str, default: u32) -> u32 {
    env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

#[test]
fn every_invariant_holds_in_every_history() {
    let steps = setting("BACKSTOP_STEPS", 600);
    for seed in 0..u64::from(setting("BACKSTOP_HISTORIES", 150)) {
        History::new(seed).run(steps);
    }
}

#[test]
fn the_same_seed_makes_the_same_history() {
    for seed in 1000..1010 {
        let mut logs = std::iter::repeat_with(|| {
            let mut history = History::new(seed);
            history.run(400);
            history.log
        });
        assert_eq!(logs.next(), logs.next());
    }
}

// Joining

fn moment() -> impl Strategy<Value = Timestamp> {
    (0_u64..6).prop_map(|seconds| later(START, seconds))
}

fn why() -> impl Strategy<Value = Why> {
    (
        prop::sample::select(vec![Class::RateLimit, Class::Unknown]),
        prop::sample::select(vec!["a", "b"]),
        prop::option::of(Just(429_u16)),
        prop::sample::select(vec![RestSource::Header, RestSource::Setting]),
        prop::option::of(prop::sample::select(Window::ALL.to_vec())),
    )
        .prop_map(|(class, reason, status, source, window)| Why {
            class,
            reason: Reason::from(reason),
            status,
            window,
            source,
        })
}

fn rest() -> impl Strategy<Value = Rest> {
    let penalty = prop::sample::select(vec![Penalty::RestRateLimit, Penalty::RestQuota]);
    (0_u32..3, 0_u32..2, penalty, moment(), moment(), why()).prop_map(
        |(level, step, penalty, since, until, why)| Rest { level, step, penalty, since, until, why },
    )
}

fn health() -> impl Strategy<Value = Health> {
    let disabled = (moment(), why()).prop_map(|(since, why)| Disabled { since, why });
    let option = prop::option::of::<BoxedStrategy<Rest>>;
    (
        0_u64..2,
        option(rest().boxed()),
        option(rest().boxed()),
        option(rest().boxed()),
        prop::option::of(disabled),
    )
        .prop_map(|(epoch, first, stated, quarantine, disabled)| Health {
            epoch,
            first,
            stated,
            quarantine,
            disabled,
        })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn joining_is_commutative_associative_and_idempotent(one in health(), two in health(), three in health()) {
        prop_assert_eq!(one.clone().join(two.clone()), two.clone().join(one.clone()));
        prop_assert_eq!(
            one.clone().join(two.clone()).join(three.clone()),
            one.clone().join(two.clone().join(three))
        );
        prop_assert_eq!(one.clone().join(one.clone()), one.clone());
        let joined = one.clone().join(two.clone());
        if one.epoch == two.epoch {
            prop_assert!(joined.disabled.is_some() || (one.disabled.is_none() && two.disabled.is_none()));
            let stated = |health: &Health| health.stated.as_ref().map(|rest| rest.until);
            prop_assert_eq!(stated(&joined), stated(&one).max(stated(&two)));
        }
    }
}
