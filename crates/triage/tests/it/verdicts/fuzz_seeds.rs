//! The inputs that fuzzing found worth keeping, without the fuzzer: a stable compiler is enough.

use std::{fs, path::Path};

#[path = "../../../../../fuzz/bodies/facts.rs"]
mod facts;
#[path = "../../../../../fuzz/bodies/reset.rs"]
mod reset;
#[path = "../../../../../fuzz/bodies/rules.rs"]
mod rules;

#[test]
fn every_fuzz_seed_is_survived() {
    replay("facts", facts::run);
    replay("reset", reset::run);
    replay("rules", rules::run);
}

fn replay(target: &str, run: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let seeds: Vec<_> = fs::read_dir(&folder)
        .expect("the seeds are part of the repository")
        .map(|seed| fs::read(seed.expect("an entry").path()).expect("a readable seed"))
        .collect();
    assert!(!seeds.is_empty(), "{target} has no seeds");
    for seed in &seeds {
        run(seed);
        // Cut and doubled inputs are cheap further ones.
        run(seed.get(..seed.len() / 2).unwrap_or_default());
        run(&[seed.as_slice(), seed.as_slice()].concat());
    }
}
