//! Runs a process that talks to a model, and starts it again when that makes sense.
//!
//! ```text
//!   watch ----> child (own process group, pipes or pty) ----> how it ended + the tails of its output
//!     ^                                                                    |
//!     |                    seat on disk, account on disk                   v
//!     +---- rest <---- schedule (triage::respawn) <---- verdict <---- evidence
//! ```
//!
//! The verdict and the schedule are decided by `backstop-triage`; this crate owns the process, the signals and
//! the files. What a seat has suffered is on disk before it rests, so that a supervisor which is itself killed
//! and revived finds the same circuit. It works without a gateway.

mod account;
mod alerts;
mod child;
mod evidence;
mod files;
mod seats;
mod signals;
mod tail;
mod terminal;
mod watch;

pub use account::AccountRest;
pub use alerts::SeatAlerts;
pub use child::{Ended, Program, Stopped, Terminal};
pub use evidence::{verdict_of_end, verdict_of_spawn_failure};
pub use seats::{Incident, Phase, SeatLine, SeatName, SeatRecord, Seats};
pub use signals::Signals;
pub use tail::Tail;
pub use watch::{Event, Finish, Job, Policy, Watch};

/// What can go wrong in supervising, apart from the process itself.
#[derive(Debug, thiserror::Error)]
pub enum SupervisorError {
    /// Another supervisor holds the seat.
    #[error("seat {0} is already supervised; choose another --name, or stop the other supervisor")]
    SeatTaken(SeatName),
    /// The name cannot be a file name.
    #[error("seat name {0:?} must be 1 to 64 letters, digits, '.', '_', '-' or '@', and not begin with '.'")]
    BadName(String),
    /// A state file cannot be read or written.
    #[error("cannot keep state in {path}: {source}")]
    State {
        /// The file.
        path: std::path::PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Signals cannot be watched.
    #[error("cannot watch signals: {0}")]
    Signals(std::io::Error),
}
