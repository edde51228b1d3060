//! Evidence opened into structured facts.

pub mod fold;
