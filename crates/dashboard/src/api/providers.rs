//! Providers, presets, models, circuits, status.

use axum::{Json, extract::State, response::IntoResponse};
use backstop_triage::preset::Preset;
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::body::{Asked, Body, Path, tag, version};
use crate::{
    actions::{
        circuits::{self, Circuit},
        definition::Definition,
        models::{self, Offer},
        providers::{self, MarksEdit, ProviderView},
        stats::{self, StatsView},
        status::{self, StatusView},
    },
    app::{Actor, App},
    problem::{Answer, Problem},
};

/// A preset in short.
#[derive(Serialize, ToSchema)]
struct PresetView {
    /// Its id.
    id: String,
    /// Its name.
    name: String,
    /// What it costs: `keyless`, `free`, `paid`, `coding-plan` or `local`.
    #[schema(value_type = String)]
    kind: backstop_triage::preset::PresetKind,
    /// The API shape.
    format: &'static str,
    /// The base URL; parts in braces are to be filled in.
    base_url: String,
    /// The environment variables that usually hold its key.
    env: Vec<String>,
    /// Where a person gets a key.
    keys_url: Option<String>,
    /// The documentation.
    docs: String,
    /// What to know before choosing it.
    note: Option<String>,
}

/// A list of models.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Models {
    /// The models in order of fallback.
    models: Vec<String>,
}

/// Whether to ask again.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct FetchQuery {
    /// Whether to ask although a fresh list is known.
    #[serde(default)]
    force: bool,
}

/// Which circuit to close.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct CircuitOrder {
    /// The model; without it the provider's own and all its models'.
    #[serde(default)]
    model: Option<String>,
}

/// Which time to look at.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct StatsQuery {
    /// `24h` (default), `7d` or `all`.
    #[serde(default)]
    range: Option<String>,
}

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list, add))
        .routes(routes!(show, change, remove, mark))
        .routes(routes!(presets))
        .routes(routes!(list_models, set_models))
        .routes(routes!(fetch_models))
        .routes(routes!(list_circuits))
        .routes(routes!(reset_circuits))
        .routes(routes!(provider_stats))
        .routes(routes!(all_stats))
        .routes(routes!(show_status))
}

/// Every provider: favourites first.
#[utoipa::path(get, path = "/api/providers", tag = "providers", responses((status = 200, body = Vec<ProviderView>)))]
async fn list(State(app): State<App>) -> Answer<Json<Vec<ProviderView>>> {
    providers::list(&app).await.map(Json)
}

/// Adds a provider.
#[utoipa::path(post, path = "/api/providers", tag = "providers", request_body = Definition, responses((status = 201, body = ProviderView)))]
async fn add(
    State(app): State<App>,
    actor: Actor,
    Body(definition): Body<Definition>,
) -> Answer<impl IntoResponse> {
    let view = providers::add(&app, &actor, &definition).await?;
    Ok((StatusCode::CREATED, tag(view.version.unwrap_or(0)), Json(view)))
}

/// One provider.
#[utoipa::path(get, path = "/api/providers/{provider}", tag = "providers", params(("provider" = String, Path)), responses((status = 200, body = ProviderView)))]
async fn show(State(app): State<App>, Path(id): Path<String>) -> Answer<impl IntoResponse> {
    let view = providers::show(&app, &id).await?;
    Ok((tag(view.version.unwrap_or(0)), Json(view)))
}

/// Changes a provider that was added at run time; honours `If-Match`.
#[utoipa::path(put, path = "/api/providers/{provider}", tag = "providers", params(("provider" = String, Path)), request_body = Definition, responses((status = 200, body = ProviderView)))]
async fn change(
    State(app): State<App>,
    actor: Actor,
    Path(id): Path<String>,
    headers: HeaderMap,
    Body(definition): Body<Definition>,
) -> Answer<impl IntoResponse> {
    if definition.id != id {
        return Err(Problem::invalid_field("id", "the id of a provider cannot be changed; add another"));
    }
    let view = providers::change(&app, &actor, &definition, version(&headers)?).await?;
    Ok((tag(view.version.unwrap_or(0)), Json(view)))
}

/// Removes a provider that was added at run time, with its keys, models and fallbacks.
#[utoipa::path(delete, path = "/api/providers/{provider}", tag = "providers", params(("provider" = String, Path)), responses((status = 204, description = "Removed.")))]
async fn remove(State(app): State<App>, actor: Actor, Path(id): Path<String>) -> Answer<StatusCode> {
    providers::remove(&app, &actor, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Pauses, resumes or marks a provider, also one of the file.
#[utoipa::path(patch, path = "/api/providers/{provider}", tag = "providers", params(("provider" = String, Path)), request_body = MarksEdit, responses((status = 200, body = ProviderView)))]
async fn mark(
    State(app): State<App>,
    actor: Actor,
    Path(id): Path<String>,
    Body(edit): Body<MarksEdit>,
) -> Answer<Json<ProviderView>> {
    providers::mark(&app, &actor, &id, edit).await.map(Json)
}

/// The providers that are known by name.
#[utoipa::path(get, path = "/api/presets", tag = "providers", responses((status = 200, body = Vec<PresetView>)))]
async fn presets(State(app): State<App>) -> Json<Vec<PresetView>> {
    let view = |preset: &Preset| PresetView {
        id: preset.id.clone(),
        name: preset.name.clone(),
        kind: preset.kind,
        format: preset.format.as_str(),
        base_url: preset.base_url.clone(),
        env: preset.env.clone(),
        keys_url: preset.keys_url.clone(),
        docs: preset.docs.clone(),
        note: preset.note.clone(),
    };
    Json(app.live.catalog().presets().iter().map(view).collect())
}

/// The models of a provider in order of fallback.
#[utoipa::path(get, path = "/api/providers/{provider}/models", tag = "models", params(("provider" = String, Path)), responses((status = 200, body = Models)))]
async fn list_models(State(app): State<App>, Path(id): Path<String>) -> Answer<Json<Models>> {
    let models = app.provider(&id)?.models.iter().map(ToString::to_string).collect();
    Ok(Json(Models { models }))
}

/// Sets the models of a provider, in order.
#[utoipa::path(put, path = "/api/providers/{provider}/models", tag = "models", params(("provider" = String, Path)), request_body = Models, responses((status = 200, body = Models)))]
async fn set_models(
    State(app): State<App>,
    actor: Actor,
    Path(id): Path<String>,
    Body(wanted): Body<Models>,
) -> Answer<Json<Models>> {
    let models = models::set(&app, &actor, &id, wanted.models).await?;
    Ok(Json(Models { models }))
}

/// Asks the provider which models it has; the list is kept for five minutes.
#[utoipa::path(post, path = "/api/providers/{provider}/models/fetch", tag = "models", params(("provider" = String, Path), FetchQuery), responses((status = 200, body = Offer)))]
async fn fetch_models(
    State(app): State<App>,
    Path(id): Path<String>,
    Asked(query): Asked<FetchQuery>,
) -> Answer<Json<Offer>> {
    models::fetch(&app, &id, query.force).await.map(Json)
}

/// The open circuits of a provider and its models.
#[utoipa::path(get, path = "/api/providers/{provider}/circuits", tag = "models", params(("provider" = String, Path)), responses((status = 200, body = Vec<Circuit>)))]
async fn list_circuits(State(app): State<App>, Path(id): Path<String>) -> Answer<Json<Vec<Circuit>>> {
    circuits::list(&app, &id).map(Json)
}

/// Closes the circuit of a model, or all of a provider's.
#[utoipa::path(post, path = "/api/providers/{provider}/circuits/reset", tag = "models", params(("provider" = String, Path)), request_body = CircuitOrder, responses((status = 204, description = "Closed.")))]
async fn reset_circuits(
    State(app): State<App>,
    actor: Actor,
    Path(id): Path<String>,
    Body(order): Body<CircuitOrder>,
) -> Answer<StatusCode> {
    circuits::reset(&app, &actor, &id, order.model.as_deref()).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// What was asked of a provider.
#[utoipa::path(get, path = "/api/providers/{provider}/stats", tag = "stats", params(("provider" = String, Path), StatsQuery), responses((status = 200, body = StatsView)))]
async fn provider_stats(
    State(app): State<App>,
    Path(id): Path<String>,
    Asked(query): Asked<StatsQuery>,
) -> Answer<Json<StatsView>> {
    app.provider(&id)?;
    stats::show(&app, query.range.as_deref().unwrap_or("24h"), Some(id)).await.map(Json)
}

/// What was asked of all providers.
#[utoipa::path(get, path = "/api/stats", tag = "stats", params(StatsQuery), responses((status = 200, body = StatsView)))]
async fn all_stats(State(app): State<App>, Asked(query): Asked<StatsQuery>) -> Answer<Json<StatsView>> {
    stats::show(&app, query.range.as_deref().unwrap_or("24h"), None).await.map(Json)
}

/// What is wrong at the moment.
#[utoipa::path(get, path = "/api/status", tag = "stats", responses((status = 200, body = StatusView)))]
async fn show_status(State(app): State<App>) -> Answer<Json<StatusView>> {
    status::show(&app).await.map(Json)
}
