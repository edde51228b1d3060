//! Keys of providers.

use axum::{Json, extract::State, response::IntoResponse};
use backstop_store::{
    Secret,
    key_errors::KeyError,
    keys::{KeyEdit, NewKey},
};
use backstop_triage::{AccountId, KeyId};
use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::body::{Asked, Body, Path, tag, version};
use crate::{
    actions::{
        keys::{self, ItemResult, KeyFilter, KeyPage, KeyStats, KeyView, Order},
        paste,
    },
    app::{Actor, App},
    problem::{Answer, Problem},
};

/// A key to add.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct KeySpec {
    /// The credential.
    #[schema(write_only)]
    key: String,
    /// What to call it.
    #[serde(default)]
    label: String,
    /// The account that it shares with others.
    #[serde(default)]
    account: Option<String>,
}

/// Many keys to add.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Paste {
    /// One key per line, with or without a label before it.
    #[schema(write_only)]
    text: String,
    /// The account that they share.
    #[serde(default)]
    account: Option<String>,
}

/// Keys to look for.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct KeyTexts {
    /// The credentials.
    #[schema(write_only)]
    keys: Vec<String>,
}

/// An edit of a key; what is missing stays.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct KeyPatch {
    /// A new label.
    #[serde(default)]
    label: Option<String>,
    /// A new account; `null` for none.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    account: Option<Value>,
}

/// Some keys.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct KeyList {
    /// The keys by their ids.
    ids: Vec<u64>,
}

/// An action on some keys.
#[derive(Deserialize, ToSchema)]
struct BulkOrder {
    /// The keys by their ids.
    ids: Vec<u64>,
    /// What to do with them.
    #[serde(flatten)]
    order: FlatOrder,
}

/// An action, beside the ids of the keys.
#[derive(Deserialize, ToSchema)]
struct FlatOrder {
    /// What to do.
    action: keys::Action,
    /// For a pause: for how long, in seconds.
    #[serde(default)]
    for_s: Option<u32>,
    /// Must be true to take the last usable key out of service.
    #[serde(default)]
    confirm: bool,
}

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list, add))
        .routes(routes!(add_many))
        .routes(routes!(find))
        .routes(routes!(remove_many))
        .routes(routes!(reorder))
        .routes(routes!(act_many))
        .routes(routes!(show, edit, remove))
        .routes(routes!(act))
        .routes(routes!(errors))
        .routes(routes!(stats, reset_counts))
}

/// The keys of a provider in their order.
#[utoipa::path(get, path = "/api/providers/{provider}/keys", tag = "keys", params(("provider" = String, Path), KeyFilter), responses((status = 200, body = KeyPage)))]
async fn list(
    State(app): State<App>,
    Path(provider): Path<String>,
    Asked(filter): Asked<KeyFilter>,
) -> Answer<Json<KeyPage>> {
    keys::list(&app, &provider, filter).await.map(Json)
}

/// Adds a key. One that is there already is told, not refused.
#[utoipa::path(post, path = "/api/providers/{provider}/keys", tag = "keys", params(("provider" = String, Path)), request_body = KeySpec, responses((status = 201, body = ItemResult)))]
async fn add(
    State(app): State<App>,
    actor: Actor,
    Path(provider): Path<String>,
    Body(spec): Body<KeySpec>,
) -> Answer<impl IntoResponse> {
    let secret = Secret::new(&spec.key);
    if secret.expose().is_empty() {
        return Err(Problem::invalid_field("key", "the key is empty"));
    }
    let account = account(spec.account.as_deref());
    let new = NewKey { label: spec.label.trim().to_owned(), account, secret };
    let mut results = keys::add(&app, &actor, &provider, vec![new]).await?;
    let result = results.pop().ok_or_else(|| Problem::not_found("key"))?;
    Ok((StatusCode::CREATED, Json(result)))
}

/// Adds many keys, one per line; what became of each.
#[utoipa::path(post, path = "/api/providers/{provider}/keys/bulk", tag = "keys", params(("provider" = String, Path)), request_body = Paste, responses((status = 200, body = Vec<ItemResult>)))]
async fn add_many(
    State(app): State<App>,
    actor: Actor,
    Path(provider): Path<String>,
    Body(pasted): Body<Paste>,
) -> Answer<Json<Vec<ItemResult>>> {
    let new = paste::keys(&pasted.text, account(pasted.account.as_deref()).as_ref());
    keys::add(&app, &actor, &provider, new).await.map(Json)
}

/// Tells which of these keys a provider has already, by their ids, in their order. Nothing is added.
#[utoipa::path(post, path = "/api/providers/{provider}/keys/known", tag = "keys", params(("provider" = String, Path)), request_body = KeyTexts, responses((status = 200, body = Vec<Option<u64>>)))]
async fn find(
    State(app): State<App>,
    Path(provider): Path<String>,
    Body(texts): Body<KeyTexts>,
) -> Answer<Json<Vec<Option<u64>>>> {
    let secrets = texts.keys.iter().map(|key| Secret::new(key)).collect();
    keys::find(&app, &provider, secrets).await.map(Json)
}

/// Removes many keys; what became of each. Keys of the file are refused.
#[utoipa::path(post, path = "/api/providers/{provider}/keys/bulk-delete", tag = "keys", params(("provider" = String, Path)), request_body = KeyList, responses((status = 200, body = Vec<ItemResult>)))]
async fn remove_many(
    State(app): State<App>,
    actor: Actor,
    Path(provider): Path<String>,
    Body(list): Body<KeyList>,
) -> Answer<Json<Vec<ItemResult>>> {
    keys::remove(&app, &actor, &provider, ids(list.ids)).await.map(Json)
}

/// Puts the named keys first, in this order; the others follow as they were.
#[utoipa::path(post, path = "/api/providers/{provider}/keys/reorder", tag = "keys", params(("provider" = String, Path)), request_body = KeyList, responses((status = 204, description = "Moved.")))]
async fn reorder(
    State(app): State<App>,
    actor: Actor,
    Path(provider): Path<String>,
    Body(list): Body<KeyList>,
) -> Answer<StatusCode> {
    keys::reorder(&app, &actor, &provider, ids(list.ids)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Does something to many keys; what became of each.
#[utoipa::path(post, path = "/api/providers/{provider}/keys/bulk-action", tag = "keys", params(("provider" = String, Path)), request_body = BulkOrder, responses((status = 200, body = Vec<ItemResult>)))]
async fn act_many(
    State(app): State<App>,
    actor: Actor,
    Path(provider): Path<String>,
    Body(bulk): Body<BulkOrder>,
) -> Answer<Json<Vec<ItemResult>>> {
    let FlatOrder { action, for_s, confirm } = bulk.order;
    keys::act(&app, &actor, &provider, ids(bulk.ids), Order { action, for_s, confirm }).await.map(Json)
}

/// One key.
#[utoipa::path(get, path = "/api/providers/{provider}/keys/{key}", tag = "keys", params(("provider" = String, Path), ("key" = u64, Path)), responses((status = 200, body = KeyView)))]
async fn show(
    State(app): State<App>,
    Path((provider, id)): Path<(String, u64)>,
) -> Answer<impl IntoResponse> {
    let view = keys::show(&app, &provider, KeyId(id)).await?;
    Ok((tag(view.version), Json(view)))
}

/// Changes label or account of a key; honours `If-Match`.
#[utoipa::path(patch, path = "/api/providers/{provider}/keys/{key}", tag = "keys", params(("provider" = String, Path), ("key" = u64, Path)), request_body = KeyPatch, responses((status = 200, body = KeyView)))]
async fn edit(
    State(app): State<App>,
    actor: Actor,
    Path((provider, id)): Path<(String, u64)>,
    headers: HeaderMap,
    Body(patch): Body<KeyPatch>,
) -> Answer<impl IntoResponse> {
    let account = match &patch.account {
        None => None,
        Some(Value::Null) => Some(None),
        Some(Value::String(name)) => Some(account(Some(name))),
        Some(_) => return Err(Problem::invalid_field("account", "an account is a name, or null")),
    };
    let label = patch.label.map(|label| label.trim().to_owned());
    let edit = KeyEdit { label, account, version: version(&headers)? };
    let view = keys::edit(&app, &actor, (&provider, KeyId(id)), edit).await?;
    Ok((tag(view.version), Json(view)))
}

/// Removes a key that was added at run time.
#[utoipa::path(delete, path = "/api/providers/{provider}/keys/{key}", tag = "keys", params(("provider" = String, Path), ("key" = u64, Path)), responses((status = 204, description = "Removed.")))]
async fn remove(
    State(app): State<App>,
    actor: Actor,
    Path((provider, id)): Path<(String, u64)>,
) -> Answer<StatusCode> {
    let results = keys::remove(&app, &actor, &provider, vec![KeyId(id)]).await?;
    match results.first().map(|result| result.result) {
        Some("removed") => Ok(StatusCode::NO_CONTENT),
        Some("refused") => Err(Problem::from_the_file("this key")),
        Some(_) | None => Err(Problem::not_found("key")),
    }
}

/// Pauses, resumes, enables, disables or resets a key, or ends its rest.
#[utoipa::path(post, path = "/api/providers/{provider}/keys/{key}/action", tag = "keys", params(("provider" = String, Path), ("key" = u64, Path)), request_body = Order, responses((status = 200, body = KeyView)))]
async fn act(
    State(app): State<App>,
    actor: Actor,
    Path((provider, id)): Path<(String, u64)>,
    Body(order): Body<Order>,
) -> Answer<Json<KeyView>> {
    let results = keys::act(&app, &actor, &provider, vec![KeyId(id)], order).await?;
    if results.first().is_none_or(|result| result.result != "done") {
        return Err(Problem::not_found("key"));
    }
    keys::show(&app, &provider, KeyId(id)).await.map(Json)
}

/// The last fifty errors of a key, newest first.
#[utoipa::path(get, path = "/api/providers/{provider}/keys/{key}/errors", tag = "keys", params(("provider" = String, Path), ("key" = u64, Path)), responses((status = 200, body = Vec<Object>)))]
async fn errors(
    State(app): State<App>,
    Path((provider, id)): Path<(String, u64)>,
) -> Answer<Json<Vec<KeyError>>> {
    keys::errors(&app, &provider, KeyId(id)).await.map(Json)
}

/// What a key did: in all, and by half hours of the last day.
#[utoipa::path(get, path = "/api/providers/{provider}/keys/{key}/stats", tag = "keys", params(("provider" = String, Path), ("key" = u64, Path)), responses((status = 200, body = KeyStats)))]
async fn stats(State(app): State<App>, Path((provider, id)): Path<(String, u64)>) -> Answer<Json<KeyStats>> {
    keys::stats(&app, &provider, KeyId(id)).await.map(Json)
}

/// Sets the counts and the error history of a key to nothing.
#[utoipa::path(delete, path = "/api/providers/{provider}/keys/{key}/stats", tag = "keys", params(("provider" = String, Path), ("key" = u64, Path)), responses((status = 204, description = "Reset.")))]
async fn reset_counts(
    State(app): State<App>,
    actor: Actor,
    Path((provider, id)): Path<(String, u64)>,
) -> Answer<StatusCode> {
    keys::reset_counts(&app, &actor, &provider, KeyId(id)).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn account(name: Option<&str>) -> Option<AccountId> {
    name.map(str::trim).filter(|name| !name.is_empty()).map(AccountId::from)
}

fn ids(ids: Vec<u64>) -> Vec<KeyId> {
    ids.into_iter().map(KeyId).collect()
}

/// Tells a field that is `null` from one that is not there.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}
