//! What a request brings along: where it may go and what it may cost.

use crate::{KeyId, ModelId, ProviderId, Timestamp};

/// One provider of a request: the first, or one of its chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leg {
    /// The provider.
    pub provider: ProviderId,
    /// The requested model first, then the provider's list.
    pub models: Vec<ModelId>,
    /// Whether the prompt is known not to fit, so that the leg is skipped.
    pub context_too_small: bool,
}

/// The bounds and the nature of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// What kind of call it is.
    pub call: Call,
    /// Whether the answer is a stream.
    pub streaming: bool,
    /// By when the first content must be there.
    pub deadline: Timestamp,
    /// How often the client itself has sent the request again (`x-stainless-retry-count`).
    pub client_retries: u32,
    /// The session that the request belongs to, hashed.
    pub session: Option<u64>,
    /// A key whose account owns an object that the request names: only keys of that account may serve it.
    pub pinned: Option<KeyId>,
}

impl Limits {
    /// A plain streamed generation call that must begin by `deadline`.
    pub fn streaming(deadline: Timestamp) -> Self {
        Self {
            call: Call::Generation,
            streaming: true,
            deadline,
            client_retries: 0,
            session: None,
            pinned: None,
        }
    }
}

/// Whether repeating a call can do harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Asking twice costs money at worst.
    Generation,
    /// The upstream keeps something: files, batches, background or stored responses.
    Stateful,
}
