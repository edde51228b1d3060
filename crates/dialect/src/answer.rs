//! Checks a complete answer that came with a success status: is it one?

use crate::{Dialect, Usage, json::Json, shape};

/// What a complete JSON body holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Answer {
    /// Whether it is an answer.
    pub kind: AnswerKind,
    /// What the provider counted.
    pub usage: Usage,
}

/// What the body of a success is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AnswerKind {
    /// An answer: content, or a finish reason without any.
    Content,
    /// The shape of an answer with nothing in it.
    Empty,
    /// A failure under a success status.
    Error,
    /// No JSON at all.
    Unreadable,
}

/// Looks into the body of a generation call that is no stream.
pub fn examine(dialect: Dialect, body: &[u8]) -> Answer {
    let mut usage = Usage::default();
    let Some(root) = outermost(body) else {
        return Answer { kind: AnswerKind::Unreadable, usage };
    };
    let kind =
        if shape::is_error(&root) { AnswerKind::Error } else { shape::examine(dialect, &root, &mut usage) };
    Answer { kind, usage }
}

/// Tells whether a JSON body of any call tells a failure: an error object, a status of its own that is no
/// success. False for bodies that are no JSON.
pub fn has_embedded_error(body: &[u8]) -> bool {
    outermost(body).is_some_and(|root| shape::is_error(&root))
}

/// The outermost object, or the first one of an array.
fn outermost(body: &[u8]) -> Option<Json<'_>> {
    let root = Json::root(body)?;
    let root = if root.is_array() { root.elements().next()? } else { root };
    root.is_object().then_some(root)
}
