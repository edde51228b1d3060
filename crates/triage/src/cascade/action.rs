//! What the cascade orders, and what it is told.

use std::time::Duration;

use crate::{Class, KeyId, ModelId, ProviderId, Timestamp, Verdict, cascade::FinalError};

/// The next step of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Call upstream, then report the outcome.
    Attempt(Attempt),
    /// Ask again at that time, or earlier if `wake` says so.
    Wait {
        /// When to ask again at the latest.
        until: Timestamp,
        /// What else is a reason to ask again.
        wake: Wake,
    },
    /// The request is over.
    Finish(End),
}

/// What ends a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Only the time.
    Time,
    /// The time, or any change of the pool: a permit that came free, a key that came back.
    PoolChange,
}

/// One upstream call. The cascade holds the permit that belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The leg, counted from 0.
    pub leg: usize,
    /// The provider to call.
    pub provider: ProviderId,
    /// The model to ask for.
    pub model: ModelId,
    /// The key to use.
    pub key: KeyId,
    /// Which attempt of the request it is, counted from 1.
    pub ordinal: u32,
    /// Whether a pooled connection must not be used, because one has just proved stale.
    pub fresh_connection: bool,
    /// By when the first content must be there; never after the request's deadline.
    pub first_content_by: Timestamp,
    /// The longest silence between bytes of a stream.
    pub idle_timeout: Duration,
    /// What led here.
    pub step: Step,
}

/// What led to an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// The first of the request.
    First,
    /// The same route again: a transient fault or an overload.
    RetrySame,
    /// The same route on a fresh connection.
    FreshConnection,
    /// The last key's ladder.
    Ladder,
    /// Another model on the same key.
    NextModel,
    /// Another key.
    NextKey,
    /// Another provider.
    NextProvider,
    /// The model with the larger window.
    LargerWindow,
    /// Every candidate's breaker is open: tried anyway.
    OpenBreaker,
    /// The key rests over an unknown failure, and nothing else is left.
    UnknownProbe,
}

impl Step {
    /// The public name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::RetrySame => "retry_same",
            Self::FreshConnection => "fresh_connection",
            Self::Ladder => "ladder",
            Self::NextModel => "next_model",
            Self::NextKey => "next_key",
            Self::NextProvider => "next_provider",
            Self::LargerWindow => "larger_window",
            Self::OpenBreaker => "open_breaker",
            Self::UnknownProbe => "unknown_probe",
        }
    }
}

/// What became of an attempt.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The client has seen content; the attempt goes on.
    Committed,
    /// The answer is complete.
    Completed,
    /// It failed.
    Failed {
        /// What the failure is.
        verdict: Verdict,
        /// How far the attempt had come.
        progress: Progress,
        /// The HTTP status, where there was one.
        status: Option<u16>,
    },
    /// The client left: nobody is blamed.
    Abandoned,
}

/// How far an attempt had come when it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Progress {
    /// Nothing was sent: name resolution, connect, TLS.
    NotSent,
    /// A pooled connection turned out to be closed.
    StaleConnection,
    /// A complete error answer came.
    Rejected,
    /// The request went out and no answer of the provider itself came.
    MaybeAccepted,
    /// The answer had begun; nothing of it was shown.
    Started,
    /// The client has seen content.
    Committed,
}

/// How a request ended.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// With an answer.
    Answered,
    /// The last upstream answer goes back byte for byte.
    Return,
    /// With an error of our own.
    Error(FinalError),
    /// The client left.
    Abandoned,
}

/// One attempt as it is logged and shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Tried {
    /// The leg, counted from 0.
    pub leg: usize,
    /// The provider.
    pub provider: ProviderId,
    /// The model.
    pub model: ModelId,
    /// The key.
    pub key: KeyId,
    /// The key's label.
    pub label: String,
    /// What led to it.
    pub step: Step,
    /// How long the request waited before it.
    pub waited: Duration,
    /// When it began.
    pub began: Timestamp,
    /// When it ended; for a stream, when its first content came.
    pub ended: Option<Timestamp>,
    /// How it ended.
    pub result: TriedResult,
}

/// How an attempt ended, as far as the trail shows it.
#[derive(Clone, Debug, PartialEq)]
pub enum TriedResult {
    /// Under way.
    Pending,
    /// It gave content.
    Answered,
    /// It failed.
    Failed {
        /// What the failure was.
        verdict: Box<Verdict>,
        /// The HTTP status, where there was one.
        status: Option<u16>,
        /// How far it had come.
        progress: Progress,
    },
    /// The client left.
    Abandoned,
}

impl TriedResult {
    /// The class, if it failed.
    pub fn class(&self) -> Option<Class> {
        match self {
            Self::Failed { verdict, .. } => Some(verdict.class),
            Self::Pending | Self::Answered | Self::Abandoned => None,
        }
    }
}
