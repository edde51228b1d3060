//! Supervised agents.

use axum::{Json, extract::State};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    actions::agents::{self, AgentView},
    app::App,
    problem::Answer,
};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list))
}

/// Every seat of `backstop run` in the gateway's data folder.
#[utoipa::path(get, path = "/api/agents", tag = "agents", responses((status = 200, body = Vec<AgentView>)))]
async fn list(State(app): State<App>) -> Answer<Json<Vec<AgentView>>> {
    agents::list(&app).await.map(Json)
}
