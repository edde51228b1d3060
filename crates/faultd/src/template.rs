//! Answer templates, kept as files beside this one: what the wire shows is what the file shows.

use crate::shape::{Operation, Shape};

/// What an event is for; points of a script are found by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Preamble,
    Content,
    Closing,
    Usage,
    Terminal,
    Error,
}

/// The answer of a shape in one piece.
pub(crate) fn plain(shape: Shape) -> &'static str {
    let text = match shape {
        Shape::Chat => include_str!("answers/chat.json"),
        Shape::Responses => include_str!("answers/responses.json"),
        Shape::Messages => include_str!("answers/messages.json"),
        Shape::Gemini => include_str!("answers/gemini.json"),
    };
    text.trim_end()
}

/// The events of a shape's stream, in order; `content` stands once.
pub(crate) fn events(shape: Shape) -> impl Iterator<Item = (Kind, &'static str)> {
    let text = match shape {
        Shape::Chat => include_str!("answers/chat.sse"),
        Shape::Responses => include_str!("answers/responses.sse"),
        Shape::Messages => include_str!("answers/messages.sse"),
        Shape::Gemini => include_str!("answers/gemini.sse"),
    };
    text.trim_end().split("\n\n").filter_map(|block| {
        let (kind, event) = block.split_once('\n')?;
        let kind = match kind {
            "#preamble" => Kind::Preamble,
            "#content" => Kind::Content,
            "#closing" => Kind::Closing,
            "#usage" => Kind::Usage,
            "#terminal" => Kind::Terminal,
            "#error" => Kind::Error,
            _ => return None,
        };
        Some((kind, event))
    })
}

/// A sign of life that carries nothing.
pub(crate) fn ping(shape: Shape) -> &'static str {
    match shape {
        Shape::Messages => "event: ping\ndata: {\"type\":\"ping\"}",
        Shape::Chat | Shape::Responses | Shape::Gemini => ": ping",
    }
}

/// The error body of a shape.
pub(crate) fn error(shape: Shape) -> &'static str {
    let text = match shape {
        Shape::Chat | Shape::Responses => include_str!("answers/chat.error.json"),
        Shape::Messages => include_str!("answers/messages.error.json"),
        Shape::Gemini => include_str!("answers/gemini.error.json"),
    };
    text.trim_end()
}

/// The headers by which a shape tells its limits.
pub(crate) fn limit_headers(shape: Shape) -> impl Iterator<Item = (&'static str, &'static str)> {
    let text = match shape {
        Shape::Chat | Shape::Responses => include_str!("answers/chat.limit.headers"),
        Shape::Messages => include_str!("answers/messages.limit.headers"),
        Shape::Gemini => include_str!("answers/gemini.limit.headers"),
    };
    text.lines().filter_map(|line| line.split_once(": "))
}

/// The answer to an operation that is no generation; lists are made elsewhere.
pub(crate) fn other(shape: Shape, operation: Operation) -> Option<&'static str> {
    Some(match (operation, shape) {
        (Operation::Complete, _) => include_str!("answers/completion.json").trim_end(),
        (Operation::CountTokens, Shape::Gemini) => r#"{"totalTokens":11}"#,
        (Operation::CountTokens, _) => r#"{"input_tokens":11}"#,
        (Operation::Embeddings, Shape::Gemini) => r#"{"embedding":{"values":[0.125,-0.25,0.5]}}"#,
        (Operation::Embeddings, _) => include_str!("answers/embeddings.json").trim_end(),
        (Operation::Generate | Operation::Models | Operation::Model | Operation::Other, _) => return None,
    })
}

/// The usual code and message of a status, as providers of the shape write them.
pub(crate) fn usual_error(shape: Shape, status: u16) -> (&'static str, &'static str) {
    let row = USUAL.iter().find(|row| row.0 == status).unwrap_or_else(|| {
        let fallback = if status < 500 { 400 } else { 500 };
        USUAL.iter().find(|row| row.0 == fallback).expect("the table has both")
    });
    let code = match shape {
        Shape::Chat | Shape::Responses => row.1,
        Shape::Messages => row.2,
        Shape::Gemini => row.3,
    };
    (code, row.4)
}

/// Fills the `{{name}}` places of a template.
pub(crate) fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut filled = String::with_capacity(template.len() + 64);
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        filled.push_str(before);
        let Some((name, next)) = after.split_once("}}") else {
            filled.push_str("{{");
            rest = after;
            continue;
        };
        match values.iter().find(|(known, _)| *known == name) {
            Some((_, value)) => filled.push_str(value),
            None => {
                filled.push_str("{{");
                filled.push_str(name);
                filled.push_str("}}");
            }
        }
        rest = next;
    }
    filled.push_str(rest);
    filled
}

/// The inside of a JSON string.
pub(crate) fn escape(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_string()
}

/// Status; code in the chat, messages and Gemini shapes; message.
const USUAL: &[(u16, &str, &str, &str, &str)] = &[
    (400, "invalid_request", "invalid_request_error", "INVALID_ARGUMENT", "Invalid value for 'messages'."),
    (401, "invalid_api_key", "authentication_error", "UNAUTHENTICATED", "Incorrect API key provided."),
    (402, "insufficient_balance", "billing_error", "FAILED_PRECONDITION", "Insufficient Balance"),
    (
        403,
        "permission_denied",
        "permission_error",
        "PERMISSION_DENIED",
        "You do not have access to this resource.",
    ),
    (
        404,
        "model_not_found",
        "not_found_error",
        "NOT_FOUND",
        "The model does not exist or you do not have access to it.",
    ),
    (408, "request_timeout", "timeout_error", "DEADLINE_EXCEEDED", "Request timed out."),
    (413, "request_too_large", "request_too_large", "INVALID_ARGUMENT", "Request exceeds the maximum size."),
    (
        429,
        "rate_limit_exceeded",
        "rate_limit_error",
        "RESOURCE_EXHAUSTED",
        "Rate limit reached for requests.",
    ),
    (
        500,
        "internal_error",
        "api_error",
        "INTERNAL",
        "The server had an error while processing your request.",
    ),
    (502, "bad_gateway", "api_error", "UNAVAILABLE", "Bad gateway."),
    (
        503,
        "overloaded",
        "overloaded_error",
        "UNAVAILABLE",
        "The server is currently overloaded, please try again later.",
    ),
    (504, "timeout", "timeout_error", "DEADLINE_EXCEEDED", "The request timed out upstream."),
    (529, "overloaded", "overloaded_error", "UNAVAILABLE", "Overloaded"),
];
