//! `Idempotency-Key`: a POST that is sent twice is carried out once.

use axum::{
    body::{Body, to_bytes},
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use http::{HeaderName, HeaderValue, Method, header};
use sha2::{Digest as _, Sha256};

use super::BODY;
use crate::{
    app::{Actor, App, Proof},
    problem::Problem,
    replays::{Fingerprint, Known, Name, Saved, UnderWay},
};

/// Carries out a POST whose key is new, and answers one whose key is known as it was answered before.
pub(super) async fn once(State(app): State<App>, request: Request, next: Next) -> Response {
    let key = request.headers().get(IDEMPOTENCY_KEY).filter(|_| *request.method() == Method::POST).cloned();
    let Some(key) = key else { return next.run(request).await };
    match carried_out(&app, &key, request, next).await {
        Ok(response) => response,
        Err(problem) => problem.into_response(),
    }
}

async fn carried_out(
    app: &App,
    key: &HeaderValue,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    if key.is_empty() || key.len() > LONGEST_KEY {
        return Err(Problem::malformed(format!("Idempotency-Key has 1 to {LONGEST_KEY} characters")));
    }
    let name = name(request.extensions().get::<Actor>(), key);
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, BODY).await.map_err(|_| Problem::malformed("the body cannot be read"))?;
    let mut hash = Sha256::new();
    hash.update(parts.uri.to_string().as_bytes());
    hash.update([0]);
    hash.update(&body);
    let fingerprint: Fingerprint = hash.finalize().into();
    let under_way = match app.replays.begin(name, fingerprint, app.live.now()) {
        Known::Nothing(under_way) => under_way,
        Known::UnderWay => {
            let detail = "a request with this Idempotency-Key is under way; wait for its answer";
            return Err(Problem::conflict("under_way", detail));
        }
        Known::Different => {
            let detail = "this Idempotency-Key was used for another request; take a new one";
            return Err(Problem::invalid_field("Idempotency-Key", detail));
        }
        Known::Answered(answer) => return Ok(answered(answer, true)),
    };
    // A caller who leaves does not stop it: the answer is there when the caller asks again.
    let carried = tokio::spawn(async move {
        let response = next.run(Request::from_parts(parts, Body::from(body))).await;
        keep(under_way, response).await
    });
    carried.await.map_err(|_| Problem::broken("the operation ended early; the log says why"))
}

/// Keeps an answer, unless it is a stream or a fault that may be gone with the next try.
async fn keep(under_way: UnderWay, response: Response) -> Response {
    let is_stream =
        response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream");
    if is_stream || response.status().is_server_error() {
        return response;
    }
    let (parts, body) = response.into_parts();
    let Ok(body) = to_bytes(body, usize::MAX).await else {
        return Problem::broken("the answer broke off").into_response();
    };
    let answer = Saved { status: parts.status, headers: parts.headers, body };
    under_way.finish(answer.clone());
    answered(answer, false)
}

fn answered(answer: Saved, again: bool) -> Response {
    let mut response = Response::new(Body::from(answer.body));
    *response.status_mut() = answer.status;
    *response.headers_mut() = answer.headers;
    if again {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
    response
}

/// Keys of one caller say nothing about those of another.
fn name(actor: Option<&Actor>, key: &HeaderValue) -> Name {
    let mut hash = Sha256::new();
    let caller = match actor.map(|actor| &actor.proof) {
        Some(Proof::Session(token)) => token.expose(),
        Some(Proof::Token) => "token",
        Some(Proof::Nothing) | None => "nobody",
    };
    hash.update(caller.as_bytes());
    hash.update([0]);
    hash.update(key.as_bytes());
    hash.finalize().into()
}

pub(super) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
const LONGEST_KEY: usize = 255;
