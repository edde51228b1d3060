//! The request log.

use axum::{Json, extract::State};
use backstop_store::{Page, requests::RequestRow};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::body::{Asked, Path};
use crate::{
    actions::logs::{self, LogQuery, RawBodies},
    app::{Actor, App},
    problem::Answer,
};

/// What was removed.
#[derive(Serialize, ToSchema)]
struct Removed {
    /// How many requests the log held.
    removed: u64,
}

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list, clear)).routes(routes!(show)).routes(routes!(raw))
}

/// A page of the request log, newest first.
#[utoipa::path(get, path = "/api/logs", tag = "logs", params(LogQuery), responses((status = 200, body = Object)))]
async fn list(State(app): State<App>, Asked(query): Asked<LogQuery>) -> Answer<Json<Page<RequestRow>>> {
    logs::list(&app, query).await.map(Json)
}

/// Empties the request log. Sums stay.
#[utoipa::path(delete, path = "/api/logs", tag = "logs", responses((status = 200, body = Removed)))]
async fn clear(State(app): State<App>, actor: Actor) -> Answer<Json<Removed>> {
    let removed = logs::clear(&app, &actor).await?;
    Ok(Json(Removed { removed }))
}

/// One request with its attempts.
#[utoipa::path(get, path = "/api/logs/{request}", tag = "logs", params(("request" = String, Path)), responses((status = 200, body = Object)))]
async fn show(State(app): State<App>, Path(id): Path<String>) -> Answer<Json<RequestRow>> {
    logs::show(&app, &id).await.map(Json)
}

/// The bodies of a request, where its client key asks for them to be kept.
#[utoipa::path(get, path = "/api/logs/{request}/raw", tag = "logs", params(("request" = String, Path)), responses((status = 200, body = RawBodies)))]
async fn raw(State(app): State<App>, actor: Actor, Path(id): Path<String>) -> Answer<Json<RawBodies>> {
    logs::raw(&app, &actor, &id).await.map(Json)
}
