//! Responses.
//!
//! A stream is events whose `type` says what they are and whose `sequence_number` rises; it ends with
//! `response.completed`, `response.incomplete` or `response.failed`.

use std::borrow::Cow;

use serde::Serialize;

use super::{Facts, chat, is_error_member, write};
use crate::{AnswerKind, ClientError, Continuation, EventKind, Usage, json::Json};

pub(crate) use chat::usage;

/// Reads one event.
pub(crate) fn read(root: &Json<'_>, facts: &mut Facts) -> EventKind {
    let mut fields = Fields::default();
    let mut error = false;
    for (key, value) in root.members() {
        match &*key.name() {
            b"type" => fields.kind = value.text().unwrap_or_default(),
            b"sequence_number" => fields.sequence = value.whole_number(),
            b"response" => fields.response = Some(value),
            b"item" => fields.item = Some(value),
            b"delta" | b"text" | b"arguments" | b"input" | b"refusal" | b"partial_image_b64" | b"part" => {
                fields.filled |= value.is_filled_string();
            }
            _ => error |= is_error_member(key, &value),
        }
    }
    let kind = if error || fields.kind == "error" { EventKind::Error } else { fields.read(facts) };
    if kind != EventKind::Error {
        fields.note(facts);
    }
    kind
}

/// Reads a complete answer; one that is still being made in the background counts as an answer.
pub(crate) fn examine(root: &Json<'_>, counted: &mut Usage) -> AnswerKind {
    let (mut filled, mut status) = (false, None);
    for (key, value) in root.members() {
        match &*key.name() {
            b"output" => filled = value.is_filled_container(),
            b"status" => status = value.text(),
            b"usage" => counted.join(usage(&value)),
            _ => {}
        }
    }
    match status.as_deref() {
        Some("failed") => AnswerKind::Error,
        Some(_) => AnswerKind::Content,
        None if filled => AnswerKind::Content,
        None => AnswerKind::Empty,
    }
}

/// The event that ends a stream with an error, carrying on its count.
pub(crate) fn failed(error: &ClientError, from: &Continuation) -> String {
    let fresh = format!("resp_{}", error.request_id);
    let response = Failed {
        id: from.response_id.as_deref().unwrap_or(&fresh),
        object: "response",
        status: "failed",
        error: Inner { code: error.code, message: &error.message },
        incomplete_details: None,
        output: [],
    };
    write(FailedEvent { kind: "response.failed", sequence_number: from.sequence, response }, error)
}

#[derive(Serialize)]
struct FailedEvent<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    sequence_number: u64,
    response: Failed<'a>,
}

#[derive(Serialize)]
struct Failed<'a> {
    id: &'a str,
    object: &'a str,
    status: &'a str,
    error: Inner<'a>,
    incomplete_details: Option<&'a str>,
    output: [&'a str; 0],
}

#[derive(Serialize)]
struct Inner<'a> {
    code: &'a str,
    message: &'a str,
}

#[derive(Default)]
struct Fields<'a> {
    kind: Cow<'a, str>,
    sequence: Option<u64>,
    response: Option<Json<'a>>,
    item: Option<Json<'a>>,
    filled: bool,
}

impl Fields<'_> {
    fn read(&self, facts: &mut Facts) -> EventKind {
        match &*self.kind {
            "response.failed" => EventKind::Error,
            "response.completed" | "response.incomplete" | "response.done" | "response.cancelled" => {
                self.end(facts)
            }
            "response.created" | "response.in_progress" | "response.queued" => EventKind::Preamble,
            "response.output_item.added" => content_if(self.item.is_some_and(|item| is_call(&item))),
            "response.output_item.done" => content_if(self.item.is_some_and(|item| is_filled_item(&item))),
            "keepalive" | "ping" => EventKind::Ping,
            kind if kind.ends_with(".delta") || kind.ends_with(".done") || self.filled => {
                content_if(self.filled)
            }
            kind if kind.starts_with("response.") => EventKind::Preamble,
            _ => EventKind::Other,
        }
    }

    fn end(&self, facts: &mut Facts) -> EventKind {
        let status = self.response.and_then(|response| response.get("status"));
        if status.and_then(|status| status.text()).is_some_and(|status| status == "failed") {
            return EventKind::Error;
        }
        if let Some(counted) = self.response.and_then(|response| response.get("usage")) {
            facts.usage.join(usage(&counted));
        }
        facts.finish = true;
        facts.ended = true;
        EventKind::Terminal { finish: true }
    }

    fn note(&self, facts: &mut Facts) {
        if let Some(sequence) = self.sequence {
            facts.continuation.sequence = sequence.saturating_add(1);
        } else {
            facts.continuation.sequence += 1;
        }
        if facts.continuation.response_id.is_none() {
            let id = self.response.and_then(|response| response.get("id")).and_then(|id| id.text());
            facts.continuation.response_id = id.map(Cow::into_owned);
        }
    }
}

fn content_if(is_content: bool) -> EventKind {
    if is_content { EventKind::Content } else { EventKind::Preamble }
}

/// A call of a tool whose name is told.
fn is_call(item: &Json<'_>) -> bool {
    item.get("name").is_some_and(|name| name.is_filled_string())
}

/// An item that carries something: text, a call, reasoning, an image.
fn is_filled_item(item: &Json<'_>) -> bool {
    let filled = |name| item.get(name).is_some_and(|it| it.is_filled_string() || it.is_filled_container());
    ["name", "content", "summary", "encrypted_content", "result", "action", "output"].into_iter().any(filled)
}
