//! HTTP: accepts clients, drives each request's cascade, calls providers, and tells the truth about what came of it.
//!
//! ```text
//! ingress ── route ── entry ─────────┐               one connection, one task: accept, read, call, write
//!            (who, what, whom)       v
//!                                  drive ── attempt ── upstream      the loop; one call; the way to the provider
//!                                    │         │
//!            arrive <────────────────┘         └── evidence ── catalog ── verdict
//!               │
//!             reply: whole · passing · relay · waiting               what the client's connection polls
//! ```
//!
//! * **The cascade decides, this crate acts.** `Journey::next` asks, `attempt` makes exactly the call
//!   that was ordered, `report` settles. The pool is locked for the decision only.
//! * **Nothing is shown before it is worth showing.** Streams are held until their first content, complete answers
//!   until they are whole; up to there every failure moves on unseen. After it, one error event and a cut connection.
//! * **Few hops.** Each worker is a thread with its own runtime. A streamed answer is polled by the client's own
//!   connection through to the provider's: no task, no channel, back-pressure for free.
//! * **What a request looks up is a snapshot** (`plan`), replaced as a whole when the configuration changes.

#![warn(missing_docs)]

pub mod config;

mod alarms;
mod arrive;
mod aside;
mod ask;
mod asked;
mod attempt;
mod auth;
mod boot;
mod clock;
mod context;
mod counting;
mod drive;
mod evidence;
mod gateway;
mod hosts;
mod housekeeping;
mod ingress;
mod intake;
mod line;
mod mask;
mod meters;
mod metrics;
mod mount;
mod objects;
mod observe;
mod passing;
mod plan;
mod price;
mod probe;
mod refuse;
mod relay;
mod reply;
mod request_id;
mod route;
mod settle;
mod shared;
mod stock;
mod telemetry;
mod told;
mod unpack;
mod upstream;
mod waiting;
mod windows;

pub use ask::{Ask, Silence, Told, Whom};
pub use gateway::{Control, Gateway, Running, StartError};
pub use mount::{Admission, Mount, MountAnswer, MountBody, Peer};
pub use plan::PlanError;
pub use probe::QuotaTold;
pub use upstream::TlsError;
