//! The provider as a peer sees it: bytes in, bytes out.

mod client;
mod good_answers;
