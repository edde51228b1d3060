//! The public face of triage, tested as its users see it.

#![cfg(test)]
#![expect(clippy::disallowed_methods, reason = "tests read the files of the repository")]

mod cascade;
mod packs;
mod pool;
mod properties;
mod quota_headers;
mod reworded;
mod simulated;
mod simulation;
mod traps;
mod verdicts;
mod world;
