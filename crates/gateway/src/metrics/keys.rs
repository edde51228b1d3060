//! What is known of each key.

use std::collections::BTreeMap;

use backstop_triage::{
    pool::{KeyState, KeyStatus},
    quota::QuotaWindow,
};

use crate::{
    meters::{Exposition, escaped},
    plan::{Outlet, Plan},
    shared::Shared,
};

pub(super) fn write(out: &mut Exposition, shared: &Shared, plan: &Plan) {
    let now = shared.clock.now();
    let keys: Vec<(&Outlet, Vec<KeyStatus>)> = plan
        .outlets()
        .map(|outlet| (&**outlet, shared.pool.lock().snapshot(&outlet.config.id, now)))
        .collect();
    let each = || {
        keys.iter().flat_map(|(outlet, keys)| {
            let provider = escaped(outlet.config.id.as_str());
            keys.iter().map(move |key| (format!("provider=\"{provider}\",key=\"{}\"", key.id), *outlet, key))
        })
    };
    out.metric("backstop_key_state", "gauge", "1 for the state that a key is in, 0 for the others.");
    for (labels, _, key) in each() {
        for state in KeyState::ALL {
            let is_in = u8::from(state == key.state);
            out.sample("backstop_key_state", &format!("{labels},state=\"{}\"", state.as_str()), is_in);
        }
    }
    let name = "backstop_key_until_timestamp_seconds";
    out.metric(name, "gauge", "When a key that rests comes back.");
    for (labels, _, key) in each() {
        if let Some(until) = key.until {
            out.sample(name, &labels, until.as_second());
        }
    }
    let name = "backstop_key_errors_total";
    out.metric(name, "counter", "Failed calls by key.");
    for (labels, outlet, key) in each() {
        let errors = outlet.keys.get(&key.id).map(|key| key.errors.iter());
        for (class, count) in errors.into_iter().flatten().filter(|(_, count)| *count > 0) {
            out.sample(name, &format!("{labels},class=\"{class}\""), count);
        }
    }
    let name = "backstop_key_quota_remaining_ratio";
    out.metric(name, "gauge", "What is left of a usage window, 0 to 1; of several of one length the least.");
    for (labels, _, key) in each() {
        for (window, ratio) in left(key) {
            out.sample(name, &format!("{labels},window=\"{window}\""), ratio);
        }
    }
}

/// What is left of each window, by its length.
fn left(key: &KeyStatus) -> BTreeMap<&'static str, f64> {
    let mut left = BTreeMap::<&'static str, f64>::new();
    for window in key.quota.iter().flat_map(|quota| &quota.windows) {
        if let (Some(length), Some(ratio)) = (window.window, ratio(window)) {
            let least = left.entry(length.as_str()).or_insert(ratio);
            *least = least.min(ratio);
        }
    }
    left
}

fn ratio(window: &QuotaWindow) -> Option<f64> {
    let limit = match window.limit {
        Some(limit) => limit,
        None if window.unit == "percent" => 100.0,
        None => return window.exhausted.then_some(0.0),
    };
    let remaining = window.remaining.or_else(|| window.used.map(|used| limit - used))?;
    (limit > 0.0).then(|| (remaining / limit).clamp(0.0, 1.0))
}
