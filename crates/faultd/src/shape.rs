//! The four API shapes, told by the end of the path, so that any base URL works.

use crate::request::Request;

/// A request and answer format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Shape {
    /// `/chat/completions`, and everything that has no shape of its own.
    Chat,
    /// `/responses`.
    Responses,
    /// `/messages`.
    Messages,
    /// `/models/{model}:generateContent` and its like.
    Gemini,
}

/// What a path asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// An answer of a model.
    Generate,
    /// An answer in the old completion format.
    Complete,
    /// A count of tokens.
    CountTokens,
    /// One or more embeddings.
    Embeddings,
    /// The list of models.
    Models,
    /// One model of the list.
    Model,
    /// Anything else.
    Other,
}

/// A path, understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target<'a> {
    pub(crate) shape: Shape,
    pub(crate) operation: Operation,
    /// The model, where the path names it.
    pub(crate) model: Option<&'a str>,
    /// Whether the path itself asks for a stream.
    pub(crate) stream: bool,
}

impl<'a> Target<'a> {
    /// Understands the path of a request (without its query); headers tell apart lists of models that share a path.
    pub(crate) fn of(request: &'a Request) -> Self {
        let path = request.path();
        let plain = |shape, operation| Self { shape, operation, model: None, stream: false };
        for (end, shape, operation) in ENDS {
            if path.ends_with(end) {
                return plain(*shape, *operation);
            }
        }
        let listing = if path.contains("/v1beta") {
            Shape::Gemini
        } else if request.speaks_messages {
            Shape::Messages
        } else {
            Shape::Chat
        };
        if path.ends_with("/models") {
            return plain(listing, Operation::Models);
        }
        let Some((_, rest)) = path.rsplit_once("/models/") else { return plain(listing, Operation::Other) };
        let Some((model, verb)) = rest.rsplit_once(':') else {
            return Self { shape: listing, operation: Operation::Model, model: Some(rest), stream: false };
        };
        let (operation, stream) = match verb {
            "generateContent" => (Operation::Generate, false),
            "streamGenerateContent" => (Operation::Generate, true),
            "countTokens" => (Operation::CountTokens, false),
            "embedContent" | "batchEmbedContents" => (Operation::Embeddings, false),
            _ => (Operation::Other, false),
        };
        Self { shape: Shape::Gemini, operation, model: Some(model), stream }
    }
}

const ENDS: &[(&str, Shape, Operation)] = &[
    ("/chat/completions", Shape::Chat, Operation::Generate),
    ("/messages", Shape::Messages, Operation::Generate),
    ("/responses", Shape::Responses, Operation::Generate),
    ("/completions", Shape::Chat, Operation::Complete),
    ("/embeddings", Shape::Chat, Operation::Embeddings),
    ("/messages/count_tokens", Shape::Messages, Operation::CountTokens),
    ("/responses/input_tokens", Shape::Responses, Operation::CountTokens),
];
