//! LiteLLM's `config.yaml`.
//!
//! A deployment names a provider by a prefix of its model, or by an address. Deployments of the same provider and
//! address whose keys serve the same models become one provider with several keys. The names that clients ask for
//! become aliases of one combo, so that clients keep them under `/proxy/litellm/v1`; fallbacks between groups of models
//! become further members.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};
use backstop_gateway::config::Environment;
use backstop_store::Secret;
use backstop_triage::{Catalog, preset::Format};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Carried, Carrying, Upstream, yaml};
use crate::cmd::api::{items, text};

/// Reads the file.
pub(crate) fn read(file: &str, catalog: &Catalog, environment: &Environment) -> Result<Carried> {
    let config = yaml(file)?;
    let table: Table = toml::from_str(include_str!("litellm.toml")).context("the table of names is wrong")?;
    let mut reader = Reader { carrying: Carrying::new(catalog), table, environment, config: &config };
    let deployments = reader.deployments();
    let members = reader.providers(&deployments);
    reader.combo(members);
    reader.rest();
    Ok(reader.carrying.finish())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    combo: String,
    unprefixed: String,
    presets: BTreeMap<String, String>,
    addressed: BTreeMap<String, String>,
    behind: BTreeMap<String, String>,
    refused: BTreeMap<String, String>,
}

struct Reader<'r> {
    carrying: Carrying<'r>,
    table: Table,
    environment: &'r Environment,
    config: &'r Value,
}

/// One entry of `model_list`.
struct Deployment {
    /// What clients ask for.
    group: String,
    prefix: String,
    model: String,
    address: Option<String>,
    key: Option<Secret>,
    headers: Map<String, Value>,
    window: Option<u64>,
}

/// Deployments that one key list can serve: prefix, address, headers.
type Place = (String, Option<String>, String);

impl Reader<'_> {
    fn deployments(&mut self) -> Vec<Deployment> {
        let config = self.config;
        items(&config["model_list"]).filter_map(|entry| self.deployment(entry)).collect()
    }

    fn deployment(&mut self, entry: &Value) -> Option<Deployment> {
        let (group, params) = (text(entry, "model_name"), &entry["litellm_params"]);
        let whole = text(params, "model");
        let named = text(params, "custom_llm_provider");
        let (prefix, model) = match whole.split_once('/') {
            _ if !named.is_empty() => {
                let model = whole.strip_prefix(&format!("{named}/")).unwrap_or(&whole);
                (named.clone(), model)
            }
            Some((prefix, model)) => (prefix.to_owned(), model),
            None => (self.table.unprefixed.clone(), whole.as_str()),
        };
        let of = format!("model {group} ({whole})");
        if let Some(why) = self.table.refused.get(&prefix) {
            let why = format!("{of}: {why}");
            self.carrying.leave_out(why);
            return None;
        }
        self.carrying.leave_out_fields(&of, params, &PARAMS);
        self.carrying.leave_out_fields(&format!("{of}, model_info"), &entry["model_info"], &INFO);
        let address = ["api_base", "base_url"].iter().find_map(|field| self.value(&params[*field], &of));
        let key = self.value(&params["api_key"], &of).map(|key| Secret::new(&key));
        Some(Deployment {
            group,
            prefix,
            model: if model.contains('*') { String::new() } else { model.to_owned() },
            address,
            key,
            headers: params["extra_headers"].as_object().cloned().unwrap_or_default(),
            window: entry["model_info"]["max_input_tokens"].as_u64(),
        })
    }

    /// A text, or what the variable that it names has; a missing one is told.
    fn value(&mut self, value: &Value, of: &str) -> Option<String> {
        let text = value.as_str().filter(|text| !text.is_empty())?;
        let Some(name) = text.strip_prefix("os.environ/") else { return Some(text.to_owned()) };
        let found =
            self.config["environment_variables"][name].as_str().or_else(|| self.environment.var(name));
        if found.is_none() {
            self.carrying
                .leave_out(format!("{of}: the environment here has no {name}; export it and import again"));
        }
        found.map(str::to_owned)
    }

    /// Makes the providers; the members of the combo, by the names that clients ask for.
    fn providers(&mut self, deployments: &[Deployment]) -> BTreeMap<String, Vec<String>> {
        let mut members: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let place = |one: &Deployment| -> Place {
            (one.prefix.clone(), one.address.clone(), Value::Object(one.headers.clone()).to_string())
        };
        let mut places: Vec<Place> = Vec::new();
        for one in deployments {
            if !places.contains(&place(one)) {
                places.push(place(one));
            }
        }
        for wanted in places {
            let here: Vec<&Deployment> = deployments.iter().filter(|one| place(one) == wanted).collect();
            for same in by_models(&here) {
                let Some(id) = self.provider(&same) else { continue };
                for one in same.iter().filter(|one| !one.model.is_empty() && !one.group.contains('*')) {
                    let member = format!("{}={id}/{}", one.group, one.model);
                    let known = members.entry(one.group.clone()).or_default();
                    if !known.contains(&member) {
                        known.push(member);
                    }
                }
            }
        }
        members
    }

    fn provider(&mut self, same: &[&Deployment]) -> Option<String> {
        let first = same.first()?;
        let prefix = first.prefix.as_str();
        let preset = self.table.presets.get(prefix).map_or(prefix, String::as_str).to_owned();
        let is_known = self.carrying.catalog().preset(&preset).is_some();
        let named = is_known.then_some(preset.as_str());
        let format = self.table.addressed.get(prefix).and_then(|name| format(name));
        let format = format.or_else(|| Some(self.carrying.catalog().preset(&preset)?.format));
        let behind = self.table.behind.get(prefix).map_or("", String::as_str);
        let address = first.address.as_deref().map(|url| format!("{}{behind}", url.trim_end_matches('/')));
        let upstream = match (&address, format, named) {
            (Some(url), Some(format), named) => {
                let own = self.table.addressed.contains_key(prefix) && behind.is_empty();
                Upstream::At { url, format, preset: named.filter(|_| !own) }
            }
            (None, _, Some(preset)) if behind.is_empty() => Upstream::Preset(preset),
            (None | Some(_), _, _) => {
                let models: Vec<&str> = same.iter().map(|one| one.group.as_str()).collect();
                self.carrying.leave_out(format!(
                    "models {}: nothing is known of `{prefix}` without its address",
                    models.join(", ")
                ));
                return None;
            }
        };
        let translated = format == Some(Format::AnthropicMessages);
        let provider = self.carrying.provider(prefix, &upstream);
        for one in same {
            provider.add_model(&one.model);
            if let Some(key) = &one.key {
                provider.add_key("", key.clone());
            }
            if let Some(window) = one.window.filter(|_| !one.model.is_empty()) {
                let context =
                    provider.definition.entry("context".to_owned()).or_insert_with(|| Map::new().into());
                context[&one.model] = window.into();
            }
        }
        if !first.headers.is_empty() {
            provider.definition.insert("headers".to_owned(), Value::Object(first.headers.clone()));
        }
        let id = provider.id.clone();
        if translated {
            self.carrying.leave_out(format!(
                "provider {id}: translation from chat to messages; clients ask its models on /v1/messages"
            ));
        }
        Some(id)
    }

    fn combo(&mut self, mut members: BTreeMap<String, Vec<String>>) {
        let config = self.config;
        let settings = [&config["router_settings"], &config["litellm_settings"]];
        let chains = settings.iter().flat_map(|settings| items(&settings["fallbacks"]));
        let chains: Vec<(String, Vec<String>)> = chains.flat_map(chain).collect();
        let before = members.clone();
        for (group, next) in &chains {
            let further = next.iter().flat_map(|next| before.get(next).into_iter().flatten());
            let further: Vec<String> =
                further.filter_map(|member| Some(format!("{group}={}", member.split_once('=')?.1))).collect();
            members.entry(group.clone()).or_default().extend(further);
        }
        for (alias, group) in config["router_settings"]["model_group_alias"].as_object().into_iter().flatten()
        {
            let group = group.as_str().unwrap_or_default();
            let same = members.get(group).cloned().unwrap_or_default();
            let renamed =
                same.iter().filter_map(|member| Some(format!("{alias}={}", member.split_once('=')?.1)));
            let renamed: Vec<String> = renamed.collect();
            members.insert(alias.clone(), renamed);
        }
        let name = self.table.combo.clone();
        self.carrying.combo(&name, members.into_values().flatten().collect());
    }

    /// Everything beside the list of models.
    fn rest(&mut self) {
        let config = self.config;
        if let Some(key) =
            self.value(&config["general_settings"]["master_key"], "general_settings.master_key")
        {
            self.carrying.client("master key", &Secret::new(&key));
        }
        let known = [
            "model_list",
            "router_settings",
            "litellm_settings",
            "general_settings",
            "environment_variables",
        ];
        self.carrying.leave_out_fields("config.yaml", config, &known);
        let parts: [(&str, &[&str]); 3] = [
            ("router_settings", &["fallbacks", "model_group_alias"]),
            ("litellm_settings", &["fallbacks"]),
            ("general_settings", &["master_key"]),
        ];
        for (part, carried) in parts {
            self.carrying.leave_out_fields(part, &config[part], carried);
        }
    }
}

/// Deployments by the keys that serve the same models, in order.
fn by_models<'d>(here: &[&'d Deployment]) -> Vec<Vec<&'d Deployment>> {
    let key = |one: &Deployment| one.key.as_ref().map(|key| key.expose().to_owned());
    let served = |one: &Deployment| -> BTreeSet<&str> {
        here.iter().filter(|other| key(other) == key(one)).map(|other| other.model.as_str()).collect()
    };
    let mut groups: Vec<(BTreeSet<&str>, Vec<&'d Deployment>)> = Vec::new();
    for one in here {
        let models = served(one);
        match groups.iter_mut().find(|(known, _)| *known == models) {
            Some((_, group)) => group.push(one),
            None => groups.push((models, vec![one])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// The chains of `{ group: [next, …] }`.
fn chain(entry: &Value) -> Vec<(String, Vec<String>)> {
    let chains = entry.as_object().into_iter().flatten();
    let names = |next: &Value| items(next).filter_map(Value::as_str).map(str::to_owned).collect();
    chains.map(|(group, next)| (group.clone(), names(next))).collect()
}

pub(super) fn format(name: &str) -> Option<Format> {
    let formats = [Format::OpenaiChat, Format::OpenaiResponses, Format::AnthropicMessages, Format::Gemini];
    formats.into_iter().find(|format| format.as_str() == name)
}

const PARAMS: [&str; 6] =
    ["model", "custom_llm_provider", "api_base", "base_url", "api_key", "extra_headers"];
const INFO: [&str; 1] = ["max_input_tokens"];
