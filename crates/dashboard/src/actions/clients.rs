//! Client keys: who may use the gateway.

use backstop_store::{
    Secret,
    clients::{ClientEdit, ClientLimits, ClientRow, NewClient},
    keys::Origin,
};
use backstop_triage::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    app::{Actor, App},
    problem::{Answer, Problem},
};

/// A client key without its secret.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ClientView {
    /// Its id.
    pub id: u64,
    /// What people call it.
    pub name: String,
    /// `file` or `added`.
    pub origin: &'static str,
    /// Its first characters.
    pub prefix: String,
    /// What it may do.
    pub limits: Limits,
    /// When it was made.
    #[schema(value_type = String)]
    pub created_at: Timestamp,
    /// When it ends.
    #[schema(value_type = Option<String>)]
    pub expires_at: Option<Timestamp>,
    /// Raised by every edit; also the ETag.
    pub version: u64,
    /// The key itself; only in the answer that makes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// What a client key may do. An empty list or a missing number sets no limit.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Providers and combos that it may ask.
    pub providers: Vec<String>,
    /// Models that it may ask.
    pub models: Vec<String>,
    /// Operations that it may use: `generate`, `embeddings` …
    pub routes: Vec<String>,
    /// Requests a minute.
    pub requests_per_minute: Option<u32>,
    /// Tokens a minute.
    pub tokens_per_minute: Option<u64>,
    /// Millionths of a dollar per calendar month.
    pub spend_micros: Option<u64>,
    /// Whether its requests and answers are kept with the log, sealed.
    pub keep_bodies: bool,
}

/// A client key to make, or an edit of one; what is missing stays.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ClientSpec {
    /// What people call it.
    #[serde(default)]
    pub name: Option<String>,
    /// What it may do.
    #[serde(default)]
    pub limits: Option<Limits>,
    /// When it ends.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub expires_at: Option<Timestamp>,
}

/// The client keys that are not revoked.
pub async fn list(app: &App) -> Answer<Vec<ClientView>> {
    let rows = app.read(|store| store.clients()).await?;
    Ok(rows.into_iter().map(|row| view(row, None)).collect())
}

/// Makes a client key; the answer is the only place where it is shown.
pub async fn add(app: &App, actor: &Actor, spec: ClientSpec) -> Answer<ClientView> {
    let name = spec.name.unwrap_or_default().trim().to_owned();
    if name.is_empty() {
        return Err(Problem::invalid_field("name", "give the client key a name"));
    }
    let limits = spec.limits.map(stored).unwrap_or_default();
    let new = NewClient { name, limits, expires_at: spec.expires_at };
    let (row, secret) = app.live.store().create_client(new).await?;
    app.changed(actor, "clients.add", &row.name, "").await?;
    Ok(view(row, Some(secret)))
}

/// Changes a client key.
pub async fn change(
    app: &App,
    actor: &Actor,
    id: u64,
    spec: ClientSpec,
    version: Option<u64>,
) -> Answer<ClientView> {
    refuse_file(app, id).await?;
    let edit = ClientEdit {
        name: spec.name.filter(|name| !name.trim().is_empty()),
        limits: spec.limits.map(stored),
        expires_at: spec.expires_at.map(Some),
        version,
    };
    let row = app.live.store().edit_client(id, edit).await?;
    app.changed(actor, "clients.change", &row.name, "").await?;
    Ok(view(row, None))
}

/// Revokes a client key.
pub async fn revoke(app: &App, actor: &Actor, id: u64) -> Answer<()> {
    let row = refuse_file(app, id).await?;
    app.live.store().revoke_client(id).await?;
    app.changed(actor, "clients.revoke", &row.name, "").await
}

async fn refuse_file(app: &App, id: u64) -> Answer<ClientRow> {
    let rows = app.read(|store| store.clients()).await?;
    let row = rows.into_iter().find(|row| row.id == id).ok_or_else(|| Problem::not_found("client key"))?;
    if row.origin == Origin::File {
        return Err(Problem::from_the_file(&format!("client key {}", row.name)));
    }
    Ok(row)
}

pub(crate) fn view(row: ClientRow, secret: Option<Secret>) -> ClientView {
    ClientView {
        id: row.id,
        name: row.name,
        origin: row.origin.as_str(),
        prefix: row.prefix,
        limits: shown(row.limits),
        created_at: row.created_at,
        expires_at: row.expires_at,
        version: row.version,
        key: secret.map(|secret| secret.expose().to_owned()),
    }
}

pub(crate) fn stored(limits: Limits) -> ClientLimits {
    let Limits {
        providers,
        models,
        routes,
        requests_per_minute,
        tokens_per_minute,
        spend_micros,
        keep_bodies,
    } = limits;
    ClientLimits {
        providers,
        models,
        routes,
        requests_per_minute,
        tokens_per_minute,
        spend_micros,
        keep_bodies,
    }
}

fn shown(limits: ClientLimits) -> Limits {
    let ClientLimits {
        providers,
        models,
        routes,
        requests_per_minute,
        tokens_per_minute,
        spend_micros,
        keep_bodies,
    } = limits;
    Limits { providers, models, routes, requests_per_minute, tokens_per_minute, spend_micros, keep_bodies }
}
