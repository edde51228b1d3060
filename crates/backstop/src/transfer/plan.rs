//! What a document would change in a running gateway, step by step, and doing it.
//!
//! A plan is made from what the gateway has; the same document twice makes a plan in which everything is as it is.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use anyhow::Result;
use backstop_store::Secret;
use serde_json::{Map, Value, json};

use super::{
    document::{Client, Combo, Document, Key, Provider},
    gather::{keys, member, said, step},
};
use crate::cmd::api::{Api, items};

/// Steps in the order in which they are done.
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
}

/// One thing of the document beside what the gateway has.
pub(crate) struct Step {
    /// How they differ.
    pub(crate) mark: Mark,
    /// What it is about.
    pub(crate) subject: String,
    /// What would change, or why it cannot.
    pub(crate) said: String,
    deeds: Vec<Deed>,
}

/// How a thing of the document differs from what the gateway has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// The gateway does not have it.
    Add,
    /// The gateway has it otherwise.
    Change,
    /// The gateway has it so.
    Same,
    /// It cannot be done.
    Refused,
}

/// A call that does a step. It may carry secrets, and so is never shown.
enum Deed {
    Post(String, Value),
    Put(String, Value),
    Patch(String, Value),
    AddKeys(String, Vec<NewKey>),
}

struct NewKey {
    label: String,
    account: Option<String>,
    secret: Secret,
    disabled: bool,
}

impl Plan {
    /// Compares a document with what a gateway has.
    pub(crate) fn new(api: &Api, document: &Document) -> Result<Self> {
        let mut steps = Vec::new();
        rules(&mut steps, document, &api.get("/user-rules")?);
        let (known, chains) = (api.get("/providers")?, api.get("/fallbacks")?);
        for provider in &document.provider {
            let view = items(&known).find(|known| known["id"] == *provider.id);
            steps.push(definition(provider, view));
            if view.is_none() && provider.definition.is_empty() {
                continue;
            }
            marks(&mut steps, provider, view);
            let known = known_keys(api, provider, view.is_some())?;
            add_keys(&mut steps, provider, &known, document.sealed.is_some());
        }
        let has_chain = |provider: &&Provider| !provider.fallbacks.is_empty();
        for provider in document.provider.iter().filter(has_chain) {
            steps.push(chain(provider, &chains));
        }
        let combos = api.get("/combos")?;
        steps.extend(document.combo.iter().map(|wanted| combo(wanted, &combos)));
        settings(&mut steps, &document.settings, &api.get("/settings")?);
        let clients = api.get("/clients")?;
        steps.extend(document.client.iter().map(|wanted| client(wanted, &clients)));
        Ok(Self { steps })
    }

    /// Does every step that changes something; tells each by `tell`, with what went wrong. Says whether all went well.
    pub(crate) fn apply(self, api: &Api, mut tell: impl FnMut(&Step, Option<&anyhow::Error>)) -> bool {
        let mut all_well = true;
        for step in self.steps {
            let done = step.deeds.iter().try_for_each(|deed| deed.carry_out(api));
            all_well &= done.is_ok() && step.mark != Mark::Refused;
            tell(&step, done.err().as_ref());
        }
        all_well
    }

    /// How many steps have a mark.
    pub(crate) fn count(&self, mark: Mark) -> usize {
        self.steps.iter().filter(|step| step.mark == mark).count()
    }
}

impl Step {
    fn add(subject: String, said: String, deeds: Vec<Deed>) -> Self {
        Self { mark: Mark::Add, subject, said, deeds }
    }

    fn change(subject: String, said: String, deeds: Vec<Deed>) -> Self {
        Self { mark: Mark::Change, subject, said, deeds }
    }

    fn same(subject: String, said: &str) -> Self {
        Self { mark: Mark::Same, subject, said: said.to_owned(), deeds: Vec::new() }
    }

    fn refused(subject: String, said: impl Into<String>) -> Self {
        Self { mark: Mark::Refused, subject, said: said.into(), deeds: Vec::new() }
    }
}

impl Mark {
    /// The mark as a word, for programs.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Change => "change",
            Self::Same => "same",
            Self::Refused => "refused",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.mark {
            Mark::Add => '+',
            Mark::Change => '~',
            Mark::Same => '=',
            Mark::Refused => '!',
        };
        write!(f, "{sign} {}: {}", self.subject, self.said)
    }
}

impl Deed {
    fn carry_out(&self, api: &Api) -> Result<()> {
        match self {
            Self::Post(path, body) => api.post(path, body).map(drop),
            Self::Put(path, body) => api.put(path, body).map(drop),
            Self::Patch(path, body) => api.patch(path, body).map(drop),
            Self::AddKeys(provider, keys) => send_keys(api, provider, keys),
        }
    }
}

/// Adds keys, those of an account together, and takes those out of service that were.
fn send_keys(api: &Api, provider: &str, keys: &[NewKey]) -> Result<()> {
    let accounts: BTreeSet<&Option<String>> = keys.iter().map(|key| &key.account).collect();
    for account in accounts {
        let (plain, odd): (Vec<&NewKey>, Vec<&NewKey>) =
            keys.iter().filter(|key| key.account == *account).partition(|key| fits_a_line(&key.secret));
        let text: String = plain.iter().map(|key| line(key)).collect();
        let mut results = Vec::new();
        if !plain.is_empty() {
            let body = json!({ "text": text, "account": account });
            results.extend(items(&api.post(&format!("/providers/{provider}/keys/bulk"), &body)?).cloned());
        }
        for key in &odd {
            let body = json!({ "key": key.secret.expose(), "label": key.label, "account": account });
            results.push(api.post(&format!("/providers/{provider}/keys"), &body)?);
        }
        let disabled = plain.iter().chain(&odd).zip(&results).filter(|(key, _)| key.disabled);
        let ids: Vec<&Value> = disabled.map(|(_, result)| &result["id"]).collect();
        if !ids.is_empty() {
            let body = json!({ "ids": ids, "action": "disable", "confirm": true });
            api.post(&format!("/providers/{provider}/keys/bulk-action"), &body)?;
        }
    }
    Ok(())
}

/// Whether a key can stand in a line beside its label.
fn fits_a_line(secret: &Secret) -> bool {
    let plain = |letter: char| !letter.is_whitespace() && !matches!(letter, ',' | '"' | '\'' | '#');
    secret.expose().chars().all(plain)
}

fn line(key: &NewKey) -> String {
    let label: String =
        key.label.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    let label = label.trim().trim_start_matches('#');
    if label.is_empty() {
        format!("{}\n", key.secret.expose())
    } else {
        format!("{label}\t{}\n", key.secret.expose())
    }
}

fn rules(steps: &mut Vec<Step>, document: &Document, known: &Value) {
    for (name, toml) in &document.rules {
        let subject = format!("rule pack {name}");
        let has = items(known).find(|pack| pack["name"] == **name);
        let deeds = vec![Deed::Put(format!("/user-rules/{name}"), json!({ "toml": toml }))];
        steps.push(match has {
            None => Step::add(subject, format!("{} lines", toml.lines().count()), deeds),
            Some(pack) if pack["toml"] == **toml => Step::same(subject, "as it is"),
            Some(_) => Step::change(subject, "another text".to_owned(), deeds),
        });
    }
}

fn definition(provider: &Provider, view: Option<&Value>) -> Step {
    let subject = format!("provider {}", provider.id);
    let mut body: Map<String, Value> = provider.definition.clone().into_iter().collect();
    body.insert("id".to_owned(), json!(provider.id));
    let models =
        Deed::Put(format!("/providers/{}/models", provider.id), json!({ "models": provider.models }));
    let Some(view) = view else {
        if provider.definition.is_empty() {
            let why = "a configuration file defined it there; add it to the one here first, for its keys too";
            return Step::refused(subject, why);
        }
        let mut deeds = vec![Deed::Post("/providers".to_owned(), Value::Object(body))];
        if !provider.models.is_empty() {
            deeds.push(models);
        }
        return Step::add(subject, summary(provider), deeds);
    };
    if view["origin"] == "file" {
        return Step::same(subject, "defined in the configuration file here, which stays as it is");
    }
    let mut has = said(&view["definition"]);
    has.remove("id");
    let mut changes = differences(&has, &said(&json!(provider.definition)));
    let mut deeds = Vec::new();
    if !changes.is_empty() {
        deeds.push(Deed::Put(format!("/providers/{}", provider.id), Value::Object(body)));
    }
    let has_models: Vec<&str> = items(&view["models"]).filter_map(Value::as_str).collect();
    if !provider.models.is_empty() && has_models != provider.models {
        changes.push(format!("models {} -> {}", listed(&has_models), listed(&provider.models)));
        deeds.push(models);
    }
    if changes.is_empty() {
        Step::same(subject, "as it is")
    } else {
        Step::change(subject, changes.join("; "), deeds)
    }
}

/// What a new provider is, in a few words.
fn summary(provider: &Provider) -> String {
    let word = |name: &str| provider.definition.get(name).and_then(Value::as_str);
    let what = match (word("preset"), word("base_url")) {
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

fn marks(steps: &mut Vec<Step>, provider: &Provider, view: Option<&Value>) {
    let has = |mark: &str| view.is_some_and(|view| view[mark] == true);
    if has("paused") == provider.paused && has("favorite") == provider.favorite {
        return;
    }
    let body = json!({ "paused": provider.paused, "favorite": provider.favorite });
    let word = if provider.paused { "paused" } else { "not paused" };
    let deeds = vec![Deed::Patch(format!("/providers/{}", provider.id), body)];
    steps.push(Step::change(format!("provider {}", provider.id), word.to_owned(), deeds));
}

/// Which keys of a provider the gateway has: by the key itself, or where that is not in the document by its hint.
fn known_keys(api: &Api, provider: &Provider, is_there: bool) -> Result<Vec<bool>> {
    if !is_there || provider.key.is_empty() {
        return Ok(vec![false; provider.key.len()]);
    }
    let views = keys(api, &provider.id)?;
    let by_hint = |key: &Key| !key.hint.is_empty() && views.iter().any(|view| view["hint"] == *key.hint);
    let mut known = Vec::with_capacity(provider.key.len());
    for some in provider.key.chunks(AT_ONCE) {
        let secrets: Vec<&str> =
            some.iter().map(|key| key.secret.as_ref().map_or("", |secret| secret.expose())).collect();
        let found =
            api.post(&format!("/providers/{}/keys/known", provider.id), &json!({ "keys": secrets }))?;
        let is_known = |(key, found): (&Key, &Value)| match key.secret {
            Some(_) => !found.is_null(),
            None => by_hint(key),
        };
        known.extend(some.iter().zip(items(&found)).map(is_known));
    }
    Ok(known)
}

fn add_keys(steps: &mut Vec<Step>, provider: &Provider, known: &[bool], is_sealed: bool) {
    let of = |wanted: bool| -> Vec<&Key> {
        let keys = provider.key.iter().zip(known);
        keys.filter(|(_, known)| **known == wanted).map(|(key, _)| key).collect()
    };
    let (there, missing) = (of(true), of(false));
    let subject = format!("keys of {}", provider.id);
    if !there.is_empty() {
        steps.push(Step::same(subject.clone(), &format!("{} there already", hints(&there))));
    }
    let (given, bare): (Vec<&Key>, Vec<&Key>) = missing.into_iter().partition(|key| key.secret.is_some());
    if !given.is_empty() {
        let new = given.iter().filter_map(|key| {
            let secret = key.secret.clone()?;
            let (label, account) = (key.label.clone(), key.account.clone());
            Some(NewKey { label, account, secret, disabled: key.disabled })
        });
        let deed = Deed::AddKeys(provider.id.clone(), new.collect());
        steps.push(Step::add(subject.clone(), hints(&given), vec![deed]));
    }
    if !bare.is_empty() {
        let why = if is_sealed {
            "their secrets are left sealed"
        } else {
            "their secrets are not in it; `backstop keys add` adds them"
        };
        steps.push(Step::refused(subject, format!("{}: {why}", hints(&bare))));
    }
}

/// The first keys by their hints, and how many more.
fn hints(keys: &[&Key]) -> String {
    let shown = keys.iter().take(SHOWN).map(|key| match key.label.as_str() {
        "" => key.hint.clone(),
        label => format!("{label} {}", key.hint),
    });
    let shown = shown.collect::<Vec<_>>().join(", ");
    if keys.len() > SHOWN { format!("{shown} and {} more", keys.len() - SHOWN) } else { shown }
}

fn chain(provider: &Provider, chains: &Value) -> Step {
    let subject = format!("fallbacks of {}", provider.id);
    let found = items(chains).find(|chain| chain["provider"] == *provider.id);
    if found.is_some_and(|chain| chain["from_file"] == true) {
        return Step::same(subject, "the configuration file here has its own");
    }
    let has: Vec<String> = found.map(|chain| items(&chain["legs"]).map(step).collect()).unwrap_or_default();
    if has == provider.fallbacks {
        return Step::same(subject, "as they are");
    }
    let legs: Vec<Value> = provider.fallbacks.iter().map(|step| leg(step)).collect();
    let deeds = vec![Deed::Put(format!("/providers/{}/fallbacks", provider.id), json!({ "legs": legs }))];
    let wanted = provider.fallbacks.join(", then ");
    if has.is_empty() { Step::add(subject, wanted, deeds) } else { Step::change(subject, wanted, deeds) }
}

fn combo(wanted: &Combo, known: &Value) -> Step {
    let subject = format!("combo {}", wanted.id);
    let members: Vec<Value> = wanted.members.iter().map(|text| read_member(text)).collect();
    let body = json!({ "id": wanted.id, "members": members });
    let count = format!("{} members", wanted.members.len());
    let Some(has) = items(known).find(|known| known["id"] == *wanted.id) else {
        return Step::add(subject, count, vec![Deed::Post("/combos".to_owned(), body)]);
    };
    let has: Vec<String> = items(&has["members"]).map(member).collect();
    if has == wanted.members {
        return Step::same(subject, "as it is");
    }
    Step::change(
        subject,
        format!("{} -> {count}", has.len()),
        vec![Deed::Put(format!("/combos/{}", wanted.id), body)],
    )
}

fn settings(steps: &mut Vec<Step>, wanted: &BTreeMap<String, Value>, known: &Value) {
    for (name, value) in wanted {
        let subject = format!("setting {name}");
        steps.push(match items(known).find(|setting| setting["name"] == **name) {
            None => Step::refused(subject, "this version has no such setting"),
            Some(setting) if setting["value"] == *value => Step::same(subject, "as it is"),
            Some(setting) => Step::change(
                subject,
                format!("{} -> {value}", setting["value"]),
                vec![Deed::Patch("/settings".to_owned(), json!({ name.as_str(): value }))],
            ),
        });
    }
}

fn client(wanted: &Client, known: &Value) -> Step {
    let subject = format!("client key {}", wanted.name);
    let is_there = |known: &Value| known["name"] == *wanted.name && known["prefix"] == *wanted.prefix;
    if items(known).any(is_there) {
        return Step::same(subject, "there already");
    }
    let Some(hash) = &wanted.hash else {
        let why = "its hash is not in it, or still sealed; `backstop clients add` makes a new key";
        return Step::refused(subject, why);
    };
    let body = json!({
        "name": wanted.name, "prefix": wanted.prefix, "hash": hash, "limits": wanted.limits,
        "expires_at": wanted.expires_at,
    });
    let said = format!("{}… goes on working", wanted.prefix);
    Step::add(subject, said, vec![Deed::Post("/clients/adopt".to_owned(), body)])
}

fn differences(has: &BTreeMap<String, Value>, wanted: &BTreeMap<String, Value>) -> Vec<String> {
    let names: BTreeSet<&String> = has.keys().chain(wanted.keys()).collect();
    let shown = |value: Option<&Value>| value.map_or_else(|| "nothing".to_owned(), Value::to_string);
    names
        .into_iter()
        .filter(|name| has.get(*name) != wanted.get(*name))
        // A header can be a credential.
        .map(|name| match name.as_str() {
            "headers" | "query" => format!("other {name}"),
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

fn leg(step: &str) -> Value {
    match step.split_once('/') {
        Some((provider, model)) => json!({ "provider": provider, "model": model }),
        None => json!({ "provider": step }),
    }
}

fn read_member(text: &str) -> Value {
    let (alias, target) = text.split_once('=').map_or((None, text), |(alias, target)| (Some(alias), target));
    let (provider, model) = target.split_once('/').unwrap_or((target, ""));
    json!({ "provider": provider, "model": model, "alias": alias })
}

const SHOWN: usize = 4;
/// Keys that are looked for by one call.
const AT_ONCE: usize = 1000;
