//! What an action refuses, in the form of RFC 9457.

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use backstop_store::StoreError;
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use utoipa::ToSchema;

/// A refusal: what is wrong, where, and what to do.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Problem {
    /// The page that explains this kind of problem.
    #[serde(rename = "type")]
    #[schema(value_type = String)]
    kind: Box<str>,
    /// The kind in a few words.
    title: &'static str,
    /// The HTTP status.
    status: u16,
    /// The same kind as one stable word.
    code: &'static str,
    /// What is wrong here, and what to do.
    #[schema(value_type = String)]
    detail: Box<str>,
    /// What is wrong in detail, by field where there is one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<FieldError>,
    #[serde(skip)]
    retry_after: Option<u32>,
}

/// What is wrong with one field.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct FieldError {
    /// The field; empty for the whole.
    pub field: String,
    /// What is wrong with it, and what to do.
    pub detail: String,
}

/// What an action returns.
pub type Answer<T> = Result<T, Problem>;

impl Problem {
    fn new(status: StatusCode, code: &'static str, title: &'static str, detail: impl Into<String>) -> Self {
        let kind = format!("urn:backstop:problem:{}", code.replace('_', "-")).into();
        let (status, detail) = (status.as_u16(), detail.into().into());
        Self { kind, title, status, code, detail, errors: Vec::new(), retry_after: None }
    }

    /// The kind in a few words.
    pub(crate) fn title(&self) -> &'static str {
        self.title
    }

    /// What is wrong here, and what to do.
    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    /// The HTTP status.
    pub(crate) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// Nobody is signed in.
    pub(crate) fn unauthorized() -> Self {
        let detail = "sign in, or send the admin token as `Authorization: Bearer …`";
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", "Not signed in", detail)
    }

    /// Another web page asks.
    pub(crate) fn foreign_page() -> Self {
        let detail = "the request comes from another web page; open the dashboard under its own address";
        Self::new(StatusCode::FORBIDDEN, "foreign_page", "Asked by another page", detail)
    }

    /// The credentials are wrong.
    pub(crate) fn wrong_credentials() -> Self {
        let detail = "the password, or the link, is not right or has been used";
        Self::new(StatusCode::UNAUTHORIZED, "wrong_credentials", "Cannot sign in", detail)
    }

    /// Too many tries.
    pub(crate) fn too_many(seconds: u32) -> Self {
        let detail = format!("too many tries; wait {seconds} s");
        let problem = Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many_tries", "Too many tries", detail);
        Self { retry_after: Some(seconds), ..problem }
    }

    /// Something is not there.
    pub(crate) fn not_found(what: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", "Not found", format!("there is no such {what}"))
    }

    /// The path has no such method.
    pub(crate) fn wrong_method() -> Self {
        let detail = "this path does not have this method; see /api/openapi.json";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "wrong_method", "Method not allowed", detail)
    }

    /// The request cannot be understood.
    pub(crate) fn malformed(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "malformed", "Malformed request", detail)
    }

    /// The request's body is not of a kind that is read.
    pub(crate) fn not_json() -> Self {
        let detail = "send JSON, with `Content-Type: application/json`";
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not_json", "Not JSON", detail)
    }

    /// Values that cannot be.
    pub(crate) fn invalid(errors: Vec<FieldError>) -> Self {
        let detail = errors.iter().map(|error| error.detail.as_str()).collect::<Vec<_>>().join("; ");
        let problem = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", "Invalid value", detail);
        Self { errors, ..problem }
    }

    /// One value that cannot be.
    pub(crate) fn invalid_field(field: &str, detail: impl Into<String>) -> Self {
        Self::invalid(vec![FieldError { field: field.to_owned(), detail: detail.into() }])
    }

    /// The configuration file says otherwise.
    pub(crate) fn from_the_file(what: &str) -> Self {
        let detail = format!("{what} is defined in the configuration file; change it there and reload");
        Self::new(StatusCode::CONFLICT, "from_the_file", "Defined in the file", detail)
    }

    /// Something is in the way.
    pub(crate) fn conflict(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, code, "Conflict", detail)
    }

    /// It works neither now nor by another try; a person has to look.
    pub(crate) fn broken(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "Our own fault", detail)
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let detail = error.to_string();
        match error {
            StoreError::Failing(_) | StoreError::Busy | StoreError::Closed => {
                let unavailable = StatusCode::SERVICE_UNAVAILABLE;
                let problem =
                    Self::new(unavailable, "store_failing", "Cannot be saved at the moment", detail);
                Self { retry_after: Some(5), ..problem }
            }
            StoreError::NotFound(what) => Self::not_found(what),
            StoreError::Exists(_) => Self::conflict("exists", format!("{detail}; choose another name")),
            StoreError::Changed { .. } => {
                let detail = format!("{detail}; read it again and repeat your change");
                Self::new(StatusCode::PRECONDITION_FAILED, "changed", "Changed meanwhile", detail)
            }
            StoreError::Locked(_) => Self::conflict("locked", detail),
            StoreError::KeyInForce | StoreError::BadCursor => Self::malformed(detail),
            StoreError::Unreadable(_) | StoreError::Database(_) => {
                tracing::error!(error = detail, "the store refused an operation");
                Self::broken("the store refused the operation; the log says why")
            }
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let retry_after = self.retry_after;
        let mut response = (status, Json(self)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
