//! What the crate promises, through its public face.

#![cfg(test)]

mod address;
mod answer;
mod credential;
mod envelope;
mod events;
mod head;
mod headers;
mod models;
mod properties;
mod route;
mod stream;
