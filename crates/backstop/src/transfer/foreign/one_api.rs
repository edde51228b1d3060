//! The channels of one-api and new-api, from their database or as JSON.
//!
//! A channel becomes a provider with its keys (one a line, or a JSON list) and models; one that was switched off is
//! paused. The models of all channels become aliases of one combo, by priority, so that clients keep their names of
//! models under `/proxy/channels/v1`; tokens become client keys that go on working.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context as _, Result};
use backstop_store::Secret;
use backstop_triage::{Catalog, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Carried, Carrying, Upstream,
    database::{Database, refuse},
    litellm::format,
};
use crate::cmd::api::{items, text};

/// Reads a database, or a JSON list of channels.
pub(crate) fn read(file: &Path, catalog: &Catalog) -> Result<Carried> {
    let table: Table = toml::from_str(include_str!("one_api.toml")).context("the table of types is wrong")?;
    let (mut channels, tokens) = load(file)?;
    channels.sort_by_key(|channel| std::cmp::Reverse(channel["priority"].as_i64().unwrap_or(0)));
    let mut carrying = Carrying::new(catalog);
    let mut members = Vec::new();
    for channel in &channels {
        members.extend(provider(&mut carrying, channel, &table));
    }
    carrying.combo(&table.combo, members);
    for token in &tokens {
        client(&mut carrying, token);
    }
    Ok(carrying.finish())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    combo: String,
    #[serde(rename = "type")]
    types: BTreeMap<String, Kind>,
}

/// A type of channel.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Kind {
    name: String,
    preset: Option<String>,
    format: Option<String>,
    #[serde(default)]
    behind: String,
}

/// Channels and tokens.
fn load(file: &Path) -> Result<(Vec<Value>, Vec<Value>)> {
    let bytes = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let is_json =
        bytes.iter().find(|byte| !byte.is_ascii_whitespace()).is_some_and(|byte| b"[{".contains(byte));
    if is_json {
        // The message of a parser can quote what it reads.
        let value: Value =
            serde_json::from_slice(&bytes).map_err(|_| anyhow::anyhow!("{} is no JSON", file.display()))?;
        let found =
            ["/channels", "/data/items", "/data", ""].iter().find_map(|at| value.pointer(at)?.as_array());
        let channels = found.context("there is no list of channels in it")?.clone();
        return Ok((channels, items(&value["tokens"]).cloned().collect()));
    }
    let database = Database::open(file)?;
    if !database.has("channels")? {
        refuse(file, "one-api or new-api")?;
    }
    let tokens =
        if database.has("tokens")? { database.rows("SELECT * FROM tokens ORDER BY id")? } else { Vec::new() };
    Ok((database.rows("SELECT * FROM channels ORDER BY id")?, tokens))
}

/// Makes a provider of a channel; its members of the combo.
fn provider(carrying: &mut Carrying<'_>, channel: &Value, table: &Table) -> Vec<String> {
    let name = text(channel, "name");
    let of = format!("channel {} ({name})", text(channel, "id"));
    let number = text(channel, "type");
    let Some(kind) = table.types.get(&number) else {
        carrying.leave_out(format!(
            "{of}: its type {number} has no API that Backstop speaks, or signs its requests"
        ));
        return Vec::new();
    };
    carrying.leave_out_fields(&of, &spoken(channel), &CARRIED);
    let url = text(channel, "base_url");
    let url = format!("{}{}", url.trim_end_matches('/'), if url.is_empty() { "" } else { &kind.behind });
    let own = kind.format.as_deref().and_then(format);
    let upstream = match (url.is_empty(), own, &kind.preset) {
        (false, Some(format), preset) => {
            let preset = preset.as_deref().filter(|_| !kind.behind.is_empty());
            Upstream::At { url: &url, format, preset }
        }
        (true, _, Some(preset)) if kind.behind.is_empty() || kind.name == *preset => Upstream::Preset(preset),
        (false, None, Some(preset)) => {
            carrying.leave_out(format!("{of}: its own address; the usual one of {preset} is taken"));
            Upstream::Preset(preset)
        }
        (true, _, Some(_)) | (_, _, None) => {
            carrying.leave_out(format!("{of}: it has no address"));
            return Vec::new();
        }
    };
    let label = if name.is_empty() { &kind.name } else { &name };
    let provider = carrying.provider(label, &upstream);
    let is_paused = channel["status"].as_i64().is_some_and(|status| status != ENABLED);
    provider.paused = is_paused.then_some(true);
    let is_off = switched_off(channel);
    for (index, key) in keys(&text(channel, "key")).into_iter().enumerate() {
        if let Some(added) = provider.add_key("", Secret::new(&key)) {
            added.disabled = is_off.contains(&index.to_string());
        }
    }
    let mapping: BTreeMap<String, String> =
        serde_json::from_str(&text(channel, "model_mapping")).unwrap_or_default();
    let mut members = Vec::new();
    for asked in text(channel, "models").split(',').map(str::trim).filter(|model| !model.is_empty()) {
        let model = mapping.get(asked).map_or(asked, String::as_str);
        provider.add_model(model);
        members.push(format!("{asked}={}/{model}", provider.id));
    }
    if is_paused { Vec::new() } else { members }
}

/// The keys of a channel: a JSON list, or one a line.
fn keys(text: &str) -> Vec<String> {
    let listed: Option<Vec<Value>> = serde_json::from_str(text).ok();
    match listed {
        Some(list) => {
            list.iter().map(|key| key.as_str().map_or_else(|| key.to_string(), str::to_owned)).collect()
        }
        None => text.lines().map(str::trim).filter(|key| !key.is_empty()).map(str::to_owned).collect(),
    }
}

/// The places of the keys that are switched off within a channel of several.
fn switched_off(channel: &Value) -> Vec<String> {
    let info = match &channel["channel_info"] {
        Value::String(text) => serde_json::from_str(text).unwrap_or(Value::Null),
        other => other.clone(),
    };
    let states = info["multi_key_status_list"].as_object().cloned().unwrap_or_default();
    states.into_iter().filter(|(_, state)| state.as_i64() != Some(ENABLED)).map(|(place, _)| place).collect()
}

/// A channel without what says nothing: counters, times, defaults.
fn spoken(channel: &Value) -> Value {
    let mut fields = channel.as_object().cloned().unwrap_or_default();
    let says_nothing = |name: &str, value: &Value| match name {
        "group" => value == "default",
        "weight" | "auto_ban" | "need_reconcile" => value == 0 || value == 1,
        _ => matches!(value.as_str(), Some("{}" | "[]" | "null")) || *value == json!({}),
    };
    fields.retain(|name, value| !says_nothing(name, value));
    Value::Object(fields)
}

fn client(carrying: &mut Carrying<'_>, token: &Value) {
    let name = text(token, "name");
    let name = if name.is_empty() { format!("token {}", text(token, "id")) } else { name };
    if token["status"].as_i64().is_some_and(|status| status != ENABLED) {
        carrying.leave_out(format!("client key {name}: it is switched off"));
        return;
    }
    let key = text(token, "key");
    let key = if key.starts_with(TOKEN_PREFIX) { key } else { format!("{TOKEN_PREFIX}{key}") };
    let is_limited = token["unlimited_quota"] == 0 || token["unlimited_quota"] == false;
    let models = text(token, "models");
    let models = if models.is_empty() { text(token, "model_limits") } else { models };
    let models: Vec<&str> = models.split(',').map(str::trim).filter(|model| !model.is_empty()).collect();
    if let Some(made) = carrying.client(&name, &Secret::new(&key)) {
        if !models.is_empty() {
            made.limits.insert("models".to_owned(), json!(models));
        }
        let ends = token["expired_time"].as_i64().filter(|ends| *ends > 0);
        made.expires_at = ends.and_then(|ends| Some(Timestamp::from_second(ends).ok()?.to_string()));
    }
    if is_limited {
        carrying.leave_out(format!(
            "client key {name}: its quota; `backstop clients limits \"{name}\" --usd-per-month …` sets one"
        ));
    }
}

const ENABLED: i64 = 1;
const TOKEN_PREFIX: &str = "sk-";
/// What is carried over, and what only counts.
const CARRIED: [&str; 19] = [
    "id",
    "type",
    "key",
    "name",
    "status",
    "base_url",
    "models",
    "model_mapping",
    "priority",
    "channel_info",
    "created_time",
    "test_time",
    "test_model",
    "response_time",
    "balance",
    "balance_updated_time",
    "used_quota",
    "other_info",
    "remark",
];
