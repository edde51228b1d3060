//! A provider of a document beside the one that the gateway has.
//!
//! What the document says of it goes over what is known of it here; what it does not say stays.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::{Deed, SHOWN, Step};
use crate::{
    cmd::api::items,
    transfer::{document::Provider, foreign::plain_address, gather::said},
};

pub(super) fn definition(provider: &Provider, view: Option<&Value>) -> Step {
    match view {
        None => addition(provider),
        Some(view) if view["origin"] == "file" => {
            let why = "defined in the configuration file here, which stays as it is";
            Step::same(subject(provider), why)
        }
        Some(view) => change(provider, view),
    }
}

fn addition(provider: &Provider) -> Step {
    if provider.definition.is_empty() {
        let why = "a configuration file defined it there; add it to the one here first, for its keys too";
        return Step::refused(subject(provider), why);
    }
    let mut deeds = vec![Deed::Post("/providers".to_owned(), body(provider, &provider.definition))];
    if !provider.models.is_empty() {
        deeds.push(models(provider, &provider.models));
    }
    Step::add(subject(provider), summary(provider), deeds)
}

fn change(provider: &Provider, view: &Value) -> Step {
    let mut has = said(&view["definition"]);
    has.remove("id");
    let wanted = merged(&has, said(&json!(provider.definition)));
    let mut changes = differences(&has, &wanted);
    let mut deeds = Vec::new();
    if !changes.is_empty() {
        deeds.push(Deed::Put(format!("/providers/{}", provider.id), body(provider, &wanted)));
    }
    let has_models: Vec<&str> = items(&view["models"]).filter_map(Value::as_str).collect();
    let mut wanted_models = provider.models.clone();
    let further = has_models.iter().filter(|model| !provider.models.iter().any(|wanted| wanted == *model));
    wanted_models.extend(further.map(|model| (*model).to_owned()));
    if has_models != wanted_models {
        changes.push(format!("models {} -> {}", listed(&has_models), listed(&wanted_models)));
        deeds.push(models(provider, &wanted_models));
    }
    if changes.is_empty() {
        Step::same(subject(provider), "as it is")
    } else {
        Step::change(subject(provider), changes.join("; "), deeds)
    }
}

/// What the document says of pausing and favourites, where it is otherwise here.
pub(super) fn marks(provider: &Provider, view: Option<&Value>) -> Option<Step> {
    let wanted = [
        ("paused", provider.paused, ["not paused", "paused"]),
        ("favorite", provider.favorite, ["no favorite", "favorite"]),
    ];
    let mut body = Map::new();
    let mut words = Vec::new();
    for (mark, wanted, [off, on]) in wanted {
        let has = view.is_some_and(|view| view[mark] == true);
        if let Some(wanted) = wanted.filter(|wanted| *wanted != has) {
            body.insert(mark.to_owned(), json!(wanted));
            words.push(if wanted { on } else { off });
        }
    }
    let deed = Deed::Patch(format!("/providers/{}", provider.id), Value::Object(body));
    (!words.is_empty()).then(|| Step::change(subject(provider), words.join(", "), vec![deed]))
}

/// Fields that the document names without their values, and that the provider does not have here either.
pub(super) fn lost_fields(provider: &Provider, view: Option<&Value>, is_sealed: bool) -> Option<Step> {
    if view.is_some_and(|view| view["origin"] == "file") {
        return None;
    }
    let has = view.map(|view| said(&view["definition"])).unwrap_or_default();
    let is_lost = |name: &&String| !provider.definition.contains_key(*name) && !has.contains_key(*name);
    let lost: Vec<&str> = provider.secret_fields.iter().filter(is_lost).map(String::as_str).collect();
    let why = if is_sealed { "left sealed" } else { "not in it; export --with-secrets takes them along" };
    let said = format!("{}: {why}", lost.join(", "));
    (!lost.is_empty()).then(|| Step::refused(subject(provider), said))
}

fn subject(provider: &Provider) -> String {
    format!("provider {}", provider.id)
}

fn body(provider: &Provider, definition: &BTreeMap<String, Value>) -> Value {
    let mut body: Map<String, Value> = definition.clone().into_iter().collect();
    body.insert("id".to_owned(), json!(provider.id));
    Value::Object(body)
}

fn models(provider: &Provider, models: &[String]) -> Deed {
    Deed::Put(format!("/providers/{}/models", provider.id), json!({ "models": models }))
}

/// The fields that are wanted over those that are there; tables go into each other.
fn merged(has: &BTreeMap<String, Value>, wanted: BTreeMap<String, Value>) -> BTreeMap<String, Value> {
    let mut merged = has.clone();
    // The address of another preset is not one for this preset's keys.
    if wanted.get("preset").is_some_and(|preset| has.get("preset") != Some(preset)) {
        merged.retain(|name, _| name != "base_url" && name != "format");
    }
    for (name, value) in wanted {
        match (merged.get_mut(&name), value) {
            (Some(Value::Object(known)), Value::Object(fields)) => known.extend(fields),
            (_, value) => drop(merged.insert(name, value)),
        }
    }
    merged
}

/// What a new provider is, in a few words.
fn summary(provider: &Provider) -> String {
    let word = |name: &str| provider.definition.get(name).and_then(Value::as_str);
    let url = word("base_url").map(|url| plain_address(url).0);
    let what = match (word("preset"), url) {
        (Some(preset), None) => format!("preset {preset}"),
        (Some(preset), Some(url)) => format!("preset {preset} at {url}"),
        (None, url) => format!("{} at {}", word("format").unwrap_or_default(), url.unwrap_or_default()),
    };
    match provider.models.len() {
        0 => what,
        1 => format!("{what}, 1 model"),
        count => format!("{what}, {count} models"),
    }
}

fn differences(has: &BTreeMap<String, Value>, wanted: &BTreeMap<String, Value>) -> Vec<String> {
    let names: BTreeSet<&String> = has.keys().chain(wanted.keys()).collect();
    let shown = |value: Option<&Value>| value.map_or_else(|| "nothing".to_owned(), Value::to_string);
    let address = |value: Option<&Value>| {
        let plain = value.and_then(Value::as_str).map(|url| json!(plain_address(url).0));
        shown(plain.as_ref())
    };
    names
        .into_iter()
        .filter(|name| has.get(*name) != wanted.get(*name))
        // These can hold credentials.
        .map(|name| match name.as_str() {
            "headers" | "query" | "proxy" => format!("other {name}"),
            "base_url" => format!("{name} {} -> {}", address(has.get(name)), address(wanted.get(name))),
            _ => format!("{name} {} -> {}", shown(has.get(name)), shown(wanted.get(name))),
        })
        .collect()
}

fn listed(models: &[impl AsRef<str>]) -> String {
    let shown: Vec<&str> = models.iter().take(SHOWN).map(AsRef::as_ref).collect();
    match models.len() {
        0 => "none".to_owned(),
        count if count > SHOWN => format!("{} and {} more", shown.join(", "), count - SHOWN),
        _ => shown.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn provider(definition: &Value, models: &[&str]) -> Provider {
        let models = models.iter().map(ToString::to_string).collect();
        Provider { id: "house".to_owned(), definition: said(definition), models, ..Provider::default() }
    }

    fn check(step: &Step, expected: &Expect) {
        let deed = |deed: &Deed| match deed {
            Deed::Put(path, body) => format!("PUT {path} {body}\n"),
            Deed::Post(..) | Deed::Patch(..) | Deed::AddKeys(..) => "something else".to_owned(),
        };
        expected.assert_eq(&format!("{step}\n{}", step.deeds.iter().map(deed).collect::<String>()));
    }

    #[test]
    fn what_a_document_does_not_say_of_a_provider_stays() {
        let view = json!({
            "definition": {
                "id": "house", "preset": "one", "rules": "own", "proxy": "http://me:secret@a.test:1",
                "headers": { "x-a": "1", "x-b": "2" }, "settings": { "patience_s": 5 },
            },
            "models": ["large", "own"], "paused": true, "favorite": true,
        });
        let same = provider(&json!({ "preset": "one" }), &["large"]);
        check(
            &definition(&same, Some(&view)),
            &expect![[r#"
            = provider house: as it is
        "#]],
        );
        assert!(marks(&same, Some(&view)).is_none());
        let other = provider(
            &json!({ "preset": "one", "headers": { "x-b": "3" }, "proxy": "http://me:secret@b.test:1" }),
            &["small"],
        );
        check(
            &definition(&other, Some(&view)),
            &expect![[r#"
            ~ provider house: other headers; other proxy; models large, own -> small, large, own
            PUT /providers/house {"headers":{"x-a":"1","x-b":"3"},"id":"house","preset":"one","proxy":"http://me:secret@b.test:1","rules":"own","settings":{"patience_s":5}}
            PUT /providers/house/models {"models":["small","large","own"]}
        "#]],
        );
        let paused = Provider { paused: Some(false), favorite: Some(true), ..same };
        assert_eq!(marks(&paused, Some(&view)).unwrap().to_string(), "~ provider house: not paused");
    }

    #[test]
    fn another_preset_does_not_get_the_address_of_the_one_before() {
        let view = json!({
            "definition": { "id": "house", "format": "gemini", "base_url": "https://a.test", "rules": "own" },
            "models": [],
        });
        check(
            &definition(&provider(&json!({ "preset": "one" }), &[]), Some(&view)),
            &expect![[r#"
            ~ provider house: base_url "https://a.test" -> nothing; format "gemini" -> nothing; preset nothing -> "one"
            PUT /providers/house {"id":"house","preset":"one","rules":"own"}
        "#]],
        );
    }
}
