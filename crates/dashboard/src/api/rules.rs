//! Rules, unknown failures, and verdicts on demand.

use axum::{Json, extract::State, response::IntoResponse};
use backstop_triage::wire::Failure;
use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::body::{Body, Path, tag, version};
use crate::{
    actions::{
        rules::{self, PackView, RuleView, Trial, UserPack},
        unknown::{self, UnknownView},
    },
    app::{Actor, App},
    problem::{Answer, Problem},
};

/// A draft of a pack.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Draft {
    /// Its name.
    name: String,
    /// Its text.
    toml: String,
}

/// The text of a pack.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Text {
    /// Its text.
    toml: String,
}

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(show))
        .routes(routes!(try_out))
        .routes(routes!(own))
        .routes(routes!(save, remove))
        .routes(routes!(list_unknown))
        .routes(routes!(show_unknown))
        .routes(routes!(dismiss))
        .routes(routes!(make_rule))
        .routes(routes!(classify))
}

/// The rule packs in force, a user's own first.
#[utoipa::path(get, path = "/api/rules", tag = "rules", responses((status = 200, body = Vec<PackView>)))]
async fn list(State(app): State<App>) -> Json<Vec<PackView>> {
    Json(rules::list(&app))
}

/// The rules of a pack in the order in which they are tried.
#[utoipa::path(get, path = "/api/rules/{pack}", tag = "rules", params(("pack" = String, Path)), responses((status = 200, body = Vec<RuleView>)))]
async fn show(State(app): State<App>, Path(pack): Path<String>) -> Answer<Json<Vec<RuleView>>> {
    rules::show(&app, &pack).map(Json)
}

/// Tries a draft against the inbox and the witnesses of all other rules; saves nothing.
#[utoipa::path(post, path = "/api/rules/try", tag = "rules", request_body = Draft, responses((status = 200, body = Trial)))]
async fn try_out(State(app): State<App>, Body(draft): Body<Draft>) -> Answer<Json<Trial>> {
    rules::try_out(&app, &draft.name, &draft.toml).await.map(Json)
}

/// A user's own packs in full.
#[utoipa::path(get, path = "/api/user-rules", tag = "rules", responses((status = 200, body = Vec<UserPack>)))]
async fn own(State(app): State<App>) -> Answer<Json<Vec<UserPack>>> {
    rules::own(&app).await.map(Json)
}

/// Saves a user's pack; honours `If-Match`.
#[utoipa::path(put, path = "/api/user-rules/{name}", tag = "rules", params(("name" = String, Path)), request_body = Text, responses((status = 200, body = UserPack)))]
async fn save(
    State(app): State<App>,
    actor: Actor,
    Path(name): Path<String>,
    headers: HeaderMap,
    Body(text): Body<Text>,
) -> Answer<impl IntoResponse> {
    let pack = rules::save(&app, &actor, (&name, &text.toml), version(&headers)?).await?;
    Ok((tag(pack.version), Json(pack)))
}

/// Removes a user's pack.
#[utoipa::path(delete, path = "/api/user-rules/{name}", tag = "rules", params(("name" = String, Path)), responses((status = 204, description = "Removed.")))]
async fn remove(State(app): State<App>, actor: Actor, Path(name): Path<String>) -> Answer<StatusCode> {
    rules::remove(&app, &actor, &name).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The failures that no rule knows, last seen first.
#[utoipa::path(get, path = "/api/unknown", tag = "unknown", responses((status = 200, body = Vec<UnknownView>)))]
async fn list_unknown(State(app): State<App>) -> Answer<Json<Vec<UnknownView>>> {
    unknown::list(&app).await.map(Json)
}

/// One of them, with the rules that were tried on it.
#[utoipa::path(get, path = "/api/unknown/{shape}", tag = "unknown", params(("shape" = String, Path)), responses((status = 200, body = UnknownView)))]
async fn show_unknown(State(app): State<App>, Path(shape): Path<String>) -> Answer<Json<UnknownView>> {
    unknown::show(&app, &shape).await.map(Json)
}

/// Puts one aside.
#[utoipa::path(post, path = "/api/unknown/{shape}/dismiss", tag = "unknown", params(("shape" = String, Path)), responses((status = 204, description = "Dismissed.")))]
async fn dismiss(State(app): State<App>, actor: Actor, Path(shape): Path<String>) -> Answer<StatusCode> {
    unknown::dismiss(&app, &actor, &shape).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Saves a pack with a rule for one, if the rule knows it.
#[utoipa::path(post, path = "/api/unknown/{shape}/rule", tag = "unknown", params(("shape" = String, Path)), request_body = Draft, responses((status = 201, body = Trial)))]
async fn make_rule(
    State(app): State<App>,
    actor: Actor,
    Path(shape): Path<String>,
    Body(draft): Body<Draft>,
) -> Answer<(StatusCode, Json<Trial>)> {
    let trial = unknown::make_rule(&app, &actor, &shape, (&draft.name, &draft.toml)).await?;
    Ok((StatusCode::CREATED, Json(trial)))
}

/// Says what a failure is and why, in the form of `backstop classify`.
#[utoipa::path(post, path = "/api/classify", tag = "rules", request_body = Object, responses((status = 200, body = Object)))]
async fn classify(State(app): State<App>, Body(failure): Body<Value>) -> Answer<Json<Value>> {
    let wrong = |error: backstop_triage::wire::NotAFailure| Problem::invalid_field("", error.to_string());
    let catalog = app.live.catalog();
    let case =
        Failure::parse(&failure.to_string()).and_then(|failure| failure.resolve(&catalog, app.live.now()));
    let case = case.map_err(wrong)?;
    let settings = backstop_triage::Settings::default();
    let report = case.report(&catalog, &settings).map_err(wrong)?;
    let explanation = catalog.explain(&case.provider, &case.evidence, case.now);
    Ok(Json(json!({ "verdict": report, "explanation": explanation })))
}
