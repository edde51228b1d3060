//! The admin API: paths, bodies and documents around the actions.

mod agents;
mod alerts;
mod auth;
mod body;
mod clients;
mod costs;
mod document;
mod events;
mod keys;
mod logs;
mod once;
mod providers;
mod routing;
mod rules;
mod settings;
mod tests_of_keys;

use axum::{Json, extract::State, middleware, routing::get};
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;

use crate::{app::App, door, pages};

/// Every route of the API and of the pages.
pub(crate) fn router(app: &App) -> axum::Router {
    let guard = middleware::from_fn_with_state(app.clone(), door::administrators);
    let once = middleware::from_fn_with_state(app.clone(), once::once);
    let guarded = guarded().route_layer(once).route_layer(guard.clone());
    let (router, _) = OpenApiRouter::new().merge(auth::open()).merge(guarded).split_for_parts();
    let openapi = get(|State(_): State<App>| async { Json(document()) });
    let router = router
        .route("/api/openapi.json", openapi.route_layer(guard))
        .merge(pages::router(app))
        .fallback(pages::missing)
        .method_not_allowed_fallback(body::no_such_method)
        .layer(axum::extract::DefaultBodyLimit::max(BODY))
        .layer(middleware::from_fn(door::own_pages));
    router.with_state(app.clone())
}

/// The document that describes the API: megabytes, so it is made for whoever asks and not kept.
pub(crate) fn document() -> OpenApi {
    let mut document = OpenApiRouter::new().merge(auth::open()).merge(guarded()).into_openapi();
    document::complete(&mut document);
    document
}

/// The routes for those who may administer.
fn guarded() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .merge(auth::guarded())
        .merge(providers::routes())
        .merge(keys::routes())
        .merge(tests_of_keys::routes())
        .merge(routing::routes())
        .merge(settings::routes())
        .merge(clients::routes())
        .merge(logs::routes())
        .merge(agents::routes())
        .merge(alerts::routes())
        .merge(costs::routes())
        .merge(rules::routes())
        .merge(events::routes())
}

/// Enough for ten thousand keys at once.
const BODY: usize = 8 * 1024 * 1024;
