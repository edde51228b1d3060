//! Trails: what happens after a failure, row by row of the specification.

use backstop_triage::{
    Class::*,
    Scope, Settings, Window,
    cascade::{Limits, Progress},
    settings::{AmbiguousRetry, KeyRetryMode},
};
use expect_test::expect;

use crate::world::{Reply, Reply::Answer, World, fail, later, leg};

/// Answers the first attempts by the list, then all others with success.
fn then_answers(replies: Vec<Reply>) -> impl FnMut(&backstop_triage::cascade::Attempt) -> Reply {
    let mut replies = replies.into_iter();
    move |_| replies.next().unwrap_or(Answer)
}

#[test]
fn a_request_error_goes_back_after_one_call() {
    let mut world = World::with_keys(50);
    expect![[r#"
          0.0s p 1/m first: request_error
        the upstream's answer goes back
    "#]]
    .assert_eq(&world.ask(|_| fail(RequestError, Scope::Request)));
}

#[test]
fn an_overflow_goes_back_in_our_own_words() {
    let mut world = World::with_keys(3);
    expect![[r#"
          0.0s p 1/m first: context_overflow
        ContextOverflow (context_overflow), no retry
    "#]]
    .assert_eq(&world.ask(|_| fail(ContextOverflow, Scope::Request)));
}

#[test]
fn a_reset_near_the_window_gets_one_fresh_try_before_it_counts_as_an_overflow() {
    let reset = || fail(ContextOverflow, Scope::Request).progress(Progress::MaybeAccepted);
    expect![[r#"
          0.0s p 1/m first: context_overflow
          0.0s p 1/m retry_same: context_overflow
        ContextOverflow (context_overflow), no retry
    "#]]
    .assert_eq(&World::with_keys(3).ask(|_| reset()));
    let mut calls = 0;
    expect![[r#"
          0.0s p 1/m first: context_overflow
          0.0s p 1/m retry_same: answered
        answered
    "#]]
    .assert_eq(&World::with_keys(3).ask(|_| {
        calls += 1;
        if calls == 1 { reset() } else { Answer }
    }));
}

#[test]
fn an_overflow_tries_the_larger_window_once_on_the_same_key() {
    let settings = Settings { context_fallback: Some("large".into()), ..Settings::default() };
    let mut world = World::with(2, settings);
    expect![[r#"
          0.0s p 1/m first: context_overflow
          0.0s p 1/large larger_window: answered
        answered
    "#]]
    .assert_eq(&world.ask(then_answers(vec![fail(ContextOverflow, Scope::Request)])));
    expect![[r#"
          0.0s p 1/m first: context_overflow
          0.0s p 1/large larger_window: context_overflow
        ContextOverflow (context_overflow), no retry
    "#]]
    .assert_eq(&world.ask(|_| fail(ContextOverflow, Scope::Request)));
    expect![[r#"
          0.0s p 1/m first: context_overflow
          0.0s p 1/large larger_window: rate_limit
        ContextOverflow (context_overflow), no retry
    "#]]
    .assert_eq(
        &world.ask(then_answers(vec![fail(ContextOverflow, Scope::Request), fail(RateLimit, Scope::Key)])),
    );
}

#[test]
fn a_transient_request_is_sent_once_more_on_the_same_key() {
    let mut world = World::with_keys(3);
    expect![[r#"
          0.0s p 1/m first: transient_request
          0.0s p 1/m retry_same: answered
        answered
    "#]]
    .assert_eq(&world.ask(then_answers(vec![fail(TransientRequest, Scope::Request)])));
    expect![[r#"
          0.0s p 1/m first: transient_request
          0.0s p 1/m retry_same: transient_request
        the upstream's answer goes back
    "#]]
    .assert_eq(&world.ask(|_| fail(TransientRequest, Scope::Request)));
}

#[test]
fn overloaded_waits_then_moves_on() {
    let mut world = World::with_keys(5);
    expect![[r#"
          0.0s p 1/m first: overloaded
          1.9s p 1/m retry_same: overloaded
          4.0s p 1/m retry_same: overloaded
          4.0s p 2/m next_key: overloaded
        Overloaded (overloaded), retry
    "#]]
    .assert_eq(&world.ask(|_| fail(Overloaded, Scope::Model)));
    expect![[r#"
        1 active
        2 active
        3 active
        4 active
        5 active
    "#]]
    .assert_eq(&world.keys());
}

#[test]
fn overloaded_with_model_fallback_tries_the_next_model_before_another_key() {
    let settings = Settings { model_fallback: true, ..Settings::default() };
    let mut world = World::with(3, settings);
    let limits = world.limits();
    let trail = world.ask_legs(vec![leg("p", &["m", "n"]), leg("p", &["z"])], limits, |attempt| {
        if attempt.model.as_str() == "z" { Answer } else { fail(Overloaded, Scope::Model) }
    });
    expect![[r#"
          0.0s p 1/m first: overloaded
          1.9s p 1/m retry_same: overloaded
          4.0s p 1/m retry_same: overloaded
          4.0s p 1/n next_model: overloaded
          4.0s p 2/m next_key: overloaded
          4.0s p 1/z next_provider: answered
        answered
    "#]]
    .assert_eq(&trail);
}

#[test]
fn overloaded_honours_a_short_stated_wait_and_leaves_over_a_long_one() {
    let mut world = World::with_keys(2);
    expect![[r#"
          0.0s p 1/m first: overloaded
          7.2s p 1/m retry_same: answered
        answered
    "#]]
    .assert_eq(&world.ask(then_answers(vec![fail(Overloaded, Scope::Model).stated(7)])));
    expect![[r#"
          0.0s p 1/m first: overloaded
          0.0s p 2/m next_key: answered
        answered
    "#]]
    .assert_eq(&world.ask(then_answers(vec![fail(Overloaded, Scope::Model).stated(11)])));
}

#[test]
fn an_overload_that_is_sat_out_counts_once_and_one_further_key_is_tried() {
    let mut world = World::with_keys(5);
    world.provider("q", [9], Settings::default());
    let limits = world.limits();
    let trail = world.ask_legs(vec![leg("p", &["m"]), leg("q", &["m"])], limits, |attempt| {
        if attempt.provider.as_str() == "q" { Answer } else { fail(Overloaded, Scope::Provider) }
    });
    expect![[r#"
          0.0s p 1/m first: overloaded
          1.9s p 1/m retry_same: overloaded
          4.0s p 1/m retry_same: overloaded
          4.0s p 2/m next_key: overloaded
          4.0s q 9/m next_provider: answered
        answered
    "#]]
    .assert_eq(&trail);
}

#[test]
fn a_missing_model_leads_to_the_next_model_on_the_same_key_if_enabled() {
    let settings = Settings { model_fallback: true, ..Settings::default() };
    let mut world = World::with(2, settings);
    let models = || vec![leg("p", &["m", "n", "o"])];
    let limits = world.limits();
    let trail = world.ask_legs(models(), limits.clone(), |attempt| {
        if attempt.model.as_str() == "o" { Answer } else { fail(ModelError, Scope::Model) }
    });
    expect![[r#"
          0.0s p 1/m first: model_error
          0.0s p 1/n next_model: model_error
          0.0s p 1/o next_model: answered
        answered
    "#]]
    .assert_eq(&trail);
    expect![[r#"
          0.0s p 1/m first: model_error
          0.0s p 1/n next_model: model_error
          0.0s p 1/o next_model: model_error
        the upstream's answer goes back
    "#]]
    .assert_eq(&world.ask_legs(models(), limits, |_| fail(ModelError, Scope::Model)));
}

#[test]
fn a_missing_model_without_fallback_goes_to_the_chain_and_then_back() {
    let mut world = World::with_keys(2);
    world.provider("q", [9], Settings::default());
    let limits = world.limits();
    let legs = || vec![leg("p", &["m"]), leg("q", &["m"])];
    expect![[r#"
          0.0s p 1/m first: model_error
          0.0s q 9/m next_provider: model_error
        the upstream's answer goes back
    "#]]
    .assert_eq(&world.ask_legs(legs(), limits, |_| fail(ModelError, Scope::Model)));
}

#[test]
fn a_plan_without_the_model_rests_key_and_model_only() {
    let mut world = World::with_keys(2);
    expect![[r#"
          0.0s p 1/m first: model_error
          0.0s p 2/m next_key: answered
        answered
    "#]]
    .assert_eq(&world.ask(then_answers(vec![fail(ModelError, Scope::Key)])));
    expect![[r#"
        1 active; not m for 30.1min
        2 active
    "#]]
    .assert_eq(&world.keys());
    let limits = world.limits();
    expect![[r#"
          0.0s p 1/other first: answered
        answered
    "#]]
    .assert_eq(&world.ask_legs(vec![leg("p", &["other"])], limits, |_| Answer));
}

#[test]
fn a_proven_dead_key_is_disabled_and_asked_once() {
    let mut world = World::with_keys(3);
    let dead = |attempt: &backstop_triage::cascade::Attempt| {
        if attempt.key.0 < 3 { fail(AuthError, Scope::Key).proven() } else { Answer }
    };
    expect![[r#"
          0.0s p 1/m first: auth_error
          0.0s p 2/m next_key: auth_error
          0.0s p 3/m next_key: answered
        answered
    "#]]
    .assert_eq(&world.ask(dead));
    expect![[r#"
        1 disabled (auth_error, verdict)
        2 disabled (auth_error, verdict)
        3 active
    "#]]
    .assert_eq(&world.keys());
    world.pass(40 * 24 * 3600);
    expect![[r#"
          0.0s p 3/m first: answered
        answered
    "#]]
    .assert_eq(&world.ask(dead));
}

#[test]
fn a_bare_refusal_is_quarantined() {
    let mut world = World::with_keys(2);
    expect![[r#"
          0.0s p 1/m first: auth_error
          0.0s p 2/m next_key: answered
        answered
    "#]]
    .assert_eq(&world.ask(then_answers(vec![fail(AuthError, Scope::Key)])));
    expect![[r#"
        1 quarantined for 5.0min (auth_error, setting)
        2 active
    "#]]
    .assert_eq(&world.keys());
}

#[test]
fn an_empty_402_is_quarantined_and_a_relays_own_account_rests() {
    let mut world = World::with_keys(3);
    let replies = vec![
        fail(BillingExhausted, Scope::Key).by_status(),
        fail(BillingExhausted, Scope::Key).reason("cap_reached"),
    ];
    expect![[r#"
          0.0s p 1/m first: billing_exhausted
          0.0s p 2/m next_key: billing_exhausted
          0.0s p 3/m next_key: answered
        answered
    "#]]
    .assert_eq(&world.ask(then_answers(replies)));
    expect![[r#"
        1 quarantined for 5.0min (billing_exhausted, setting)
        2 resting for 30.1min (billing_exhausted, setting)
        3 active
    "#]]
    .assert_eq(&world.keys());
}

#[test]
fn a_missing_permission_rests_half_an_hour_and_longer_on_relapse() {
    let mut world = World::with_keys(1);
    let mut rests = String::new();
    for _ in 0..8 {
        world.ask(|_| fail(AuthError, Scope::Key).reason("permission_missing"));
        rests.push_str(&world.keys());
        world.pass(25 * 3600);
    }
    expect![[r#"
        1 resting for 30.1min (auth_error, setting)
        1 resting for 60.4min (auth_error, setting)
        1 resting for 2.0h (auth_error, setting)
        1 resting for 4.0h (auth_error, setting)
        1 resting for 8.0h (auth_error, setting)
        1 resting for 16.0h (auth_error, setting)
        1 resting for 24.0h (auth_error, setting)
        1 resting for 24.0h (auth_error, setting)
    "#]]
    .assert_eq(&rests);
}

#[test]
fn billing_of_the_request_costs_the_key_nothing() {
    let mut world = World::with_keys(2);
    expect![[r#"
          0.0s p 1/m first: billing_exhausted
          0.0s p 2/m next_key: answered
        answered
    "#]]
    .assert_eq(&world.ask(then_answers(vec![fail(BillingExhausted, Scope::Request)])));
    expect![[r#"
        1 active
        2 active
    "#]]
    .assert_eq(&world.keys());
}

#[test]
fn no_money_for_one_model_rests_key_and_model_for_a_day() {
    let settings = Settings { model_fallback: true, ..Settings::default() };
    let mut world = World::with(2, settings);
    let limits = world.limits();
    let legs = vec![leg("p", &["m", "n"])];
    let trail = world.ask_legs(legs, limits, |attempt| {
        if attempt.key.0 == 1 { fail(BillingExhausted, Scope::Model) } else { Answer }
    });
    expect![[r#"
          0.0s p 1/m first: billing_exhausted
          0.0s p 1/n next_model: billing_exhausted
          0.0s p 2/m next_key: answered
        answered
    "#]]
    .assert_eq(&trail);
    expect![[r#"
        1 active; not m for 24.0h; not n for 24.0h
        2 active
    "#]]
    .assert_eq(&world.keys());
}

#[test]
fn three_refusals_without_proof_are_the_providers_fault() {
    let mut world = World::with_keys(10);
    world.provider("q", [90], Settings::default());
    let limits = world.limits();
    let trail = world.ask_legs(vec![leg("p", &["m"]), leg("q", &["m"])], limits, |attempt| {
        if attempt.provider.as_str() == "q" { Answer } else { fail(AuthError, Scope::Key) }
    });
    expect![[r#"
          0.0s p 1/m first: auth_error
          0.0s p 2/m next_key: auth_error
          0.0s p 3/m next_key: auth_error
          0.0s q 90/m next_provider: answered
        answered
    "#]]
    .assert_eq(&trail);
}

#[test]
fn a_full_window_rests_until_its_reset_and_the_next_key_answers() {
    let mut world = World::with_keys(3);
    let replies = vec![
        fail(QuotaExhausted, Scope::Key).window(Window::FiveHours).stated(3 * 3600),
        fail(QuotaExhausted, Scope::Key).window(Window::FiveHours).said(3 * 3600),
    ];
    expect![[r#"
          0.0s p 1/m first: quota_exhausted
          0.0s p 2/m next_key: quota_exhausted
          0.0s p 3/m next_key: answered
        answered
    "#]]
    .assert_eq(&world.ask(then_answers(replies)));
    expect![[r#"
        1 resting for 3.0h (quota_exhausted, header)
        2 resting for 30.1min (quota_exhausted, text)
        3 active
    "#]]
    .assert_eq(&world.keys());
}

#[test]
fn a_rate_limit_rests_the_stated_time_or_a_minute() {
    let mut world = World::with_keys(3);
    let replies = vec![fail(RateLimit, Scope::Key), fail(RateLimit, Scope::Key).stated(7)];
    expect![[r#"
          0.0s p 1/m first: rate_limit
          0.0s p 2/m next_key: rate_limit
          0.0s p 3/m next_key: answered
        answered
    "#]]
    .assert_eq(&world.ask(then_answers(replies)));
    expect![[r#"
        1 resting for 60.2s (rate_limit, setting)
        2 resting for 7.0s (rate_limit, header)
        3 active
    "#]]
    .assert_eq(&world.keys());
}

#[test]
fn a_server_error_moves_on_and_blames_the_key_only_if_a_sibling_answers() {
    let mut world = World::with_keys(2);
    expect![[r#"
          0.0s p 1/m first: server_error
          0.0s p 2/m next_key: answered
        answered
    "#]]
    .assert_eq(&world.ask(then_answers(vec![fail(ServerError, Scope::Provider)])));
    expect![[r#"
        1 resting for 10.0s (server_error, setting)
        2 active
    "#]]
    .assert_eq(&world.keys());
}

#[test]
fn no_answer_at_all_from_fifty_keys_is_three_calls() {
    let mut world = World::with_keys(50);
    let trail = world.ask(|_| fail(Timeout, Scope::Provider).took(120));
    expect![[r#"
          0.0s p 1/m first: timeout
        2.0min p 2/m next_key: timeout
        4.0min p 3/m next_key: timeout
        TimedOut (timeout), retry
    "#]]
    .assert_eq(&trail);
    expect![[r#"
        1 active
    "#]]
    .assert_eq(&world.keys()[..9]);
}

#[test]
fn a_connection_that_was_not_made_in_time_tries_the_next_key_whatever_the_setting() {
    let settings = Settings { retry_on_timeout: false, ..Settings::default() };
    let mut world = World::with(3, settings);
    expect![[r#"
          0.0s p 1/m first: timeout
          0.0s p 2/m next_key: answered
        answered
    "#]]
    .assert_eq(&world.ask(|attempt| match attempt.key.0 {
        1 => fail(Timeout, Scope::Network).progress(Progress::NotSent),
        _ => Answer,
    }));
}

#[test]
fn a_timeout_goes_back_if_retrying_it_is_off() {
    let settings = Settings { retry_on_timeout: false, ..Settings::default() };
    let mut world = World::with(3, settings);
    expect![[r#"
          0.0s p 1/m first: timeout
        TimedOut (timeout), retry
    "#]]
    .assert_eq(&world.ask(|_| fail(Timeout, Scope::Provider)));
}

#[test]
fn a_wrong_setting_blames_no_key_and_goes_to_the_chain() {
    let mut world = World::with_keys(3);
    expect![[r#"
          0.0s p 1/m first: configuration_error
        MisconfiguredRoute (configuration_error), no retry
    "#]]
    .assert_eq(&world.ask(|_| fail(ConfigurationError, Scope::Network)));
    expect![[r#"
          0.0s p 1/m first: configuration_error
          0.0s p 2/m next_key: configuration_error
          0.0s p 3/m next_key: configuration_error
        MisconfiguredRoute (configuration_error), no retry
    "#]]
    .assert_eq(&world.ask(|_| fail(ConfigurationError, Scope::Key)));
    expect![[r#"
        1 active
        2 active
        3 active
    "#]]
    .assert_eq(&world.keys());
}

#[test]
fn our_own_fault_is_nobodys_fault() {
    let mut world = World::with_keys(2);
    expect![[r#"
          0.0s p 1/m first: local_fault
        LocalFault (local_fault), retry
    "#]]
    .assert_eq(&world.ask(|_| fail(LocalFault, Scope::Local)));
    expect![[r#"
        1 active
        2 active
    "#]]
    .assert_eq(&world.keys());
}

#[test]
fn unknown_tries_one_further_key_and_one_further_leg() {
    let mut world = World::with_keys(5);
    world.provider("q", [6, 7, 8], Settings::default());
    world.provider("r", [9], Settings::default());
    let limits = world.limits();
    let legs = vec![leg("p", &["m"]), leg("q", &["m"]), leg("r", &["m"])];
    expect![[r#"
          0.0s p 1/m first: unknown
          0.0s p 2/m next_key: unknown
          0.0s q 6/m next_provider: unknown
        UnrecognisedFailure (unknown), no retry
    "#]]
    .assert_eq(&world.ask_legs(legs, limits, |_| fail(Unknown, Scope::Request)));
    expect![[r#"
        1 active
        2 active
        3 active
        4 active
        5 active
    "#]]
    .assert_eq(&world.keys());
}

#[test]
fn three_unknown_requests_in_a_row_rest_the_key_and_one_probe_a_minute_passes() {
    let mut world = World::with_keys(1);
    for _ in 0..2 {
        world.ask(|_| fail(Unknown, Scope::Request));
    }
    expect![[r#"
        1 active
    "#]]
    .assert_eq(&world.keys());
    expect![[r#"
          0.0s p 1/m first: unknown
        UnrecognisedFailure (unknown), no retry
    "#]]
    .assert_eq(&world.ask(|_| fail(Unknown, Scope::Request)));
    expect![[r#"
        1 resting for 15.0min (unknown, setting)
    "#]]
    .assert_eq(&world.keys());
    expect![[r#"
        UnrecognisedFailure (unknown), no retry
    "#]]
    .assert_eq(&world.ask(|_| fail(Unknown, Scope::Request)));
    expect![[r#"
        UnrecognisedFailure (unknown), no retry
    "#]]
    .assert_eq(&world.ask(|_| Answer));
    world.pass(60);
    expect![[r#"
          0.0s p 1/m unknown_probe: answered
        answered
    "#]]
    .assert_eq(&world.ask(|_| Answer));
    expect![[r#"
        1 half_open
    "#]]
    .assert_eq(&world.keys());
}

#[test]
fn an_unknown_failure_that_is_no_4xx_rests_the_key_at_once() {
    let mut world = World::with_keys(2);
    expect![[r#"
          0.0s p 1/m first: unknown
          0.0s p 2/m next_key: answered
        answered
    "#]]
    .assert_eq(&world.ask(then_answers(vec![fail(Unknown, Scope::Request).status(302)])));
    expect![[r#"
        1 resting for 15.0min (unknown, setting)
        2 active
    "#]]
    .assert_eq(&world.keys());
}

#[test]
fn the_chain_is_reached_however_many_keys_fail() {
    let mut world = World::with_keys(100);
    world.provider("q", [900], Settings::default());
    let limits = world.limits();
    world.ask_legs(vec![leg("p", &["m"]), leg("q", &["m"])], limits, |attempt| {
        if attempt.provider.as_str() == "q" { Answer } else { fail(RateLimit, Scope::Key) }
    });
    assert_eq!(world.calls(), 32);
    assert_eq!(world.log.last().map(|(_, attempt)| attempt.key.0), Some(900));
}

#[test]
fn a_request_that_the_client_repeats_gets_eight_attempts() {
    let mut world = World::with_keys(100);
    let limits = Limits { client_retries: 1, ..world.limits() };
    world.ask_legs(vec![leg("p", &["m"])], limits, |_| fail(RateLimit, Scope::Key));
    assert_eq!(world.calls(), 8);
}

#[test]
fn a_fixed_number_of_keys_bounds_the_leg() {
    let settings =
        Settings { key_retry_mode: KeyRetryMode::Fixed, key_retry_limit: 2, ..Settings::default() };
    let mut world = World::with(10, settings);
    expect![[r#"
          0.0s p 1/m first: rate_limit
          0.0s p 2/m next_key: rate_limit
        LimitReached (rate_limit), no retry after 60.2s
    "#]]
    .assert_eq(&world.ask(|_| fail(RateLimit, Scope::Key)));
}

#[test]
fn the_last_key_climbs_its_ladder_before_its_rest_begins() {
    let mut world = World::with_keys(1);
    expect![[r#"
          0.0s p 1/m first: rate_limit
          1.0s p 1/m ladder: rate_limit
          3.0s p 1/m ladder: rate_limit
          6.9s p 1/m ladder: rate_limit
        LimitReached (rate_limit), no retry after 60.2s
    "#]]
    .assert_eq(&world.ask(|_| fail(RateLimit, Scope::Key)));
    expect![[r#"
        1 resting for 60.2s (rate_limit, setting)
    "#]]
    .assert_eq(&world.keys());
}

#[test]
fn the_ladder_that_succeeds_leaves_the_key_in_service() {
    let mut world = World::with_keys(1);
    let replies = vec![fail(ServerError, Scope::Provider), fail(ServerError, Scope::Provider)];
    expect![[r#"
          0.0s p 1/m first: server_error
          1.0s p 1/m ladder: server_error
          3.0s p 1/m ladder: answered
        answered
    "#]]
    .assert_eq(&world.ask(then_answers(replies)));
    expect![[r#"
        1 active
    "#]]
    .assert_eq(&world.keys());
}

#[test]
fn a_stated_time_above_four_seconds_skips_the_ladder_and_a_shorter_one_lengthens_a_step() {
    let mut world = World::with_keys(1);
    expect![[r#"
          0.0s p 1/m first: rate_limit
          3.1s p 1/m ladder: answered
        answered
    "#]]
    .assert_eq(&world.ask(then_answers(vec![fail(RateLimit, Scope::Key).stated(3)])));
    expect![[r#"
          0.0s p 1/m first: rate_limit
        LimitReached (rate_limit), retry after 5.0s
    "#]]
    .assert_eq(&world.ask(|_| fail(RateLimit, Scope::Key).stated(5)));
}

#[test]
fn an_empty_ladder_is_no_ladder() {
    let settings = Settings { last_key_ladder_s: Vec::new(), ..Settings::default() };
    let mut world = World::with(1, settings);
    expect![[r#"
          0.0s p 1/m first: rate_limit
        LimitReached (rate_limit), no retry after 60.2s
    "#]]
    .assert_eq(&world.ask(|_| fail(RateLimit, Scope::Key)));
}

#[test]
fn patience_waits_for_the_earliest_key() {
    let settings = Settings { patience_s: 10, ..Settings::default() };
    let mut world = World::with(2, settings);
    let replies = vec![fail(RateLimit, Scope::Key).stated(30), fail(RateLimit, Scope::Key).stated(8)];
    expect![[r#"
          0.0s p 1/m first: rate_limit
          0.0s p 2/m next_key: rate_limit
          8.0s p 2/m next_key: answered
        answered
    "#]]
    .assert_eq(&world.ask(then_answers(replies)));
}

#[test]
fn all_keys_resting_is_answered_without_a_call() {
    let mut world = World::with_keys(2);
    world.ask(|_| fail(QuotaExhausted, Scope::Key).stated(600));
    world.log.clear();
    world.pass(10);
    expect![[r#"
        LimitReached (quota_exhausted), no retry after 9.9min
    "#]]
    .assert_eq(&world.ask(|_| Answer));
    assert_eq!(world.calls(), 0);
}

#[test]
fn a_stale_connection_is_replaced_at_once_and_not_counted() {
    let mut world = World::with_keys(2);
    let stale = || fail(NetworkError, Scope::Network).progress(Progress::StaleConnection);
    expect![[r#"
          0.0s p 1/m first: network_error
          0.0s p 1/m fresh_connection: answered
        answered
    "#]]
    .assert_eq(&world.ask(then_answers(vec![stale()])));
    expect![[r#"
          0.0s p 1/m first: network_error
          0.0s p 1/m fresh_connection: answered
        answered
    "#]]
    .assert_eq(&world.stateful(then_answers(vec![stale()])));
}

#[test]
fn a_stateful_call_is_repeated_only_if_nothing_was_accepted() {
    let mut world = World::with_keys(3);
    let lost = |progress| fail(NetworkError, Scope::Network).progress(progress);
    expect![[r#"
          0.0s p 1/m first: network_error
          0.0s p 2/m next_key: answered
        answered
    "#]]
    .assert_eq(&world.stateful(then_answers(vec![lost(Progress::NotSent)])));
    expect![[r#"
          0.0s p 2/m first: network_error
        OutcomeUnknown (network_error), no retry
    "#]]
    .assert_eq(&world.stateful(then_answers(vec![lost(Progress::MaybeAccepted)])));
    expect![[r#"
          0.0s p 2/m first: timeout
        TimedOut (timeout), no retry
    "#]]
    .assert_eq(&world.stateful(then_answers(vec![fail(Timeout, Scope::Provider)])));
    expect![[r#"
          0.0s p 2/m first: network_error
        OutcomeUnknown (network_error), no retry
    "#]]
    .assert_eq(&world.stateful(then_answers(vec![lost(Progress::Started)])));
    expect![[r#"
          0.0s p 2/m first: rate_limit
          0.0s p 3/m next_key: answered
        answered
    "#]]
    .assert_eq(&world.stateful(then_answers(vec![fail(RateLimit, Scope::Key)])));
}

#[test]
fn ambiguous_repeats_can_be_limited() {
    let lost = || fail(NetworkError, Scope::Network).progress(Progress::MaybeAccepted);
    for (ambiguous_retry, expected) in
        [(AmbiguousRetry::Bounded, 3), (AmbiguousRetry::Once, 2), (AmbiguousRetry::Never, 1)]
    {
        let mut world = World::with(10, Settings { ambiguous_retry, ..Settings::default() });
        world.ask(|_| lost());
        assert_eq!(world.calls(), expected, "{ambiguous_retry:?}");
    }
}

#[test]
fn nothing_is_repeated_after_content() {
    let mut world = World::with_keys(3);
    expect![[r#"
          0.0s p 1/m first: server_error
        UpstreamFailed (server_error), no retry
    "#]]
    .assert_eq(&world.ask(|_| fail(ServerError, Scope::Provider).progress(Progress::Committed)));
}

#[test]
fn nothing_starts_with_less_than_a_second_left() {
    let mut world = World::with_keys(5);
    let limits = Limits { deadline: later(world.now, 20), ..world.limits() };
    let trail =
        world.ask_legs(vec![leg("p", &["m"])], limits, |_| fail(ServerError, Scope::Provider).took(19));
    expect![[r#"
          0.0s p 1/m first: server_error
         19.0s p 2/m next_key: server_error
        TimedOut (timeout), retry
    "#]]
    .assert_eq(&trail);
}

#[test]
fn a_prompt_that_fits_nowhere_is_an_overflow() {
    let mut world = World::with_keys(1);
    let limits = world.limits();
    let mut small = leg("p", &["m"]);
    small.context_too_small = true;
    expect![[r#"
        ContextOverflow (context_overflow), no retry
    "#]]
    .assert_eq(&world.ask_legs(vec![small], limits, |_| Answer));
}

#[test]
fn the_kind_that_heals_soonest_decides() {
    let mut world = World::with_keys(3);
    let replies = vec![
        fail(AuthError, Scope::Key).proven(),
        fail(QuotaExhausted, Scope::Key).stated(3600),
        fail(RateLimit, Scope::Key).stated(30),
    ];
    expect![[r#"
          0.0s p 1/m first: auth_error
          0.0s p 2/m next_key: quota_exhausted
          0.0s p 3/m next_key: rate_limit
        LimitReached (rate_limit), retry after 30.0s
    "#]]
    .assert_eq(&world.ask(then_answers(replies)));
    let mut world = World::with_keys(2);
    expect![[r#"
          0.0s p 1/m first: auth_error
          0.0s p 2/m next_key: auth_error
        NoUsableKey (auth_error), no retry
    "#]]
    .assert_eq(&world.ask(|_| fail(AuthError, Scope::Key).proven()));
    expect![[r#"
        NoUsableKey (auth_error), no retry
    "#]]
    .assert_eq(&world.ask(|_| Answer));
}

#[test]
fn a_client_that_left_blames_nobody() {
    let mut world = World::with_keys(2);
    expect![[r#"
          0.0s p 1/m first: abandoned
        abandoned
    "#]]
    .assert_eq(&world.ask(|_| Reply::Leave));
    expect![[r#"
        1 active
        2 active
    "#]]
    .assert_eq(&world.keys());
}
