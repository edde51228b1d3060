//! Puts an error of ours into the client's dialect: as an answer, or as an event of a stream that has begun.

use http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::{ClientError, Dialect, Framing, Seam, shape};

/// Where a client's stream stands, as far as an event of ours must go on from it. The default is a stream in
/// which the client has seen nothing but keepalives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Continuation {
    /// The number that the next event carries, in dialects that count their events.
    pub sequence: u64,
    /// The id of the answer that was begun.
    pub response_id: Option<String>,
    /// What stands before the next element of a [`Framing::JsonArray`] stream.
    pub seam: Seam,
}

/// Writes the body of an error answer.
pub fn error_body(dialect: Dialect, error: &ClientError) -> Vec<u8> {
    let body = match dialect {
        Dialect::OpenAiChat | Dialect::OpenAiResponses => shape::chat::error(error),
        Dialect::AnthropicMessages => shape::messages::error(error),
        Dialect::Gemini => shape::gemini::error(error),
    };
    body.into_bytes()
}

/// Writes an error as the last event of a stream. It never looks like the stream's regular end.
pub fn error_event(dialect: Dialect, framing: Framing, error: &ClientError, from: &Continuation) -> Vec<u8> {
    let text = match (dialect, framing) {
        (Dialect::Gemini, Framing::JsonArray) => {
            let body = shape::gemini::error(error);
            match from.seam {
                Seam::Unopened => format!("[{body}]"),
                Seam::Ready => format!("{body}]"),
                Seam::AfterElement => format!(",\n{body}]"),
                Seam::Closed => String::new(),
            }
        }
        (Dialect::OpenAiChat, _) => unnamed(&shape::chat::error(error)),
        (Dialect::Gemini, Framing::Sse) => unnamed(&shape::gemini::error(error)),
        (Dialect::AnthropicMessages, _) => named("error", &shape::messages::error(error)),
        (Dialect::OpenAiResponses, _) => named("response.failed", &shape::responses::failed(error, from)),
    };
    text.into_bytes()
}

/// The headers of an error answer: the wait in both of its forms, whether to retry at all, and the mark that
/// the error is ours.
pub fn error_headers(dialect: Dialect, error: &ClientError) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(8);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let should_retry = if error.should_retry { "true" } else { "false" };
    headers.insert(SHOULD_RETRY, HeaderValue::from_static(should_retry));
    headers.insert(BACKSTOP_ERROR, HeaderValue::from_static(error.code));
    if let Some(wait) = error.retry_after {
        let milliseconds = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1);
        headers.insert(header::RETRY_AFTER, HeaderValue::from(milliseconds.div_ceil(1_000)));
        headers.insert(RETRY_AFTER_MS, HeaderValue::from(milliseconds));
    }
    let request_id = match dialect {
        Dialect::AnthropicMessages => "request-id",
        Dialect::OpenAiChat | Dialect::OpenAiResponses | Dialect::Gemini => "x-request-id",
    };
    if let Ok(value) = HeaderValue::from_str(&error.request_id)
        && !value.is_empty()
    {
        headers.insert(request_id, value);
    }
    if dialect == Dialect::AnthropicMessages {
        shape::messages::limit_headers(error, &mut headers);
    }
    headers
}

/// What keeps a silent stream open, and says nothing.
///
/// Clients of the Gemini dialect take any line for data, so theirs is an event without members, or white
/// space in an array.
pub const fn keepalive(dialect: Dialect, framing: Framing) -> &'static [u8] {
    match (dialect, framing) {
        (Dialect::AnthropicMessages, _) => b"event: ping\ndata: {\"type\": \"ping\"}\n\n",
        (Dialect::OpenAiChat | Dialect::OpenAiResponses, _) => b": keepalive\n\n",
        (Dialect::Gemini, Framing::Sse) => b"data: {}\n\n",
        (Dialect::Gemini, Framing::JsonArray) => b"\n",
    }
}

fn unnamed(body: &str) -> String {
    format!("data: {body}\n\n")
}

fn named(name: &str, body: &str) -> String {
    format!("event: {name}\ndata: {body}\n\n")
}

const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");
const BACKSTOP_ERROR: HeaderName = HeaderName::from_static("x-backstop-error");
const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");
