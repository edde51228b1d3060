//! For operators: whether we are ready, and the counters as Prometheus reads them.
//!
//! Labels are bounded: providers, keys, listed models, classes, channels and seats are the user's own; models that the
//! configuration does not list share the name `other`.

mod aside;
mod keys;
mod process;
mod providers;

use std::sync::Arc;

use http::{HeaderMap, Response, StatusCode};
use serde_json::json;

use crate::{
    ingress::Stage,
    meters::Exposition,
    plan::{Outlet, Plan},
    refuse,
    reply::{self, Reply},
    shared::Shared,
};

/// `/readyz`: configuration loaded and not draining. Store and keys are detail, not failure.
pub(crate) fn ready(shared: &Arc<Shared>, plan: &Plan) -> Response<Reply> {
    let ready = *shared.stage.borrow() == Stage::Open;
    let failing = shared.store.stats().failing;
    let usable: serde_json::Map<String, serde_json::Value> =
        plan.outlets().map(|outlet| (outlet.config.id.to_string(), json!(usable(shared, outlet)))).collect();
    let body = json!({
        "status": if ready { "ready" } else { "draining" },
        "store": failing.map_or_else(|| json!("fine"), |failing| json!({ "failing": failing.error })),
        "usable_keys": usable,
    });
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    reply::text(status, "application/json", format!("{body}\n"))
}

/// `/metrics`.
pub(crate) fn scrape(shared: &Arc<Shared>, plan: &Plan, headers: &HeaderMap) -> Response<Reply> {
    let admin = shared.mount.as_ref().is_some_and(|mount| (mount.is_admin)(headers, shared.clock.now()));
    if !plan.metrics_open && !admin {
        let words = "Metrics need the admin token (Authorization: Bearer), or [server] metrics_open = true.";
        return refuse::bluntly(StatusCode::UNAUTHORIZED, words);
    }
    let mut out = Exposition::default();
    process::write(&mut out, shared);
    providers::write(&mut out, plan);
    keys::write(&mut out, shared, plan);
    aside::write(&mut out, shared);
    reply::text(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", out.into_text())
}

fn usable(shared: &Shared, outlet: &Outlet) -> usize {
    let now = shared.clock.now();
    let statuses = shared.pool.lock().snapshot(&outlet.config.id, now);
    statuses.iter().filter(|key| matches!(key.state.as_str(), "active" | "unstable" | "half_open")).count()
}
