//! Fallbacks and combos.

use axum::{Json, extract::State, response::IntoResponse};
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::body::{Body, Path, tag, version};
use crate::{
    actions::{
        combos::{self, Combo, ComboView},
        fallbacks::{self, Chain, Leg},
    },
    app::{Actor, App},
    problem::{Answer, Problem},
};

/// The steps of a chain.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Legs {
    /// Where to go, in order.
    legs: Vec<Leg>,
}

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list_fallbacks))
        .routes(routes!(set_fallbacks))
        .routes(routes!(list_combos, add_combo))
        .routes(routes!(change_combo, remove_combo))
}

/// The fallback chains of all providers.
#[utoipa::path(get, path = "/api/fallbacks", tag = "routing", responses((status = 200, body = Vec<Chain>)))]
async fn list_fallbacks(State(app): State<App>) -> Json<Vec<Chain>> {
    Json(fallbacks::list(&app))
}

/// Sets the fallback chain of a provider.
#[utoipa::path(put, path = "/api/providers/{provider}/fallbacks", tag = "routing", params(("provider" = String, Path)), request_body = Legs, responses((status = 200, body = Legs)))]
async fn set_fallbacks(
    State(app): State<App>,
    actor: Actor,
    Path(provider): Path<String>,
    Body(wanted): Body<Legs>,
) -> Answer<Json<Legs>> {
    let legs = fallbacks::set(&app, &actor, &provider, wanted.legs).await?;
    Ok(Json(Legs { legs }))
}

/// The combos that were added at run time.
#[utoipa::path(get, path = "/api/combos", tag = "routing", responses((status = 200, body = Vec<ComboView>)))]
async fn list_combos(State(app): State<App>) -> Answer<Json<Vec<ComboView>>> {
    combos::list(&app).await.map(Json)
}

/// Adds a combo.
#[utoipa::path(post, path = "/api/combos", tag = "routing", request_body = Combo, responses((status = 201, body = ComboView)))]
async fn add_combo(
    State(app): State<App>,
    actor: Actor,
    Body(combo): Body<Combo>,
) -> Answer<impl IntoResponse> {
    let view = combos::add(&app, &actor, combo).await?;
    Ok((StatusCode::CREATED, tag(view.version), Json(view)))
}

/// Changes a combo; honours `If-Match`.
#[utoipa::path(put, path = "/api/combos/{combo}", tag = "routing", params(("combo" = String, Path)), request_body = Combo, responses((status = 200, body = ComboView)))]
async fn change_combo(
    State(app): State<App>,
    actor: Actor,
    Path(id): Path<String>,
    headers: HeaderMap,
    Body(combo): Body<Combo>,
) -> Answer<impl IntoResponse> {
    if combo.id != id {
        return Err(Problem::invalid_field("id", "the id of a combo cannot be changed; add another"));
    }
    let view = combos::change(&app, &actor, combo, version(&headers)?).await?;
    Ok((tag(view.version), Json(view)))
}

/// Removes a combo.
#[utoipa::path(delete, path = "/api/combos/{combo}", tag = "routing", params(("combo" = String, Path)), responses((status = 204, description = "Removed.")))]
async fn remove_combo(State(app): State<App>, actor: Actor, Path(id): Path<String>) -> Answer<StatusCode> {
    combos::remove(&app, &actor, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}
