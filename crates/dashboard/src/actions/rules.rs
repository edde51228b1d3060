//! Rule packs: those of this build and a user's own, tried before they are saved.

use std::collections::{BTreeMap, BTreeSet};

use backstop_store::{configuration::Kind, unknown::UnknownState};
use backstop_triage::{
    Catalog, Class, Settings, Timestamp,
    rules::{KindName, Pack, Rule, RuleError},
    wire::{Failure, Report},
};
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;

use crate::{
    app::{Actor, App},
    problem::{Answer, FieldError, Problem},
};

/// A pack in short.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct PackView {
    /// Its id.
    pub id: String,
    /// Whether it is a user's.
    pub own: bool,
    /// How many rules it has.
    pub rules: usize,
    /// Packs that are consulted after it.
    pub like: Vec<String>,
}

/// A rule in short.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct RuleView {
    /// Its id.
    pub id: String,
    /// The class that it gives.
    pub class: String,
    /// The scope that it gives.
    pub scope: String,
    /// The reason that it gives.
    pub reason: String,
    /// Why it is believed.
    pub source: Option<String>,
    /// A failure that it matches.
    pub example: Option<String>,
}

/// A user's pack in full.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct UserPack {
    /// Its name.
    pub name: String,
    /// Its text.
    pub toml: String,
    /// Raised by every edit; also the ETag.
    pub version: u64,
}

/// What a draft would change.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Trial {
    /// Failures of the inbox that it would know.
    pub inbox: Vec<Change>,
    /// How many failures of the keys' histories were read again.
    pub log_size: usize,
    /// Those among them that it would read differently; the subject is the request.
    pub log: Vec<Change>,
    /// Witnesses of other rules that it would read differently: a warning.
    pub witnesses: Vec<Change>,
}

/// A failure that a draft reads differently.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Change {
    /// The line of the inbox, or the rule whose witness it is.
    pub subject: String,
    /// The class before.
    pub before: String,
    /// The class with the draft.
    pub after: String,
    /// The rule of the draft.
    pub rule: String,
}

/// The packs in force.
pub fn list(app: &App) -> Vec<PackView> {
    let catalog = app.live.catalog();
    let own = catalog.user_packs();
    let view = |(index, pack): (usize, &Pack)| PackView {
        id: pack.id.to_string(),
        own: index < own,
        rules: pack.rules.len(),
        like: pack.like.iter().map(ToString::to_string).collect(),
    };
    catalog.packs().iter().enumerate().map(view).collect()
}

/// The rules of a pack, in the order in which they are tried.
pub fn show(app: &App, id: &str) -> Answer<Vec<RuleView>> {
    let catalog = app.live.catalog();
    let packs: Vec<&Pack> = catalog.packs().iter().filter(|pack| pack.id.as_str() == id).collect();
    if packs.is_empty() {
        return Err(Problem::not_found("rule pack"));
    }
    Ok(packs.into_iter().flat_map(|pack| pack.rules.iter().map(rule_view)).collect())
}

/// A user's own packs.
pub async fn own(app: &App) -> Answer<Vec<UserPack>> {
    let rows = app.read(|store| store.objects(Kind::Rule)).await?;
    Ok(rows.into_iter().map(|row| UserPack { name: row.id, toml: row.spec, version: row.version }).collect())
}

/// Reads a draft and says what it would change: in the inbox, in the keys' histories, and on the witnesses of all
/// other rules.
pub async fn try_out(app: &App, name: &str, toml: &str) -> Answer<Trial> {
    let draft = compiled(app, name, toml).await?;
    let inbox = app.read(|store| store.unknown_failures()).await?;
    let log = app.read(|store| store.newest_key_errors(LOG_READ)).await?;
    app.blocking(move |app| {
        let current = app.live.catalog();
        let both = Comparison::of(&current, &draft);
        let log: Vec<_> = log.into_iter().filter(|error| !error.evidence.is_empty()).collect();
        let mut trial = Trial { log_size: log.len(), ..Trial::default() };
        for row in inbox.iter().filter(|row| row.state == UnknownState::Open) {
            let change = both.compare(&row.shape, &row.evidence, row.last_at);
            trial.inbox.extend(change.filter(|change| change.after != Class::Unknown.as_str()));
        }
        for error in &log {
            let request = error.request.as_deref().unwrap_or_default();
            trial.log.extend(both.compare(request, &error.evidence, error.at));
        }
        let now = app.live.now();
        for pack in current.packs() {
            for (rule, witness) in pack.rules.iter().filter_map(|rule| Some((rule, witness(pack, rule)?))) {
                trial.witnesses.extend(both.compare(rule.id.as_str(), &witness, now));
            }
        }
        Ok(trial)
    })
    .await
}

/// Saves a user's pack.
pub async fn save(
    app: &App,
    actor: &Actor,
    (name, toml): (&str, &str),
    version: Option<u64>,
) -> Answer<UserPack> {
    compiled(app, name, toml).await?;
    let store = app.live.store();
    let wanted = name.to_owned();
    let known = app.read(move |store| store.object(Kind::Rule, &wanted)).await?;
    let version = match known {
        None => {
            store.add_object(Kind::Rule, name, toml).await?;
            1
        }
        Some(_) => store.edit_object(Kind::Rule, name, toml, version).await?,
    };
    app.changed(actor, "rules.save", name, "").await?;
    Ok(UserPack { name: name.to_owned(), toml: toml.to_owned(), version })
}

/// Removes a user's pack.
pub async fn remove(app: &App, actor: &Actor, name: &str) -> Answer<()> {
    app.live.store().remove_object(Kind::Rule, name).await?;
    app.changed(actor, "rules.remove", name, "").await
}

/// The rules as they would be with a draft in the place of the pack of its name.
async fn compiled(app: &App, name: &str, toml: &str) -> Answer<Draft> {
    let own = own(app).await?.len();
    let (file, toml) = (format!("{name}.toml"), toml.to_owned());
    app.blocking(move |app| {
        let current = app.live.catalog();
        Draft::new(&current, own, (&file, &toml)).map_err(|error| {
            Problem::invalid(vec![FieldError { field: "toml".to_owned(), detail: error.to_string() }])
        })
    })
    .await
}

/// The rules with a draft among them.
struct Draft {
    catalog: Catalog,
    /// Where the draft stands among the packs.
    place: usize,
    /// Whether it replaces no older text of itself.
    is_new: bool,
}

impl Draft {
    /// The packs of the configuration's folder come first, then those of the store, `own` of them.
    fn new(current: &Catalog, own: usize, (file, toml): (&str, &str)) -> Result<Self, RuleError> {
        let pack = Pack::parse(file, toml)?;
        let mut packs = current.packs().to_vec();
        let users = current.user_packs();
        let own = users.saturating_sub(own)..users;
        let older = own.clone().find(|place| packs.get(*place).is_some_and(|older| older.id == pack.id));
        let (place, users) = match older {
            Some(place) => {
                packs[place] = pack;
                (place, users)
            }
            None => {
                packs.insert(own.end, pack);
                (own.end, users + 1)
            }
        };
        Ok(Self { catalog: Catalog::of(packs, users)?, place, is_new: older.is_none() })
    }
}

/// The rules in force beside those of a draft.
struct Comparison<'a> {
    current: &'a Catalog,
    draft: &'a Catalog,
    /// The rules of the draft, if nothing but they can make a difference: it replaces no older pack and changes
    /// no order in which packs are asked.
    only: Option<BTreeSet<&'a str>>,
}

impl<'a> Comparison<'a> {
    fn of(current: &'a Catalog, draft: &'a Draft) -> Self {
        let plain = |pack: &&Pack| {
            let known = current.pack(pack.id.as_str()).map_or(&[][..], |pack| &pack.like);
            let orders = pack.like.iter().any(|other| !known.contains(other));
            !orders && pack.names.is_empty() && pack.hosts.is_empty() && pack.shared.is_none()
        };
        let pack = draft.catalog.packs().get(draft.place).filter(|_| draft.is_new).filter(plain);
        let only = pack.map(|pack| pack.rules.iter().map(|rule| rule.id.as_str()).collect());
        Self { current, draft: &draft.catalog, only }
    }

    fn compare(&self, subject: &str, evidence: &str, now: Timestamp) -> Option<Change> {
        let after = report(self.draft, evidence, now)?;
        if self.only.as_ref().is_some_and(|rules| !rules.contains(after.rule.as_str())) {
            return None;
        }
        let before = report(self.current, evidence, now)?;
        (before.rule != after.rule && before.class != after.class).then(|| Change {
            subject: subject.to_owned(),
            before: before.class.to_string(),
            after: after.class.to_string(),
            rule: after.rule,
        })
    }
}

fn report(catalog: &Catalog, evidence: &str, now: Timestamp) -> Option<Report> {
    let case = Failure::parse(evidence).ok()?.resolve(catalog, now).ok()?;
    case.report(catalog, &Settings::default()).ok()
}

fn rule_view(rule: &Rule) -> RuleView {
    RuleView {
        id: rule.id.to_string(),
        class: rule.then.class.to_string(),
        scope: rule.then.scope.to_string(),
        reason: rule.then.reason.to_string(),
        source: rule.source.clone(),
        example: rule.example.as_ref().map(|example| example.text.clone()),
    }
}

/// The witness of a rule as `backstop classify` reads a failure.
fn witness(pack: &Pack, rule: &Rule) -> Option<String> {
    let example = rule.example.as_ref()?;
    let kind = example.kind.unwrap_or(KindName::Http);
    let usual = rule.when.statuses.first().map_or(400, |(first, _)| *first);
    let headers: BTreeMap<&str, &str> =
        example.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let process = kind == KindName::Process;
    let failure = json!({
        "kind": kind,
        "provider": pack.id,
        "status": if process { None } else { Some(example.status.unwrap_or(usual)) },
        "headers": headers,
        "body": if process { "" } else { example.text.as_str() },
        "stderr": process.then_some(example.text.as_str()),
        "transport": example.transport,
        "exit_code": example.exit_code.or_else(|| process.then_some(1)),
        "signal": example.signal,
    });
    Some(failure.to_string())
}

/// Failures of the keys' histories that a draft is tried on.
const LOG_READ: u32 = 1000;
