//! HTTP: one explicit loop drives the cascade.

mod arrive;
mod asked;
mod attempt;
mod auth;
mod boot;
mod clock;
pub mod config;
mod drive;
mod gateway;
mod hosts;
mod housekeeping;
mod ingress;
mod intake;
mod line;
mod meters;
mod metrics;
mod mount;
mod objects;
mod observe;
mod passing;
mod plan;
mod probe;
mod refuse;
mod relay;
mod reply;
mod request_id;
mod route;
mod settle;
mod shared;
mod stock;
mod upstream;
mod waiting;

pub use gateway::{Control, Gateway, Running, StartError};
pub use mount::{Mount, MountAnswer, MountBody};
pub use plan::PlanError;
pub use upstream::TlsError;
