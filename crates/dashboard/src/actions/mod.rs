//! What people and scripts can do: one function each, used by pages and API alike.

pub mod adoption;
pub mod agents;
pub mod alerts;
pub mod circuits;
pub mod clients;
pub mod combos;
pub mod costs;
pub mod definition;
pub mod fallbacks;
pub mod keys;
pub mod logs;
pub mod models;
pub mod notices;
pub mod outcome;
pub mod paste;
pub mod providers;
pub mod quota;
pub mod rules;
pub mod secrets;
pub mod settings;
pub mod stats;
pub mod status;
pub mod testing;
pub mod unknown;
pub mod usage;
