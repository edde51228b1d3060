//! Providers: see, add, change, remove, pause, mark.

use std::collections::BTreeMap;

use backstop_store::configuration::{Kind, Marks};
use backstop_triage::{
    ProviderId, Timestamp,
    pool::{Deed, KeyState, KeyStatus},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    actions::definition::Definition,
    app::{Actor, App},
    live::Configured,
    problem::{Answer, FieldError, Problem},
};

/// A provider as people see it.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ProviderView {
    /// Its id.
    pub id: String,
    /// `file` or `added`; what the file defines is read-only here.
    pub origin: &'static str,
    /// The preset that it was made from.
    pub preset: Option<String>,
    /// The API shape that it speaks.
    pub format: String,
    /// Where its API lies.
    pub base_url: String,
    /// The rule pack that reads its failures.
    pub rules: String,
    /// Whose credential travels upstream.
    pub auth: String,
    /// Its models in order.
    pub models: Vec<String>,
    /// Whether it is not asked until resumed.
    pub paused: bool,
    /// Whether it is shown first.
    pub favorite: bool,
    /// Its keys by state.
    pub keys: BTreeMap<&'static str, usize>,
    /// Keys that can be asked at the moment.
    pub usable_keys: usize,
    /// When the first resting key comes back, if none can be asked.
    #[schema(value_type = Option<String>)]
    pub back_at: Option<Timestamp>,
    /// Set while its breaker is open: until when.
    #[schema(value_type = Option<String>)]
    pub circuit_open_until: Option<Timestamp>,
    /// Its own definition, if it was added at run time.
    pub definition: Option<Definition>,
    /// The version of that definition; also the ETag.
    pub version: Option<u64>,
}

/// What can be marked on any provider, also on one of the file. What is missing stays.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MarksEdit {
    /// Whether it is not asked until resumed.
    #[serde(default)]
    pub paused: Option<bool>,
    /// Whether it is shown first.
    #[serde(default)]
    pub favorite: Option<bool>,
}

/// Every provider: favourites first, then in their order.
pub async fn list(app: &App) -> Answer<Vec<ProviderView>> {
    app.blocking(|app| {
        let marks: BTreeMap<ProviderId, Marks> = app.live.store().marks()?.into_iter().collect();
        let providers = app.live.providers();
        let mut views =
            providers.into_iter().map(|provider| view(app, provider, &marks)).collect::<Answer<Vec<_>>>()?;
        views.sort_by_key(|view| !view.favorite);
        Ok(views)
    })
    .await
}

/// One provider.
pub async fn show(app: &App, id: &str) -> Answer<ProviderView> {
    let id = id.to_owned();
    app.blocking(move |app| {
        let marks = app.live.store().marks()?.into_iter().collect();
        view(app, app.provider(&id)?, &marks)
    })
    .await
}

/// Adds a provider.
pub async fn add(app: &App, actor: &Actor, definition: &Definition) -> Answer<ProviderView> {
    if app.provider(&definition.id).is_ok() {
        return Err(Problem::conflict("exists", format!("there is a provider {} already", definition.id)));
    }
    check(app, definition)?;
    let store = app.live.store();
    store.add_object(Kind::Provider, &definition.id, &text(definition)?).await?;
    app.changed(actor, "providers.add", &definition.id, "").await?;
    show(app, &definition.id).await
}

/// Changes a provider that was added at run time.
pub async fn change(
    app: &App,
    actor: &Actor,
    definition: &Definition,
    version: Option<u64>,
) -> Answer<ProviderView> {
    refuse_file(app, &definition.id)?;
    check(app, definition)?;
    let store = app.live.store();
    store.edit_object(Kind::Provider, &definition.id, &text(definition)?, version).await?;
    app.changed(actor, "providers.change", &definition.id, "").await?;
    show(app, &definition.id).await
}

/// Removes a provider that was added at run time, with its keys, models and fallbacks.
pub async fn remove(app: &App, actor: &Actor, id: &str) -> Answer<()> {
    refuse_file(app, id)?;
    app.live.store().remove_object(Kind::Provider, id).await?;
    app.changed(actor, "providers.remove", id, "").await
}

/// Pauses, resumes or marks a provider.
pub async fn mark(app: &App, actor: &Actor, id: &str, edit: MarksEdit) -> Answer<ProviderView> {
    let provider = app.provider(id)?.id;
    let wanted = provider.clone();
    let marks =
        app.read(move |store| Ok(store.marks()?.into_iter().find(|(known, _)| *known == wanted))).await?;
    let before = marks.map(|(_, marks)| marks).unwrap_or_default();
    let after = Marks {
        paused: edit.paused.unwrap_or(before.paused),
        favorite: edit.favorite.unwrap_or(before.favorite),
    };
    app.live.store().mark(&provider, after).await?;
    if before.paused != after.paused {
        pause_keys(app, &provider, after.paused);
    }
    let action = match (before.paused, after.paused) {
        (false, true) => "providers.pause",
        (true, false) => "providers.resume",
        (true, true) | (false, false) => "providers.mark",
    };
    app.changed(actor, action, id, "").await?;
    show(app, id).await
}

/// A paused provider is one whose keys are all paused; so its health outlives the pause.
fn pause_keys(app: &App, provider: &ProviderId, paused: bool) {
    let deed = if paused { Deed::Pause(None) } else { Deed::Resume };
    app.pool(|pool, now| {
        for status in pool.snapshot(provider, now) {
            pool.act(provider, status.id, deed, now);
        }
    });
}

/// Refuses to change what the file defines.
pub(crate) fn refuse_file(app: &App, id: &str) -> Answer<Configured> {
    let provider = app.provider(id)?;
    if provider.from_file { Err(Problem::from_the_file(&format!("provider {id}"))) } else { Ok(provider) }
}

/// Whether a key can be asked, now or as a trial.
pub(crate) fn is_usable(state: KeyState) -> bool {
    match state {
        KeyState::Active | KeyState::Unstable | KeyState::HalfOpen => true,
        KeyState::Resting | KeyState::Quarantined | KeyState::Disabled | KeyState::Paused => false,
    }
}

fn check(app: &App, definition: &Definition) -> Answer<()> {
    let table = definition.to_toml()?;
    app.live.check_provider(&table).map_err(|problems| {
        let error = |detail: String| FieldError { field: String::new(), detail };
        Problem::invalid(problems.into_iter().map(error).collect())
    })
}

fn text(definition: &Definition) -> Answer<String> {
    serde_json::to_string(definition).map_err(|error| Problem::malformed(error.to_string()))
}

fn view(app: &App, provider: Configured, marks: &BTreeMap<ProviderId, Marks>) -> Answer<ProviderView> {
    let object = if provider.from_file {
        None
    } else {
        app.live.store().object(Kind::Provider, provider.id.as_str())?
    };
    let statuses = app.key_statuses(&provider.id);
    let mut keys = BTreeMap::new();
    for status in &statuses {
        *keys.entry(status.state.as_str()).or_insert(0) += 1;
    }
    let usable_keys = statuses.iter().filter(|status| is_usable(status.state)).count();
    let circuit =
        app.pool(|pool, _| pool.provider_breaker(&provider.id).and_then(|state| state.open.clone()));
    let marks = marks.get(&provider.id).copied().unwrap_or_default();
    Ok(ProviderView {
        id: provider.id.to_string(),
        origin: if provider.from_file { "file" } else { "added" },
        preset: provider.preset,
        format: provider.format.as_str().to_owned(),
        base_url: provider.base_url,
        rules: provider.rules.to_string(),
        auth: provider.auth,
        models: provider.models.iter().map(ToString::to_string).collect(),
        paused: marks.paused,
        favorite: marks.favorite,
        keys,
        usable_keys,
        back_at: if usable_keys == 0 { back_at(&statuses) } else { None },
        circuit_open_until: circuit.flatten().map(|opening| opening.until),
        definition: object.as_ref().and_then(|object| serde_json::from_str(&object.spec).ok()),
        version: object.map(|object| object.version),
    })
}

fn back_at(statuses: &[KeyStatus]) -> Option<Timestamp> {
    let resting =
        statuses.iter().filter(|status| matches!(status.state, KeyState::Resting | KeyState::Paused));
    resting.filter_map(|status| status.until).min()
}
