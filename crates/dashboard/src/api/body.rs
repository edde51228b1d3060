//! Reading bodies, queries and versions; what cannot be read is a problem that says where.

use axum::{
    extract::{FromRequest, FromRequestParts, Query, Request},
    http::request::Parts,
};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
use serde::de::DeserializeOwned;

use crate::problem::{Answer, Problem};

/// A JSON body.
pub(super) struct Body<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let media = kind.and_then(|kind| kind.split(';').next()).unwrap_or("").trim();
        if !media.eq_ignore_ascii_case("application/json") {
            return Err(Problem::not_json());
        }
        let bytes = Bytes::from_request(request, state)
            .await
            .map_err(|rejection| Problem::malformed(format!("the body cannot be read: {rejection}")))?;
        serde_json::from_slice(&bytes)
            .map(Self)
            .map_err(|error| Problem::malformed(format!("the body is wrong: {error}")))
    }
}

/// The query.
pub(super) struct Asked<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Asked<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let query = Query::<T>::from_request_parts(parts, state).await;
        query
            .map(|Query(asked)| Self(asked))
            .map_err(|error| Problem::malformed(format!("the query is wrong: {error}")))
    }
}

/// The ids in a path.
pub(super) struct Path<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = axum::extract::Path::<T>::from_request_parts(parts, state).await;
        path.map(|axum::extract::Path(ids)| Self(ids)).map_err(|_| Problem::not_found("path"))
    }
}

/// The version that an edit was made on, from `If-Match`.
pub(super) fn version(headers: &HeaderMap) -> Answer<Option<u64>> {
    let Some(tag) = headers.get(header::IF_MATCH) else { return Ok(None) };
    let text = tag.to_str().unwrap_or("").trim();
    if text == "*" {
        return Ok(None);
    }
    let number = text.trim_start_matches("W/").trim_matches('"').parse();
    number
        .map(Some)
        .map_err(|_| Problem::malformed("If-Match must be an ETag that an earlier answer carried"))
}

/// A version as an ETag.
pub(super) fn tag(version: u64) -> [(header::HeaderName, HeaderValue); 1] {
    let tag = HeaderValue::try_from(format!("\"{version}\""));
    [(header::ETAG, tag.unwrap_or_else(|_| HeaderValue::from_static("\"0\"")))]
}

pub(super) async fn no_such_method() -> Problem {
    Problem::wrong_method()
}
