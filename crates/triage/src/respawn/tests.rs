use expect_test::expect;
use proptest::prelude::*;

use super::*;
use crate::{Basis, HealSource, Heals};

#[test]
fn the_schedule_is_this_table() {
    let mut table = String::new();
    for class in Class::ALL {
        table.push_str(&format!("{class:<20}"));
        for n in 1..=8 {
            let mark = if circuit(class, n) == Circuit::Open { "*" } else { " " };
            table.push_str(&format!("{:>5}{mark}", delay(class, n, None).as_secs()));
        }
        table.push_str(&format!("   exit {}\n", exit_code(class)));
    }
    expect![[r#"
        request_error         900*  900*  900*  900*  900*  900*  900*  900*   exit 65
        context_overflow      900*  900*  900*  900*  900*  900*  900*  900*   exit 65
        transient_request      60*  120*  240*  480*  900*  900*  900*  900*   exit 75
        model_error           900*  900*  900*  900*  900*  900*  900*  900*   exit 78
        auth_error            900*  900*  900*  900*  900*  900*  900*  900*   exit 77
        billing_exhausted     900*  900*  900*  900*  900*  900*  900*  900*   exit 77
        quota_exhausted       900*  900*  900*  900*  900*  900*  900*  900*   exit 75
        rate_limit             60*  120*  240*  480*  900*  900*  900*  900*   exit 75
        overloaded             60*  120*  240*  480*  900*  900*  900*  900*   exit 75
        server_error           60*  120*  240*  480*  900*  900*  900*  900*   exit 75
        timeout                60*  120*  240*  480*  900*  900*  900*  900*   exit 75
        network_error          60*  120*  240*  480*  900*  900*  900*  900*   exit 75
        configuration_error   900*  900*  900*  900*  900*  900*  900*  900*   exit 78
        local_fault             5    10    60*  120*  240*  480*  900*  900*   exit 75
        unknown               900*  900*  900*  900*  900*  900*  900*  900*   exit 69
    "#]]
    .assert_eq(&table);
}

#[test]
fn a_stated_wait_counts_when_it_is_longer_and_a_full_window_rests_until_its_reset() {
    let stated = |class, n, seconds| delay(class, n, Some(Duration::from_secs(seconds))).as_secs();
    assert_eq!(stated(Class::RateLimit, 1, 20), 60);
    assert_eq!(stated(Class::RateLimit, 1, 300), 300);
    assert_eq!(stated(Class::Overloaded, 6, 3), 900);
    assert_eq!(stated(Class::QuotaExhausted, 1, 3), 60);
    assert_eq!(stated(Class::QuotaExhausted, 9, 18_000), 18_000);
    assert_eq!(stated(Class::QuotaExhausted, 1, 400 * 86_400), 30 * 86_400);
    assert_eq!(stated(Class::BillingExhausted, 1, 86_400), 900);
    assert_eq!(stated(Class::Unknown, 1, 5), 900);
    assert_eq!(stated(Class::LocalFault, 1, 500), 5);
}

#[test]
fn a_seat_climbs_and_a_healthy_run_clears_it() {
    let mut seat = Seat::default();
    let mut now = start();
    let verdict = Verdict::new(Class::LocalFault, Scope::Local, "killed", Basis::Transport);
    let mut ladder = Vec::new();
    for _ in 0..7 {
        let decision = seat.fail("a", &verdict, Jitter::Off, now);
        ladder.push(decision.delay_s);
        now = decision.until;
        assert_eq!(seat.waits(now), None);
    }
    assert_eq!(ladder, [5, 10, 60, 120, 240, 480, 900]);
    seat.recover();
    assert_eq!(seat.fail("a", &verdict, Jitter::Off, now).delay_s, 5);
}

#[test]
fn the_class_of_the_latest_failure_decides_but_all_failures_count() {
    let mut seat = Seat::default();
    let unknown = Verdict::new(Class::Unknown, Scope::Provider, "no_output", Basis::Nothing);
    let local = Verdict::new(Class::LocalFault, Scope::Local, "killed", Basis::Transport);
    let mut now = seat.fail("a", &unknown, Jitter::Off, start()).until;
    now = seat.fail("a", &unknown, Jitter::Off, now).until;
    assert_eq!(seat.fail("a", &local, Jitter::Off, now).delay_s, 60);
}

#[test]
fn the_state_survives_as_json_and_a_clock_that_jumps_back_does_not_lengthen_the_rest() {
    let mut seat = Seat::default();
    let verdict = Verdict::new(Class::AuthError, Scope::Key, "invalid_key", Basis::Status);
    let decision = seat.fail("writer", &verdict, Jitter::Off, start());
    expect!["seat=writer class=auth_error reason=invalid_key rule=status n=1 delay_s=900 circuit=open until=2026-08-18T08:15:00Z"]
        .assert_eq(&decision.to_string());
    let json = serde_json::to_string(&seat).unwrap();
    expect![[r#"{"n":1,"last":{"class":"auth_error","scope":"key","reason":"invalid_key","rule":"status","at":"2026-08-18T08:00:00Z"},"until":"2026-08-18T08:15:00Z","rest_s":900}"#]]
        .assert_eq(&json);
    let revived: Seat = serde_json::from_str(&json).unwrap();
    assert_eq!(revived, seat);
    let a_year_back: Timestamp = "2025-08-18T08:00:00Z".parse().unwrap();
    assert_eq!(revived.waits(a_year_back), Some(Duration::from_secs(901)));
}

#[test]
fn a_longer_rest_of_the_account_is_not_shortened_by_a_later_failure() {
    let mut seat = Seat::default();
    seat.rest(Duration::from_secs(18_000), start());
    let verdict = Verdict::new(Class::Unknown, Scope::Provider, "no_output", Basis::Nothing);
    let decision = seat.fail("a", &verdict, Jitter::Off, start());
    assert_eq!(decision.until.duration_since(start()).as_secs(), 18_000);
}

#[test]
fn the_offset_of_a_seat_is_stable_and_differs_between_seats() {
    assert_eq!(fnv1a(b"a"), 0xe40c_292c, "the published test vector");
    let offsets: Vec<u64> =
        ["seat-1", "seat-2", "seat-3"].iter().map(|name| offset(name, CEILING).as_secs()).collect();
    expect![[r#"
        [
            110,
            179,
            68,
        ]
    "#]]
    .assert_debug_eq(&offsets);
    assert!(offset("seat-1", REST_CEILING) <= CEILING / 5);
}

#[test]
fn money_and_windows_rest_the_account_but_one_model_or_request_does_not() {
    let rests = |class, scope| rests_account(&Verdict::new(class, scope, "x", Basis::Status));
    assert!(rests(Class::QuotaExhausted, Scope::Account));
    assert!(rests(Class::BillingExhausted, Scope::Key));
    assert!(!rests(Class::QuotaExhausted, Scope::Model));
    assert!(!rests(Class::BillingExhausted, Scope::Request));
    assert!(!rests(Class::AuthError, Scope::Account));
}

proptest! {
    #[test]
    fn nothing_unrecognised_is_faster_than_anything_recognised_as_the_providers(n in 1_u32.., wait in 0_u64..900) {
        for stated in [None, Some(Duration::from_secs(wait))] {
            let unknown = delay(Class::Unknown, n, stated);
            for class in Class::ALL.into_iter().filter(|class| *class != Class::LocalFault) {
                prop_assert!(unknown >= delay(class, n, stated), "{class} after {n}");
            }
            prop_assert_eq!(circuit(Class::Unknown, n), Circuit::Open);
        }
    }

    #[test]
    fn rests_stay_between_five_seconds_and_thirty_days_and_never_shrink_with_n(
        n in 1_u32.., class in prop::sample::select(Class::ALL.to_vec()), wait in prop::option::of(any::<u64>())
    ) {
        let wait = wait.map(Duration::from_secs);
        let rest = delay(class, n, wait);
        prop_assert!(rest >= BASE && rest <= REST_CEILING);
        prop_assert!(delay(class, n.saturating_add(1), wait) >= rest);
    }

    #[test]
    fn jitter_only_adds_and_at_most_a_fifth(name in ".*", seconds in 0_u64..3_000_000) {
        let rest = Duration::from_secs(seconds);
        prop_assert!(offset(&name, rest) <= rest / 5);
        prop_assert!(offset(&name, rest) <= CEILING / 5);
    }

    #[test]
    fn no_start_falls_into_a_stated_rest(n in 1_u32..20, wait in 1_u64..2_000_000, probe in 0_u64..2_000_000) {
        let mut verdict = Verdict::new(Class::QuotaExhausted, Scope::Account, "window_full", Basis::Status);
        verdict.heals = Some(Heals {
            after: Some(Duration::from_secs(wait)), at: None, trusted: false, source: HealSource::Text,
        });
        let mut seat = Seat { failures: n, ..Seat::default() };
        seat.fail("s", &verdict, Jitter::PerSeat, start());
        let at = start() + Duration::from_secs(probe);
        prop_assert_eq!(seat.waits(at).is_none(), at >= seat.until.unwrap());
        prop_assert!(seat.until.unwrap() >= start() + Duration::from_secs(wait));
    }
}

fn start() -> Timestamp {
    "2026-08-18T08:00:00Z".parse().unwrap()
}
