//! Channels against real receivers on loopback.

#![cfg(test)]

mod config;
mod delivery;
mod sink;
