//! The set-ups of other gateways, read into a document.
//!
//! A reader carries over what has a counterpart and lists everything else by its name; values are never listed, since
//! any of them may be a secret. What the other gateway calls its providers is data beside each reader.

pub(crate) mod cliproxyapi;
mod database;
pub(crate) mod env;
pub(crate) mod gpt_load;
pub(crate) mod litellm;
pub(crate) mod one_api;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, anyhow};
use backstop_gateway::config::SHORTEST_CLIENT_KEY;
use backstop_store::{
    Secret,
    clients::{hash_text, token_hash},
};
use backstop_triage::{
    Catalog,
    preset::{Format, Preset},
};
use serde_json::{Value, json};

use super::document::{Client, Combo, Document, Key, Provider};

/// What a reader made of a set-up.
pub(crate) struct Carried {
    pub(crate) document: Document,
    /// What has no counterpart, by its name.
    pub(crate) left_out: Vec<String>,
}

/// Where a provider of the other gateway lies.
pub(crate) enum Upstream<'a> {
    /// At the address of a preset.
    Preset(&'a str),
    /// At an address of its own.
    At {
        /// The base URL.
        url: &'a str,
        /// The API that it speaks.
        format: Format,
        /// The preset that gives everything else, if one is known.
        preset: Option<&'a str>,
    },
}

/// A document in the making.
pub(crate) struct Carrying<'c> {
    catalog: &'c Catalog,
    carried: Carried,
    ids: BTreeSet<String>,
}

impl<'c> Carrying<'c> {
    pub(crate) fn new(catalog: &'c Catalog) -> Self {
        let carried = Carried { document: Document::new(), left_out: Vec::new() };
        Self { catalog, carried, ids: BTreeSet::new() }
    }

    pub(crate) fn catalog(&self) -> &'c Catalog {
        self.catalog
    }

    /// Notes that something has no counterpart, and what to do.
    pub(crate) fn leave_out(&mut self, what: impl Into<String>) {
        self.carried.left_out.push(what.into());
    }

    /// Notes fields that have no counterpart, by their names.
    pub(crate) fn leave_out_fields(&mut self, of: &str, fields: &Value, known: &[&str]) {
        let unknown: Vec<&str> = fields
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(name, value)| !known.contains(&name.as_str()) && says_something(value))
            .map(|(name, _)| name.as_str())
            .collect();
        if !unknown.is_empty() {
            self.leave_out(format!("{of}: {}", unknown.join(", ")));
        }
    }

    /// Adds a provider; the name is made an id that nobody else has.
    pub(crate) fn provider(&mut self, name: &str, upstream: &Upstream<'_>) -> &mut Provider {
        let id = self.free_id(name);
        let definition = self.definition(upstream);
        if let Upstream::At { url, .. } = upstream
            && plain_address(url).1
        {
            self.leave_out(format!(
                "provider {id}: credentials or a query in its address; add them as a key, a header or a query"
            ));
        }
        self.carried.document.provider.push(Provider { id, definition, ..Provider::default() });
        self.carried.document.provider.last_mut().expect("a provider was just added")
    }

    /// Adds a combo with these members, if there are any.
    pub(crate) fn combo(&mut self, name: &str, members: Vec<String>) {
        if !members.is_empty() {
            let id = self.free_id(name);
            self.carried.document.combo.push(Combo { id, members });
        }
    }

    /// Lets a key of the other gateway's clients go on working here, by its hash.
    pub(crate) fn client(&mut self, name: &str, key: &Secret) -> Option<&mut Client> {
        let length = key.expose().chars().count();
        if length < SHORTEST_CLIENT_KEY {
            self.leave_out(format!(
                "client key {name}: it has less than {SHORTEST_CLIENT_KEY} characters and could be guessed; \
                 `backstop clients add \"{name}\"` makes a new one"
            ));
            return None;
        }
        self.carried.document.client.push(Client {
            name: name.to_owned(),
            prefix: key.expose().chars().take(PREFIX_SHOWN).collect(),
            expires_at: None,
            limits: BTreeMap::new(),
            hash: Some(hash_text(&token_hash(key.expose()))),
        });
        self.carried.document.client.last_mut()
    }

    pub(crate) fn finish(self) -> Carried {
        self.carried
    }

    fn definition(&self, upstream: &Upstream<'_>) -> BTreeMap<String, Value> {
        let (url, format, named) = match upstream {
            Upstream::Preset(id) => return BTreeMap::from([("preset".to_owned(), json!(id))]),
            Upstream::At { url, format, preset } => (plain_address(url).0, *format, *preset),
        };
        let url = url.trim_end_matches('/');
        if let Some(preset) = self.preset_at(url, format) {
            return BTreeMap::from([("preset".to_owned(), json!(preset.id))]);
        }
        let mut definition = BTreeMap::from([("base_url".to_owned(), json!(url))]);
        match named {
            Some(preset) => drop(definition.insert("preset".to_owned(), json!(preset))),
            None => drop(definition.insert("format".to_owned(), json!(format.as_str()))),
        }
        if is_private(url) {
            definition.insert("allow_private".to_owned(), json!(true));
        }
        definition
    }

    /// The preset of an address, whether or not the version is written behind it. What listens on this machine or
    /// without TLS is not told by its address.
    fn preset_at(&self, url: &str, format: Format) -> Option<&'c Preset> {
        let fits = |preset: &&Preset| {
            url.starts_with("https://") && preset.format == format && bare(&preset.base_url) == bare(url)
        };
        self.catalog.presets().iter().find(fits)
    }

    fn free_id(&mut self, name: &str) -> String {
        let letter = |letter: char| match letter.to_ascii_lowercase() {
            fine @ ('a'..='z' | '0'..='9' | '_' | '.' | '-') => fine,
            _ => '-',
        };
        let slug: String = name.chars().map(letter).collect();
        let slug = slug.trim_matches(['-', '_', '.']);
        let slug = if slug.is_empty() { "provider" } else { slug };
        let numbered = (2..).map(|number| format!("{slug}-{number}"));
        let free = std::iter::once(slug.to_owned()).chain(numbered).find(|id| !self.ids.contains(id));
        let id = free.expect("there are more numbers than providers");
        self.ids.insert(id.clone());
        id
    }
}

impl Provider {
    /// Adds a key, once.
    pub(crate) fn add_key(&mut self, label: &str, secret: Secret) -> Option<&mut Key> {
        let is_known = self.key.iter().any(|key| key.secret.as_ref() == Some(&secret));
        if is_known || secret.expose().is_empty() {
            return None;
        }
        let hint = secret.hint();
        self.key.push(Key { label: label.to_owned(), hint, secret: Some(secret), ..Key::default() });
        self.key.last_mut()
    }

    /// Adds a model, once.
    pub(crate) fn add_model(&mut self, model: &str) {
        if !model.is_empty() && !self.models.iter().any(|known| known == model) {
            self.models.push(model.to_owned());
        }
    }
}

/// Reads YAML; the message names the line and shows nothing of it.
pub(crate) fn yaml(text: &str) -> Result<Value> {
    serde_saphyr::from_str(text).map_err(|error| match error.location() {
        Some(at) => anyhow!("line {}: this is no YAML that can be read", at.line()),
        None => anyhow!("this is no YAML that can be read"),
    })
}

fn says_something(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => true,
    }
}

/// An address without what may be a credential in it, before its host or behind its path, and whether there was any.
pub(crate) fn plain_address(url: &str) -> (String, bool) {
    let place = &url[..url.find(['?', '#']).unwrap_or(url.len())];
    let (scheme, rest) = place.split_once("://").map_or(("", place), |(scheme, rest)| (scheme, rest));
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let plain = if scheme.is_empty() { format!("{host}{path}") } else { format!("{scheme}://{host}{path}") };
    let held = plain.len() < url.len();
    (plain, held)
}

/// An address without scheme, last slash and version, in lower case.
fn bare(url: &str) -> String {
    let url = url.trim_end_matches('/').to_ascii_lowercase();
    let url = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
    let is_version = |segment: &str| {
        segment.strip_prefix('v').is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
    };
    match url.rsplit_once('/') {
        Some((rest, last)) if is_version(last) => rest.to_owned(),
        Some(_) | None => url.to_owned(),
    }
}

/// Whether an address is reached without TLS, other than on this machine.
fn is_private(url: &str) -> bool {
    let Some(rest) = url.strip_prefix("http://") else { return false };
    let host = rest.split(['/', ':']).next().unwrap_or_default();
    !matches!(host, "localhost" | "127.0.0.1") && !rest.starts_with("[::1]")
}

const PREFIX_SHOWN: usize = 8;

#[cfg(test)]
mod tests;
