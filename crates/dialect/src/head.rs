//! Reads what a gateway must know of a request body, in place and in one pass.
//!
//! No tree is built and nothing is copied: the members of the outermost object are walked, the few that matter
//! are borrowed, the rest is skipped over at the speed of a byte search. A member that appears twice counts
//! with its last value, as JSON parsers have it.

use std::{borrow::Cow, ops::Range};

use crate::{
    Dialect,
    json::{Json, Members},
};

/// What a request body says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head<'a> {
    /// The model, if it is a string.
    pub model: Option<Cow<'a, str>>,
    /// Where the model stands, for [`crate::splice_model`].
    pub slot: Slot,
    /// The client wants a stream.
    pub stream: bool,
    /// `stream_options.include_usage`.
    pub include_usage: bool,
    /// The output limit, under whichever name the dialect has for it.
    pub max_tokens: Option<u64>,
    /// `store`, if it is said.
    pub store: Option<bool>,
    /// `previous_response_id`: the answer that this one continues.
    pub previous_response_id: Option<Cow<'a, str>>,
    /// The body names a `conversation` that lives at the provider.
    pub in_conversation: bool,
    /// `background`.
    pub background: bool,
    /// `prompt_cache_key`.
    pub prompt_cache_key: Option<Cow<'a, str>>,
    /// `metadata.user_id`.
    pub user_id: Option<Cow<'a, str>>,
    /// A member that some parsers take for the model and others do not: a second one, or one in other letter case.
    pub is_model_ambiguous: bool,
    /// The number of turns: elements of `messages`, `input` or `contents`.
    pub messages: Option<u64>,
    has_input: bool,
    has_messages: bool,
}

impl Head<'_> {
    /// Tells whether the call makes or continues something that lives at the provider: background work, an
    /// answer stored on purpose, a stored answer continued.
    pub fn is_stateful(&self) -> bool {
        self.background
            || self.store == Some(true)
            || self.previous_response_id.is_some()
            || self.in_conversation
    }

    /// Tells whether the body has the shape of a Responses request (`input` and no `messages`); some editors
    /// post it to `/chat/completions`.
    pub fn is_responses_shaped(&self) -> bool {
        self.has_input && !self.has_messages
    }
}

/// Where the model of a request body stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Slot {
    /// The body is not known to be an object: nothing can be spliced.
    #[default]
    Nowhere,
    /// The bytes of its value, quotes included.
    Value(Range<usize>),
    /// The member appears more than once: all of them are renamed.
    Repeated,
    /// There is no such member.
    Absent {
        /// The offset behind the opening brace.
        at: usize,
        /// The object has no member at all.
        empty: bool,
    },
}

/// Why a body has no head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// The body is empty or holds something else than an object.
    #[error("the request body is not a JSON object")]
    NotAnObject,
    /// The JSON breaks off or is malformed.
    #[error("the request body is not valid JSON near byte {0}")]
    Malformed(usize),
}

/// Reads the head of a request body.
pub fn head(body: &[u8], dialect: Dialect) -> Result<Head<'_>, HeadError> {
    let root = Json::root(body).filter(Json::is_object).ok_or(HeadError::NotAnObject)?;
    let mut members = root.members();
    let mut head = Head::default();
    let mut empty = true;
    while let Some((key, value)) = members.next() {
        empty = false;
        let end = head.read(&key.name(), value, dialect);
        members.resume(end);
    }
    if let Some(at) = members.fault() {
        return Err(HeadError::Malformed(at));
    }
    if head.slot == Slot::Nowhere {
        head.slot = Slot::Absent { at: root.start() + 1, empty };
    }
    Ok(head)
}

impl<'a> Head<'a> {
    /// Reads one member; returns its end if that was come across.
    fn read(&mut self, key: &[u8], value: Json<'a>, dialect: Dialect) -> Option<usize> {
        match key {
            b"model" => {
                self.model = value.text();
                self.is_model_ambiguous |= self.slot != Slot::Nowhere;
                self.slot = match (&self.slot, value.range()) {
                    (Slot::Nowhere, Some(range)) => Slot::Value(range),
                    (_, _) => Slot::Repeated,
                };
            }
            b"stream" => self.stream = value.boolean() == Some(true),
            b"stream_options" => {
                self.include_usage = value.get("include_usage").and_then(|it| it.boolean()) == Some(true);
            }
            b"max_tokens" | b"max_completion_tokens" | b"max_output_tokens" => {
                self.max_tokens = value.whole_number().or(self.max_tokens);
            }
            b"generationConfig" | b"generation_config" if dialect == Dialect::Gemini => {
                let limit = value.get("maxOutputTokens").or_else(|| value.get("max_output_tokens"));
                self.max_tokens = limit.and_then(|it| it.whole_number());
            }
            b"store" => self.store = value.boolean(),
            b"previous_response_id" => self.previous_response_id = filled(value),
            b"conversation" => self.in_conversation = !value.is_null(),
            b"background" => self.background = value.boolean() == Some(true),
            b"prompt_cache_key" => self.prompt_cache_key = filled(value),
            b"metadata" => self.user_id = value.get("user_id").and_then(filled),
            b"messages" | b"contents" => {
                self.has_messages = true;
                return self.count_turns(&value);
            }
            b"input" => {
                self.has_input = true;
                return self.count_turns(&value);
            }
            _ => self.is_model_ambiguous |= key.eq_ignore_ascii_case(b"model"),
        }
        None
    }

    fn count_turns(&mut self, value: &Json<'a>) -> Option<usize> {
        if !value.is_array() {
            return None;
        }
        let mut turns = value.elements();
        self.messages = Some(turns.by_ref().count() as u64);
        turns.end()
    }
}

fn filled(value: Json<'_>) -> Option<Cow<'_, str>> {
    value.text().filter(|text| !text.is_empty())
}

/// Every place of the model's value in a body, in order.
pub(crate) fn model_ranges(body: &[u8]) -> impl Iterator<Item = Range<usize>> {
    Json::root(body)
        .map_or_else(Members::none, |root| root.members())
        .filter(|(key, _)| key.is("model"))
        .filter_map(|(_, value)| value.range())
}
