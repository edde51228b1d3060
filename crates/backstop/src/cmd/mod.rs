//! One module a command: its arguments and its `run`.

pub(crate) mod classify;
pub(crate) mod rules;
