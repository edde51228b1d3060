//! Delivers alerts to people.
//!
//! What is said, and when, is decided by `backstop_triage::alert`; here each [`Notice`] goes to the channels
//! that want it. A notice is first written to the outbox, one file for each channel, and then delivered by
//! that channel's own task: a dead channel delays nobody, and what it did not take survives a restart.
//!
//! ```text
//!   notice --(severity, quiet hours)--> outbox/CHANNEL/*.json --(task of the channel)--> webhook, mail …
//!                                             ^                        |
//!                                             +---- retry, growing ----+
//! ```
//!
//! Delivery is at least once; the id of a notice is stable, so that receivers can tell repetitions.

mod channel;
mod command;
mod courier;
mod email;
mod message;
mod outbox;
mod quiet;
mod secret;
mod webhook;

pub use backstop_http::HttpClient;
pub use backstop_triage::alert::{Notice, NoticeKind, Severity};
pub use channel::{Channel, ChannelConfig, ConfigError, Source};
pub use courier::{ChannelStatus, Courier, Pace};
pub use quiet::QuietHours;
pub use secret::Secret;
pub use webhook::signature;

/// Why a delivery failed. Never holds a secret: addresses are cut to their host.
#[derive(Debug, thiserror::Error)]
pub enum DeliveryError {
    /// The receiver cannot be reached or did not answer.
    #[error("{0}")]
    Unreachable(String),
    /// The receiver asks to come back later.
    #[error("the receiver answered {status}: {text}")]
    Busy {
        /// Its status.
        status: u16,
        /// The wait that it states, in seconds.
        retry_after_s: Option<u64>,
        /// The beginning of what it said.
        text: String,
    },
    /// The receiver refuses the message or the credential; sending it again will not help.
    #[error("the receiver refused it ({0}); check the channel's address and credential")]
    Refused(String),
    /// It took too long.
    #[error("no answer within {0} s")]
    TimedOut(u64),
}
