//! Prints how the cascade fares in a simulated world, beside an oracle and naive policies.
//!
//! `cargo run --release -p backstop-triage --example simulate` prints the tables of `docs/simulation.md`;
//! `-- quick` leaves out the large ones, `-- 2` prints one scenario (counted from 0), `-- outage` the last table.

#[path = "../tests/it/simulation/mod.rs"]
mod simulation;

use simulation::{SCENARIOS, Scenario, outage_table, table};

#[expect(clippy::print_stdout, reason = "a command that prints a table")]
fn main() {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    let scenario = |(title, keys, rate, hours)| table(title, &Scenario::new(keys, rate, hours, 1));
    if let Some(only) = wanted.parse().ok().and_then(|only: usize| SCENARIOS.get(only)).copied() {
        println!("{}", scenario(only));
        return;
    }
    let quick = wanted == "quick";
    let is_wanted = |(_, _, rate, hours): &(&str, u64, f64, u64)| {
        wanted != "outage" && (!quick || rate * (hours * 3600) as f64 <= 1_000_000.0)
    };
    for scene in SCENARIOS.into_iter().filter(is_wanted) {
        println!("{}", scenario(scene));
    }
    println!("{}", outage_table(if quick { &[0.1, 1.0, 10.0] } else { &[0.1, 1.0, 10.0, 100.0] }));
}
