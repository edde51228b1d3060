//! One module a command: its arguments and its `run`.

pub(crate) mod alerts;
pub(crate) mod api;
pub(crate) mod check;
pub(crate) mod classify;
pub(crate) mod clients;
pub(crate) mod combos;
pub(crate) mod connect;
pub(crate) mod context;
pub(crate) mod demo;
pub(crate) mod fallbacks;
pub(crate) mod keys;
pub(crate) mod logs;
pub(crate) mod manual;
pub(crate) mod models;
pub(crate) mod own_rules;
pub(crate) mod places;
pub(crate) mod providers;
pub(crate) mod reload;
pub(crate) mod rules;
pub(crate) mod run;
pub(crate) mod seen;
pub(crate) mod serve;
pub(crate) mod service;
pub(crate) mod settings;
pub(crate) mod setup;
pub(crate) mod status;
