//! `generateContent` and `streamGenerateContent`.
//!
//! A stream is answers that continue each other, as unnamed events or as the elements of one array; it ends
//! with a finish reason, or with the prompt's refusal.

use serde::Serialize;

use super::{Facts, is_error_member, strongest, write};
use crate::{AnswerKind, ClientError, EventKind, Usage, json::Json};

/// Reads one event.
pub(crate) fn read(root: &Json<'_>, facts: &mut Facts) -> EventKind {
    let chunk = Chunk::read(root, &mut facts.usage);
    if chunk.finish {
        facts.finish = true;
        facts.ended = true;
    }
    let kind = strongest(chunk.error, chunk.content, chunk.finish, chunk.counted);
    if kind == EventKind::Preamble && !chunk.known { EventKind::Other } else { kind }
}

/// Reads a complete answer.
pub(crate) fn examine(root: &Json<'_>, counted: &mut Usage) -> AnswerKind {
    let chunk = Chunk::read(root, counted);
    if chunk.content || chunk.finish { AnswerKind::Content } else { AnswerKind::Empty }
}

/// Reads a `usageMetadata` object; thoughts are counted beside the candidates here.
pub(crate) fn usage(value: &Json<'_>) -> Usage {
    let mut usage = Usage::default();
    for (key, value) in value.members() {
        let number = value.whole_number();
        match &*key.name() {
            b"promptTokenCount" => usage.input = number,
            b"candidatesTokenCount" => usage.output = number,
            b"cachedContentTokenCount" => usage.cache_read = number,
            b"thoughtsTokenCount" => usage.reasoning = number,
            _ => {}
        }
    }
    if let Some(thoughts) = usage.reasoning {
        usage.output = Some(usage.output.unwrap_or(0).saturating_add(thoughts));
    }
    usage
}

/// The envelope of an error.
pub(crate) fn error(error: &ClientError) -> String {
    let status = match error.status {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        400..=499 => "INVALID_ARGUMENT",
        501 => "UNIMPLEMENTED",
        503 | 529 => "UNAVAILABLE",
        504 => "DEADLINE_EXCEEDED",
        _ => "INTERNAL",
    };
    let details = error.retry_after.map(|wait| {
        let seconds = wait.as_millis().div_ceil(1_000).max(1);
        [RetryInfo { kind: RETRY_INFO, retry_delay: format!("{seconds}s") }]
    });
    write(Envelope { error: Inner { code: error.status, message: &error.message, status, details } }, error)
}

#[derive(Serialize)]
struct Envelope<'a> {
    error: Inner<'a>,
}

#[derive(Serialize)]
struct Inner<'a> {
    code: u16,
    message: &'a str,
    status: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<[RetryInfo; 1]>,
}

#[derive(Serialize)]
struct RetryInfo {
    #[serde(rename = "@type")]
    kind: &'static str,
    #[serde(rename = "retryDelay")]
    retry_delay: String,
}

#[derive(Default)]
struct Chunk {
    known: bool,
    content: bool,
    finish: bool,
    error: bool,
    counted: bool,
}

impl Chunk {
    fn read(root: &Json<'_>, counted: &mut Usage) -> Self {
        let mut chunk = Self::default();
        for (key, value) in root.members() {
            match &*key.name() {
                b"candidates" => {
                    chunk.known = true;
                    value.elements().for_each(|candidate| chunk.candidate(&candidate));
                }
                b"promptFeedback" => {
                    chunk.known = true;
                    chunk.finish |= value.get("blockReason").is_some_and(|it| it.is_filled_string());
                }
                b"usageMetadata" => {
                    chunk.counted = true;
                    counted.join(usage(&value));
                }
                _ => chunk.error |= is_error_member(key, &value),
            }
        }
        chunk
    }

    fn candidate(&mut self, candidate: &Json<'_>) {
        for (key, value) in candidate.members() {
            match &*key.name() {
                b"content" => {
                    let parts = value.get("parts");
                    self.content |= parts.is_some_and(|parts| parts.elements().any(|it| is_filled_part(&it)));
                }
                b"finishReason" => {
                    self.finish |= value.is_filled_string()
                        && value.text().is_none_or(|reason| reason != "FINISH_REASON_UNSPECIFIED");
                }
                _ => {}
            }
        }
    }
}

fn is_filled_part(part: &Json<'_>) -> bool {
    part.members().any(|(key, value)| match &*key.name() {
        b"text" => value.is_filled_string(),
        b"functionCall" | b"inlineData" | b"fileData" | b"executableCode" | b"codeExecutionResult" => {
            value.is_filled_container()
        }
        _ => false,
    })
}

const RETRY_INFO: &str = "type.googleapis.com/google.rpc.RetryInfo";
