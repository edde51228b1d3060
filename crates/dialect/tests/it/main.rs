//! What the crate promises, through its public face.

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
