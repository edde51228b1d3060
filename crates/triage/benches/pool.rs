//! What a choice costs: with one key, with ten thousand, and with all but the last one resting.
//!
//! The three differ by cache misses, not by the number of keys: the next ready key is found in a bitmap.

use std::sync::Arc;

use backstop_triage::{
    Basis, Class, KeyId, ModelId, ProviderId, Scope, Settings, Timestamp, Verdict,
    cascade::{Action, Cascade, Leg, Limits, Outcome},
    pool::{KeySpec, Pool, Probes, ProviderSpec, Wish},
};
use divan::Bencher;

fn main() {
    divan::main();
}

const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

fn pool(keys: u64) -> Pool {
    let mut pool = Pool::new(1);
    let keys = (0..keys).map(|id| KeySpec { id: KeyId(id), label: String::new(), account: None }).collect();
    let spec = ProviderSpec {
        id: ProviderId::from("p"),
        keys,
        settings: Arc::new(Settings::default()),
        probes: Probes::default(),
        answer_timeout: None,
    };
    pool.set_provider(spec, NOW);
    pool
}

/// All keys but the last one rest.
fn tired(keys: u64) -> Pool {
    let mut pool = pool(keys);
    let (provider, model) = names();
    for _ in 1..keys {
        let permit = pool.pick(&wish(&provider, &model), NOW).expect("a key is ready");
        pool.settle(permit, Some((&limit(), Some(429))), NOW);
    }
    while pool.poll_change().is_some() {}
    pool
}

fn names() -> (ProviderId, ModelId) {
    (ProviderId::from("p"), ModelId::from("m"))
}

fn wish<'a>(provider: &'a ProviderId, model: &'a ModelId) -> Wish<'a> {
    Wish { provider, model, excluded: &[], session: None, pinned: None, request: 1 }
}

fn limit() -> Verdict {
    Verdict::new(Class::RateLimit, Scope::Key, "requests_per_minute", Basis::Status)
}

fn pick_and_release(bencher: Bencher<'_, '_>, mut pool: Pool) {
    let (provider, model) = names();
    bencher.bench_local(|| {
        let permit = pool.pick(&wish(&provider, &model), NOW).expect("a key is ready");
        pool.release(permit, NOW);
    });
}

#[divan::bench]
fn pick_of_one(bencher: Bencher<'_, '_>) {
    pick_and_release(bencher, pool(1));
}

#[divan::bench]
fn pick_of_ten_thousand(bencher: Bencher<'_, '_>) {
    pick_and_release(bencher, pool(10_000));
}

#[divan::bench]
fn pick_with_all_but_one_of_ten_thousand_resting(bencher: Bencher<'_, '_>) {
    pick_and_release(bencher, tired(10_000));
}

#[divan::bench]
fn nobody_to_pick_of_ten_thousand(bencher: Bencher<'_, '_>) {
    let mut pool = tired(10_000);
    let (provider, model) = names();
    let permit = pool.pick(&wish(&provider, &model), NOW).expect("the last key");
    pool.settle(permit, Some((&limit(), Some(429))), NOW);
    let legs = vec![Leg { provider, models: vec![model], context_too_small: false }];
    let deadline = NOW + backstop_triage::SignedDuration::from_secs(600);
    bencher.with_inputs(|| Cascade::new(legs.clone(), Limits::streaming(deadline), 7)).bench_local_values(
        |mut cascade| {
            let action = cascade.next(&mut pool, NOW);
            assert!(matches!(action, Action::Finish(_)));
            action
        },
    );
}

#[divan::bench]
fn settle_a_success(bencher: Bencher<'_, '_>) {
    let mut pool = pool(10_000);
    let (provider, model) = names();
    bencher.bench_local(|| {
        let permit = pool.pick(&wish(&provider, &model), NOW).expect("a key is ready");
        pool.settle(permit, None, NOW);
    });
}

#[divan::bench]
fn settle_a_failure(bencher: Bencher<'_, '_>) {
    let mut pool = pool(10_000);
    let (provider, model) = names();
    let verdict = Verdict::new(Class::ServerError, Scope::Provider, "internal", Basis::Status);
    bencher.bench_local(|| {
        let permit = pool.pick(&wish(&provider, &model), NOW).expect("a key is ready");
        pool.settle(permit, Some((&verdict, Some(500))), NOW);
    });
}

#[divan::bench]
fn a_whole_request(bencher: Bencher<'_, '_>) {
    let mut pool = pool(10_000);
    let (provider, model) = names();
    let deadline = NOW + backstop_triage::SignedDuration::from_secs(600);
    let legs = vec![Leg { provider, models: vec![model], context_too_small: false }];
    bencher.with_inputs(|| Cascade::new(legs.clone(), Limits::streaming(deadline), 7)).bench_local_values(
        |mut cascade| {
            let action = cascade.next(&mut pool, NOW);
            cascade.report(Outcome::Completed, &mut pool, NOW);
            action
        },
    );
}
