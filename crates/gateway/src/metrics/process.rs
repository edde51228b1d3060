//! What the whole process counts.

use crate::{meters::Exposition, shared::Shared};

pub(super) fn write(out: &mut Exposition, shared: &Shared) {
    out.metric("backstop_build_info", "gauge", "The version that runs.");
    out.sample("backstop_build_info", concat!("version=\"", env!("CARGO_PKG_VERSION"), "\""), 1);
    for (name, kind, help, value) in traffic(shared).into_iter().chain(store(shared)) {
        out.metric(name, kind, help);
        out.sample(name, "", value);
    }
    out.metric("backstop_retries_total", "counter", "Attempts after the first, by the failure before them.");
    for (class, count) in shared.meters.retries.iter() {
        out.sample("backstop_retries_total", &format!("reason=\"{class}\""), count);
    }
    out.metric("backstop_overhead_seconds", "histogram", "From arrival to the first call of a provider.");
    out.histogram("backstop_overhead_seconds", "", &shared.meters.overhead);
    let stats = shared.store.stats();
    out.metric(
        "backstop_store_errors_total",
        "counter",
        "Writes that failed, and files that were written anew.",
    );
    for (operation, count) in [("write", stats.failed_writes), ("salvage", stats.salvages)] {
        out.sample("backstop_store_errors_total", &format!("op=\"{operation}\""), count);
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

/// A metric without labels: name, kind, help, value.
type Single = (&'static str, &'static str, &'static str, u64);

fn traffic(shared: &Shared) -> [Single; 9] {
    let meters = &shared.meters;
    let refused_repeats = shared.pool.lock().refused_repeats();
    let counter = |name, help, value| (name, "counter", help, value);
    [
        ("backstop_inflight", "gauge", "Requests under way.", meters.in_flight.value()),
        ("backstop_connections", "gauge", "Open client connections.", meters.connections.value()),
        counter(
            "backstop_refused_total",
            "Requests refused before a provider was asked.",
            meters.refused.value(),
        ),
        counter(
            "backstop_masked_failures_total",
            "Requests that succeeded after a failure the client never saw.",
            meters.masked.value(),
        ),
        counter(
            "backstop_ambiguous_retries_total",
            "Attempts repeated although the first may have been accepted.",
            meters.ambiguous.value(),
        ),
        counter(
            "backstop_retry_budget_exhausted_total",
            "Repeats not made because the budget for them was used up.",
            refused_repeats,
        ),
        counter(
            "backstop_accept_pauses_total",
            "Pauses of accepting for want of file descriptors.",
            meters.accept_pauses.value(),
        ),
        counter(
            "backstop_telemetry_dropped_total",
            "Spans that no collector took.",
            shared.telemetry.dropped.value(),
        ),
        counter(
            "backstop_probes_total",
            "Calls to providers off the path of requests.",
            meters.probes.value(),
        ),
    ]
}

fn store(shared: &Shared) -> [Single; 4] {
    let meters = &shared.meters;
    let stats = shared.store.stats();
    [
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
            "backstop_store_failing",
            "gauge",
            "Whether the store cannot write.",
            u64::from(stats.failing.is_some()),
        ),
        ("backstop_store_waiting", "gauge", "States that wait to be written.", stats.waiting_states as u64),
    ]
}
