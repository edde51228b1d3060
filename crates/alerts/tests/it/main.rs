//! Channels against real receivers on loopback.

mod config;
mod delivery;
mod sink;
