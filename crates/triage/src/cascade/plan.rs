//! What a failure leads to, before it is seen whether it can be done.

use crate::{
    KeyId, Timestamp,
    cascade::{End, Step},
};

/// What is to be done next.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Plan {
    /// Any key of the leg that has not been left behind.
    Key(Step),
    /// The same key and model again at a time.
    Same(Again),
    /// The kept key again at a time.
    Climb { at: Timestamp },
    /// The next model on the same key.
    Model { key: KeyId, otherwise: Otherwise },
    /// The model with the larger window, on the same key.
    LargerWindow { key: KeyId },
    /// The kept attempt again, on a fresh connection.
    Fresh,
    /// The next leg.
    Leg,
    /// Nothing.
    Over(End),
}

/// A route that is tried again at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Again {
    pub(super) key: KeyId,
    pub(super) model: usize,
    pub(super) at: Timestamp,
}

/// Where to go when a key has no further model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Otherwise {
    Key,
    FurtherKey,
    Leg,
}
