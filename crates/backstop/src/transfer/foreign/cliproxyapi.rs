//! CLIProxyAPI's `config.yaml`, and what lies in its auth folder.
//!
//! Keys of the same list, address, prefix and headers become one provider, which goes by the prefix where there is one;
//! other names of models become aliases of a combo; the keys that its clients show go on working. Logins in the auth
//! folder have to be refreshed, which Backstop does not do: they are listed by their kind, except those that hold a
//! plain key.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use backstop_gateway::config::Environment;
use backstop_store::Secret;
use backstop_triage::{Catalog, preset::Format};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Carried, Carrying, Upstream, litellm::format, yaml};
use crate::cmd::api::{items, text};

/// Reads the file, and the folder that it names.
pub(crate) fn read(file: &Path, catalog: &Catalog, environment: &Environment) -> Result<Carried> {
    let table: Table =
        toml::from_str(include_str!("cliproxyapi.toml")).context("the table of lists is wrong")?;
    let config = fs::read_to_string(file)
        .with_context(|| format!("cannot read {}", file.display()))
        .and_then(|text| yaml(&text).with_context(|| format!("{} cannot be read", file.display())))?;
    let mut reader =
        Reader { carrying: Carrying::new(catalog), members: Vec::new(), proxy: text(&config, "proxy-url") };
    for (name, list) in &table.list {
        reader.list(name, list, &config[name]);
    }
    for entry in items(&config["openai-compatibility"]) {
        reader.compatible(entry);
    }
    for (number, key) in (1..).zip(items(&config["api-keys"])) {
        reader.carrying.client(&format!("client {number}"), &Secret::new(key.as_str().unwrap_or_default()));
    }
    let folder = file.parent().unwrap_or_else(|| Path::new(""));
    let logins = config["auth-dir"].as_str().map(|text| environment.path(text, folder));
    reader.logins(logins.as_deref(), &table);
    let members = std::mem::take(&mut reader.members);
    reader.carrying.combo(&table.combo, members);
    let mut known: Vec<&str> = table.list.keys().map(String::as_str).collect();
    known.extend(["openai-compatibility", "api-keys", "auth-dir", "proxy-url"]);
    reader.carrying.leave_out_fields("config.yaml", &config, &known);
    Ok(reader.carrying.finish())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    combo: String,
    list: BTreeMap<String, List>,
}

/// A list of keys.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    preset: String,
    format: String,
}

struct Reader<'r> {
    carrying: Carrying<'r>,
    members: Vec<String>,
    /// The proxy of everything that has none of its own.
    proxy: String,
}

/// What keys of one provider have in common: prefix, address, proxy, headers, models.
type Place = [String; 5];

impl Reader<'_> {
    fn list(&mut self, name: &str, list: &List, entries: &Value) {
        let mut places: Vec<(Place, Vec<&Value>)> = Vec::new();
        for entry in items(entries) {
            let place =
                ["prefix", "base-url", "proxy-url", "headers", "models"].map(|field| text(entry, field));
            match places.iter_mut().find(|(known, _)| *known == place) {
                Some((_, same)) => same.push(entry),
                None => places.push((place, vec![entry])),
            }
        }
        for (place, same) in places {
            let [prefix, url, ..] = &place;
            let upstream = match (url.as_str(), format(&list.format)) {
                ("", _) | (_, None) => Upstream::Preset(&list.preset),
                (url, Some(format)) => Upstream::At { url, format, preset: None },
            };
            let called = if prefix.is_empty() { &list.preset } else { prefix };
            let keys: Vec<Secret> = same.iter().map(|entry| Secret::new(&text(entry, "api-key"))).collect();
            self.provider(called, &upstream, same[0], &keys);
            for entry in same {
                self.carrying.leave_out_fields(&format!("{name} ({called})"), entry, &CARRIED);
            }
        }
    }

    /// A provider that speaks the chat API at an address of its own.
    fn compatible(&mut self, entry: &Value) {
        let (name, url) = (text(entry, "name"), text(entry, "base-url"));
        let upstream = Upstream::At { url: &url, format: Format::OpenaiChat, preset: None };
        let listed = items(&entry["api-key-entries"]).map(|key| text(key, "api-key"));
        let plain = items(&entry["api-keys"]).filter_map(Value::as_str).map(str::to_owned);
        let keys: Vec<Secret> = listed.chain(plain).map(|key| Secret::new(&key)).collect();
        let prefix = text(entry, "prefix");
        let called = if prefix.is_empty() { &name } else { &prefix };
        let own_proxies = items(&entry["api-key-entries"]).any(|key| !text(key, "proxy-url").is_empty());
        if own_proxies {
            self.carrying.leave_out(format!("openai-compatibility ({name}): the proxies of single keys"));
        }
        self.provider(called, &upstream, entry, &keys);
        self.carrying.leave_out_fields(&format!("openai-compatibility ({name})"), entry, &CARRIED);
    }

    fn provider(&mut self, called: &str, upstream: &Upstream<'_>, entry: &Value, keys: &[Secret]) {
        let proxy = match text(entry, "proxy-url").as_str() {
            "" => self.proxy.clone(),
            "direct" | "none" => String::new(),
            own => own.to_owned(),
        };
        let fixed =
            |(_, value): &(&String, &Value)| value.as_str().is_some_and(|value| !value.starts_with('$'));
        let all = entry["headers"].as_object().cloned().unwrap_or_default();
        let headers: Map<String, Value> =
            all.iter().filter(fixed).map(|(name, value)| (name.clone(), value.clone())).collect();
        if headers.len() < all.len() {
            self.carrying.leave_out(format!("{called}: headers that are copied from the client"));
        }
        let through = proxy.starts_with("http://").then_some(proxy.as_str());
        if through.is_none() && !proxy.is_empty() {
            self.carrying.leave_out(format!("{called}: its proxy, which is none that speaks HTTP"));
        }
        let provider = self.carrying.provider(called, upstream);
        for key in keys {
            provider.add_key("", key.clone());
        }
        if let Some(proxy) = through {
            provider.definition.insert("proxy".to_owned(), proxy.into());
        }
        if !headers.is_empty() {
            provider.definition.insert("headers".to_owned(), headers.into());
        }
        for model in items(&entry["models"]) {
            let (name, alias) = (text(model, "name"), text(model, "alias"));
            provider.add_model(&name);
            if !alias.is_empty() && alias != name {
                self.members.push(format!("{alias}={}/{name}", provider.id));
            }
        }
    }

    /// What lies in the auth folder.
    fn logins(&mut self, folder: Option<&Path>, table: &Table) {
        let Some(entries) = folder.and_then(|folder| fs::read_dir(folder).ok()) else { return };
        let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        files.retain(|file| file.extension().is_some_and(|kind| kind == "json"));
        files.sort();
        let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
        for file in files {
            let read = fs::read(&file).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
            let login: Value = read.unwrap_or(Value::Null);
            let kind = login["type"].as_str().unwrap_or("unknown").to_owned();
            let list = table.list.get(&format!("{kind}-api-key"));
            match (login["api_key"].as_str().or_else(|| login["api-key"].as_str()), list) {
                (Some(key), Some(list)) if !key.is_empty() => {
                    self.provider(&kind, &Upstream::Preset(&list.preset), &login, &[Secret::new(key)]);
                }
                (Some(_) | None, _) => *kinds.entry(kind).or_default() += 1,
            }
        }
        for (kind, count) in kinds {
            self.carrying.leave_out(format!(
                "logins of {kind} in the auth folder ({count}): they have to be refreshed, which Backstop does not do; \
                 keep CLIProxyAPI for them and add it as a provider"
            ));
        }
    }
}

const CARRIED: [&str; 9] = [
    "api-key",
    "api-key-entries",
    "api-keys",
    "base-url",
    "headers",
    "models",
    "name",
    "prefix",
    "proxy-url",
];
