//! The health of keys, accounts, models and providers over time.

use backstop_triage::{
    Class::{self, *},
    KeyId, ModelId, ProviderId, QuotaSnapshot, QuotaSource, QuotaWindow, Scope, Settings, Timestamp, Verdict,
    Window,
    cascade::{Action, Attempt, Outcome, Progress},
    pool::{
        Change, Deed, KeyState, Notice, Permit, ProbeKind, ProbeResult, Probes, SavedState, Subject, Wish,
    },
    settings::{Rotation, Sticky},
};
use expect_test::expect;

use crate::world::{Reply, Reply::Answer, START, World, fail, key_spec, later, leg, span};

fn wish<'a>(provider: &'a ProviderId, model: &'a ModelId) -> Wish<'a> {
    Wish { provider, model, excluded: &[], session: None, pinned: None, request: 0 }
}

fn pick(world: &mut World) -> Option<Permit> {
    world.pool.pick(&wish(&"p".into(), &"m".into()), world.now)
}

fn verdict_of(reply: Reply) -> Verdict {
    match reply {
        Reply::Fail { verdict, .. } => verdict,
        Answer | Reply::Leave => Verdict::new(Unknown, Scope::Request, "", backstop_triage::Basis::Nothing),
    }
}

fn settle(world: &mut World, permit: Permit, reply: Reply) {
    match reply {
        Answer => world.pool.settle(permit, None, world.now),
        Reply::Leave => drop(permit),
        Reply::Fail { verdict, status, .. } => world.pool.settle(permit, Some((&verdict, status)), world.now),
    }
}

fn once(reply: Reply) -> impl FnMut(&Attempt) -> Reply {
    let mut reply = Some(reply);
    move |_| reply.take().unwrap_or(Answer)
}

fn window(window: Window, exhausted: bool, resets_in: Option<u64>, now: Timestamp) -> QuotaWindow {
    QuotaWindow {
        window: Some(window),
        unit: "tokens".into(),
        model: None,
        used: None,
        limit: None,
        remaining: None,
        resets_at: resets_in.map(|seconds| later(now, seconds)),
        exhausted,
        gates: true,
    }
}

fn snapshot(now: Timestamp, windows: Vec<QuotaWindow>) -> QuotaSnapshot {
    QuotaSnapshot { taken_at: now, source: QuotaSource::Endpoint, plan: None, windows }
}

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;

// Coming back

#[test]
fn a_key_comes_back_with_one_then_two_then_four_permits_and_is_active_after_three_successes() {
    let mut world = World::with_keys(1);
    world.ask(|_| fail(RateLimit, Scope::Key).stated(30));
    assert!(pick(&mut world).is_none());
    world.pass(30);
    let mut story = String::new();
    for _ in 0..4 {
        let permits: Vec<Permit> = std::iter::from_fn(|| pick(&mut world)).take(9).collect();
        story.push_str(&format!("{} permits, {}", permits.len(), world.keys()));
        let mut permits = permits.into_iter();
        settle(&mut world, permits.next().expect("one at least"), Answer);
    }
    expect![[r#"
        1 permits, 1 half_open (rate_limit, header)
        2 permits, 1 half_open
        4 permits, 1 half_open
        9 permits, 1 active
    "#]]
    .assert_eq(&story);
}

#[test]
fn a_permit_comes_back_on_every_way_out() {
    let mut world = World::with_keys(1);
    world.ask(|_| fail(RateLimit, Scope::Key).stated(30));
    world.pass(30);
    let ways = [
        Reply::Leave,
        fail(RequestError, Scope::Request),
        fail(Overloaded, Scope::Model),
        fail(ServerError, Scope::Provider),
        fail(ConfigurationError, Scope::Network),
    ];
    for way in ways {
        let permit = pick(&mut world).expect("the permit is free again");
        assert!(pick(&mut world).is_none());
        settle(&mut world, permit, way);
    }
    assert!(pick(&mut world).is_some());
}

#[test]
fn a_relapse_begins_again_with_one_permit() {
    let mut world = World::with_keys(1);
    world.ask(|_| fail(RateLimit, Scope::Key).stated(30));
    world.pass(30);
    world.ask(|_| Answer);
    world.ask(|_| fail(RateLimit, Scope::Key).stated(30));
    world.pass(30);
    let first = pick(&mut world);
    assert!(first.is_some() && pick(&mut world).is_none());
}

#[test]
fn the_others_wait_for_the_probes_outcome_and_give_up_after_five_seconds() {
    let mut world = World::with_keys(1);
    world.ask(|_| fail(RateLimit, Scope::Key).stated(30));
    world.pass(30);
    let probe = pick(&mut world);
    expect![[r#"
        LimitReached (rate_limit), retry after 1.0s
    "#]]
    .assert_eq(&world.ask(|_| Answer));
    let limits = world.limits();
    let mut cascade = world.request(vec![leg("p", &["m"])], limits);
    assert!(matches!(cascade.next(&mut world.pool, world.now), Action::Wait { .. }));
    settle(&mut world, probe.expect("the one permit"), Answer);
    assert!(matches!(cascade.next(&mut world.pool, world.now), Action::Attempt(_)));
}

// Joining

#[test]
fn parallel_failures_are_one_relapse_and_stretch_nothing() {
    let mut world = World::with_keys(1);
    let permits: Vec<Permit> = std::iter::from_fn(|| pick(&mut world)).take(10).collect();
    let mut ends = Vec::new();
    for permit in permits {
        settle(&mut world, permit, fail(RateLimit, Scope::Key));
        ends.extend(world.pool.snapshot(&"p".into(), world.now)[0].until);
        world.pass(20);
    }
    ends.dedup();
    assert_eq!(ends.len(), 1);
}

#[test]
fn a_stated_time_is_never_shortened_and_a_guess_never_stretches_it() {
    let mut world = World::with_keys(1);
    let permits: Vec<Permit> = std::iter::from_fn(|| pick(&mut world)).take(4).collect();
    let failures = [Some(20), None, Some(50), Some(5)];
    let mut story = String::new();
    for (permit, stated) in permits.into_iter().zip(failures) {
        let failure = fail(RateLimit, Scope::Key);
        settle(
            &mut world,
            permit,
            stated.map_or_else(|| failure.clone(), |seconds| failure.clone().stated(seconds)),
        );
        story.push_str(&world.keys());
    }
    expect![[r#"
        1 resting for 20.0s (rate_limit, header)
        1 resting for 20.0s (rate_limit, header)
        1 resting for 50.0s (rate_limit, header)
        1 resting for 50.0s (rate_limit, header)
    "#]]
    .assert_eq(&story);
}

#[test]
fn an_old_success_does_not_wake_a_resting_key() {
    let mut world = World::with_keys(1);
    let old = pick(&mut world).expect("a key");
    let other = pick(&mut world).expect("a key");
    settle(&mut world, other, fail(QuotaExhausted, Scope::Key).stated(600));
    settle(&mut world, old, Answer);
    expect![[r#"
        1 resting for 10.0min (quota_exhausted, header)
    "#]]
    .assert_eq(&world.keys());
    world.pass(610);
    let before_the_hand = pick(&mut world).expect("the half-open permit");
    world.pool.act(&"p".into(), KeyId(1), Deed::Reset, world.now);
    settle(&mut world, before_the_hand, fail(AuthError, Scope::Key).proven());
    expect![[r#"
        1 active
    "#]]
    .assert_eq(&world.keys());
}

#[test]
fn more_than_three_errors_in_a_row_make_a_key_unstable() {
    let mut world = World::with_keys(1);
    for _ in 0..4 {
        let permit = pick(&mut world).expect("still used");
        settle(&mut world, permit, fail(ServerError, Scope::Provider));
    }
    expect![[r#"
        1 unstable
    "#]]
    .assert_eq(&world.keys());
    world.ask(|_| Answer);
    expect![[r#"
        1 active
    "#]]
    .assert_eq(&world.keys());
}

// How long a rest is

fn rest_after(prepare: impl FnOnce(&mut World), failure: &Reply) -> String {
    let mut world = World::with_keys(1);
    prepare(&mut world);
    world.ask(|_| failure.clone());
    world.keys()
}

#[test]
fn a_full_window_rests_by_the_first_source_that_knows() {
    let quota = || fail(QuotaExhausted, Scope::Key).window(Window::FiveHours);
    let saved = |windows: fn(Timestamp) -> Vec<QuotaWindow>| {
        move |world: &mut World| {
            let rows = snapshot(world.now, windows(world.now));
            world.pool.record_quota(&"p".into(), KeyId(1), &rows, world.now);
        }
    };
    let five_hours = saved(|now| vec![window(Window::FiveHours, false, Some(2 * HOUR), now)]);
    let full_week = saved(|now| {
        vec![
            window(Window::FiveHours, false, Some(2 * HOUR), now),
            window(Window::Weekly, true, Some(3 * DAY), now),
        ]
    });
    let nothing = |_: &mut World| {};
    let succeeded_4_days_ago = |world: &mut World| {
        world.ask(|_| Answer);
        world.pass(4 * DAY);
    };
    let mut story = String::new();
    story += &rest_after(five_hours, &quota());
    story += &rest_after(full_week, &quota());
    story += &rest_after(five_hours, &quota().stated(4 * HOUR));
    story += &rest_after(nothing, &quota().stated(HOUR));
    story += &rest_after(nothing, &quota().said(900));
    story += &rest_after(nothing, &quota().said(5 * HOUR));
    story += &rest_after(nothing, &fail(QuotaExhausted, Scope::Key).window(Window::Monthly));
    story += &rest_after(succeeded_4_days_ago, &fail(QuotaExhausted, Scope::Key).window(Window::Monthly));
    story += &rest_after(nothing, &quota());
    story += &rest_after(nothing, &quota().stated(90 * DAY));
    expect![[r#"
        1 resting for 2.0h (quota_exhausted, snapshot)
        1 resting for 3.0d (quota_exhausted, snapshot)
        1 resting for 4.0h (quota_exhausted, header)
        1 resting for 60.1min (quota_exhausted, header)
        1 resting for 15.0min (quota_exhausted, text)
        1 resting for 30.1min (quota_exhausted, text)
        1 resting for 10.0d (quota_exhausted, monthlycycle)
        1 resting for 6.0d (quota_exhausted, monthlycycle)
        1 resting for 30.1min (quota_exhausted, setting)
        1 resting for 30.0d (quota_exhausted, header)
    "#]]
    .assert_eq(&story);
}

#[test]
fn a_guessed_window_grows_to_six_hours_and_prose_bounds_it() {
    let mut story = String::new();
    for failure in [fail(QuotaExhausted, Scope::Key), fail(QuotaExhausted, Scope::Key).said(3 * HOUR)] {
        let mut world = World::with_keys(1);
        for _ in 0..6 {
            world.ask(|_| failure.clone());
            let until = world.pool.snapshot(&"p".into(), world.now)[0].until.expect("it rests");
            story.push_str(&format!("{} ", span(world.now, until)));
            world.now = until;
        }
        story.push('\n');
    }
    expect![[r#"
        30.1min 60.4min 2.0h 4.0h 6.0h 6.0h 
        30.1min 60.4min 2.0h 3.0h 3.0h 3.0h 
    "#]]
    .assert_eq(&story);
}

#[test]
fn a_provider_that_always_says_one_second_is_not_asked_every_second() {
    let mut world = World::with_keys(1);
    for _ in 0..600 {
        world.ask(|_| fail(QuotaExhausted, Scope::Key).stated(1));
        world.pass(1);
    }
    assert!(world.calls() < 12, "{} calls in ten minutes", world.calls());
}

#[test]
fn a_key_whose_sibling_answers_rests_ten_seconds_doubling_to_five_minutes() {
    let mut world = World::with_keys(2);
    let mut story = String::new();
    for _ in 0..7 {
        world.ask(|attempt| if attempt.key.0 == 1 { fail(ServerError, Scope::Key) } else { Answer });
        story.push_str(world.keys().lines().next().unwrap_or_default());
        story.push('\n');
        let until = world.pool.snapshot(&"p".into(), world.now)[0].until.expect("it rests");
        world.now = until;
    }
    expect![[r#"
        1 resting for 10.0s (server_error, setting)
        1 resting for 20.0s (server_error, setting)
        1 resting for 40.0s (server_error, setting)
        1 resting for 81.0s (server_error, setting)
        1 resting for 2.7min (server_error, setting)
        1 resting for 5.0min (server_error, setting)
        1 resting for 5.0min (server_error, setting)
    "#]]
    .assert_eq(&story);
}

// Probes

const ALL_PROBES: Probes = Probes { test: true, quota: true, balance: true };

fn world_with_probes(keys: u64) -> World {
    let mut world = World::new();
    world.configure("p", (1..=keys).map(|id| key_spec(id, None)).collect(), Settings::default(), ALL_PROBES);
    world
}

#[test]
fn a_guessed_window_is_probed_at_once_and_the_answer_replaces_the_guess_in_either_direction() {
    let mut story = String::new();
    let answers: [fn(Timestamp) -> QuotaSnapshot; 3] = [
        |now| snapshot(now, vec![window(Window::FiveHours, true, Some(4 * HOUR), now)]),
        |now| snapshot(now, vec![window(Window::FiveHours, true, Some(300), now)]),
        |now| snapshot(now, vec![window(Window::FiveHours, false, Some(300), now)]),
    ];
    for answer in answers {
        let mut world = world_with_probes(1);
        world.ask(|_| fail(QuotaExhausted, Scope::Key));
        let probe = world.pool.poll_probe(world.now).expect("a quota probe is due");
        assert_eq!(probe.kind, ProbeKind::Quota);
        let answer = answer(world.now);
        world.pool.probe_result(&probe, ProbeResult::Quota(answer), world.now);
        story += &world.keys();
    }
    expect![[r#"
        1 resting for 4.0h (quota_exhausted, probe)
        1 resting for 5.1min (quota_exhausted, probe)
        1 active
    "#]]
    .assert_eq(&story);
}

#[test]
fn a_full_month_is_believed_when_the_short_windows_are_open() {
    let mut world = world_with_probes(1);
    world.ask(|_| fail(QuotaExhausted, Scope::Key).window(Window::Monthly));
    let probe = world.pool.poll_probe(world.now).expect("a quota probe is due");
    let rows = snapshot(world.now, vec![window(Window::FiveHours, false, None, world.now)]);
    world.pool.probe_result(&probe, ProbeResult::Quota(rows), world.now);
    expect![[r#"
        1 resting for 10.0d (quota_exhausted, monthlycycle)
    "#]]
    .assert_eq(&world.keys());
}

#[test]
fn a_stated_end_is_not_probed_and_an_allowed_header_of_its_window_ends_it() {
    let mut world = world_with_probes(1);
    world.ask(|_| fail(QuotaExhausted, Scope::Key).window(Window::Weekly).stated(DAY));
    assert!(world.pool.poll_probe(world.now).is_none());
    world.pass(60);
    for (name, expected) in [(Window::FiveHours, false), (Window::Weekly, true)] {
        let rows = snapshot(world.now, vec![window(name, false, None, world.now)]);
        world.pool.record_quota(&"p".into(), KeyId(1), &rows, world.now);
        assert_eq!(pick(&mut world).is_some(), expected, "{name}");
    }
}

#[test]
fn a_free_test_decides_over_a_quarantined_key() {
    let mut world = world_with_probes(2);
    world.ask(|_| fail(AuthError, Scope::Key));
    let mut story = world.keys();
    for result in
        [ProbeResult::Passed, ProbeResult::Refused(verdict_of(fail(AuthError, Scope::Key).proven()))]
    {
        let probe = world.pool.poll_probe(world.now).expect("a test is due");
        assert_eq!(probe.kind, ProbeKind::Test);
        world.pool.probe_result(&probe, result, world.now);
    }
    story += &world.keys();
    expect![[r#"
        1 quarantined for 5.0min (auth_error, setting)
        2 quarantined for 5.0min (auth_error, setting)
        1 active
        2 disabled (auth_error, test)
    "#]]
    .assert_eq(&story);
}

#[test]
fn a_test_that_passes_does_not_undo_what_was_proven_meanwhile() {
    let mut world = world_with_probes(1);
    let mut slow = world.request(vec![leg("p", &["m"])], world.limits());
    assert!(matches!(slow.next(&mut world.pool, world.now), Action::Attempt(_)));
    world.ask(|_| fail(AuthError, Scope::Key));
    let probe = world.pool.poll_probe(world.now).expect("a test is due");
    let verdict = verdict_of(fail(AuthError, Scope::Key).proven());
    let outcome = Outcome::Failed { verdict, progress: Progress::Rejected, status: Some(401) };
    slow.report(outcome, &mut world.pool, world.now);
    world.pool.probe_result(&probe, ProbeResult::Passed, world.now);
    expect![[r#"
        1 disabled (auth_error, verdict)
    "#]]
    .assert_eq(&world.keys());
}

#[test]
fn a_monthly_cycle_that_nobody_stated_rests_the_key_and_not_its_account() {
    let mut world = account_world(2);
    world.ask(once(fail(QuotaExhausted, Scope::Account).window(Window::Monthly)));
    expect![[r#"
        1 resting for 10.0d (quota_exhausted, monthlycycle)
        2 active
        99 active
    "#]]
    .assert_eq(&world.keys());
}

#[test]
fn passing_the_test_only_to_be_refused_again_is_not_a_loop() {
    let mut world = world_with_probes(1);
    let mut calls = 0;
    for _ in 0..24 * 60 {
        world.ask(|_| {
            calls += 1;
            fail(AuthError, Scope::Key)
        });
        while let Some(probe) = world.pool.poll_probe(world.now) {
            world.pool.probe_result(&probe, ProbeResult::Passed, world.now);
        }
        world.pass(60);
    }
    assert!(calls <= 9, "{calls} calls in a day");
}

#[test]
fn without_a_test_a_quarantined_key_is_probed_by_traffic_ever_more_rarely_and_never_disabled() {
    let mut world = World::with_keys(1);
    let mut story = String::new();
    for _ in 0..10 {
        world.ask(|_| fail(AuthError, Scope::Key));
        let until = world.pool.snapshot(&"p".into(), world.now)[0].until.expect("quarantined");
        story.push_str(&format!("{} ", span(world.now, until)));
        world.now = until;
    }
    expect!["5.0min 10.2min 20.3min 40.3min 80.2min 2.7h 5.3h 10.7h 21.3h 24.0h "].assert_eq(&story);
}

#[test]
fn keys_of_a_mass_refusal_stay_quarantined_whatever_the_tests_say() {
    let mut world = world_with_probes(4);
    let refused = || ProbeResult::Refused(verdict_of(fail(AuthError, Scope::Key)));
    let mut notices = 0;
    for _ in 0..3 {
        let permit = pick(&mut world).expect("a key");
        settle(&mut world, permit, fail(AuthError, Scope::Key));
        while let Some(probe) = world.pool.poll_probe(world.now) {
            world.pool.probe_result(&probe, refused(), world.now);
        }
        world.pass(10);
        notices +=
            changes(&mut world).iter().filter(|change| change.notice == Some(Notice::MassRefusal)).count();
    }
    assert_eq!(notices, 1);
    expect![[r#"
        1 quarantined for 4.5min (auth_error, setting)
        2 quarantined for 4.7min (auth_error, setting)
        3 quarantined for 4.9min (auth_error, setting)
        4 active
    "#]]
    .assert_eq(&world.keys());
}

#[test]
fn a_key_without_money_comes_back_when_a_free_balance_check_finds_some() {
    let mut world = world_with_probes(1);
    world.ask(|_| fail(BillingExhausted, Scope::Key).proven());
    let mut story = String::new();
    let began = world.now;
    for round in 0..8 {
        let due = world.pool.next_probe_at().expect("a balance check is planned");
        story.push_str(&format!("{} ", span(began, due)));
        world.now = due;
        let probe = world.pool.poll_probe(world.now).expect("due");
        assert_eq!(probe.kind, ProbeKind::Balance);
        world.pool.probe_result(&probe, ProbeResult::Money(round == 7), world.now);
    }
    story += &world.keys();
    expect![[r#"
        60.0min 3.0h 7.0h 15.0h 31.0h 2.3d 3.3d 4.3d 1 active
    "#]]
    .assert_eq(&story);
}

// Accounts

fn account_world(members: u64) -> World {
    let mut world = World::new();
    let mut keys: Vec<_> = (1..=members).map(|id| key_spec(id, Some("team"))).collect();
    keys.push(key_spec(99, None));
    world.configure("p", keys, Settings::default(), Probes::default());
    world
}

#[test]
fn a_stated_limit_of_the_account_rests_all_its_keys_and_a_guess_only_the_one() {
    let mut world = account_world(3);
    world.ask(once(fail(QuotaExhausted, Scope::Account).stated(HOUR)));
    let mut story = world.keys();
    let mut world = account_world(3);
    world.ask(once(fail(QuotaExhausted, Scope::Account)));
    story += &world.keys();
    expect![[r#"
        1 resting for 60.1min (quota_exhausted, header)
        2 resting for 60.1min (quota_exhausted, header)
        3 resting for 60.1min (quota_exhausted, header)
        99 active
        1 resting for 30.1min (quota_exhausted, setting)
        2 active
        3 active
        99 active
    "#]]
    .assert_eq(&story);
}

#[test]
fn an_account_without_money_costs_one_call_and_one_sibling_per_doubling_period() {
    let mut world = account_world(6);
    let broke = |attempt: &Attempt| {
        if attempt.key.0 == 99 { Answer } else { fail(BillingExhausted, Scope::Account).proven() }
    };
    let began = world.now;
    for _ in 0..6 * 60 {
        world.ask(broke);
        world.pass(10);
    }
    let story: String = world
        .log
        .iter()
        .filter(|(_, attempt)| attempt.key.0 != 99)
        .map(|(at, attempt)| format!("{} after {}\n", attempt.key, span(began, *at)))
        .collect();
    expect![[r#"
        1 after 0.0s
        2 after 5.2min
        3 after 15.5min
        4 after 35.7min
    "#]]
    .assert_eq(&story);
}

#[test]
fn a_suspect_account_recovers_when_a_sibling_answers() {
    let mut world = account_world(3);
    world.ask(once(fail(AuthError, Scope::Account).proven()));
    world.pass(301);
    let mut story = world.keys();
    for _ in 0..3 {
        world.ask(|_| Answer);
    }
    story += &world.keys();
    expect![[r#"
        1 disabled (auth_error, verdict)
        2 half_open (auth_error, account)
        3 half_open (auth_error, account)
        99 active
        1 disabled (auth_error, verdict)
        2 active
        3 active
        99 active
    "#]]
    .assert_eq(&story);
}

// Breakers

#[test]
fn a_models_breaker_makes_requests_skip_the_model_and_closes_by_a_probe() {
    let mut world = World::with_keys(2);
    world.provider("q", [9], Settings::default());
    let legs = || vec![leg("p", &["m"]), leg("q", &["m"])];
    let mut story = String::new();
    let mut ask = |world: &mut World, works: bool| {
        let limits = world.limits();
        story += &world.ask_legs(legs(), limits, |attempt| {
            if works || attempt.provider.as_str() == "q" { Answer } else { fail(ModelError, Scope::Model) }
        });
    };
    ask(&mut world, false);
    ask(&mut world, false);
    ask(&mut world, false);
    world.pass(1800);
    ask(&mut world, false);
    ask(&mut world, false);
    world.pass(1800);
    ask(&mut world, true);
    ask(&mut world, true);
    expect![[r#"
          0.0s p 1/m first: model_error
          0.0s q 9/m next_provider: answered
        answered
          0.0s p 1/m first: model_error
          0.0s q 9/m next_provider: answered
        answered
          0.0s q 9/m first: answered
        answered
          0.0s p 1/m first: model_error
          0.0s q 9/m next_provider: answered
        answered
          0.0s q 9/m first: answered
        answered
          0.0s p 1/m first: answered
        answered
          0.0s p 1/m first: answered
        answered
    "#]]
    .assert_eq(&story);
}

#[test]
fn if_every_models_breaker_is_open_the_requested_model_is_tried_anyway_once() {
    let settings = Settings { model_fallback: true, ..Settings::default() };
    let mut world = World::with(3, settings);
    let limits = world.limits();
    let legs = || vec![leg("p", &["m", "n"])];
    world.ask_legs(legs(), limits.clone(), |_| fail(Overloaded, Scope::Model));
    world.ask_legs(legs(), limits.clone(), |_| fail(Overloaded, Scope::Model));
    expect![[r#"
          0.0s p 1/m open_breaker: overloaded
        Overloaded (overloaded), retry
    "#]]
    .assert_eq(&world.ask_legs(legs(), limits.clone(), |_| fail(Overloaded, Scope::Model)));
    expect![[r#"
          0.0s p 1/m open_breaker: answered
        answered
    "#]]
    .assert_eq(&world.ask_legs(legs(), limits, |_| Answer));
}

#[test]
fn a_provider_that_five_requests_left_is_closed_and_probed_ever_more_rarely() {
    let mut world = World::with_keys(3);
    let began = world.now;
    let mut calls = Vec::new();
    for second in 0..2 * HOUR {
        let before = world.calls();
        world.ask(|_| fail(ServerError, Scope::Provider));
        if world.calls() > before {
            calls.push(format!("{}x{}", span(began, later(began, second)), world.calls() - before));
        }
        world.now = later(began, second + 1);
    }
    expect!["0.0sx3 1.0sx3 2.0sx3 3.0sx3 4.0sx3 34.0sx1 94.0sx1 3.6minx1 7.6minx1 15.6minx1 30.6minx1 45.6minx1 60.6minx1 75.6minx1 90.6minx1 105.6minx1"].assert_eq(&calls.join(" "));
    expect![[r#"
        UpstreamFailed (server_error), retry after 34.0s
    "#]]
    .assert_eq(&world.ask(|_| Answer));
}

#[test]
fn limits_and_skips_never_open_a_providers_breaker() {
    let mut world = World::with_keys(200);
    for _ in 0..100 {
        world.ask(|_| fail(RateLimit, Scope::Key).stated(5));
        world.pass(1);
    }
    assert!(world.pool.provider_breaker(&"p".into()).is_some_and(|breaker| breaker.open.is_none()));
}

#[test]
fn a_person_closes_breakers() {
    let mut world = World::with_keys(1);
    for _ in 0..5 {
        world.ask(|_| fail(ServerError, Scope::Provider));
    }
    expect![[r#"
        UpstreamFailed (server_error), retry after 30.0s
    "#]]
    .assert_eq(&world.ask(|_| Answer));
    world.pool.reset_provider(&"p".into());
    expect![[r#"
          0.0s p 1/m first: answered
        answered
    "#]]
    .assert_eq(&world.ask(|_| Answer));
}

// Who is asked

#[test]
fn on_error_always_asks_the_first_that_may_be_asked() {
    let mut world = World::with_keys(3);
    let mut order = String::new();
    world.ask(once(fail(RateLimit, Scope::Key).stated(20)));
    for _ in 0..6 {
        world.ask(|attempt| {
            order.push_str(&attempt.key.to_string());
            Answer
        });
        world.pass(5);
    }
    assert_eq!(order, "222211");
}

#[test]
fn round_robin_is_exact_also_with_several_requests_per_key() {
    let settings = Settings { rotation: Rotation::RoundRobin, requests_per_key: 2, ..Settings::default() };
    let mut world = World::with(3, settings);
    let permits: Vec<Permit> = std::iter::from_fn(|| pick(&mut world)).take(12).collect();
    let order: Vec<u64> = permits.iter().map(|permit| permit.key().0).collect();
    assert_eq!(order, [1, 1, 2, 2, 3, 3, 1, 1, 2, 2, 3, 3]);
}

#[test]
fn a_session_stays_with_its_key_while_the_key_is_healthy() {
    let settings =
        Settings { rotation: Rotation::RoundRobin, sticky: Sticky::Session, ..Settings::default() };
    let mut world = World::with(4, settings);
    let mut order = Vec::new();
    for round in 0..6 {
        for session in [7, 8] {
            let mut limits = world.limits();
            limits.session = Some(session);
            world.ask_legs(vec![leg("p", &["m"])], limits, |attempt| {
                let ill = round == 3 && attempt.key.0 == 1;
                order.push((session, attempt.key.0));
                if ill { fail(RateLimit, Scope::Key) } else { Answer }
            });
        }
    }
    let of = |session| -> Vec<u64> {
        order.iter().filter(|(own, _)| *own == session).map(|(_, key)| *key).collect()
    };
    assert_eq!((of(7), of(8)), (vec![1, 1, 1, 1, 3, 3, 3], vec![2, 2, 2, 2, 2, 2]));
}

#[test]
fn a_busy_key_is_waited_for_and_a_full_queue_is_our_own_fault() {
    let mut world = World::with(1, Settings { max_concurrent: 1, ..Settings::default() });
    let held = pick(&mut world).expect("the one place");
    let limits = world.limits();
    let mut waiting = world.request(vec![leg("p", &["m"])], limits);
    assert!(matches!(waiting.next(&mut world.pool, world.now), Action::Wait { .. }));
    expect![[r#"
        LocalFault (local_fault), retry after 1.0s
    "#]]
    .assert_eq(&world.ask(|_| Answer));
    drop(held);
    assert!(matches!(waiting.next(&mut world.pool, world.now), Action::Attempt(_)));
    waiting.report(Outcome::Completed, &mut world.pool, world.now);
    expect![[r#"
          0.0s p 1/m first: answered
        answered
    "#]]
    .assert_eq(&world.ask(|_| Answer));
}

#[test]
fn a_busy_provider_gives_way_to_the_chain() {
    let mut world = World::with(1, Settings { max_concurrent: 1, ..Settings::default() });
    world.provider("q", [9], Settings::default());
    let _held = pick(&mut world).expect("the one place");
    let limits = world.limits();
    let legs = vec![leg("p", &["m"]), leg("q", &["m"])];
    expect![[r#"
          0.0s q 9/m first: answered
        answered
    "#]]
    .assert_eq(&world.ask_legs(legs, limits, |_| Answer));
}

#[test]
fn an_object_is_served_by_its_owners_account_only() {
    let mut world = account_world(2);
    let mut limits = world.limits();
    limits.pinned = Some(KeyId(2));
    let trail = world.ask_legs(vec![leg("p", &["m"])], limits, |_| fail(RateLimit, Scope::Key).stated(90));
    expect![[r#"
          0.0s p 2/m first: rate_limit
          0.0s p 1/m next_key: rate_limit
        LimitReached (rate_limit), no retry after 90.3s
    "#]]
    .assert_eq(&trail);
}

// People

#[test]
fn people_pause_resume_disable_enable_reset_and_end_rests() {
    let mut world = World::with_keys(1);
    let mut story = String::new();
    let mut act = |world: &mut World, deed: Deed| {
        assert!(world.pool.act(&"p".into(), KeyId(1), deed, world.now));
        story.push_str(&format!("{deed:?}: {}", world.keys()).replace("1_800_000_000", "start"));
    };
    act(&mut world, Deed::Pause(None));
    world.pass(DAY);
    act(&mut world, Deed::Resume);
    world.ask(|_| fail(RateLimit, Scope::Key).stated(600));
    act(&mut world, Deed::EndRest);
    act(&mut world, Deed::Disable);
    act(&mut world, Deed::EndRest);
    act(&mut world, Deed::Enable);
    world.ask(|_| fail(AuthError, Scope::Key).proven());
    act(&mut world, Deed::Reset);
    expect![[r#"
        Pause(None): 1 paused
        Resume: 1 active
        EndRest: 1 active
        Disable: 1 disabled (configuration_error, hand)
        EndRest: 1 disabled (configuration_error, hand)
        Enable: 1 active
        Reset: 1 active
    "#]]
    .assert_eq(&story);
    let later = later(world.now, 60);
    assert!(world.pool.act(&"p".into(), KeyId(1), Deed::Pause(Some(later)), world.now));
    assert!(pick(&mut world).is_none());
    world.pass(60);
    assert!(pick(&mut world).is_some());
    assert!(!world.pool.act(&"p".into(), KeyId(2), Deed::Resume, world.now));
}

// Restarts

fn changes(world: &mut World) -> Vec<Change> {
    std::iter::from_fn(|| world.pool.poll_change()).collect()
}

/// A second process that has read what the first one wrote, at a clock of its own.
fn restarted(written: &[Change], now: Timestamp) -> World {
    let mut world = account_world(3);
    world.now = now;
    for change in written {
        let json = serde_json::to_string(&change.state).expect("states are plain data");
        let subject = Subject::parse(&change.subject.to_string()).expect("a subject's text reads back");
        let state: SavedState = serde_json::from_str(&json).expect("a state reads back");
        world.pool.restore(&subject, state, now);
    }
    world
}

#[test]
fn health_survives_a_restart_and_a_clock_that_was_set() {
    let mut world = account_world(3);
    world.ask(once(fail(QuotaExhausted, Scope::Key).stated(HOUR)));
    world.ask(once(fail(AuthError, Scope::Key).proven()));
    world.ask(once(fail(QuotaExhausted, Scope::Model).stated(HOUR)));
    let written = changes(&mut world);
    let mut story = world.keys();
    for (name, now) in [
        ("ten minutes later", later(START, 600)),
        ("three days later", later(START, 3 * DAY)),
        ("the clock three days back", START - backstop_triage::SignedDuration::from_hours(72)),
    ] {
        story.push_str(&format!("{name}:\n{}", restarted(&written, now).keys()));
    }
    expect![[r#"
        1 resting for 60.1min (quota_exhausted, header)
        2 disabled (auth_error, verdict)
        3 active; not m for 60.4min
        99 active
        ten minutes later:
        1 resting for 50.1min (quota_exhausted, header)
        2 disabled (auth_error, verdict)
        3 active; not m for 50.4min
        99 active
        three days later:
        1 half_open (quota_exhausted, header)
        2 disabled (auth_error, verdict)
        3 active; not m for being tried
        99 active
        the clock three days back:
        1 resting for 60.1min (quota_exhausted, header)
        2 disabled (auth_error, verdict)
        3 active; not m for 60.4min
        99 active
    "#]]
    .assert_eq(&story);
}

#[test]
fn a_changed_configuration_keeps_the_health_of_keys_that_stay() {
    let mut world = World::with_keys(3);
    world.ask(once(fail(QuotaExhausted, Scope::Key).stated(HOUR)));
    let old = pick(&mut world).expect("key 2");
    world.provider("p", [3, 1, 4], Settings::default());
    settle(&mut world, old, fail(AuthError, Scope::Key).proven());
    expect![[r#"
        3 active
        1 resting for 60.1min (quota_exhausted, header)
        4 active
    "#]]
    .assert_eq(&world.keys());
}

#[test]
fn every_class_that_rests_a_key_says_why_and_by_whom() {
    for class in Class::ALL {
        let mut world = World::with_keys(1);
        world.ask(|_| fail(class, Scope::Key));
        let status = &world.pool.snapshot(&"p".into(), world.now)[0];
        let is_away = pick(&mut world).is_none();
        assert_eq!(is_away && status.models.is_empty(), status.why.is_some(), "{class}");
    }
}

#[test]
fn keys_whose_quota_resets_in_one_second_come_back_apart_and_one_call_at_a_time() {
    let mut world = World::new();
    let keys = (1..=50).map(|id| key_spec(id, None)).collect();
    world.configure("p", keys, Settings { max_attempts: 60, ..Settings::default() }, Probes::default());
    world.ask(|_| fail(QuotaExhausted, Scope::Key).stated(3600));
    let mut ends: Vec<_> = world.pool.snapshot(&"p".into(), world.now).iter().map(|key| key.until).collect();
    let earliest = later(world.now, 3599);
    assert!(ends.iter().all(|end| end.is_some_and(|end| end >= earliest)));
    ends.sort_unstable();
    ends.dedup();
    assert_eq!(ends.len(), 50, "no two in the same moment");
    world.pass(3600 + 31);
    let permits: Vec<Permit> = std::iter::from_fn(|| pick(&mut world)).collect();
    assert_eq!(
        permits.len(),
        50,
        "each is tried by one request and by no second one before that has its outcome"
    );
}

#[test]
fn a_key_that_a_persons_test_found_empty_comes_back_when_there_is_money() {
    let mut world = World::new();
    let probes = Probes { balance: true, ..Probes::default() };
    world.configure("p", vec![key_spec(1, None)], Settings::default(), probes);
    let verdict = verdict_of(fail(BillingExhausted, Scope::Account).proven());
    assert!(world.pool.refused_by_test(&"p".into(), KeyId(1), (&verdict, Some(402)), world.now));
    assert_eq!(world.pool.poll_probe(world.now), None);
    world.pass(3600);
    let probe = world.pool.poll_probe(world.now).expect("the balance is looked at");
    world.pool.probe_result(&probe, ProbeResult::Money(true), world.now);
    assert_eq!(world.pool.snapshot(&"p".into(), world.now)[0].state, KeyState::Active);
}
