//! The locked door: who comes in, from where, and what every answer carries.
//!
//! The gateway has checked `Host` before anything arrives here. What changes state must come from a page of our own,
//! or from a program: browsers say where a request comes from (`Sec-Fetch-Site`, else `Origin`), programs say nothing
//! and carry the token. Nothing is ever allowed to other origins, and no GET changes anything.

use axum::{
    extract::{FromRequestParts, Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use backstop_gateway::Peer;
use backstop_store::{Secret, Store};
use backstop_triage::Timestamp;
use http::{HeaderMap, HeaderValue, Method, header, request::Parts};

use crate::{
    app::{Actor, App, Proof},
    credentials::is_token,
    problem::Problem,
};

/// Lets administrators pass, and nobody else.
pub(crate) async fn administrators(State(app): State<App>, mut request: Request, next: Next) -> Response {
    match identify(&app, request.headers()).await {
        Ok(proof) => {
            let peer = request.extensions().get::<Peer>().map(|Peer(address)| *address);
            request.extensions_mut().insert(Actor { proof, peer });
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    }
}

/// Refuses changes that another web page asks for, and puts on every answer what keeps it where it belongs.
pub(crate) async fn own_pages(request: Request, next: Next) -> Response {
    let changes = !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    if changes && !is_own_page(request.headers()) {
        return shut(Problem::foreign_page().into_response());
    }
    shut(next.run(request).await)
}

/// What a request shows that gives it the right to come in.
pub(crate) async fn identify(app: &App, headers: &HeaderMap) -> Result<Proof, Problem> {
    if let Some(token) = bearer(headers) {
        let (app, token) = (app.clone(), token.to_owned());
        let known = app.clone().blocking(move |app| Ok(is_token(app.live.store(), &token))).await?;
        return if known { Ok(Proof::Token) } else { Err(Problem::unauthorized()) };
    }
    let session = session(headers).ok_or_else(Problem::unauthorized)?;
    let now = app.live.now();
    let token = session.clone();
    let alive = app.read(move |store| store.session_alive(token.expose(), now)).await?;
    if alive { Ok(Proof::Session(session)) } else { Err(Problem::unauthorized()) }
}

/// Whether a request carries the right to administer; for what the gateway itself serves.
pub(crate) fn is_admin(store: &Store, headers: &HeaderMap, now: Timestamp) -> bool {
    if let Some(token) = bearer(headers) {
        return is_token(store, token);
    }
    session(headers).is_some_and(|session| store.session_alive(session.expose(), now).unwrap_or(false))
}

/// The session's cookie.
pub(crate) fn cookie(headers: &HeaderMap, token: &Secret) -> HeaderValue {
    let (name, secure) = if is_encrypted(headers) { (SECURE_COOKIE, "; Secure") } else { (COOKIE, "") };
    let text =
        format!("{name}={}; Path=/; HttpOnly; SameSite=Strict{secure}; Max-Age=604800", token.expose());
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// The cookie that ends a session.
pub(crate) fn no_cookie(headers: &HeaderMap) -> HeaderValue {
    let (name, secure) = if is_encrypted(headers) { (SECURE_COOKIE, "; Secure") } else { (COOKIE, "") };
    let text = format!("{name}=; Path=/; HttpOnly; SameSite=Strict{secure}; Max-Age=0");
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

impl<S: Send + Sync> FromRequestParts<S> for Actor {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        parts.extensions.get::<Self>().cloned().ok_or_else(Problem::unauthorized)
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let text = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = text.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn session(headers: &HeaderMap) -> Option<Secret> {
    let name = if is_encrypted(headers) { SECURE_COOKIE } else { COOKIE };
    let cookies = headers.get_all(header::COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(known, _)| *known == name).map(|(_, token)| Secret::new(token))
}

/// Whether a change is asked for by a page of ours or by a program.
fn is_own_page(headers: &HeaderMap) -> bool {
    if let Some(site) = headers.get("sec-fetch-site") {
        return site == "same-origin" || site == "none";
    }
    let Some(origin) = headers.get(header::ORIGIN) else { return true };
    let (Ok(origin), Some(Ok(host))) = (origin.to_str(), headers.get(header::HOST).map(HeaderValue::to_str))
    else {
        return false;
    };
    let own = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
    own.is_some_and(|origin| origin.eq_ignore_ascii_case(host))
}

/// A proxy that ends TLS before us says so.
fn is_encrypted(headers: &HeaderMap) -> bool {
    headers.get("x-forwarded-proto").is_some_and(|scheme| scheme == "https")
}

fn shut(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in SHUT {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

const COOKIE: &str = "backstop-session";
const SECURE_COOKIE: &str = "__Host-backstop-session";
const SHUT: [(&str, &str); 5] = [
    (
        "content-security-policy",
        "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'; object-src 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
];
