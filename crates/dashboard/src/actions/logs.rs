//! The request log: list, filter, one, its bodies, empty.

use backstop_store::{
    Page,
    requests::{Outcome, RequestFilter, RequestRow},
};
use backstop_triage::{Class, KeyId, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    app::{Actor, App},
    problem::{Answer, Problem},
};

/// Which requests to list; every part that is given must hold.
#[derive(Clone, Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct LogQuery {
    /// The asked or answering provider.
    pub provider: Option<String>,
    /// `succeeded`, `failed`, `timed_out` or `left`.
    pub outcome: Option<String>,
    /// The client key, by its id.
    pub client: Option<u64>,
    /// A part of the model's name.
    pub model: Option<String>,
    /// The class of any failed attempt.
    pub class: Option<String>,
    /// A key that was tried.
    pub key: Option<u64>,
    /// A part of the id, the client's name or an upstream's words.
    pub q: Option<String>,
    /// Not before; RFC 3339.
    #[param(value_type = Option<String>)]
    pub since: Option<Timestamp>,
    /// Before; RFC 3339.
    #[param(value_type = Option<String>)]
    pub until: Option<Timestamp>,
    /// Continue after a page; what it gave as `next`.
    pub cursor: Option<String>,
    /// Requests per page, 1 to 500; 50 by default.
    pub limit: Option<usize>,
}

/// The bodies of a request.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct RawBodies {
    /// What the client sent.
    pub request: String,
    /// What the client got.
    pub answer: String,
}

/// A page of the log, newest first.
pub async fn list(app: &App, query: LogQuery) -> Answer<Page<RequestRow>> {
    let (filter, cursor, limit) = resolve(query)?;
    app.read(move |store| store.requests(&filter, cursor.as_deref(), limit)).await
}

/// One request with its attempts.
pub async fn show(app: &App, id: &str) -> Answer<RequestRow> {
    let id = id.to_owned();
    app.read(move |store| store.request(&id)).await?.ok_or_else(|| Problem::not_found("request"))
}

/// The bodies of a request, if its client key asks for them to be kept.
pub async fn raw(app: &App, actor: &Actor, id: &str) -> Answer<RawBodies> {
    let wanted = id.to_owned();
    let bodies = app.read(move |store| store.bodies(&wanted)).await?;
    let bodies = bodies
        .ok_or_else(|| Problem::not_found("body; bodies are kept only for client keys that ask for it"))?;
    app.note(actor, "logs.raw", id, "").await;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(RawBodies { request: text(&bodies.request), answer: text(&bodies.answer) })
}

/// Empties the log; how many requests it held.
pub async fn clear(app: &App, actor: &Actor) -> Answer<u64> {
    let removed = app.live.store().clear_requests().await?;
    app.note(actor, "logs.clear", "logs", &format!("{removed} requests")).await;
    Ok(removed)
}

fn resolve(query: LogQuery) -> Answer<(RequestFilter, Option<String>, usize)> {
    let outcome = query.outcome.as_deref().map(|name| {
        Outcome::parse(name)
            .ok_or_else(|| Problem::invalid_field("outcome", format!("there is no outcome {name}")))
    });
    let class = query.class.as_deref().map(|name| {
        Class::parse(name).ok_or_else(|| Problem::invalid_field("class", format!("there is no class {name}")))
    });
    let filter = RequestFilter {
        provider: query.provider,
        outcome: outcome.transpose()?,
        client_id: query.client,
        model: query.model,
        class: class.transpose()?,
        key: query.key.map(KeyId),
        text: query.q,
        since: query.since,
        until: query.until,
    };
    Ok((filter, query.cursor, query.limit.unwrap_or(50)))
}
