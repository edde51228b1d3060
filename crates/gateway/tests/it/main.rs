//! The real gateway on loopback, in front of a scripted provider that misbehaves.

#![cfg(test)]

mod answers;
mod bad_input;
mod failover;
mod health;
mod pass_through;
mod routes;
mod streams;
mod world;
