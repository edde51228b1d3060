//! The pages: what the actions say, as HTML.
//!
//! ```text
//! request --door--> page: action(s) --> view model --> template        changes: page's script --> JSON API
//! ```
//!
//! Pages only read. Every change goes through the API, after which the script asks for the same page again and puts
//! the differences in place, so that nothing is ever shown that the gateway did not say. A page works under
//! `default-src 'self'`: no style and no script stands in the markup, lengths are attributes of SVG.

mod agenda;
mod agents;
mod clients;
mod explain;
mod filters;
mod frame;
mod keys;
mod marks;
mod overview;
mod providers;
mod quota;
mod requests;
mod routing;
mod settings;
mod sign_in;
mod start;
mod times;
mod unknown;
mod words;

use askama::Template;
use axum::{
    extract::{Request, State},
    middleware::{self, Next},
    response::{IntoResponse, Redirect, Response},
    routing::{MethodRouter, get},
};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};

use self::frame::Frame;
use crate::{
    app::App,
    assets, door,
    problem::{Answer, Problem},
};

/// Every page with its path, but for those that lead in.
fn signed_in_pages() -> Vec<(&'static str, MethodRouter<App>)> {
    vec![
        ("/", get(overview::show)),
        ("/start", get(start::show)),
        ("/providers", get(providers::list)),
        ("/providers/{provider}", get(providers::show)),
        ("/providers/{provider}/keys", get(keys::show)),
        ("/providers/{provider}/keys/{key}/errors", get(keys::errors)),
        ("/providers/{provider}/models", get(providers::models)),
        ("/providers/{provider}/fallback", get(providers::fallback)),
        ("/providers/{provider}/quota", get(quota::show)),
        ("/providers/{provider}/settings", get(providers::settings)),
        ("/combos", get(routing::combos)),
        ("/fallback", get(routing::fallback)),
        ("/requests", get(requests::list)),
        ("/requests/{request}", get(requests::show)),
        ("/unknown", get(unknown::list)),
        ("/unknown/{shape}", get(unknown::show)),
        ("/explain", get(explain::show).post(explain::read)),
        ("/alerts", get(agenda::show)),
        ("/agents", get(agents::show)),
        ("/clients", get(clients::show)),
        ("/settings", get(settings::show)),
    ]
}

/// What leads in, and what its page loads.
fn open_pages() -> Vec<(&'static str, MethodRouter<App>)> {
    vec![("/sign-in", get(sign_in::show)), ("/assets/{name}", get(assets::serve))]
}

/// The paths of all pages: those that only who is signed in sees, and the open ones.
pub fn paths() -> (Vec<&'static str>, Vec<&'static str>) {
    let of =
        |pages: Vec<(&'static str, MethodRouter<App>)>| pages.into_iter().map(|(path, _)| path).collect();
    (of(signed_in_pages()), of(open_pages()))
}

/// Every page. What is not signed in is led to the door.
pub(crate) fn router(app: &App) -> axum::Router<App> {
    let add = |router: axum::Router<App>, (path, page)| router.route(path, page);
    let guarded = signed_in_pages().into_iter().fold(axum::Router::new(), add);
    let guarded = guarded.route_layer(middleware::from_fn_with_state(app.clone(), signed_in));
    open_pages().into_iter().fold(guarded, add)
}

/// What is not there: a page for people, a problem for programs.
pub(crate) async fn missing(State(app): State<App>, request: Request) -> Response {
    let problem = Problem::not_found("path");
    let path = request.uri().path();
    let page = *request.method() == Method::GET && !path.starts_with("/api/") && !path.starts_with("/v1");
    if !page || door::identify(&app, request.headers()).await.is_err() {
        return problem.into_response();
    }
    trouble(&app, request.headers(), &problem)
}

/// Leads whoever is not signed in to the door, and shows what an action refuses as a page.
async fn signed_in(State(app): State<App>, request: Request, next: Next) -> Response {
    let headers = request.headers().clone();
    let asked = request.uri().path_and_query().map_or("/", |path| path.as_str()).to_owned();
    if door::identify(&app, &headers).await.is_err() {
        return Redirect::to(&format!("/sign-in?then={}", segment(&asked))).into_response();
    }
    let mut response = next.run(request).await;
    match response.extensions_mut().remove::<Problem>() {
        Some(problem) => trouble(&app, &headers, &problem),
        None => response,
    }
}

/// A page whose action may refuse.
pub(crate) type Page = Result<Response, Refused>;

/// A refusal on its way to the page that tells it.
pub(crate) struct Refused(Problem);

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let mut response = StatusCode::INTERNAL_SERVER_ERROR.into_response();
        response.extensions_mut().insert(self.0);
        response
    }
}

/// Renders a page, packed where the browser can unpack.
pub(crate) fn render(page: &impl Template, headers: &HeaderMap) -> Page {
    Ok(html(StatusCode::OK, page, headers)?)
}

fn html(status: StatusCode, page: &impl Template, headers: &HeaderMap) -> Answer<Response> {
    let text = page.render().map_err(|error| Problem::broken(format!("the page cannot be made: {error}")))?;
    let kind = [(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"))];
    if assets::takes_gzip(headers) {
        let encoding = [
            (header::CONTENT_ENCODING, HeaderValue::from_static("gzip")),
            (header::VARY, HeaderValue::from_static("accept-encoding")),
        ];
        return Ok((status, kind, encoding, assets::packed(text.as_bytes())).into_response());
    }
    Ok((status, kind, text).into_response())
}

#[derive(Template)]
#[template(path = "trouble.html")]
struct Trouble<'a> {
    frame: Frame,
    problem: &'a Problem,
}

fn trouble(app: &App, headers: &HeaderMap, problem: &Problem) -> Response {
    let frame = Frame::bare(app, headers, "", problem.title());
    let status = problem.status();
    let page = Trouble { frame, problem };
    html(status, &page, headers).unwrap_or_else(IntoResponse::into_response)
}

/// A text as a segment of a path or a value of a query.
pub(crate) fn segment(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            escaped.push(char::from(byte));
        } else {
            escaped.push('%');
            escaped.push(HEX[usize::from(byte >> 4)]);
            escaped.push(HEX[usize::from(byte & 15)]);
        }
    }
    escaped
}

const HEX: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F'];
