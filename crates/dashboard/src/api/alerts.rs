//! Alerts and the channels that they are told through.

use axum::{Json, extract::State};
use backstop_alerts::ChannelStatus;
use http::StatusCode;
use serde::Deserialize;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::body::{Body, Path};
use crate::{
    actions::alerts::{self, AlertView, ChannelTest},
    app::{Actor, App},
    problem::Answer,
};

/// Which alert was seen.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Seen {
    /// Its id, `CONDITION/GROUP`.
    alert: String,
}

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(acknowledge))
        .routes(routes!(channels))
        .routes(routes!(test))
}

/// Every alert that is on, of the gateway and of the seats beside it, the gravest first.
#[utoipa::path(get, path = "/api/alerts", tag = "alerts", responses((status = 200, body = Vec<AlertView>)))]
async fn list(State(app): State<App>) -> Answer<Json<Vec<AlertView>>> {
    alerts::list(&app).await.map(Json)
}

/// Marks an alert as seen: no more reminders until it is over.
#[utoipa::path(post, path = "/api/alerts/ack", tag = "alerts", request_body = Seen, responses((status = 204, description = "Seen.")))]
async fn acknowledge(State(app): State<App>, actor: Actor, Body(seen): Body<Seen>) -> Answer<StatusCode> {
    alerts::acknowledge(&app, &actor, &seen.alert).await.map(|()| StatusCode::NO_CONTENT)
}

/// How each channel fares.
#[utoipa::path(get, path = "/api/alerts/channels", tag = "alerts", responses((status = 200, body = Vec<Object>)))]
async fn channels(State(app): State<App>) -> Json<Vec<ChannelStatus>> {
    Json(alerts::channels(&app))
}

/// Sends a test message to a channel, and says what came back.
#[utoipa::path(post, path = "/api/alerts/channels/{channel}/test", tag = "alerts", params(("channel" = String, Path)), responses((status = 200, body = ChannelTest)))]
async fn test(State(app): State<App>, Path(channel): Path<String>) -> Answer<Json<ChannelTest>> {
    alerts::test(&app, &channel).await.map(Json)
}
