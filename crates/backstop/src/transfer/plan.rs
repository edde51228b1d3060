//! What a document would change in a running gateway, step by step, and doing it.
//!
//! A plan is made from what the gateway has; the same document twice makes a plan in which everything is as it is.

mod keys;
mod provider;

use std::{collections::BTreeMap, fmt};

use anyhow::Result;
use serde_json::{Value, json};

use self::{
    keys::{NewKey, add_keys, known_keys, send_keys},
    provider::{definition, lost_fields, marks},
};
use super::document::{Client, Combo, Document, Provider};
use crate::cmd::{
    api::{Api, items},
    combos::{self, member},
    fallbacks::{legs, step},
};

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
            steps.extend(lost_fields(provider, view, document.sealed.is_some()));
            steps.extend(marks(provider, view));
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
    let deeds = vec![Deed::Put(format!("/providers/{}/fallbacks", provider.id), legs(&provider.fallbacks))];
    let wanted = provider.fallbacks.join(", then ");
    if has.is_empty() { Step::add(subject, wanted, deeds) } else { Step::change(subject, wanted, deeds) }
}

fn combo(wanted: &Combo, known: &Value) -> Step {
    let subject = format!("combo {}", wanted.id);
    let read: Result<Vec<Value>> = wanted.members.iter().map(|member| combos::parse(member)).collect();
    let members = match read {
        Ok(members) => members,
        Err(error) => return Step::refused(subject, error.to_string()),
    };
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

/// How many things of a kind are named before the others are counted.
const SHOWN: usize = 4;
