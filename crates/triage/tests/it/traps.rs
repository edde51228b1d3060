//! Traps that cost other gateways their keys or their clients' patience: what is done, not how it is read.

use backstop_triage::{
    Class::*, HealSource, Heals, KeyId, QuotaSnapshot, QuotaSource, QuotaWindow, Scope, SignedDuration,
    Timestamp, Window, cascade::Attempt,
};
use expect_test::expect;

use crate::world::{Reply, Reply::Answer, World, fail, later, leg};

fn once(reply: Reply) -> impl FnMut(&Attempt) -> Reply {
    let mut reply = Some(reply);
    move |_| reply.take().unwrap_or(Answer)
}

/// The failure states a moment and nothing else.
fn at(mut reply: Reply, at: Timestamp) -> Reply {
    if let Reply::Fail { verdict, .. } = &mut reply {
        verdict.heals = Some(Heals { after: None, at: Some(at), trusted: true, source: HealSource::Field });
    }
    reply
}

#[test]
fn capacity_of_one_model_burns_no_pool() {
    let mut world = World::with_keys(50);
    for _ in 0..20 {
        world.ask(|_| fail(Overloaded, Scope::Model));
    }
    assert!(world.keys().lines().all(|line| line.ends_with("active")), "{}", world.keys());
}

#[test]
fn a_skipped_key_is_not_a_failed_key() {
    let mut world = World::with_keys(1);
    world.ask(|_| fail(QuotaExhausted, Scope::Key).stated(600));
    let until = world.pool.snapshot(&"p".into(), world.now)[0].until;
    for _ in 0..500 {
        world.ask(|_| Answer);
        world.pass(1);
    }
    assert_eq!(world.pool.snapshot(&"p".into(), world.now)[0].until, until);
    assert_eq!(world.calls(), 1);
}

#[test]
fn a_ladder_climbs_although_its_rests_have_ended() {
    let mut world = World::with_keys(2);
    let mut story = String::new();
    for _ in 0..4 {
        world.ask(|attempt| if attempt.key.0 == 1 { fail(QuotaExhausted, Scope::Key) } else { Answer });
        story.push_str(world.keys().lines().next().unwrap_or_default());
        story.push('\n');
        world.pass(7 * 3600);
    }
    for _ in 0..3 {
        world.ask(|_| Answer);
    }
    world.ask(once(fail(QuotaExhausted, Scope::Key)));
    story.push_str(&world.keys());
    expect![[r#"
        1 resting for 30.1min (quota_exhausted, setting)
        1 resting for 60.4min (quota_exhausted, setting)
        1 resting for 2.0h (quota_exhausted, setting)
        1 resting for 4.0h (quota_exhausted, setting)
        1 resting for 30.3min (quota_exhausted, setting)
        2 active
    "#]]
    .assert_eq(&story);
}

#[test]
fn a_long_retry_after_rests_the_key_and_never_the_client() {
    let mut world = World::with_keys(1);
    let began = world.now;
    expect![[r#"
          0.0s p 1/m first: rate_limit
        LimitReached (rate_limit), no retry after 60.1min
    "#]]
    .assert_eq(&world.ask(|_| fail(RateLimit, Scope::Key).stated(3600)));
    assert_eq!(world.now, began);
}

#[test]
fn nonsense_times_are_no_times() {
    let mut story = String::new();
    for moment in [
        |now: Timestamp| now - SignedDuration::from_secs(600),
        |now: Timestamp| now - SignedDuration::from_secs(2),
        |now: Timestamp| now + SignedDuration::from_hours(24 * 365 * 50),
    ] {
        let mut world = World::with_keys(2);
        let moment = moment(world.now);
        world.ask(once(at(fail(RateLimit, Scope::Key), moment)));
        story.push_str(world.keys().lines().next().unwrap_or_default());
        story.push('\n');
    }
    expect![[r#"
        1 resting for 60.2s (rate_limit, setting)
        1 resting for 1.0s (rate_limit, field)
        1 resting for 60.2s (rate_limit, setting)
    "#]]
    .assert_eq(&story);
}

#[test]
fn a_snapshot_whose_reset_has_passed_says_nothing() {
    let mut world = World::with_keys(1);
    let row = QuotaWindow {
        window: Some(Window::FiveHours),
        unit: "percent".into(),
        model: None,
        used: None,
        limit: None,
        remaining: None,
        resets_at: Some(world.now),
        exhausted: true,
        gates: true,
    };
    let saved =
        QuotaSnapshot { taken_at: world.now, source: QuotaSource::Endpoint, plan: None, windows: vec![row] };
    world.pool.record_quota(&"p".into(), KeyId(1), &saved, world.now);
    world.pass(60);
    world.ask(|_| fail(QuotaExhausted, Scope::Key).window(Window::FiveHours));
    expect![[r#"
        1 resting for 30.1min (quota_exhausted, setting)
    "#]]
    .assert_eq(&world.keys());
}

#[test]
fn a_limit_that_a_smaller_request_passes_costs_the_key_nothing() {
    let mut world = World::with_keys(1);
    expect![[r#"
          0.0s p 1/m first: billing_exhausted
        NoUsableKey (billing_exhausted), no retry
    "#]]
    .assert_eq(&world.ask(|_| fail(BillingExhausted, Scope::Request)));
    expect![[r#"
          0.0s p 1/m first: answered
        answered
    "#]]
    .assert_eq(&world.ask(|_| Answer));
}

#[test]
fn a_limit_of_one_model_leaves_the_others_to_the_key() {
    let mut world = World::with_keys(1);
    world.ask(|_| fail(QuotaExhausted, Scope::Model).stated(600));
    let limits = world.limits();
    expect![[r#"
          0.0s p 1/other first: answered
        answered
    "#]]
    .assert_eq(&world.ask_legs(vec![leg("p", &["other"])], limits, |_| Answer));
    expect![[r#"
        LimitReached (quota_exhausted), no retry after 10.0min
    "#]]
    .assert_eq(&world.ask(|_| Answer));
}

#[test]
fn a_process_that_starts_again_and_again_over_a_402_calls_once() {
    let mut world = World::with_keys(1);
    world.ask(|_| fail(BillingExhausted, Scope::Account).proven());
    let written: Vec<_> = std::iter::from_fn(|| world.pool.poll_change()).collect();
    for restart in 1..20 {
        let mut again = World::with_keys(1);
        again.now = later(world.now, restart * 30);
        for change in &written {
            again.pool.restore(&change.subject, change.state.clone(), again.now);
        }
        again.ask(|_| fail(BillingExhausted, Scope::Account).proven());
        assert_eq!(again.calls(), 0);
    }
}

#[test]
fn a_flood_of_what_nobody_recognises_dies_down_by_itself() {
    let mut world = World::with_keys(20);
    for _ in 0..1000 {
        world.ask(|_| fail(Unknown, Scope::Request).status(302));
    }
    assert_eq!(world.calls(), 20, "each key is asked once, then all rest");
}
