//! A seeded world of providers in which policies are measured against one that knows everything.
//!
//! The world is made of **episodes**: a key's window is full, a key is dead, a provider is down, a model is
//! retired, a second of overload. [`truth`] says what a call would meet at any moment, [`policy`] holds those who
//! have to find out, and [`run`] drives requests through them on a virtual clock.
//!
//! Two yardsticks frame the policies. The **oracle** sees the truth before it calls: what it loses nobody could
//! have answered. The **least** policy sees the truth of an episode after its first failed call; if nobody states
//! the episode's end, it asks again whenever the time since its beginning has doubled (for a missing model at least
//! every half hour). A policy without foresight
//! that calls less would either have to guess an episode before it shows, or stay away longer than the trouble
//! itself has lasted.

// Each of the two programs that share this module uses a part of it.
#![allow(dead_code, reason = "shared by the test and the example")]

mod naive;
mod policy;
mod run;
mod truth;
mod yardstick;

use std::fmt::Write as _;

use self::{
    naive::Naive,
    policy::{Backstop, Policy},
    yardstick::Yardstick,
};
pub(crate) use self::{
    run::{Tally, run},
    truth::{Outage, Scenario},
};

/// Everybody who is measured, by name.
pub(crate) const POLICIES: [&str; 7] =
    ["oracle", "least", "backstop", "retry all", "rest 60 s", "disable on 4xx", "no memory"];

pub(crate) fn policy(name: &str, scenario: &Scenario) -> Box<dyn Policy> {
    match name {
        "oracle" => Box::new(Yardstick::oracle(scenario)),
        "least" => Box::new(Yardstick::least(scenario)),
        "backstop" => Box::new(Backstop::new(scenario)),
        name => Box::new(Naive::new(name, scenario)),
    }
}

/// The scenarios of the long form: name, keys, requests a second, hours.
pub(crate) const SCENARIOS: [(&str, u64, f64, u64); 6] = [
    ("One key", 1, 0.2, 72),
    ("Two keys", 2, 1.0, 72),
    ("Ten keys", 10, 10.0, 24),
    ("A hundred keys", 100, 50.0, 12),
    ("A thousand keys for a day", 1000, 20.0, 24),
    ("A thousand keys at 2,000 requests a second", 1000, 2000.0, 1),
];

/// One row of the table.
pub(crate) fn row(name: &str, scenario: &Scenario) -> Tally {
    run(policy(name, scenario).as_mut(), scenario)
}

/// A scenario's rows, as the documentation shows them.
pub(crate) fn table(title: &str, scenario: &Scenario) -> String {
    let tallies: Vec<Tally> = POLICIES.iter().map(|name| row(name, scenario)).collect();
    let (oracle, least) = (&tallies[0], &tallies[1]);
    let mut text = format!(
        "### {title}\n\n{} requests, {} keys, {} a second, {} h\n\n",
        oracle.requests,
        scenario.keys,
        scenario.rate,
        scenario.seconds / 3600
    );
    text.push_str("| policy | lost | lost beyond the oracle | calls | wasted calls | wasted / least |\n");
    text.push_str("|---|---|---|---|---|---|\n");
    for (name, tally) in POLICIES.iter().zip(&tallies) {
        let _ = writeln!(
            text,
            "| {name} | {} | {:+.3} % | {} | {} | {:.2} |",
            tally.lost,
            tally.lost_beyond(oracle),
            tally.calls,
            tally.wasted,
            tally.wasted as f64 / least.wasted.max(1) as f64,
        );
    }
    if std::env::var_os("SIMULATE_DETAILS").is_some() {
        for (name, tally) in POLICIES.iter().zip(&tallies) {
            let _ = writeln!(text, "{name}: {:?}", tally.wasted_on);
        }
    }
    text
}

/// Calls per request while nothing at all works for an hour.
pub(crate) fn outage_table(rates: &[f64]) -> String {
    let mut text = String::from("| total outage | keys |");
    for rate in rates {
        let _ = write!(text, " {rate}/s |");
    }
    text.push_str("\n|---|---|");
    text.push_str(&"---|".repeat(rates.len()));
    text.push('\n');
    for outage in Outage::ALL {
        for keys in [1, 10, 1000] {
            let _ = write!(text, "| {} | {keys} |", outage.name());
            for rate in rates {
                let scenario = Scenario::outage(outage, keys, *rate, 60);
                let tally = row("backstop", &scenario);
                let _ = write!(text, " {:.3} |", tally.calls as f64 / tally.requests.max(1) as f64);
            }
            text.push('\n');
        }
    }
    text
}
