//! Settings, the audit log, and reading the configuration again.

use std::sync::Arc;

use axum::{Json, extract::State};
use backstop_store::{Page, Secret, audit::AuditRow};
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::body::{Asked, Body};
use crate::{
    actions::{
        secrets::{self, SealedSecrets},
        settings::{self, SettingView},
    },
    app::{Actor, App},
    problem::{Answer, Problem},
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

/// What seals the secrets.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct Passphrase {
    /// At least twelve characters. It is kept nowhere.
    #[schema(write_only, min_length = 12)]
    passphrase: String,
}

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list, change))
        .routes(routes!(audit))
        .routes(routes!(reload))
        .routes(routes!(export_secrets))
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

/// Reads the configuration and the file of the admin password again. A wrong configuration is refused, and the old
/// one stays in force.
#[utoipa::path(post, path = "/api/reload", tag = "settings", responses((status = 204, description = "The configuration was read again.")))]
async fn reload(State(app): State<App>, actor: Actor) -> Answer<StatusCode> {
    let refused = |error: String| Problem::conflict("refused", error);
    Arc::clone(&app.live).read_again().await.map_err(refused)?;
    app.note(&actor, "settings.reload", "configuration", "").await;
    Ok(StatusCode::NO_CONTENT)
}

/// Every secret that was added at run time, sealed by a passphrase, for another gateway.
#[utoipa::path(post, path = "/api/secrets/export", tag = "settings", request_body = Passphrase, responses((status = 200, body = SealedSecrets)))]
async fn export_secrets(
    State(app): State<App>,
    actor: Actor,
    Body(body): Body<Passphrase>,
) -> Answer<Json<SealedSecrets>> {
    secrets::export(&app, &actor, Secret::new(&body.passphrase)).await.map(Json)
}
