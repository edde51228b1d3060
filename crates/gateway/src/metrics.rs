//! For operators: whether we are ready, and the counters as Prometheus reads them.

use std::sync::Arc;

use backstop_store::requests::Outcome;
use backstop_triage::Class;
use http::{HeaderMap, Response, StatusCode};
use serde_json::json;

use crate::{
    ingress::Stage,
    meters::{Exposition, escaped},
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
    let admin = shared.mount.as_ref().is_some_and(|mount| (mount.is_admin)(headers));
    if !plan.metrics_open && !admin {
        let words = "Metrics need the admin token (Authorization: Bearer), or [server] metrics_open = true.";
        return refuse::bluntly(StatusCode::UNAUTHORIZED, words);
    }
    let mut out = Exposition::default();
    process(&mut out, shared);
    providers(&mut out, plan);
    keys(&mut out, shared, plan);
    reply::text(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", out.into_text())
}

fn usable(shared: &Shared, outlet: &Outlet) -> usize {
    let now = shared.clock.now();
    let statuses = shared.pool.lock().snapshot(&outlet.config.id, now);
    statuses.iter().filter(|key| matches!(key.state.as_str(), "active" | "unstable" | "half_open")).count()
}

fn process(out: &mut Exposition, shared: &Shared) {
    let meters = &shared.meters;
    let stats = shared.store.stats();
    out.metric("backstop_build_info", "gauge", "The version that runs.");
    out.sample("backstop_build_info", concat!("version=\"", env!("CARGO_PKG_VERSION"), "\""), 1);
    let single = [
        ("backstop_inflight", "gauge", "Requests under way.", meters.in_flight.value()),
        ("backstop_connections", "gauge", "Open client connections.", meters.connections.value()),
        (
            "backstop_refused_total",
            "counter",
            "Requests refused before a provider was asked.",
            meters.refused.value(),
        ),
        (
            "backstop_masked_failures_total",
            "counter",
            "Requests that succeeded after a failure the client never saw.",
            meters.masked.value(),
        ),
        (
            "backstop_ambiguous_retries_total",
            "counter",
            "Attempts repeated although the first may have been accepted.",
            meters.ambiguous.value(),
        ),
        (
            "backstop_accept_pauses_total",
            "counter",
            "Pauses of accepting for want of file descriptors.",
            meters.accept_pauses.value(),
        ),
        (
            "backstop_store_waits_total",
            "counter",
            "Answers that did not wait any longer for the store.",
            meters.store_waits.value(),
        ),
        (
            "backstop_reload_failures_total",
            "counter",
            "Configurations refused on reload.",
            meters.reload_failures.value(),
        ),
        (
            "backstop_probes_total",
            "counter",
            "Calls to providers off the path of requests.",
            meters.probes.value(),
        ),
        (
            "backstop_store_failing",
            "gauge",
            "Whether the store cannot write.",
            u64::from(stats.failing.is_some()),
        ),
        ("backstop_store_waiting", "gauge", "States that wait to be written.", stats.waiting_states as u64),
    ];
    for (name, kind, help, value) in single {
        out.metric(name, kind, help);
        out.sample(name, "", value);
    }
    out.metric("backstop_store_dropped_total", "counter", "Rows of history dropped for want of room.");
    let dropped = [
        ("requests", stats.dropped_requests),
        ("key_errors", stats.dropped_key_errors),
        ("unknown", stats.dropped_unknown),
    ];
    for (kind, count) in dropped {
        out.sample("backstop_store_dropped_total", &format!("kind=\"{kind}\""), count);
    }
}

fn providers(out: &mut Exposition, plan: &Plan) {
    let label = |outlet: &Outlet| format!("provider=\"{}\"", escaped(outlet.config.id.as_str()));
    out.metric("backstop_requests_total", "counter", "Requests by how they ended for the client.");
    for outlet in plan.outlets() {
        for (outcome, count) in Outcome::ALL.iter().zip(&outlet.meters.requests) {
            let labels = format!("{},outcome=\"{}\"", label(outlet), outcome.as_str());
            out.sample("backstop_requests_total", &labels, count.value());
        }
    }
    out.metric(
        "backstop_attempts_total",
        "counter",
        "Upstream calls by how they ended: answered, or the class of the failure.",
    );
    for outlet in plan.outlets() {
        let answered = format!("{},class=\"answered\"", label(outlet));
        out.sample("backstop_attempts_total", &answered, outlet.meters.answered.value());
        for (class, count) in Class::ALL.iter().zip(&outlet.meters.failed) {
            out.sample(
                "backstop_attempts_total",
                &format!("{},class=\"{class}\"", label(outlet)),
                count.value(),
            );
        }
    }
    out.metric("backstop_fallbacks_total", "counter", "Requests that left their provider for another.");
    for outlet in plan.outlets() {
        out.sample("backstop_fallbacks_total", &label(outlet), outlet.meters.left_for_fallback.value());
    }
    out.metric("backstop_tokens_total", "counter", "Tokens as the provider counted them.");
    for outlet in plan.outlets() {
        let directions = [("input", &outlet.meters.input_tokens), ("output", &outlet.meters.output_tokens)];
        for (direction, count) in directions {
            out.sample(
                "backstop_tokens_total",
                &format!("{},direction=\"{direction}\"", label(outlet)),
                count.value(),
            );
        }
    }
    out.metric(
        "backstop_upstream_connections_total",
        "counter",
        "Calls on a used connection, and connections dialled.",
    );
    for outlet in plan.outlets() {
        let (reused, dialled) = outlet.upstream.reuse();
        for (how, count) in [("reused", reused), ("dialled", dialled)] {
            out.sample(
                "backstop_upstream_connections_total",
                &format!("{},how=\"{how}\"", label(outlet)),
                count,
            );
        }
    }
    out.metric("backstop_request_duration_seconds", "histogram", "From arrival to the last byte.");
    for outlet in plan.outlets() {
        out.histogram("backstop_request_duration_seconds", &label(outlet), &outlet.meters.duration);
    }
    out.metric("backstop_ttft_seconds", "histogram", "From arrival to the first content.");
    for outlet in plan.outlets() {
        out.histogram("backstop_ttft_seconds", &label(outlet), &outlet.meters.first_content);
    }
}

fn keys(out: &mut Exposition, shared: &Shared, plan: &Plan) {
    let now = shared.clock.now();
    out.metric("backstop_key_state", "gauge", "1 for the state that a key is in.");
    let mut until = Vec::new();
    for outlet in plan.outlets() {
        let statuses = shared.pool.lock().snapshot(&outlet.config.id, now);
        for key in statuses {
            let labels = format!("provider=\"{}\",key=\"{}\"", escaped(outlet.config.id.as_str()), key.id);
            out.sample("backstop_key_state", &format!("{labels},state=\"{}\"", key.state.as_str()), 1);
            until.extend(key.until.map(|until| (labels, until.as_second())));
        }
    }
    out.metric("backstop_key_until_timestamp_seconds", "gauge", "When a key that rests comes back.");
    for (labels, at) in until {
        out.sample("backstop_key_until_timestamp_seconds", &labels, at);
    }
}
