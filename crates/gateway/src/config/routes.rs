//! What requests may name: combos, aliases, fallbacks between providers, and the clients that may ask.

use std::{collections::BTreeMap, ops::Range};

use backstop_store::{Secret, clients::ClientLimits};
use backstop_triage::{ModelId, ProviderId, Timestamp};

use super::{
    Provider, Unique, key,
    section::{Located, Section, nearest},
};

/// A virtual provider: its members stand behind names of its own.
#[derive(Clone, Debug)]
pub struct Combo {
    /// Its id, among the providers' ids.
    pub id: String,
    /// Its members; those with one alias fail over in order.
    pub members: Vec<Member>,
    at: Range<usize>,
}

impl Combo {
    /// A combo that stands in no file; members are provider, model and alias.
    pub fn new(id: String, members: Vec<(ProviderId, ModelId, String)>) -> Self {
        let member = |(provider, model, alias)| Member { provider, model, alias, at: 0..0 };
        Self { id, members: members.into_iter().map(member).collect(), at: 0..0 }
    }
}

/// One member of a combo.
#[derive(Clone, Debug)]
pub struct Member {
    /// The provider.
    pub provider: ProviderId,
    /// The model there.
    pub model: ModelId,
    /// The name under which the combo offers it.
    pub alias: String,
    at: Range<usize>,
}

/// A short name of a model.
#[derive(Clone, Debug)]
pub struct Alias {
    /// The provider or combo.
    pub provider: String,
    /// The model there.
    pub model: String,
    at: Range<usize>,
}

/// A client key that the configuration brings.
#[derive(Clone, Debug)]
pub struct Client {
    /// What people call it.
    pub name: String,
    /// The key.
    pub secret: Secret,
    /// What it may do.
    pub limits: ClientLimits,
    /// When it stops working.
    pub expires: Option<Timestamp>,
}

/// Reads every `[[combo]]`.
pub(super) fn combos(root: &Section<'_, '_>) -> Vec<Combo> {
    let combo = |section: &Section<'_, '_>| {
        let id = section.required_text("id", "\"best\"");
        let members: Vec<Member> = section.sections("members").iter().filter_map(member).collect();
        if members.is_empty() {
            let fix = "add `members = [{ provider = \"…\", model = \"…\", alias = \"…\" }]`";
            section.report(section.at(), "[[combo]] has no members", fix);
        }
        let at = section.at().clone();
        section.finish();
        Some(Combo { id: id?.value, members, at })
    };
    root.sections("combo").iter().filter_map(combo).collect()
}

fn member(section: &Section<'_, '_>) -> Option<Member> {
    let provider = section.required_text("provider", "\"my-provider\"");
    let model = section.required_text("model", "\"my-model\"");
    let alias = section.text("alias").map(|alias| alias.value);
    section.finish();
    let (provider, model) = (provider?, model?.value);
    let alias = alias.unwrap_or_else(|| model.clone());
    Some(Member {
        provider: ProviderId::from(provider.value),
        model: ModelId::from(model),
        alias,
        at: provider.at,
    })
}

/// Reads `[aliases]`.
pub(super) fn aliases(root: &Section<'_, '_>) -> BTreeMap<String, Alias> {
    let alias = |(name, text): (String, Located<String>)| {
        let Some((provider, model)) = text.value.split_once('/') else {
            let fix = format!("write `{name} = \"provider/model\"`");
            root.report(&text.at, format!("the alias `{name}` names no provider"), fix);
            return None;
        };
        Some((name, Alias { provider: provider.to_owned(), model: model.to_owned(), at: text.at }))
    };
    root.pairs("aliases").into_iter().filter_map(alias).collect()
}

/// Reads every `[[client]]`.
pub(super) fn clients(root: &Section<'_, '_>) -> Vec<Client> {
    let mut names = Unique::default();
    let mut keys: BTreeMap<String, String> = BTreeMap::new();
    let mut client = |section: &Section<'_, '_>| {
        let name = section.required_text("name", "\"laptop\"");
        if let Some(name) = &name {
            names.check(section, "the client", name);
        }
        let secrets = key::secrets(section, "[[client]]");
        let count = |name| section.number(name).map(|number| number.value);
        let expires = section.text("expires").and_then(|text| {
            let moment = text.value.parse().ok();
            if moment.is_none() {
                let fix = "write a moment as in \"2027-01-31T00:00:00Z\"";
                section.report(&text.at, format!("`expires` cannot be \"{}\"", text.value), fix);
            }
            moment
        });
        let list = |name| section.texts(name).into_iter().map(|text| text.value).collect();
        let client = Client {
            name: name?.value,
            secret: secrets.into_iter().next()?.1,
            limits: ClientLimits {
                providers: list("providers"),
                models: list("models"),
                routes: list("routes"),
                requests_per_minute: count("requests_per_minute")
                    .map(|count| u32::try_from(count).unwrap_or(u32::MAX)),
                tokens_per_minute: count("tokens_per_minute"),
                spend_micros: count("spend_usd_per_month").map(|dollars| dollars.saturating_mul(1_000_000)),
                keep_bodies: section.flag("keep_bodies").unwrap_or(false),
            },
            expires,
        };
        if client.secret.expose().len() < SHORTEST_CLIENT_KEY {
            let what = format!(
                "the key of client \"{}\" is shorter than {SHORTEST_CLIENT_KEY} characters",
                client.name
            );
            section.report(
                section.at(),
                what,
                "make a long random one, for example with `openssl rand -hex 32`",
            );
        }
        if let Some(other) = keys.insert(client.secret.expose().to_owned(), client.name.clone()) {
            let what = format!("the clients \"{other}\" and \"{}\" have the same key", client.name);
            section.report(section.at(), what, "make a key for each: whoever sends it is known by it alone");
        }
        section.finish();
        Some(client)
    };
    root.sections("client").iter().filter_map(&mut client).collect()
}

/// Checks that ids are unique and that everything that is named is there; drops from chains what is not.
pub(super) fn check(
    root: &Section<'_, '_>,
    providers: &mut [Provider],
    combos: &[Combo],
    aliases: &BTreeMap<String, Alias>,
) {
    let mut ids: Vec<String> = Vec::new();
    for provider in providers.iter() {
        if ids.iter().any(|id| id == provider.id.as_str()) {
            root.report(
                &(0..0),
                format!("two providers are called \"{}\"", provider.id),
                "give each its own `id`",
            );
        }
        ids.push(provider.id.to_string());
    }
    let known = ids.clone();
    let named = |what: &str, name: &str, at: &Range<usize>, known: &[String]| {
        if known.iter().any(|id| id == name) {
            return;
        }
        let fix = nearest(name, known.iter().map(String::as_str)).map_or_else(
            || {
                format!(
                    "configured are {}",
                    if known.is_empty() { "none".to_owned() } else { known.join(", ") }
                )
            },
            |near| format!("did you mean \"{near}\"?"),
        );
        root.report(at, format!("{what} names the provider \"{name}\", which is not configured"), fix);
    };
    for combo in combos {
        if ids.contains(&combo.id) {
            root.report(
                &combo.at,
                format!("\"{}\" is already a provider or combo", combo.id),
                "give the combo its own `id`",
            );
        }
        ids.push(combo.id.clone());
        for member in &combo.members {
            named("a member", member.provider.as_str(), &member.at, &known);
        }
    }
    for (name, alias) in aliases {
        named(&format!("the alias `{name}`"), &alias.provider, &alias.at, &ids);
    }
    check_fallbacks(root, providers, &named);
}

fn check_fallbacks(root: &Section<'_, '_>, providers: &[Provider], named: &Named<'_>) {
    let known: Vec<String> = providers.iter().map(|provider| provider.id.to_string()).collect();
    for provider in providers {
        for fallback in &provider.fallbacks {
            named("a fallback", fallback.provider.as_str(), &fallback.at, &known);
            let Some(target) = providers.iter().find(|target| target.id == fallback.provider) else {
                continue;
            };
            if target.id == provider.id {
                let fix = "list further models under `models` and set `model_fallback = true`";
                root.report(&fallback.at, "a provider cannot be its own fallback", fix);
            } else if !target.passes(provider.format) {
                let what = format!(
                    "the fallback \"{}\" speaks {} and \"{}\" speaks {}: it will be skipped",
                    target.id,
                    target.format.as_str(),
                    provider.id,
                    provider.format.as_str()
                );
                root.source.warn(&fallback.at, what, "choose a fallback of the same format");
            }
        }
    }
}

/// Reports a name that is not among the known ones: what names it, the name, where, and what is known.
type Named<'a> = dyn Fn(&str, &str, &Range<usize>, &[String]) + 'a;

/// The shortest client key that cannot be guessed.
pub const SHORTEST_CLIENT_KEY: usize = 16;
