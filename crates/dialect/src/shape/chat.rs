//! Chat completions, and the older completions beside them.
//!
//! A stream is unnamed events, each a chunk with `choices[].delta`; it ends with `[DONE]`, which many servers
//! forget, so a finish reason ends it as well.

use serde::Serialize;

use super::{Facts, is_error_member, is_failed_finish, strongest, write};
use crate::{AnswerKind, ClientError, EventKind, Usage, json::Json};

/// Reads one chunk.
pub(crate) fn read(root: &Json<'_>, facts: &mut Facts) -> EventKind {
    let (mut chunk, mut error, mut counted, mut known) = (Chunk::default(), false, false, false);
    let mut members = root.members();
    while let Some((key, value)) = members.next() {
        match &*key.name() {
            b"choices" => {
                known = true;
                members.resume(chunk.read(&value));
            }
            b"usage" if value.is_filled_container() => {
                counted = true;
                facts.usage.join(usage(&value));
            }
            _ => error |= is_error_member(key, &value),
        }
    }
    if chunk.finish {
        facts.finish = true;
        facts.ended = true;
    }
    let kind = strongest(error || chunk.error, chunk.content, chunk.finish, counted);
    if kind == EventKind::Preamble && !known { EventKind::Other } else { kind }
}

/// Reads a complete answer.
pub(crate) fn examine(root: &Json<'_>, counted: &mut Usage) -> AnswerKind {
    let mut chunk = Chunk::default();
    let mut members = root.members();
    while let Some((key, value)) = members.next() {
        match &*key.name() {
            b"choices" => members.resume(chunk.read(&value)),
            b"usage" => counted.join(usage(&value)),
            _ => {}
        }
    }
    if chunk.error {
        AnswerKind::Error
    } else if chunk.content || chunk.finish {
        AnswerKind::Content
    } else {
        AnswerKind::Empty
    }
}

/// Reads a `usage` object; the names of the Responses shape are understood too, since relays mix them.
pub(crate) fn usage(value: &Json<'_>) -> Usage {
    let mut usage = Usage::default();
    for (key, value) in value.members() {
        let number = value.whole_number();
        match &*key.name() {
            b"prompt_tokens" | b"input_tokens" => usage.input = usage.input.max(number),
            b"completion_tokens" | b"output_tokens" => usage.output = usage.output.max(number),
            b"prompt_tokens_details" | b"input_tokens_details" => {
                let count = |name| value.get(name).and_then(|count| count.whole_number());
                usage.cache_read = usage.cache_read.max(count("cached_tokens"));
                usage.cache_creation = usage.cache_creation.max(count("cache_write_tokens"));
            }
            b"prompt_cache_hit_tokens" | b"cached_tokens" | b"cache_read_input_tokens" => {
                usage.cache_read = usage.cache_read.max(number);
            }
            b"cache_creation_input_tokens" => usage.cache_creation = usage.cache_creation.max(number),
            b"completion_tokens_details" | b"output_tokens_details" => {
                usage.reasoning = value.get("reasoning_tokens").and_then(|count| count.whole_number());
            }
            b"cost" => usage.cost = value.number(),
            _ => {}
        }
    }
    usage
}

/// The envelope of an error.
pub(crate) fn error(error: &ClientError) -> String {
    let kind = match error.status {
        401 => "authentication_error",
        403 => "permission_error",
        429 => "rate_limit_error",
        400..=499 => "invalid_request_error",
        _ => "server_error",
    };
    let inner = Inner { message: &error.message, kind, param: None, code: error.code };
    write(Envelope { error: inner }, error)
}

#[derive(Serialize)]
struct Envelope<'a> {
    error: Inner<'a>,
}

#[derive(Serialize)]
struct Inner<'a> {
    message: &'a str,
    #[serde(rename = "type")]
    kind: &'a str,
    param: Option<&'a str>,
    code: &'a str,
}

/// What the choices of one chunk, or of one answer, hold.
#[derive(Default)]
struct Chunk {
    content: bool,
    finish: bool,
    error: bool,
}

impl Chunk {
    /// Reads the choices; returns the end of their array.
    fn read(&mut self, choices: &Json<'_>) -> Option<usize> {
        let mut elements = choices.elements();
        while let Some(choice) = elements.next() {
            elements.resume(self.read_choice(&choice));
        }
        elements.end()
    }

    fn read_choice(&mut self, choice: &Json<'_>) -> Option<usize> {
        let mut members = choice.members();
        while let Some((key, value)) = members.next() {
            match &*key.name() {
                b"delta" | b"message" => members.resume(self.read_delta(&value)),
                b"text" => self.content |= value.is_filled_string(),
                b"finish_reason" => {
                    let reason = value.text().filter(|reason| !reason.is_empty());
                    self.error |= reason.as_deref().is_some_and(is_failed_finish);
                    self.finish |= reason.is_some();
                }
                b"error" => self.error |= value.is_filled_container() || value.is_filled_string(),
                _ => {}
            }
        }
        members.end()
    }

    fn read_delta(&mut self, delta: &Json<'_>) -> Option<usize> {
        let mut members = delta.members();
        for (key, value) in members.by_ref() {
            self.content |= is_content(&key.name(), &value);
        }
        members.end()
    }
}

fn is_content(key: &[u8], value: &Json<'_>) -> bool {
    match key {
        b"content" | b"reasoning_content" | b"reasoning" | b"thinking" | b"refusal" => {
            value.is_filled_string() || value.is_filled_container()
        }
        b"reasoning_details" | b"images" | b"audio" => value.is_filled_container(),
        b"tool_calls" => {
            value.elements().any(|call| call.get("function").is_some_and(|it| is_call(&it)))
                || value.elements().any(|call| call.get("custom").is_some_and(|it| is_call(&it)))
        }
        b"function_call" => is_call(value),
        _ => false,
    }
}

fn is_call(function: &Json<'_>) -> bool {
    ["name", "arguments", "input"]
        .into_iter()
        .any(|name| function.get(name).is_some_and(|it| it.is_filled_string() || it.is_filled_container()))
}
