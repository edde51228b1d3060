//! Feeds `bodies/rules.rs`, which says what it shows.

#![no_main]

#[path = "../bodies/rules.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
