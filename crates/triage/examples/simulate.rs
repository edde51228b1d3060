//! Prints how the cascade fares in a simulated world, beside an oracle and naive policies.
//!
//! `cargo run --release -p backstop-triage --example simulate` prints the tables of `docs/simulation.md`;
//! `-- quick` leaves out the large ones, `-- 2` prints one scenario (counted from 0).

#[path = "../tests/it/simulation/mod.rs"]
mod simulation;

use simulation::{SCENARIOS, Scenario, outage_table, table};

#[expect(clippy::print_stdout, reason = "a command that prints a table")]
fn main() {
    let only: Option<usize> = std::env::args().nth(1).and_then(|argument| argument.parse().ok());
    if let Some((title, keys, rate, hours)) = only.and_then(|only| SCENARIOS.get(only)).copied() {
        println!("{}", table(title, &Scenario::new(keys, rate, hours, 1)));
        return;
    }
    let quick = std::env::args().any(|argument| argument == "quick");
    let most = if quick { 1_000_000.0 } else { f64::INFINITY };
    for (title, keys, rate, hours) in SCENARIOS {
        let requests = rate * hours as f64 * 3600.0;
        if requests <= most {
            println!("{}", table(title, &Scenario::new(keys, rate, hours, 1)));
        }
    }
    println!("{}", outage_table(if quick { &[0.1, 1.0, 10.0] } else { &[0.1, 1.0, 10.0, 100.0, 1000.0] }));
}
