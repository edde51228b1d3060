//! Decides what a failure is, what it costs the key, and where to try next.
//!
//! Everything here is pure: no clock, no socket, no file, no thread. `now` and the seed of chance are
//! arguments, so that every decision can be replayed. The path of one failure:
//!
//! ```text
//! Evidence --facts--> Facts --catalog--> Verdict --treatment--> Treatment
//!                                                                  |
//!                        Pool (health of keys)  <--settle--  Cascade (one request's journey)
//! ```
//!
//! Provider knowledge is data (`rules/*.toml`, `presets/*.toml`); no provider is named in the code.

#![warn(missing_docs, clippy::wildcard_enum_match_arm)]

pub mod alert;
pub mod breaker;
pub mod cascade;
pub mod catalog;
pub mod class;
pub mod classify;
pub mod context;
pub mod embedded;
pub mod evidence;
pub mod explain;
pub mod facts;
mod fallback;
pub mod ids;
pub mod ladder;
mod matcher;
mod model_in_words;
pub mod pool;
pub mod preset;
pub mod probe;
pub mod quota;
pub mod redact;
pub mod reset;
pub mod respawn;
pub mod rules;
pub mod settings;
pub mod treatment;
pub mod verdict;
pub mod wire;

pub use catalog::Catalog;
pub use class::{Class, Scope, Window};
pub use evidence::{Evidence, Fault, Hints, Kind};
pub use ids::{AccountId, KeyId, ModelId, ProviderId, RuleId};
pub use jiff::{SignedDuration, Timestamp};
pub use preset::{Preset, PresetKind};
pub use quota::{QuotaSnapshot, QuotaSource, QuotaWindow};
pub use settings::Settings;
pub use treatment::{KeyAction, Next, Penalty, Treatment};
pub use verdict::{Basis, HealSource, Heals, Reason, Verdict};
