//! Settings and the audit log.

use axum::{Json, extract::State};
use backstop_store::{Page, audit::AuditRow};
use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::body::{Asked, Body};
use crate::{
    actions::settings::{self, SettingView},
    app::{Actor, App},
    problem::Answer,
};

/// Which page to show.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct PageQuery {
    /// Continue after a page; what it gave as `next`.
    #[serde(default)]
    cursor: Option<String>,
    /// Items per page, 1 to 500; 50 by default.
    #[serde(default)]
    limit: Option<usize>,
}

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list, change)).routes(routes!(audit))
}

/// Every setting with its value and default.
#[utoipa::path(get, path = "/api/settings", tag = "settings", responses((status = 200, body = Vec<SettingView>)))]
async fn list(State(app): State<App>) -> Answer<Json<Vec<SettingView>>> {
    settings::list(&app).await.map(Json)
}

/// Sets settings; `null` puts one back to its default. They act at once.
#[utoipa::path(patch, path = "/api/settings", tag = "settings", request_body = Object, responses((status = 200, body = Vec<SettingView>)))]
async fn change(
    State(app): State<App>,
    actor: Actor,
    Body(changes): Body<Map<String, Value>>,
) -> Answer<Json<Vec<SettingView>>> {
    settings::change(&app, &actor, changes).await.map(Json)
}

/// Who changed what, newest first.
#[utoipa::path(get, path = "/api/audit", tag = "settings", params(PageQuery), responses((status = 200, body = Object)))]
async fn audit(State(app): State<App>, Asked(query): Asked<PageQuery>) -> Answer<Json<Page<AuditRow>>> {
    app.read(move |store| store.audit_log(query.cursor.as_deref(), query.limit.unwrap_or(50))).await.map(Json)
}
