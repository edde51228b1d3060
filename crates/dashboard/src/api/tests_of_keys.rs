//! Connection tests.

use std::convert::Infallible;

use axum::{
    Json,
    extract::State,
    response::sse::{Event, KeepAlive, Sse},
};
use backstop_triage::KeyId;
use tokio_stream::{Stream, StreamExt as _, wrappers::ReceiverStream};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::body::{Body, Path};
use crate::{
    actions::{
        keys::KeyView,
        testing::{self, Draft, Progress, TestReport},
        usage,
    },
    app::{Actor, App},
    problem::Answer,
};

/// An event of the stream.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it only describes; axum writes events")]
struct Streamed {
    /// `progress`, or `problem` where the test cannot go on.
    event: String,
    /// The progress, or the problem, as JSON.
    data: String,
}

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(test_key))
        .routes(routes!(test_all))
        .routes(routes!(test_provider))
        .routes(routes!(test_draft))
        .routes(routes!(probe_quota))
}

/// Tests a key with a list of models and the smallest generation. One that is proved to be of no use is disabled.
#[utoipa::path(post, path = "/api/providers/{provider}/keys/{key}/test", tag = "tests", params(("provider" = String, Path), ("key" = u64, Path)), responses((status = 200, body = TestReport)))]
async fn test_key(
    State(app): State<App>,
    actor: Actor,
    Path((provider, id)): Path<(String, u64)>,
) -> Answer<Json<TestReport>> {
    testing::key(&app, &actor, &provider, KeyId(id)).await.map(Json)
}

/// Tests all keys of a provider one after the other, as a stream of events; ending the stream stops the test.
#[utoipa::path(post, path = "/api/providers/{provider}/keys/test-all", tag = "tests", params(("provider" = String, Path)), responses((status = 200, body = Streamed, content_type = "text/event-stream")))]
async fn test_all(
    State(app): State<App>,
    actor: Actor,
    Path(provider): Path<String>,
) -> Answer<Sse<impl Stream<Item = Result<Event, Infallible>>>> {
    let progress = testing::all(&app, &actor, &provider)?;
    Ok(Sse::new(ReceiverStream::new(progress).map(event)).keep_alive(KeepAlive::default()))
}

/// Tests a provider with its first key, or with one that is not saved; takes nothing out of service.
#[utoipa::path(post, path = "/api/providers/{provider}/test", tag = "tests", params(("provider" = String, Path)), request_body = Draft, responses((status = 200, body = TestReport)))]
async fn test_provider(
    State(app): State<App>,
    Path(provider): Path<String>,
    Body(draft): Body<Draft>,
) -> Answer<Json<TestReport>> {
    app.provider(&provider)?;
    testing::draft(&app, Some(&provider), draft).await.map(Json)
}

/// Tests a provider that is not saved yet.
#[utoipa::path(post, path = "/api/test", tag = "tests", request_body = Draft, responses((status = 200, body = TestReport)))]
async fn test_draft(State(app): State<App>, Body(draft): Body<Draft>) -> Answer<Json<TestReport>> {
    testing::draft(&app, None, draft).await.map(Json)
}

/// Asks the provider's usage endpoint how full the key's windows are.
#[utoipa::path(post, path = "/api/providers/{provider}/keys/{key}/quota/probe", tag = "tests", params(("provider" = String, Path), ("key" = u64, Path)), responses((status = 200, body = KeyView)))]
async fn probe_quota(
    State(app): State<App>,
    actor: Actor,
    Path((provider, id)): Path<(String, u64)>,
) -> Answer<Json<KeyView>> {
    usage::ask(&app, &actor, &provider, KeyId(id)).await.map(Json)
}

/// A result as an event.
fn event(result: Answer<Progress>) -> Result<Event, Infallible> {
    let event = match result {
        Ok(progress) => Event::default().event("progress").json_data(progress),
        Err(problem) => Event::default().event("problem").json_data(problem),
    };
    Ok(event.unwrap_or_default())
}
