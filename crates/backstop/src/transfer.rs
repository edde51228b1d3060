//! A whole set-up as a document: what `backstop export` writes, what `backstop import` reads, and what the readers of
//! other gateways' set-ups make of them.
//!
//! ```text
//! running gateway --gather--> Document --write--> file --read--> Document --plan--> steps --> running gateway
//! another gateway's file --foreign--> Document + what cannot be carried over ---^
//! ```
//!
//! A document adds and changes, and never removes. Secrets are in it only sealed; while it is in memory they stand
//! beside it.

pub(crate) mod document;
pub(crate) mod foreign;
pub(crate) mod gather;
pub(crate) mod plan;
