//! The document of a running gateway, from its API.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use serde_json::{Map, Value};

use super::document::{Client, Combo, Document, Key, Provider};
use crate::cmd::{
    api::{Api, items, text},
    combos::member,
    fallbacks::step,
};

/// Everything that was set up at run time, without secrets.
pub(crate) fn gather(api: &Api) -> Result<Document> {
    let mut document = Document::new();
    let chains = api.get("/fallbacks")?;
    for view in items(&api.get("/providers")?) {
        let id = text(view, "id");
        if view["origin"] == "file" {
            document.from_file.push(id.clone());
        }
        let provider = provider(api, view, &chains)?;
        let is_something = !provider.definition.is_empty() || !provider.key.is_empty();
        if is_something {
            document.provider.push(provider);
        }
    }
    for combo in items(&api.get("/combos")?) {
        let members = items(&combo["members"]).map(member).collect();
        document.combo.push(Combo { id: text(combo, "id"), members });
    }
    for setting in items(&api.get("/settings")?).filter(|setting| setting["changed"] == true) {
        document.settings.insert(text(setting, "name"), setting["value"].clone());
    }
    for client in items(&api.get("/clients")?).filter(|client| client["origin"] == "added") {
        document.client.push(Client {
            name: text(client, "name"),
            prefix: text(client, "prefix"),
            expires_at: client["expires_at"].as_str().map(str::to_owned),
            limits: said(&client["limits"]),
            hash: None,
        });
    }
    for pack in items(&api.get("/user-rules")?) {
        document.rules.insert(text(pack, "name"), text(pack, "toml"));
    }
    Ok(document)
}

/// All keys of a provider.
pub(crate) fn keys(api: &Api, provider: &str) -> Result<Vec<Value>> {
    let mut keys = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = api.get(&format!("/providers/{provider}/keys?limit=1000{cursor}"))?;
        keys.extend(items(&page["items"]).cloned());
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return Ok(keys),
        }
    }
}

/// The fields of an object that say something: not null, not empty, not off.
pub(crate) fn said(object: &Value) -> BTreeMap<String, Value> {
    let says = |value: &Value| match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(list) => !list.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        Value::Bool(true) | Value::Number(_) | Value::String(_) => true,
    };
    let fields = object.as_object().into_iter().flat_map(Map::iter);
    fields.filter(|(_, value)| says(value)).map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn provider(api: &Api, view: &Value, chains: &Value) -> Result<Provider> {
    let id = text(view, "id");
    let from_file = view["origin"] == "file";
    let mut provider = Provider { id: id.clone(), ..Provider::default() };
    for key in keys(api, &id)?.iter().filter(|key| key["origin"] == "added") {
        provider.key.push(Key {
            label: text(key, "label"),
            account: key["account"].as_str().map(str::to_owned),
            hint: text(key, "hint"),
            disabled: key["why"]["reason"] == "disabled_by_hand",
            secret: None,
        });
    }
    provider.paused = Some(view["paused"] == true);
    provider.favorite = Some(view["favorite"] == true);
    if from_file {
        return Ok(provider);
    }
    provider.definition = said(&view["definition"]);
    provider.definition.remove("id");
    provider.leave_out_secrets();
    provider.models = items(&view["models"]).filter_map(Value::as_str).map(str::to_owned).collect();
    let chain =
        items(chains).find(|chain| chain["provider"] == *id).context("a provider without its chain")?;
    provider.fallbacks = items(&chain["legs"]).map(step).collect();
    Ok(provider)
}
