//! The real gateway on loopback, in front of a scripted provider that misbehaves.

#![cfg(test)]

mod alarms;
mod answers;
mod bad_input;
mod clients;
mod connections;
mod context;
mod crowds;
mod failover;
mod health;
mod hostile;
mod life;
mod many_clients;
mod metrics;
mod objects;
mod pass_through;
mod routes;
mod streams;
mod telemetry;
mod windows;
mod world;
