//! Signing in and out.

use axum::{Extension, Json, extract::State, response::IntoResponse};
use backstop_gateway::Peer;
use backstop_store::Secret;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::body::Body;
use crate::{
    app::{Actor, App, Proof},
    door,
    problem::{Answer, Problem},
};

/// A password.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Login {
    /// The admin password.
    #[schema(write_only)]
    password: String,
}

/// A one-time link's token.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct UseLink {
    /// What the link carries.
    #[schema(write_only)]
    token: String,
}

/// Who asks.
#[derive(Serialize, ToSchema)]
struct SessionView {
    /// Whether an administrator asks.
    signed_in: bool,
    /// Whether a password has been set.
    has_password: bool,
}

/// A link that signs in once within ten minutes.
#[derive(Serialize, ToSchema)]
struct LinkView {
    /// The path and fragment to open in a browser.
    path: String,
}

/// A new password.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewPassword {
    /// At least ten characters.
    #[schema(write_only)]
    password: String,
}

pub(super) fn open() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(login))
        .routes(routes!(use_link))
        .routes(routes!(logout))
        .routes(routes!(session))
}

pub(super) fn guarded() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(make_link)).routes(routes!(set_password))
}

/// Signs in with the password; the answer sets the session's cookie.
#[utoipa::path(post, path = "/api/auth/login", tag = "auth", request_body = Login, responses((status = 204, description = "Signed in.")))]
async fn login(
    State(app): State<App>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    Body(login): Body<Login>,
) -> Answer<SignedIn> {
    let who = somebody(peer);
    let password = Secret::new(&login.password);
    let token = app.credentials.sign_in(password, who.peer, agent(&headers), app.live.now()).await;
    signed_in(&app, &who, &headers, token).await
}

/// Signs in with a one-time link; the answer sets the session's cookie.
#[utoipa::path(post, path = "/api/auth/link", tag = "auth", request_body = UseLink, responses((status = 204, description = "Signed in.")))]
async fn use_link(
    State(app): State<App>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    Body(link): Body<UseLink>,
) -> Answer<SignedIn> {
    let who = somebody(peer);
    let token = app.credentials.use_link(&link.token, who.peer, agent(&headers), app.live.now()).await;
    signed_in(&app, &who, &headers, token).await
}

/// Ends the session.
#[utoipa::path(post, path = "/api/auth/logout", tag = "auth", responses((status = 204, description = "Signed out.")))]
async fn logout(State(app): State<App>, headers: HeaderMap) -> Answer<impl IntoResponse> {
    end_session(&app, &headers).await?;
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, door::no_cookie(&headers))]))
}

/// Says who asks.
#[utoipa::path(get, path = "/api/auth/session", tag = "auth", responses((status = 200, body = SessionView)))]
async fn session(State(app): State<App>, headers: HeaderMap) -> Answer<Json<SessionView>> {
    let signed_in = door::identify(&app, &headers).await.is_ok();
    let has_password = app.blocking(|app| Ok(app.credentials.has_password())).await?;
    Ok(Json(SessionView { signed_in, has_password }))
}

/// Makes a link that signs in once within ten minutes.
#[utoipa::path(post, path = "/api/auth/links", tag = "auth", responses((status = 201, body = LinkView)))]
async fn make_link(State(app): State<App>, actor: Actor) -> (StatusCode, Json<LinkView>) {
    let token = app.credentials.make_link(app.live.now());
    app.note(&actor, "auth.link", "auth", "").await;
    (StatusCode::CREATED, Json(LinkView { path: format!("/sign-in#{}", token.expose()) }))
}

/// Sets the admin password and ends all sessions.
#[utoipa::path(put, path = "/api/auth/password", tag = "auth", request_body = NewPassword, responses((status = 204, description = "Set.")))]
async fn set_password(
    State(app): State<App>,
    actor: Actor,
    Body(new): Body<NewPassword>,
) -> Result<StatusCode, Problem> {
    app.credentials.set_password(Secret::new(&new.password)).await?;
    app.note(&actor, "auth.password", "auth", "").await;
    Ok(StatusCode::NO_CONTENT)
}

/// An answer with the session's cookie.
type SignedIn = (StatusCode, [(HeaderName, HeaderValue); 1]);

/// Notes who signed in, or tried to, and answers. A session that the browser had already ends.
async fn signed_in(app: &App, who: &Actor, headers: &HeaderMap, token: Answer<Secret>) -> Answer<SignedIn> {
    let action = if token.is_ok() { "auth.sign_in" } else { "auth.refused" };
    let token = match token {
        Err(problem) if problem.status() == StatusCode::TOO_MANY_REQUESTS => return Err(problem),
        token => token,
    };
    app.note(who, action, "auth", "").await;
    let token = token?;
    end_session(app, headers).await?;
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, door::cookie(headers, &token))]))
}

async fn end_session(app: &App, headers: &HeaderMap) -> Answer<()> {
    if let Ok(Proof::Session(token)) = door::identify(app, headers).await {
        app.live.store().end_sessions(Some(token.expose())).await?;
    }
    Ok(())
}

fn somebody(peer: Option<Extension<Peer>>) -> Actor {
    Actor { proof: Proof::Nothing, peer: peer.map(|Extension(Peer(address))| address) }
}

fn agent(headers: &HeaderMap) -> &str {
    headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or("")
}
