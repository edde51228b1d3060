//! Evidence opened into structured facts.
//!
//! Whatever the world sends is taken apart into **layers**: the outermost is what arrived, the inner ones are
//! errors that it quotes (an upstream's answer inside a relay's message, an API's answer inside an agent's
//! output). Every layer has its tokens (codes and types), its words (what it says to people, folded) and its
//! own status, if it tells one. Rules look at the layers through a [`View`].
//!
//! Words come only from fields that speak of the error. Web pages, documents, model output and echoes of the
//! client's own request are not read for words: they contain "limit" and "unauthorized" without meaning it.

mod envelope;
pub mod fold;
mod frames;
mod outcome;
mod prose;
mod roles;
pub mod value;
mod walk;

use std::{borrow::Cow, ops::Range};

use crate::{
    Evidence, Kind,
    rules::{BodyShape, KindName},
};

pub use self::value::Value;

/// One failure, opened.
#[derive(Debug)]
pub struct Facts<'a> {
    /// The kind of failure.
    pub kind: KindName,
    /// The HTTP status that arrived.
    pub status: Option<u16>,
    /// What the body looks like.
    pub shape: BodyShape,
    /// What arrived and what it quotes, outermost first.
    pub layers: Vec<Layer<'a>>,
    /// The folded words of all layers.
    pub text: String,
    /// The structured tokens of all layers.
    pub tokens: Vec<Token>,
    /// The word-like tokens as prose: `InsufficientBalance` is `insufficient balance`.
    pub code_words: String,
    /// The folded beginning of a web page; only edge rules read it.
    pub page: String,
    /// Headers that stood inside the body, names in lower case.
    pub nested_headers: Vec<(String, String)>,
    /// Whether the body is an answer of a model that reports no failure.
    pub answer: Answer,
}

/// What arrived, or one error that it quotes.
#[derive(Debug, Default)]
pub struct Layer<'a> {
    /// Its structured value, if it has one.
    pub value: Option<Value<'a>>,
    /// Its words in [`Facts::text`].
    pub words: Range<usize>,
    /// The status that it tells itself.
    pub status: Option<u16>,
    /// How many layers are around it.
    pub depth: u8,
    /// Whether a relay quotes it.
    pub quoted: bool,
    /// How its quoter names its provider, folded.
    pub provider: Option<String>,
}

/// A structured word or number: a code, a type, a status name, a reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Token {
    /// The folded token.
    pub text: String,
    /// Whether it stood in a type-like field and is a word.
    pub is_type: bool,
    /// The layer it stands in.
    pub layer: u8,
}

/// What a body says as an answer of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is none, or it reports a failure.
    No,
    /// It is one, with content.
    Content,
    /// It is one, without content.
    Empty,
    /// It is the beginning of one: a stream that has no end.
    Cut,
}

/// The layers that a rule looks at, as a set of bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View(pub u32);

impl View {
    /// All layers.
    pub const WHOLE: Self = Self((1 << Facts::LAYERS) - 1);
    /// The codes and types of all layers, read as if they were prose.
    pub const CODES: Self = Self(1 << 30);

    /// Whether the view has a layer.
    pub fn has(self, layer: usize) -> bool {
        layer < Facts::LAYERS && self.0 & (1 << layer) != 0
    }
}

impl<'a> Facts<'a> {
    /// More layers are not opened.
    pub const LAYERS: usize = 24;

    /// Opens a failure. Total: any bytes give some facts.
    pub fn open(evidence: &'a Evidence) -> Self {
        let (kind, status) = match evidence.kind {
            Kind::Http { status } => (KindName::Http, Some(status)),
            Kind::Stream { status } => (KindName::Stream, Some(status)),
            Kind::Transport(_) => (KindName::Transport, None),
            Kind::Process { .. } => (KindName::Process, None),
        };
        let facts = Self {
            kind,
            status: status.filter(|status| *status != 0),
            shape: BodyShape::Empty,
            layers: Vec::with_capacity(4),
            text: String::with_capacity(512),
            tokens: Vec::with_capacity(8),
            code_words: String::new(),
            page: String::new(),
            nested_headers: Vec::new(),
            answer: Answer::No,
        };
        let mut opener = envelope::Opener::new(facts, evidence);
        opener.open_evidence(evidence);
        let mut facts = opener.facts;
        // One event that reports a failure outweighs all that were content.
        if !facts.layers.is_empty() {
            facts.answer = Answer::No;
        }
        let begun = matches!(facts.answer, Answer::Content | Answer::Empty);
        if begun && facts.kind == KindName::Stream && !outcome::has_ended(&evidence.text) {
            facts.answer = Answer::Cut;
        }
        facts
    }

    /// Whether the status that arrived is a failure by itself.
    pub fn status_fails(&self) -> bool {
        self.status.is_some_and(|status| status >= 300)
    }

    /// The innermost layers that say anything, if there is something around them.
    pub fn inner_view(&self) -> Option<View> {
        let says = |index: usize, layer: &Layer<'_>| {
            layer.words.len() > 1 || self.tokens.iter().any(|token| usize::from(token.layer) == index)
        };
        let speaking = || self.layers.iter().enumerate().filter(|(index, layer)| says(*index, layer));
        let deepest = speaking().map(|(_, layer)| layer.depth).max().filter(|depth| *depth > 0)?;
        Some(
            speaking()
                .filter(|(_, layer)| layer.depth == deepest)
                .fold(View(0), |view, (index, _)| View(view.0 | 1 << index)),
        )
    }

    /// Whether a relay quotes the error.
    pub fn is_quoted(&self) -> bool {
        self.layers.iter().any(|layer| layer.quoted)
    }

    /// Whether the failure says anything at all.
    pub fn says_anything(&self) -> bool {
        !self.text.trim().is_empty() || !self.tokens.is_empty()
    }

    /// The words of the layers of a view.
    pub fn words(&self, view: View) -> impl Iterator<Item = &str> {
        self.layers
            .iter()
            .enumerate()
            .filter(move |(index, _)| view.has(*index))
            .filter_map(|(_, layer)| self.text.get(layer.words.clone()))
            .chain((view == View::CODES).then_some(self.code_words.as_str()))
    }

    /// The statuses that count for a view: what arrived if it is a failure, else what the layers tell, and a
    /// good status last.
    pub fn statuses(&self, view: View) -> impl Iterator<Item = u16> {
        let told = self
            .layers
            .iter()
            .enumerate()
            .filter(move |(index, _)| view.has(*index))
            .filter_map(|(_, layer)| layer.status);
        let inner_first = view != View::WHOLE && told.clone().next().is_some();
        let arrived = self.status.filter(|_| self.status_fails() && !inner_first);
        let good = self.status.filter(|_| !self.status_fails());
        arrived.into_iter().chain(told.filter(move |_| arrived.is_none())).chain(good)
    }
}

/// Whether a body with a good status reports a failure; a cheap look first, for it stands in the way of answers.
pub fn reports_failure(body: &[u8]) -> bool {
    let suspicious = FAILURE_MARKS.iter().any(|mark| memchr::memmem::find(body, mark).is_some());
    suspicious
        && std::str::from_utf8(body)
            .ok()
            .and_then(value::read)
            .is_some_and(|read| outcome::reports_failure(&read.value))
}

/// No failure inside a good answer does without one of these.
const FAILURE_MARKS: [&[u8]; 8] = [
    b"\"error",
    b"\"base_resp\"",
    b"\"success",
    b"\"code\"",
    b"\"finish_reason\"",
    b"\"message\":\"",
    b"\"msg\"",
    b"\"blockReason\"",
];

/// A text that may be borrowed from the evidence or belong to an unescaped part of it.
type Words<'a> = Cow<'a, str>;
