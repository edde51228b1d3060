//! The provider as a peer sees it: bytes in, bytes out.

#![cfg(test)]

mod any_bytes;
mod client;
mod good_answers;
mod limits;
mod misbehaviour;
mod plain_client;
mod scripts;
#[cfg(feature = "tls")]
mod tls;
