//! Walks one structured value and collects what it says: tokens, words, statuses, headers, quotes.

use std::borrow::Cow;

use super::{
    Value, Words,
    envelope::{Opener, Quoting},
    fold::{fold, fold_into},
    outcome, prose,
    roles::{Role, role},
};

/// What a walk found beside tokens and words: texts that hold further layers.
pub(super) struct Inner<'a> {
    pub(super) text: Words<'a>,
    pub(super) quoting: Quoting,
}

/// One walk through the value of one layer.
pub(super) struct Walk<'o, 'a> {
    opener: &'o mut Opener<'a>,
    layer: usize,
    inner: Vec<Inner<'a>>,
    read_content: bool,
    read_everything: bool,
}

impl<'o, 'a> Walk<'o, 'a> {
    pub(super) fn new(opener: &'o mut Opener<'a>, layer: usize) -> Self {
        Self { opener, layer, inner: Vec::new(), read_content: false, read_everything: false }
    }

    /// A walk that takes every text for a message: for a body whose fields are called as nobody else calls them.
    pub(super) fn of_everything(opener: &'o mut Opener<'a>, layer: usize) -> Self {
        Self { read_everything: true, ..Self::new(opener, layer) }
    }

    /// Walks the value and returns the texts that are layers of their own.
    pub(super) fn run(mut self, value: &Value<'a>) -> Vec<Inner<'a>> {
        match value {
            Value::Text(text) => self.message(text),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::List(_) | Value::Object(_) => {
                self.value(value, 0)
            }
        }
        self.inner
    }

    fn value(&mut self, value: &Value<'a>, depth: usize) {
        if depth > 10 {
            return;
        }
        match value {
            Value::Object(pairs) => {
                let coded = value.key("error_code").is_some();
                for (key, value) in pairs {
                    if outcome::is_exception(key, value) {
                        self.opener.token(self.layer, key, true);
                    }
                    let spoken = coded && key == "text";
                    self.field(if spoken { Role::Message } else { role(key) }, value, depth);
                }
            }
            Value::List(items) => items.iter().take(32).for_each(|item| self.value(item, depth + 1)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) => {}
        }
    }

    fn field(&mut self, role: Role, value: &Value<'a>, depth: usize) {
        match (role, value) {
            (Role::Skip, Value::Object(_) | Value::List(_) | Value::Text(_)) if self.read_content => {
                self.content(value, depth);
            }
            (Role::Skip, _) | (_, Value::Null) => {}
            (Role::Code | Role::Status | Role::StatusOrType, Value::Number(number)) => {
                self.number(role, number)
            }
            (Role::Code | Role::Status | Role::StatusOrType, Value::Text(text)) if is_number(text) => {
                self.number(role, text);
            }
            (Role::Code | Role::Type | Role::StatusOrType | Role::Status, Value::Text(text)) => {
                self.word(text)
            }
            (Role::Type, Value::Number(number)) => self.number(Role::Code, number),
            (Role::Message, Value::Text(text)) => self.message(text),
            (Role::Message, Value::List(items)) => {
                for item in items.iter().take(32) {
                    self.content(item, depth);
                }
            }
            (Role::Quote, Value::Text(text)) => {
                self.inner.push(Inner { text: text.clone(), quoting: Quoting::Relay });
            }
            (Role::Quote, Value::Object(_) | Value::List(_)) => {
                self.opener.mark_quoted(self.layer);
                self.value(value, depth + 1);
            }
            (Role::Provider, Value::Text(name)) => self.opener.name_provider(self.layer, name),
            (Role::Headers, Value::Object(pairs)) => {
                for (name, value) in pairs {
                    if let Some(value) = value.scalar() {
                        self.opener.facts.nested_headers.push((name.to_ascii_lowercase(), value.to_owned()));
                    }
                }
            }
            (Role::Finish, Value::Text(text)) if !is_normal_finish(text) => self.word(text),
            (Role::Choices, Value::List(choices)) => self.choices(choices, depth),
            (Role::Messages, Value::List(items)) => {
                let conversation = items.iter().any(|item| item.key("role").is_some());
                if !conversation {
                    self.field(Role::Message, value, depth);
                }
            }
            (Role::Messages, _) => {}
            (Role::Other, Value::Text(text)) if self.read_everything => self.message(text),
            (_, Value::Object(_) | Value::List(_)) => self.value(value, depth + 1),
            (_, Value::Bool(_) | Value::Number(_) | Value::Text(_)) => {}
        }
    }

    /// Answers that ended in an error carry its text where the content would be.
    fn choices(&mut self, choices: &[Value<'a>], depth: usize) {
        for choice in choices.iter().take(8) {
            let finish = choice.key("finish_reason").and_then(Value::scalar).unwrap_or_default();
            self.read_content = finish.contains("error_");
            self.value(choice, depth + 1);
            self.read_content = false;
        }
    }

    fn content(&mut self, value: &Value<'a>, depth: usize) {
        match value {
            Value::Text(text) => self.message(text),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::List(_) | Value::Object(_) => {
                self.value(value, depth + 1);
            }
        }
    }

    fn number(&mut self, role: Role, number: &str) {
        if number == "0" {
            return;
        }
        let status = number.parse().ok().filter(|status| (400..=599).contains(status));
        if status.is_some() {
            self.opener.tell_status(self.layer, status);
        }
        if status.is_none() || role == Role::Code {
            self.opener.token(self.layer, number, false);
        }
    }

    fn word(&mut self, text: &str) {
        if text.is_empty() || text.len() > 160 {
            return;
        }
        if text.trim().contains(' ') {
            self.opener.words(self.layer, text);
            return self.opener.token(self.layer, &fold(text), true);
        }
        // AWS writes `com.amazon.coral.service#ThrottlingException`.
        let name = text.rsplit_once('#').map_or(text, |(_, name)| name);
        self.opener.token(self.layer, name.trim(), true);
    }

    fn message(&mut self, text: &Words<'a>) {
        let trimmed = text.trim_start();
        if trimmed.is_empty() {
            return;
        }
        if memchr::memchr2(b'{', b'[', text.as_bytes()).is_some() && self.opener.holds_structure(text) {
            let quoting = if trimmed.starts_with(['{', '[']) { Quoting::Nested } else { Quoting::Embedded };
            if let Some(prose) = self.opener.split(text, quoting, &mut self.inner) {
                self.spoken(&prose);
            }
            return;
        }
        self.spoken(text);
    }

    fn spoken(&mut self, text: &str) {
        let text = if prose::is_document(text) { first_paragraph(text) } else { text };
        self.opener.speak(self.layer, shorten(text, MESSAGE_CAP));
    }
}

/// A document's first paragraph, unless it is a heading or long.
fn first_paragraph(text: &str) -> &str {
    let first = text.trim_start().split("\n\n").next().unwrap_or_default();
    if first.starts_with('#') || first.len() > 400 { "" } else { first }
}

/// The beginning of a text, at most `cap` bytes.
pub(super) fn shorten(text: &str, cap: usize) -> &str {
    if text.len() <= cap {
        return text;
    }
    let mut end = cap;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

/// The end of a text, at most `cap` bytes.
pub(super) fn tail(text: &str, cap: usize) -> &str {
    let mut start = text.len().saturating_sub(cap);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    text.get(start..).unwrap_or_default()
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.len() <= 12 && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a reason for stopping is no failure.
pub(super) fn is_normal_finish(reason: &str) -> bool {
    matches!(
        reason.to_ascii_lowercase().as_str(),
        "" | "stop"
            | "length"
            | "tool_calls"
            | "tool_use"
            | "function_call"
            | "end_turn"
            | "max_tokens"
            | "stop_sequence"
            | "pause_turn"
            | "eos"
            | "completed"
            | "finish_reason_unspecified"
            | "complete"
    )
}

/// Folds a text for a part of the facts that is not the words.
pub(super) fn folded_page(text: &str) -> String {
    let mut page = String::new();
    fold_into(shorten(text, PAGE_CAP), &mut page);
    page
}

/// Makes a borrowed value independent of its text.
pub(super) fn owned(value: Value<'_>) -> Value<'static> {
    match value {
        Value::Null => Value::Null,
        Value::Bool(truth) => Value::Bool(truth),
        Value::Number(number) => Value::Text(Cow::Owned(number.to_owned())),
        Value::Text(text) => Value::Text(Cow::Owned(text.into_owned())),
        Value::List(items) => Value::List(items.into_iter().map(owned).collect()),
        Value::Object(pairs) => Value::Object(
            pairs.into_iter().map(|(key, value)| (Cow::Owned(key.into_owned()), owned(value))).collect(),
        ),
    }
}

/// Longer messages are read up to here: an error says what it is at its beginning.
const MESSAGE_CAP: usize = 8 * 1024;
/// A page tells what it is in its head and its first headings.
const PAGE_CAP: usize = 8 * 1024;
