//! Tokens and money.

use axum::{Json, extract::State};
use serde::Deserialize;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::body::Asked;
use crate::{
    actions::costs::{self, CostsView},
    app::App,
    problem::Answer,
};

/// How far back.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct CostsQuery {
    /// Days, today (UTC) included: 1 to 366; 30 by default.
    #[serde(default)]
    days: Option<u32>,
}

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(show))
}

/// Tokens and cost of the last days: by day, provider, client key and provider key.
#[utoipa::path(get, path = "/api/stats/costs", tag = "stats", params(CostsQuery), responses((status = 200, body = CostsView)))]
async fn show(State(app): State<App>, Asked(query): Asked<CostsQuery>) -> Answer<Json<CostsView>> {
    costs::show(&app, query.days.unwrap_or(30)).await.map(Json)
}
