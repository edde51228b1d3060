//! Messages.
//!
//! A stream is named events from `message_start` to `message_stop`; the stop reason comes with the
//! `message_delta` before the end.

use std::borrow::Cow;

use http::{HeaderMap, HeaderName, HeaderValue};
use serde::Serialize;

use super::{Facts, is_error_member, write};
use crate::{AnswerKind, ClientError, EventKind, Usage, json::Json};

/// Reads one event.
pub(crate) fn read(root: &Json<'_>, facts: &mut Facts) -> EventKind {
    let mut fields = Fields::default();
    for (key, value) in root.members() {
        match &*key.name() {
            b"type" => fields.kind = value.text(),
            b"message" => fields.message = Some(value),
            b"content_block" => fields.filled |= is_filled_block(&value),
            b"delta" => {
                fields.filled |= is_filled_delta(&value);
                fields.stopped |= value.get("stop_reason").is_some_and(|reason| reason.is_filled_string());
            }
            b"usage" => fields.usage = Some(value),
            _ => fields.error |= is_error_member(key, &value),
        }
    }
    fields.read(facts)
}

#[derive(Default)]
struct Fields<'a> {
    kind: Option<Cow<'a, str>>,
    message: Option<Json<'a>>,
    usage: Option<Json<'a>>,
    filled: bool,
    stopped: bool,
    error: bool,
}

impl Fields<'_> {
    fn read(&self, facts: &mut Facts) -> EventKind {
        if self.error {
            return EventKind::Error;
        }
        match self.kind.as_deref() {
            Some("ping") => EventKind::Ping,
            Some("error") => EventKind::Error,
            Some("content_block_start" | "content_block_delta") if self.filled => EventKind::Content,
            Some("content_block_start" | "content_block_delta" | "content_block_stop") => EventKind::Preamble,
            Some("message_start") => {
                let counted = self.message.and_then(|message| message.get("usage"));
                facts.usage.join(counted.map(|counted| usage(&counted)).unwrap_or_default());
                EventKind::Preamble
            }
            Some("message_delta") => {
                facts.finish |= self.stopped;
                facts.usage.join(self.usage.map(|counted| usage(&counted)).unwrap_or_default());
                EventKind::Usage
            }
            Some("message_stop") => {
                facts.ended = true;
                EventKind::Terminal { finish: facts.finish }
            }
            Some(_) | None => EventKind::Other,
        }
    }
}

/// Reads a complete answer.
pub(crate) fn examine(root: &Json<'_>, counted: &mut Usage) -> AnswerKind {
    let mut filled = false;
    for (key, value) in root.members() {
        match &*key.name() {
            b"content" => filled |= value.is_filled_container(),
            b"stop_reason" | b"completion" => filled |= value.is_filled_string(),
            b"usage" => counted.join(usage(&value)),
            _ => {}
        }
    }
    if filled { AnswerKind::Content } else { AnswerKind::Empty }
}

/// Reads a `usage` object; here the prompt's tokens are counted without those of the cache.
pub(crate) fn usage(value: &Json<'_>) -> Usage {
    let mut usage = Usage::default();
    for (key, value) in value.members() {
        let number = value.whole_number();
        match &*key.name() {
            b"input_tokens" => usage.input = number,
            b"output_tokens" => usage.output = number,
            b"cache_read_input_tokens" => usage.cache_read = number,
            b"cache_creation_input_tokens" => usage.cache_creation = number,
            b"output_tokens_details" => {
                usage.reasoning = value.get("thinking_tokens").and_then(|count| count.whole_number());
            }
            b"cost" => usage.cost = value.number(),
            _ => {}
        }
    }
    let cached = usage.cache_read.unwrap_or(0).saturating_add(usage.cache_creation.unwrap_or(0));
    usage.input = usage.input.map(|plain| plain.saturating_add(cached));
    usage
}

/// The envelope of an error.
pub(crate) fn error(error: &ClientError) -> String {
    let kind = match error.status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        400..=499 => "invalid_request_error",
        504 => "timeout_error",
        529 => "overloaded_error",
        _ => "api_error",
    };
    let inner = Inner { kind, message: &error.message };
    write(Envelope { kind: "error", error: inner, request_id: &error.request_id }, error)
}

#[derive(Serialize)]
struct Envelope<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    error: Inner<'a>,
    request_id: &'a str,
}

#[derive(Serialize)]
struct Inner<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    message: &'a str,
}

/// The headers by which agents tell a full window, which they show, from a short throttle, which they retry.
pub(crate) fn limit_headers(error: &ClientError, headers: &mut HeaderMap) {
    if error.status != 429 {
        return;
    }
    headers.insert(UNIFIED_STATUS, HeaderValue::from_static("rejected"));
    if let Some(retry_at) = error.retry_at {
        let seconds = retry_at.as_second() + i64::from(retry_at.subsec_nanosecond() > 0);
        headers.insert(UNIFIED_RESET, HeaderValue::from(seconds));
    }
}

/// A block that carries something in its first event: a tool's name, redacted thinking, a tool's result.
fn is_filled_block(block: &Json<'_>) -> bool {
    block.members().any(|(key, value)| match &*key.name() {
        b"name" | b"text" | b"thinking" | b"data" => value.is_filled_string(),
        b"content" => value.is_filled_string() || value.is_filled_container(),
        _ => false,
    })
}

fn is_filled_delta(delta: &Json<'_>) -> bool {
    delta.members().any(|(key, value)| match &*key.name() {
        b"text" | b"thinking" | b"partial_json" => value.is_filled_string(),
        _ => false,
    })
}

const UNIFIED_STATUS: HeaderName = HeaderName::from_static("anthropic-ratelimit-unified-status");
const UNIFIED_RESET: HeaderName = HeaderName::from_static("anthropic-ratelimit-unified-reset");
