//! Feeds `bodies/facts.rs`, which says what it shows.

#![no_main]

#[path = "../bodies/facts.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
