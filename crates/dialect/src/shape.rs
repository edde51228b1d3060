//! What differs between the dialects, one file per shape, and what they have in common.

pub(crate) mod chat;
pub(crate) mod gemini;
pub(crate) mod messages;
pub(crate) mod responses;

use memchr::memmem;
use serde::Serialize;
use serde_json::Value;

use crate::{
    AnswerKind, ClientError, Continuation, Dialect, Event, EventKind, Part, Usage,
    json::{Json, Key},
    problem::harmless,
};

/// What the events of a stream have told so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    pub(crate) usage: Usage,
    pub(crate) content: bool,
    pub(crate) finish: bool,
    pub(crate) ended: bool,
    /// The mark has come that says the end of the stream itself.
    marked: bool,
    /// The head of a long event said that the answer ends with it; whether it does shows at its tail.
    ending: bool,
    pub(crate) error: Option<Vec<u8>>,
    pub(crate) continuation: Continuation,
}

/// Reads one event of a dialect's stream.
pub(crate) fn read(dialect: Dialect, event: &Event<'_>, facts: &mut Facts) -> EventKind {
    if event.part == Part::Tail {
        read_tail(dialect, event, facts);
        return EventKind::Other;
    }
    let Some(data) = event.data.map(<[u8]>::trim_ascii).filter(|data| !data.is_empty()) else {
        return match event.name {
            Some(_) => EventKind::Ping,
            None => EventKind::Comment,
        };
    };
    let before = (facts.finish, facts.ended);
    let kind = if data == b"[DONE]" {
        facts.ended = true;
        facts.marked |= event.part == Part::Whole;
        EventKind::Terminal { finish: facts.finish }
    } else if event.name == Some(b"error") {
        EventKind::Error
    } else {
        match Json::root(data).filter(|root| root.is_object() || root.is_array()) {
            Some(root) => read_json(dialect, &root, facts),
            None => EventKind::Other,
        }
    };
    if kind == EventKind::Error && facts.error.is_none() {
        facts.error = Some(data.to_vec());
    }
    facts.content |= kind == EventKind::Content;
    if !before.1 && facts.ended { after_an_end(kind, event.part, data, before, facts) } else { kind }
}

/// Whether nothing more is to come than the end of the body.
pub(crate) fn is_over(dialect: Dialect, facts: &Facts) -> bool {
    match dialect {
        // The counts of tokens and the mark follow the finish reason.
        Dialect::OpenAiChat => facts.marked,
        Dialect::OpenAiResponses | Dialect::AnthropicMessages | Dialect::Gemini => facts.ended,
    }
}

/// An event ends the answer only if all of it has come: the kind of one that says it does.
fn after_an_end(
    kind: EventKind,
    part: Part,
    data: &[u8],
    (finish, ended): (bool, bool),
    facts: &mut Facts,
) -> EventKind {
    let is_whole = match part {
        Part::Whole => data == b"[DONE]" || Json::root(data).is_some_and(|root| root.range().is_some()),
        Part::Head | Part::Tail | Part::Torn => false,
    };
    if is_whole {
        return kind;
    }
    facts.ended = ended;
    if part == Part::Head {
        facts.ending = true;
        return kind;
    }
    facts.finish = finish;
    match kind {
        EventKind::Terminal { .. } => EventKind::Other,
        EventKind::Comment
        | EventKind::Ping
        | EventKind::Preamble
        | EventKind::Content
        | EventKind::Usage
        | EventKind::Error
        | EventKind::Other => kind,
    }
}

/// Reads a complete answer of a dialect, once it is known to be no error of a common shape.
pub(crate) fn examine(dialect: Dialect, root: &Json<'_>, usage: &mut Usage) -> AnswerKind {
    match dialect {
        Dialect::OpenAiChat => chat::examine(root, usage),
        Dialect::OpenAiResponses => responses::examine(root, usage),
        Dialect::AnthropicMessages => messages::examine(root, usage),
        Dialect::Gemini => gemini::examine(root, usage),
    }
}

/// Writes an envelope, with the `backstop` object behind it.
pub(crate) fn write<T: Serialize>(envelope: T, error: &ClientError) -> String {
    let backstop = harmless(error);
    serde_json::to_string(&Extended { envelope, backstop }).expect("plain structs and texts always serialise")
}

#[derive(Serialize)]
struct Extended<T> {
    #[serde(flatten)]
    envelope: T,
    #[serde(skip_serializing_if = "Option::is_none")]
    backstop: Option<Value>,
}

/// Tells whether an object is an error in any of the shapes that servers give to one.
pub(crate) fn is_error(root: &Json<'_>) -> bool {
    root.members().any(|(key, value)| is_error_member(key, &value))
}

/// Tells whether one member makes an error of the outermost object.
pub(crate) fn is_error_member(key: Key<'_>, value: &Json<'_>) -> bool {
    match &*key.name() {
        b"error" => value.is_filled_string() || value.is_filled_container() || value.boolean() == Some(true),
        b"type" | b"object" => value.text().is_some_and(|text| text == "error"),
        b"success" => value.boolean() == Some(false),
        b"base_resp" => {
            value.get("status_code").and_then(|code| code.number()).is_some_and(|code| code != 0.0)
        }
        _ => false,
    }
}

/// A finish reason that tells a failure of the provider, not an end of the answer.
pub(crate) fn is_failed_finish(reason: &str) -> bool {
    FAILED_FINISHES.iter().any(|failed| reason.eq_ignore_ascii_case(failed))
}

/// The one kind of an event that may be several things: the one that asks for the most.
pub(crate) fn strongest(error: bool, content: bool, finish: bool, usage: bool) -> EventKind {
    if error {
        EventKind::Error
    } else if content {
        EventKind::Content
    } else if finish {
        EventKind::Terminal { finish: true }
    } else if usage {
        EventKind::Usage
    } else {
        EventKind::Preamble
    }
}

fn read_json(dialect: Dialect, root: &Json<'_>, facts: &mut Facts) -> EventKind {
    if root.is_array() {
        // An error wrapped in an array, as some servers answer a stream with.
        let is_error = root.elements().next().is_some_and(|first| is_error(&first));
        return if is_error { EventKind::Error } else { EventKind::Other };
    }
    match dialect {
        Dialect::OpenAiChat => chat::read(root, facts),
        Dialect::OpenAiResponses => responses::read(root, facts),
        Dialect::AnthropicMessages => messages::read(root, facts),
        Dialect::Gemini => gemini::read(root, facts),
    }
}

/// The counts of tokens stand at the end of long events, and there it shows whether they are whole.
fn read_tail(dialect: Dialect, event: &Event<'_>, facts: &mut Facts) {
    let tail = event.data.unwrap_or_default();
    facts.ended |= std::mem::take(&mut facts.ending) && tail.trim_ascii_end().ends_with(b"}");
    let name: &[u8] = match dialect {
        Dialect::Gemini => b"\"usageMetadata\"",
        Dialect::OpenAiChat | Dialect::OpenAiResponses | Dialect::AnthropicMessages => b"\"usage\"",
    };
    let Some(value) = memmem::rfind(tail, name).and_then(|at| {
        let rest = tail[at + name.len()..].trim_ascii_start().strip_prefix(b":")?;
        Json::root(rest)
    }) else {
        return;
    };
    facts.usage.join(match dialect {
        Dialect::OpenAiChat => chat::usage(&value),
        Dialect::OpenAiResponses => responses::usage(&value),
        Dialect::AnthropicMessages => messages::usage(&value),
        Dialect::Gemini => gemini::usage(&value),
    });
}

const FAILED_FINISHES: [&str; 4] = ["error", "error_finish", "network_error", "insufficient_system_resource"];
