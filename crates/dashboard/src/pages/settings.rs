//! Settings: every one with meaning, default and effect; of the whole gateway and of one provider.

use askama::Template;
use axum::extract::State;
use backstop_store::audit::AuditRow;
use http::HeaderMap;
use serde_json::Value;

use super::{Page, filters, frame::Frame, render, words::sentence};
use crate::{
    actions::{
        providers::ProviderView,
        settings::{self, SettingView},
    },
    app::App,
    problem::Answer,
};

/// A setting in the form.
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) title: &'static str,
    pub(crate) meaning: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) choices: &'static [&'static str],
    pub(crate) value: Value,
    pub(crate) default: Value,
    pub(crate) changed: bool,
    /// Whether the configuration file sets it.
    pub(crate) from_file: bool,
}

/// Settings that belong together.
struct Group {
    id: &'static str,
    title: &'static str,
    what: &'static str,
    fields: Vec<Field>,
}

#[derive(Template)]
#[template(path = "settings.html")]
struct Settings {
    frame: Frame,
    groups: Vec<Group>,
    audit: Vec<AuditRow>,
    has_password: bool,
}

pub(super) async fn show(State(app): State<App>, headers: HeaderMap) -> Page {
    let mut views = settings::list(&app).await?;
    views.retain(|view| view.name != "theme");
    let mut groups = Vec::new();
    for (id, title, what) in GROUPS {
        let fields = KNOWN.iter().filter(|known| known.group == *id);
        let fields =
            fields.filter_map(|known| Some(field(known, views.iter().find(|view| view.name == known.name)?)));
        groups.push(Group { id, title, what, fields: fields.collect() });
    }
    let audit = app.read(|store| store.audit_log(None, 15)).await?.items;
    let has_password = app.blocking(|app| Ok(app.credentials.has_password())).await?;
    let frame = Frame::load(&app, &headers, "settings", "Settings").await?;
    render(&Settings { frame, groups, audit, has_password }, &headers)
}

/// The settings of one provider: its own value, over that of the whole gateway.
pub(crate) async fn own_fields(app: &App, provider: &ProviderView) -> Answer<Vec<Field>> {
    let views = settings::list(app).await?;
    let configured = app.provider(&provider.id)?;
    let in_force = serde_json::to_value(&*configured.settings).unwrap_or(Value::Null);
    let own = provider.definition.as_ref().map(|definition| &definition.settings);
    let known = KNOWN.iter().filter(|known| !known.whole);
    let fields = known.filter_map(|known| {
        let view = views.iter().find(|view| view.name == known.name)?;
        let mut field = field(known, view);
        field.default = view.value.clone();
        field.from_file = false;
        field.changed = own.is_some_and(|own| own.contains_key(known.name));
        field.value = in_force.get(known.name).cloned().unwrap_or(Value::Null);
        Some(field)
    });
    Ok(fields.collect())
}

impl Field {
    pub(crate) fn is_switch(&self) -> bool {
        self.default.is_boolean()
    }

    pub(crate) fn is_number(&self) -> bool {
        self.default.is_number()
    }

    pub(crate) fn is_on(&self) -> bool {
        self.value == Value::Bool(true)
    }

    /// The kind of value that the API takes.
    pub(crate) fn kind(&self) -> &'static str {
        match &self.default {
            Value::Number(_) => "number",
            Value::Bool(_) => "switch",
            Value::Array(_) => "numbers",
            Value::Null | Value::String(_) | Value::Object(_) => "word",
        }
    }

    pub(crate) fn shown(&self) -> String {
        shown(&self.value)
    }

    pub(crate) fn default_shown(&self) -> String {
        match &self.default {
            Value::Bool(on) => if *on { "on" } else { "off" }.to_owned(),
            Value::String(word) => sentence(word).to_lowercase(),
            Value::Null => "none".to_owned(),
            other => shown(other),
        }
    }
}

fn field(known: &Known, view: &SettingView) -> Field {
    Field {
        name: known.name.to_owned(),
        title: known.title,
        meaning: known.meaning,
        unit: known.unit,
        choices: known.choices,
        value: view.value.clone(),
        default: view.default.clone(),
        changed: view.changed,
        from_file: view.from_file,
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(word) => word.clone(),
        Value::Array(items) => items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => value.to_string(),
    }
}

/// What people are told of a setting.
#[derive(Clone, Copy)]
struct Known {
    group: &'static str,
    name: &'static str,
    title: &'static str,
    meaning: &'static str,
    unit: &'static str,
    choices: &'static [&'static str],
    whole: bool,
}

const fn known(
    group: &'static str,
    name: &'static str,
    title: &'static str,
    unit: &'static str,
    meaning: &'static str,
) -> Known {
    Known { group, name, title, meaning, unit, choices: &[], whole: false }
}

const fn choice(
    group: &'static str,
    name: &'static str,
    title: &'static str,
    choices: &'static [&'static str],
    meaning: &'static str,
) -> Known {
    Known { group, name, title, meaning, unit: "", choices, whole: false }
}

const fn whole(known: Known) -> Known {
    Known { whole: true, ..known }
}

const GROUPS: &[(&str, &str, &str)] = &[
    ("keys", "Use of keys", "Which key takes a request"),
    ("retrying", "Retrying", "What one request may try"),
    ("resting", "Resting keys", "For how long, when nobody says"),
    ("waiting", "Time", "How long to wait for what"),
    ("breakers", "Breakers", "When to leave a model or a provider alone"),
    ("logs", "Logs and alerts", "What is kept and told"),
];

const KNOWN: &[Known] = &[
    choice(
        "keys",
        "rotation",
        "Order of use",
        &["on-error", "round-robin"],
        "On error: the first key that can be used takes all requests until it fails. Round robin: keys take turns, so that all windows fill evenly.",
    ),
    known(
        "keys",
        "requests_per_key",
        "Requests per turn",
        "requests",
        "How many requests a key takes before the next one has its turn. Only for round robin.",
    ),
    choice(
        "keys",
        "sticky",
        "Sessions stay with a key",
        &["off", "session"],
        "Session: requests of one conversation keep their key while it is healthy, so that the provider’s prompt cache is hit.",
    ),
    known(
        "keys",
        "max_concurrent",
        "Requests at a time per key",
        "requests",
        "Calls that one key may serve at a time; more wait for another key. 0 is without limit.",
    ),
    choice(
        "retrying",
        "key_retry_mode",
        "Keys tried per request",
        &["all", "fixed"],
        "How many keys of a provider one request may try. All: until one answers or none is left. Fixed: at most as many as below.",
    ),
    known(
        "retrying",
        "key_retry_limit",
        "Keys, when fixed",
        "keys",
        "The most keys that one request tries at one provider. Only when the number is fixed.",
    ),
    known(
        "retrying",
        "max_attempts",
        "Attempts per request",
        "attempts",
        "The upper end of everything that one request may try, over all providers.",
    ),
    known(
        "retrying",
        "model_fallback",
        "Fall back to the next model",
        "",
        "When a model is not available, ask the provider’s next model in its list before leaving the provider.",
    ),
    known(
        "retrying",
        "transient_retries",
        "Repeats of a passing fault",
        "repeats",
        "How often a fault of this one request is repeated on the same key.",
    ),
    known(
        "retrying",
        "retry_on_timeout",
        "Retry after a timeout",
        "",
        "A request that timed out may have been carried out and billed. On: try the next key. Off: tell the client.",
    ),
    choice(
        "retrying",
        "ambiguous_retry",
        "Retry what may have been accepted",
        &["bounded", "once", "never"],
        "When a connection breaks after the request was sent, the provider may have done the work. Bounded: repeat as for other faults. Once: at most one repeat. Never: tell the client.",
    ),
    known(
        "retrying",
        "provider_fault_limit",
        "Faults before leaving a provider",
        "faults",
        "How many failures of the provider itself end the attempts there.",
    ),
    known(
        "retrying",
        "unknown_max_keys",
        "Keys tried after an unknown failure",
        "keys",
        "A failure that no rule knows could hit every key in turn. This many further keys are tried.",
    ),
    known(
        "retrying",
        "overload_retries",
        "Repeats while overloaded",
        "repeats",
        "How often the same key is asked again when the provider has no capacity.",
    ),
    known(
        "retrying",
        "context_fallback",
        "Model for requests that are too long",
        "",
        "A model with a larger window that gets one attempt when the asked one says that the request is too long. Empty: the client is told.",
    ),
    known(
        "resting",
        "rate_limit_backoff_s",
        "Rest after a rate limit",
        "seconds",
        "Used only if the provider gives no time of its own.",
    ),
    known(
        "resting",
        "quota_backoff_s",
        "Rest after a full window",
        "seconds",
        "Used only if no snapshot, header or field tells when the window resets; also the cap for times read from prose.",
    ),
    known(
        "resting",
        "fault_backoff_s",
        "Rest after a fault of a key",
        "seconds",
        "First rest of a key that failed a request which another key then answered; doubles to 300 seconds.",
    ),
    known(
        "resting",
        "unknown_backoff_s",
        "Rest after an unknown failure",
        "seconds",
        "Kept longer than after any known short failure, so that nothing is hammered.",
    ),
    known(
        "resting",
        "unknown_probe_s",
        "Probes while only unknown failures are left",
        "seconds",
        "How far apart single tries are when every key of a provider fails in a way that no rule knows.",
    ),
    known(
        "resting",
        "account_suspect_s",
        "Rest of an account’s other keys",
        "seconds",
        "When a key fails over money or its credential, keys of the same account rest this long.",
    ),
    known(
        "resting",
        "quarantine_s",
        "Quarantine",
        "seconds",
        "How long a doubtful key waits for its test where no free test exists; doubles to a day.",
    ),
    known(
        "waiting",
        "patience_s",
        "Patience",
        "seconds",
        "When all keys rest and the first is back within this time, wait for it, and do not leave for the fallback, which may cost more.",
    ),
    known(
        "waiting",
        "request_deadline_s",
        "Deadline of a request",
        "seconds",
        "Time to the first content, unless the client states its own.",
    ),
    known(
        "waiting",
        "timeout_ms",
        "Timeout of an attempt",
        "milliseconds",
        "Time to the first meaningful event of a stream.",
    ),
    known(
        "waiting",
        "idle_timeout_ms",
        "Silence in a stream",
        "milliseconds",
        "How long a stream may be silent before it counts as broken.",
    ),
    known(
        "waiting",
        "keepalive_s",
        "Keep clients’ streams alive",
        "seconds",
        "After this silence a client’s stream gets a comment, so that nothing on the way cuts it. 0 turns it off.",
    ),
    known(
        "waiting",
        "overload_wait_s",
        "Wait while overloaded",
        "seconds",
        "Wait before an overloaded provider is asked again, unless it states a longer time.",
    ),
    known(
        "waiting",
        "overload_wait_cap_s",
        "Longest wait while overloaded",
        "seconds",
        "A stated wait that is longer is not sat out: the request goes on at once.",
    ),
    known(
        "waiting",
        "last_key_ladder_s",
        "Waits on the last key",
        "seconds each",
        "When one key is left, the waits between its tries. Empty turns them off.",
    ),
    known(
        "breakers",
        "model_circuit_threshold",
        "Failures that open a model’s breaker",
        "failures",
        "So many failures in a row, and the model is left alone for a time.",
    ),
    known(
        "breakers",
        "model_circuit_permanent_cooldown_s",
        "Left alone after model errors",
        "seconds",
        "How long a model that is refused or missing is left alone.",
    ),
    known(
        "breakers",
        "model_circuit_transient_cooldown_s",
        "Left alone after overloads",
        "seconds",
        "How long a model that is overloaded or limited is left alone.",
    ),
    known(
        "breakers",
        "circuit_breaker_threshold",
        "Requests that open a provider’s breaker",
        "requests",
        "So many requests within a minute had to leave the provider, and it is left alone for a time.",
    ),
    known(
        "breakers",
        "circuit_breaker_cooldown_s",
        "Provider left alone",
        "seconds",
        "At first; doubles to 15 minutes.",
    ),
    whole(known(
        "logs",
        "auto_cleanup_logs",
        "Clean up the log",
        "",
        "Old requests are removed by themselves. Sums stay.",
    )),
    whole(known(
        "logs",
        "log_retention_days",
        "Keep requests",
        "days",
        "Requests that are older are removed.",
    )),
    whole(known(
        "logs",
        "alert_repeat_s",
        "Repeat an alert",
        "seconds",
        "While a condition lasts, it is told again after this time.",
    )),
    whole(known(
        "logs",
        "alert_clear_s",
        "Alert is over",
        "seconds",
        "A condition must be gone this long before the end is told.",
    )),
    whole(known(
        "logs",
        "default_context",
        "Context length, if nobody knows",
        "tokens",
        "Assumed for models whose context length is not known.",
    )),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tunable_is_explained_and_nothing_else_is() {
        let Ok(Value::Object(all)) = serde_json::to_value(backstop_triage::Settings::default()) else {
            panic!("an object")
        };
        for name in all.keys() {
            assert!(KNOWN.iter().any(|known| known.name == name), "{name} is not explained");
        }
        for known in KNOWN.iter().filter(|known| !known.whole) {
            assert!(all.contains_key(known.name), "{} is no setting", known.name);
            assert!(GROUPS.iter().any(|(id, _, _)| *id == known.group), "{} stands nowhere", known.name);
        }
    }
}
