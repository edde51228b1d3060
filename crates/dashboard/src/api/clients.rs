//! Client keys and notifications.

use axum::{Json, extract::State, response::IntoResponse};
use backstop_store::notices::NoticeRow;
use http::{HeaderMap, StatusCode};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::body::{Body, Path, tag, version};
use crate::{
    actions::{
        adoption::{self, Adoption},
        clients::{self, ClientSpec, ClientView},
        notices,
    },
    app::{Actor, App},
    problem::Answer,
};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list, add))
        .routes(routes!(change, revoke))
        .routes(routes!(adopt))
        .routes(routes!(list_notices, remove_notices))
        .routes(routes!(remove_notice))
        .routes(routes!(read_notices))
        .routes(routes!(read_notice))
}

/// The client keys that are not revoked.
#[utoipa::path(get, path = "/api/clients", tag = "clients", responses((status = 200, body = Vec<ClientView>)))]
async fn list(State(app): State<App>) -> Answer<Json<Vec<ClientView>>> {
    clients::list(&app).await.map(Json)
}

/// Makes a client key. The answer is the only place where it is shown.
#[utoipa::path(post, path = "/api/clients", tag = "clients", request_body = ClientSpec, responses((status = 201, body = ClientView)))]
async fn add(
    State(app): State<App>,
    actor: Actor,
    Body(spec): Body<ClientSpec>,
) -> Answer<impl IntoResponse> {
    let view = clients::add(&app, &actor, spec).await?;
    Ok((StatusCode::CREATED, tag(view.version), Json(view)))
}

/// Changes name, limits or end of a client key; honours `If-Match`.
#[utoipa::path(patch, path = "/api/clients/{client}", tag = "clients", params(("client" = u64, Path)), request_body = ClientSpec, responses((status = 200, body = ClientView)))]
async fn change(
    State(app): State<App>,
    actor: Actor,
    Path(id): Path<u64>,
    headers: HeaderMap,
    Body(spec): Body<ClientSpec>,
) -> Answer<impl IntoResponse> {
    let view = clients::change(&app, &actor, id, spec, version(&headers)?).await?;
    Ok((tag(view.version), Json(view)))
}

/// Revokes a client key for good.
#[utoipa::path(delete, path = "/api/clients/{client}", tag = "clients", params(("client" = u64, Path)), responses((status = 204, description = "Revoked.")))]
async fn revoke(State(app): State<App>, actor: Actor, Path(id): Path<u64>) -> Answer<StatusCode> {
    clients::revoke(&app, &actor, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Takes over a client key that exists somewhere else, by its hash. One that is known stays as it is.
#[utoipa::path(post, path = "/api/clients/adopt", tag = "clients", request_body = Adoption, responses((status = 201, body = ClientView), (status = 200, body = ClientView)))]
async fn adopt(
    State(app): State<App>,
    actor: Actor,
    Body(adoption): Body<Adoption>,
) -> Answer<impl IntoResponse> {
    let (view, is_new) = adoption::adopt(&app, &actor, adoption).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, tag(view.version), Json(view)))
}

/// The last hundred notifications, newest first.
#[utoipa::path(get, path = "/api/notifications", tag = "notifications", responses((status = 200, body = Vec<Object>)))]
async fn list_notices(State(app): State<App>) -> Answer<Json<Vec<NoticeRow>>> {
    notices::list(&app).await.map(Json)
}

/// Marks all notifications as read.
#[utoipa::path(post, path = "/api/notifications/read", tag = "notifications", responses((status = 204, description = "Read.")))]
async fn read_notices(State(app): State<App>) -> Answer<StatusCode> {
    notices::read(&app, None).await.map(|()| StatusCode::NO_CONTENT)
}

/// Marks a notification as read.
#[utoipa::path(post, path = "/api/notifications/{notice}/read", tag = "notifications", params(("notice" = u64, Path)), responses((status = 204, description = "Read.")))]
async fn read_notice(State(app): State<App>, Path(id): Path<u64>) -> Answer<StatusCode> {
    notices::read(&app, Some(id)).await.map(|()| StatusCode::NO_CONTENT)
}

/// Removes all notifications.
#[utoipa::path(delete, path = "/api/notifications", tag = "notifications", responses((status = 204, description = "Removed.")))]
async fn remove_notices(State(app): State<App>, actor: Actor) -> Answer<StatusCode> {
    notices::remove(&app, &actor, None).await.map(|()| StatusCode::NO_CONTENT)
}

/// Removes a notification.
#[utoipa::path(delete, path = "/api/notifications/{notice}", tag = "notifications", params(("notice" = u64, Path)), responses((status = 204, description = "Removed.")))]
async fn remove_notice(State(app): State<App>, actor: Actor, Path(id): Path<u64>) -> Answer<StatusCode> {
    notices::remove(&app, &actor, Some(id)).await.map(|()| StatusCode::NO_CONTENT)
}
