//! The groups of gpt-load, from its database.
//!
//! A group becomes a provider of its first upstream; its keys come along, those that were found invalid switched off.
//! The keys that its clients show become client keys that go on working. Keys that gpt-load itself keeps encrypted
//! cannot be read from its database, which is told.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use anyhow::{Context as _, Result, bail};
use backstop_store::Secret;
use backstop_triage::Catalog;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Carried, Carrying, Upstream,
    database::{Database, refuse},
    litellm::format,
};
use crate::cmd::api::{items, text};

/// Reads a database.
pub(crate) fn read(file: &Path, catalog: &Catalog) -> Result<Carried> {
    let table: Table =
        toml::from_str(include_str!("gpt_load.toml")).context("the table of types is wrong")?;
    let database = Database::open(file)?;
    if !database.has("groups")? || !database.has("api_keys")? {
        refuse(file, "gpt-load")?;
    }
    let keys = database.rows("SELECT * FROM api_keys ORDER BY id")?;
    if !keys.is_empty() && keys.iter().all(|key| is_encrypted(&text(key, "key_value"))) {
        bail!(
            "its keys are encrypted; let gpt-load decrypt them first (its command migrate-keys, with --from)"
        );
    }
    let mut carrying = Carrying::new(catalog);
    let mut shown = BTreeSet::new();
    for group in database.rows("SELECT * FROM groups ORDER BY id")? {
        let keys: Vec<&Value> = keys.iter().filter(|key| key["group_id"] == group["id"]).collect();
        provider(&mut carrying, &group, &keys, &table);
        let name = text(&group, "name");
        for key in text(&group, "proxy_keys").split(',').map(str::trim).filter(|key| !key.is_empty()) {
            if shown.insert(key.to_owned()) {
                carrying.client(&format!("{name} {}", shown.len()), &Secret::new(key));
            }
        }
    }
    if database.has("system_settings")? {
        let settings = database.rows("SELECT setting_key, setting_value FROM system_settings")?;
        for setting in settings.iter().filter(|setting| setting["setting_key"] == "proxy_keys") {
            for key in text(setting, "setting_value").split(',').map(str::trim).filter(|key| !key.is_empty())
            {
                if shown.insert(key.to_owned()) {
                    carrying.client(&format!("everywhere {}", shown.len()), &Secret::new(key));
                }
            }
        }
        let names: Vec<String> = settings
            .iter()
            .map(|setting| text(setting, "setting_key"))
            .filter(|name| name != "proxy_keys")
            .collect();
        if !names.is_empty() {
            carrying.leave_out(format!("system settings: {}", names.join(", ")));
        }
    }
    Ok(carrying.finish())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    format: BTreeMap<String, String>,
}

fn provider(carrying: &mut Carrying<'_>, group: &Value, keys: &[&Value], table: &Table) {
    let name = text(group, "name");
    let of = format!("group {name}");
    let kind = text(group, "channel_type");
    let Some(format) = table.format.get(&kind).and_then(|name| format(name)) else {
        carrying.leave_out(format!("{of}: its type {kind} is none that Backstop speaks"));
        return;
    };
    let upstreams: Value = serde_json::from_str(&text(group, "upstreams")).unwrap_or(Value::Null);
    let urls: Vec<String> = items(&upstreams).map(|upstream| text(upstream, "url")).collect();
    let Some(url) = urls.first().filter(|url| !url.is_empty()) else {
        carrying.leave_out(format!("{of}: it has no upstream"));
        return;
    };
    if urls.len() > 1 {
        carrying.leave_out(format!(
            "{of}: all upstreams but the first; add each as a provider and a combo of them"
        ));
    }
    carrying.leave_out_fields(&of, &spoken(group), &CARRIED);
    let headers = headers(carrying, &of, group);
    let provider = carrying.provider(&name, &Upstream::At { url, format, preset: None });
    if !headers.is_empty() {
        provider.definition.insert("headers".to_owned(), json!(headers));
    }
    for key in keys {
        let label = text(key, "notes");
        if let Some(added) = provider.add_key(&label, Secret::new(&text(key, "key_value"))) {
            added.disabled = key["status"] == "invalid";
        }
    }
}

/// The headers that every call of a group carries; rules that take headers away have no counterpart.
fn headers(carrying: &mut Carrying<'_>, of: &str, group: &Value) -> BTreeMap<String, String> {
    let rules: Value = serde_json::from_str(&text(group, "header_rules")).unwrap_or(Value::Null);
    let mut headers = BTreeMap::new();
    for rule in items(&rules) {
        let value = text(rule, "value");
        if rule["action"] == "set" && !value.contains("${") {
            headers.insert(text(rule, "key"), value);
        } else {
            carrying.leave_out(format!("{of}: the rule for the header {}", text(rule, "key")));
        }
    }
    headers
}

/// A group without fields that are empty documents.
fn spoken(group: &Value) -> Value {
    let mut fields = group.as_object().cloned().unwrap_or_default();
    fields.retain(|_, value| !matches!(value.as_str(), Some("{}" | "[]" | "null")));
    Value::Object(fields)
}

/// What gpt-load's encryption leaves: a nonce, a text and a tag in hexadecimal digits.
fn is_encrypted(key: &str) -> bool {
    key.len() >= SHORTEST_ENCRYPTED
        && key.len().is_multiple_of(2)
        && key.bytes().all(|byte| byte.is_ascii_hexdigit())
}

const SHORTEST_ENCRYPTED: usize = 2 * (12 + 1 + 16);
/// What is carried over, and what only describes.
const CARRIED: [&str; 14] = [
    "id",
    "name",
    "display_name",
    "description",
    "proxy_keys",
    "upstreams",
    "validation_endpoint",
    "channel_type",
    "sort",
    "test_model",
    "header_rules",
    "last_validated_at",
    "created_at",
    "updated_at",
];
