//! Providers: the list, and the tabs of one.

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::{Path, Query, State};
use backstop_triage::{Timestamp, preset::PresetKind};
use http::HeaderMap;
use serde::Deserialize;

use super::{
    Page, filters,
    frame::Frame,
    marks,
    overview::Chart,
    render,
    settings::{Field, own_fields},
    times,
    words::{self, Badge},
};
use crate::{
    actions::{
        circuits::{self, Circuit},
        fallbacks::{self, Leg},
        models,
        providers::{self, ProviderView},
        stats::{self, StatsView},
    },
    app::App,
    problem::Answer,
};

/// What stands over every tab of a provider.
pub(crate) struct Head {
    pub(crate) view: ProviderView,
    pub(crate) tab: &'static str,
    next_back: Option<Timestamp>,
    falls_to: Option<String>,
}

impl Head {
    pub(crate) async fn load(app: &App, id: &str, tab: &'static str) -> Answer<Self> {
        let view = providers::show(app, id).await?;
        let chain = fallbacks::list(app).into_iter().find(|chain| chain.provider == view.id);
        let falls_to = chain.and_then(|chain| chain.legs.into_iter().next()).map(|leg| leg.provider);
        Ok(Self { next_back: next_back(app, &view.id), view, tab, falls_to })
    }

    pub(crate) fn keys(&self) -> usize {
        self.view.keys.values().sum()
    }

    pub(crate) fn badge(&self) -> Badge<'static> {
        health(&self.view)
    }

    /// What a person needs to know before anything else.
    pub(crate) fn sentence(&self, frame: &Frame) -> String {
        let view = &self.view;
        let mut text = match (view.auth.as_str(), self.keys()) {
            ("managed", 0) => "It has no key yet.".to_owned(),
            ("managed", all) => format!("{} of {all} keys can be used.", view.usable_keys),
            ("none", _) => "It is asked without a key.".to_owned(),
            (_, _) => "Clients bring their own key.".to_owned(),
        };
        if view.paused {
            text.push_str(" It is paused: nothing is sent to it until it is resumed.");
        }
        if let Some(until) = &view.circuit_open_until {
            text.push_str(&format!(" It failed too often and is left alone until {}.", frame.clock(until)));
        }
        if let Some(at) = &self.next_back {
            text.push_str(&format!(" The next key is back at {}.", frame.clock(at)));
        }
        match &self.falls_to {
            Some(other) => text.push_str(&format!(" When none is left, requests go to {other}.")),
            None if view.auth == "managed" => text.push_str(" There is no fallback."),
            None => {}
        }
        text
    }
}

/// A provider in a list.
pub(crate) struct Line {
    pub(crate) view: ProviderView,
    pub(crate) next_back: Option<Timestamp>,
    pub(crate) falls_to: Vec<String>,
    pub(crate) traffic: backstop_store::traffic::Traffic,
}

impl Line {
    pub(crate) fn badge(&self) -> Badge<'static> {
        health(&self.view)
    }

    pub(crate) fn keys(&self) -> usize {
        self.view.keys.values().sum()
    }

    pub(crate) fn pips(&self) -> askama::filters::Safe<String> {
        let mut states: Vec<_> = self.view.keys.iter().map(|(state, count)| (*state, *count)).collect();
        states.sort_by_key(|(state, _)| RANKS.iter().position(|known| known == state));
        marks::pips(states)
    }

    pub(crate) fn success(&self) -> String {
        times::percent(self.traffic.requests - self.traffic.failed, self.traffic.requests)
    }
}

/// Every provider with what was asked of it in a range.
pub(crate) async fn lines(app: &App, stats: &StatsView) -> Answer<Vec<Line>> {
    let chains = fallbacks::list(app);
    let views = providers::list(app).await?.into_iter();
    let line = |view: ProviderView| {
        let chain = chains.iter().find(|chain| chain.provider == view.id);
        Line {
            next_back: next_back(app, &view.id),
            falls_to: chain
                .map(|chain| chain.legs.iter().map(|leg| leg.provider.clone()).collect())
                .unwrap_or_default(),
            traffic: stats.providers.get(&view.id).copied().unwrap_or_default(),
            view,
        }
    };
    Ok(views.map(line).collect())
}

/// How a provider is, in a badge.
pub(crate) fn health(view: &ProviderView) -> Badge<'static> {
    let all: usize = view.keys.values().sum();
    let disabled = view.keys.get("disabled").copied().unwrap_or(0);
    if view.paused {
        return Badge::new("off", "pause", "Paused");
    }
    if view.circuit_open_until.is_some() {
        return Badge::new("warn", "bolt", "Left alone");
    }
    match (view.auth.as_str(), all, view.usable_keys) {
        ("managed", 0, _) => Badge::new("off line", "key", "No key"),
        ("managed", _, 0) if disabled == all => Badge::new("bad", "keyoff", "Needs you"),
        ("managed", _, 0) => Badge::new("rest", "clock", "All keys rest"),
        ("managed", all, usable) if usable * 2 < all => Badge::new("rest", "clock", "Short of keys"),
        ("managed", _, _) if disabled > 0 => Badge::new("bad", "keyoff", "A key needs you"),
        (_, _, _) => Badge::new("ok", "check", "Good"),
    }
}

fn next_back(app: &App, provider: &str) -> Option<Timestamp> {
    let statuses = app.key_statuses(&backstop_triage::ProviderId::from(provider));
    statuses
        .into_iter()
        .filter(|status| status.state == backstop_triage::pool::KeyState::Resting)
        .filter_map(|status| status.until)
        .min()
}

/// The presets of one kind.
pub(crate) struct Shelf {
    pub(crate) name: &'static str,
    pub(crate) presets: Vec<Offered>,
}

/// A preset that can be chosen.
pub(crate) struct Offered {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) base_url: String,
    pub(crate) keys_url: String,
    pub(crate) note: String,
    pub(crate) keyless: bool,
    pub(crate) models: String,
}

/// All presets by what they cost.
pub(crate) fn shelves(app: &App) -> Vec<Shelf> {
    let catalog = app.live.catalog();
    let kinds = [
        (PresetKind::CodingPlan, "Coding plans"),
        (PresetKind::Paid, "Paid by use"),
        (PresetKind::Free, "With a free tier"),
        (PresetKind::Keyless, "Without a key"),
        (PresetKind::Local, "On your own machines"),
    ];
    let offered = |preset: &backstop_triage::preset::Preset| Offered {
        id: preset.id.clone(),
        name: preset.name.clone(),
        base_url: preset.base_url.clone(),
        keys_url: preset.keys_url.clone().unwrap_or_default(),
        note: preset.note.clone().unwrap_or_default(),
        keyless: preset.kind == PresetKind::Keyless,
        models: preset.default_models.join(" "),
    };
    let shelf = |(kind, name)| {
        let mut presets: Vec<Offered> =
            catalog.presets().iter().filter(|preset| preset.kind == kind).map(offered).collect();
        presets.sort_by_key(|preset| preset.name.to_lowercase());
        Shelf { name, presets }
    };
    kinds.into_iter().map(shelf).collect()
}

#[derive(Template)]
#[template(path = "providers.html")]
struct Providers {
    frame: Frame,
    lines: Vec<Line>,
    shelves: Vec<Shelf>,
}

pub(super) async fn list(State(app): State<App>, headers: HeaderMap) -> Page {
    let stats = stats::show(&app, "24h", None).await?;
    let lines = lines(&app, &stats).await?;
    let frame = Frame::load(&app, &headers, "providers", "Providers").await?;
    render(&Providers { frame, lines, shelves: shelves(&app) }, &headers)
}

/// Which time to look at.
#[derive(Deserialize)]
pub(super) struct Asked {
    #[serde(default)]
    range: Option<String>,
}

#[derive(Template)]
#[template(path = "provider.html")]
struct Provider {
    frame: Frame,
    head: Head,
    range: String,
    stats: StatsView,
    chart: Chart,
    circuits: Vec<Circuit>,
}

pub(super) async fn show(
    State(app): State<App>,
    headers: HeaderMap,
    Path(id): Path<String>,
    Query(asked): Query<Asked>,
) -> Page {
    let head = Head::load(&app, &id, "overview").await?;
    let range = asked.range.unwrap_or_else(|| "24h".to_owned());
    let stats = stats::show(&app, &range, Some(id.clone())).await?;
    let circuits = circuits::list(&app, &id)?;
    let frame = Frame::load(&app, &headers, "providers", id).await?;
    let chart = Chart::new(&frame, &stats);
    render(&Provider { frame, head, range, stats, chart, circuits }, &headers)
}

#[derive(Template)]
#[template(path = "models.html")]
struct Models {
    frame: Frame,
    head: Head,
    circuits: Vec<Circuit>,
    kind: Option<PresetKind>,
    prices: BTreeMap<String, bool>,
}

pub(super) async fn models(State(app): State<App>, headers: HeaderMap, Path(id): Path<String>) -> Page {
    let head = Head::load(&app, &id, "models").await?;
    let circuits = circuits::list(&app, &id)?;
    let configured = app.provider(&id)?;
    let prices = models::prices(&app, &configured).await?;
    let catalog = app.live.catalog();
    let kind = configured.preset.and_then(|id| catalog.preset(&id).map(|preset| preset.kind));
    let frame = Frame::load(&app, &headers, "providers", format!("{id}: Models")).await?;
    render(&Models { frame, head, circuits, kind, prices }, &headers)
}

impl Models {
    /// What a model costs, as far as that is known: by the provider's own list, by its name, by how the provider is
    /// paid.
    fn price(&self, model: &str) -> Option<Badge<'static>> {
        const FREE: Badge<'static> = Badge::new("ok bare", "check", "Free");
        const PAID: Badge<'static> = Badge::new("off bare", "wallet", "Paid");
        match self.prices.get(model) {
            Some(true) => return Some(FREE),
            Some(false) => return Some(PAID),
            None if model.ends_with(":free") => return Some(FREE),
            None => {}
        }
        Some(match self.kind? {
            PresetKind::Keyless | PresetKind::Local => FREE,
            PresetKind::Free => Badge::new("ok bare", "check", "Free tier"),
            PresetKind::Paid => PAID,
            PresetKind::CodingPlan => Badge::new("off bare", "wallet", "In the plan"),
        })
    }

    fn circuit(&self, model: &str) -> Option<&Circuit> {
        self.circuits.iter().find(|circuit| circuit.model.as_deref() == Some(model))
    }

    /// Open breakers of models that are not in the list.
    fn others(&self) -> impl Iterator<Item = &Circuit> {
        let listed = |circuit: &&Circuit| {
            circuit.model.as_ref().is_none_or(|model| !self.head.view.models.contains(model))
        };
        self.circuits.iter().filter(listed)
    }
}

#[derive(Template)]
#[template(path = "chain.html")]
struct ChainPage {
    frame: Frame,
    head: Head,
    legs: Vec<Leg>,
    others: Vec<String>,
}

pub(super) async fn fallback(State(app): State<App>, headers: HeaderMap, Path(id): Path<String>) -> Page {
    let head = Head::load(&app, &id, "fallback").await?;
    let chains = fallbacks::list(&app);
    let others = chains.iter().map(|chain| chain.provider.clone()).filter(|other| *other != id).collect();
    let legs =
        chains.into_iter().find(|chain| chain.provider == id).map(|chain| chain.legs).unwrap_or_default();
    let frame = Frame::load(&app, &headers, "providers", format!("{id}: Fallback")).await?;
    render(&ChainPage { frame, head, legs, others }, &headers)
}

#[derive(Template)]
#[template(path = "provider-settings.html")]
struct ProviderSettings {
    frame: Frame,
    head: Head,
    fields: Vec<Field>,
}

pub(super) async fn settings(State(app): State<App>, headers: HeaderMap, Path(id): Path<String>) -> Page {
    let head = Head::load(&app, &id, "settings").await?;
    let fields = own_fields(&app, &head.view).await?;
    let frame = Frame::load(&app, &headers, "providers", format!("{id}: Settings")).await?;
    render(&ProviderSettings { frame, head, fields }, &headers)
}

impl ProviderSettings {
    /// The definition as the API takes it back.
    fn definition(&self) -> String {
        self.head.view.definition.as_ref().and_then(|own| serde_json::to_string(own).ok()).unwrap_or_default()
    }
}

/// The value of a row of a list, as the API takes it back.
fn value_of(leg: &Leg) -> String {
    serde_json::to_string(leg).unwrap_or_default()
}

fn quoted(word: &str) -> String {
    serde_json::to_string(word).unwrap_or_default()
}

/// What opened a breaker.
fn why_open(circuit: &Circuit) -> String {
    let class = circuit.why["class"].as_str().and_then(backstop_triage::Class::parse);
    class.map_or("It failed too often", words::class_words).to_owned()
}

/// States in the order of the pips.
const RANKS: [&str; 7] = ["active", "unstable", "half_open", "resting", "quarantined", "paused", "disabled"];
