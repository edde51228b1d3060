//! Settings: what they are, what they may be, and what they are set to.

use std::collections::BTreeMap;

use backstop_triage::Settings;
use serde::Serialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use crate::{
    app::{Actor, App, value_of},
    credentials::is_credential,
    problem::{Answer, FieldError, Problem},
};

/// One setting.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct SettingView {
    /// Its name.
    pub name: String,
    /// What it is set to.
    #[schema(value_type = Value)]
    pub value: Value,
    /// What it is when nobody sets it.
    #[schema(value_type = Value)]
    pub default: Value,
    /// Whether somebody has set it here.
    pub changed: bool,
    /// Whether the configuration file sets it, so that it is read-only here.
    pub from_file: bool,
}

/// All settings, by name.
pub async fn list(app: &App) -> Answer<Vec<SettingView>> {
    let set = changed(app).await?;
    let in_force = serde_json::to_value(&*app.live.settings()).unwrap_or(Value::Null);
    let view = |(name, default): (String, Value)| {
        let own = set.get(&name).cloned();
        let filed = in_force.get(&name).filter(|value| **value != default && own.as_ref() != Some(value));
        SettingView {
            changed: own.is_some() && filed.is_none(),
            from_file: filed.is_some(),
            value: filed.cloned().or(own).unwrap_or_else(|| default.clone()),
            default,
            name,
        }
    };
    Ok(defaults().into_iter().map(view).collect())
}

/// Sets settings; `null` puts one back to its default.
pub async fn change(app: &App, actor: &Actor, changes: Map<String, Value>) -> Answer<Vec<SettingView>> {
    let filed = list(app).await?.into_iter().find(|view| view.from_file && changes.contains_key(&view.name));
    if let Some(view) = filed {
        return Err(Problem::from_the_file(&format!("setting {}", view.name)));
    }
    let mut all = changed(app).await?;
    for (name, value) in &changes {
        if value.is_null() {
            all.remove(name);
        } else {
            all.insert(name.clone(), value.clone());
        }
    }
    check(&changes, &all)?;
    let names = changes.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
    let rows = changes.into_iter().map(|(name, value)| {
        let value = if value.is_null() { None } else { Some(value.to_string()) };
        (name, value)
    });
    app.live.store().set_settings(rows.collect()).await?;
    app.changed(actor, "settings.change", "settings", &names).await?;
    list(app).await
}

async fn changed(app: &App) -> Answer<BTreeMap<String, Value>> {
    let rows = app.read(|store| store.settings()).await?;
    let people = rows.into_iter().filter(|(name, _)| !is_credential(name));
    Ok(people.map(|(name, value)| (name, value_of(&value))).collect())
}

/// Every setting with its default.
fn defaults() -> BTreeMap<String, Value> {
    let mut defaults = BTreeMap::new();
    if let Ok(Value::Object(fields)) = serde_json::to_value(Settings::default()) {
        defaults.extend(fields);
    }
    for (name, value) in own_defaults() {
        defaults.insert(name.to_owned(), value);
    }
    defaults
}

/// Settings of the whole gateway that no provider has of its own.
fn own_defaults() -> [(&'static str, Value); 3] {
    [("auto_cleanup_logs", json!(true)), ("log_retention_days", json!(7)), ("theme", json!("auto"))]
}

fn check(changes: &Map<String, Value>, all: &BTreeMap<String, Value>) -> Answer<()> {
    let known = defaults();
    let mut errors = Vec::new();
    for (name, value) in changes {
        let Some(default) = known.get(name) else {
            errors.push(field(name, format!("there is no setting `{name}`")));
            continue;
        };
        if !value.is_null() && !default.is_null() && kind(value) != kind(default) {
            errors.push(field(name, format!("`{name}` is a {}, such as {default}", kind(default))));
        }
        let range = RANGES.iter().find(|(setting, _, _)| setting == name);
        if let (Some((_, least, most)), Some(number)) = (range, value.as_u64())
            && !(*least..=*most).contains(&number)
        {
            errors.push(field(name, format!("`{name}` must be {least} to {most}")));
        }
    }
    if errors.is_empty() {
        let own = own_defaults().map(|(name, _)| name);
        let tunables: Map<String, Value> = all
            .iter()
            .filter(|(name, _)| !own.contains(&name.as_str()))
            .map(|(n, v)| (n.clone(), v.clone()))
            .collect();
        if let Err(error) = serde_json::from_value::<Settings>(Value::Object(tunables)) {
            errors.push(field("", error.to_string()));
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(Problem::invalid(errors)) }
}

fn field(name: &str, detail: String) -> FieldError {
    FieldError { field: name.to_owned(), detail }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "yes or no",
        Value::Number(_) => "number",
        Value::String(_) => "word",
        Value::Array(_) => "list",
        Value::Object(_) => "table",
    }
}

/// What numbers may be, where less or more would do harm.
const RANGES: [(&str, u64, u64); 9] = [
    ("quota_backoff_s", 60, 86_400),
    ("rate_limit_backoff_s", 1, 86_400),
    ("model_circuit_permanent_cooldown_s", 30, 86_400),
    ("model_circuit_transient_cooldown_s", 10, 3600),
    ("request_deadline_s", 1, 86_400),
    ("max_attempts", 1, 1000),
    ("requests_per_key", 1, 1_000_000),
    ("log_retention_days", 1, 3650),
    ("default_context", 1024, 10_000_000),
];
