//! What all workers share.

use std::sync::Arc;

use arc_swap::ArcSwap;
use backstop_store::Store;
use backstop_triage::{Catalog, pool::Pool};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::{
    alarms::Alarms, boot::Boot, clock::Clock, context::ContextWindows, ingress::Stage, intake::Budget,
    meters::Meters, mount::Mount, plan::Plan, telemetry::Telemetry,
};

/// Everything that outlives a request.
pub(crate) struct Shared {
    pub(crate) clock: Clock,
    pub(crate) plan: ArcSwap<Plan>,
    /// Held while a configuration is put into force: one after the other.
    pub(crate) reloading: Mutex<()>,
    pub(crate) catalog: ArcSwap<Catalog>,
    /// Held for nanoseconds, never over an await.
    pub(crate) pool: Mutex<Pool>,
    /// Rung after every report, for requests that wait for a key.
    pub(crate) pool_changed: Notify,
    /// Rung when health changed: a probe may be due.
    pub(crate) probe_due: Notify,
    pub(crate) boot: Boot,
    pub(crate) store: Store,
    pub(crate) windows: ContextWindows,
    pub(crate) alarms: Alarms,
    pub(crate) meters: Meters,
    pub(crate) telemetry: Telemetry,
    pub(crate) budget: Arc<Budget>,
    pub(crate) stage: watch::Sender<Stage>,
    /// What lies beside the data plane: the admin API and the dashboard.
    pub(crate) mount: Option<Mount>,
    /// Makes ids of requests and seeds of journeys.
    pub(crate) ids: crate::request_id::Ids,
}
