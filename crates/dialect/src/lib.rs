//! Knows the shapes in which LLM APIs are spoken: paths, credentials, bodies, stream events, errors.
//!
//! Everything here is pure: bytes in, bytes out; no clock, no socket, no file, no thread. Nothing is parsed
//! into a tree that only has to pass: a request is looked at in place ([`head`]) and renamed in place
//! ([`splice_model`]), a stream is watched while its bytes go by ([`StreamReader`]). What differs between the
//! four dialects stands in one file per shape under `shape/`; the rest of the crate is shared by all.
//!
//! ```text
//! path ──recognise──> Route                     body ──head──> Head ──splice_model──> body
//! upstream bytes ──StreamReader──> Passage { bytes, kind }   (content, error, terminal …)
//! Problem ──ClientError──> error_body / error_event / error_headers   in the client's own dialect
//! ```

#![warn(missing_docs, clippy::wildcard_enum_match_arm)]

mod address;
mod answer;
mod array;
mod carry;
mod credential;
mod dialect;
mod envelope;
mod estimate;
mod head;
mod headers;
mod hints;
mod json;
mod models;
mod problem;
mod route;
mod shape;
mod splice;
mod sse;
mod stream;
mod usage;

pub use address::{Address, AddressError};
pub use answer::{Answer, AnswerKind, examine, has_embedded_error};
pub use array::{ArraySplitter, Seam};
pub use credential::{
    AuthStyle, CLIENT_KEY_HEADER, ClientKey, CredentialError, Place, client_keys, without_key,
};
pub use dialect::{Dialect, Framing};
pub use envelope::{Continuation, error_body, error_event, error_headers, keepalive};
pub use estimate::estimate_tokens;
pub use head::{Head, HeadError, Slot, head};
pub use headers::{request_headers, response_headers};
pub use hints::{ClientHints, session};
pub use models::{ListShape, ModelEntry, model_list};
pub use problem::{ClientError, Problem};
pub use route::{Operation, Route, recognise};
pub use splice::{splice_model, split_model};
pub use sse::{Event, Part, SseSplitter};
pub use stream::{EventKind, Passage, StreamReader};
pub use usage::Usage;
