//! Recognises what a request is for from its path alone.
//!
//! A path may carry a version segment (`/v1/…`, `/v1beta/…`) or not; what follows it decides. A path that is
//! nobody's is no error here: a named provider still gets it, unread.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use crate::Dialect;

/// What a path asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route<'a> {
    /// The dialect that the path belongs to; paths that several share (`/models`, `/files`) say
    /// [`Dialect::OpenAiChat`].
    pub dialect: Dialect,
    /// What is asked for.
    pub operation: Operation,
    /// What stands before the part that was recognised, if a path of the provider's own is asked for
    /// (`openai/deployments/x`); empty on the usual paths.
    pub prefix: &'a str,
    /// The path's leading version segment, without slashes.
    pub version: Option<&'a str>,
    /// The model, where the path names it (percent-decoded).
    pub model_in_path: Option<Cow<'a, str>>,
    /// The path makes the answer a stream, whatever the body says.
    pub streams: bool,
}

impl Route<'_> {
    /// Tells whether the call makes or uses an object that lives at the provider, as far as the path tells;
    /// the body may tell more ([`crate::Head::is_stateful`]).
    pub const fn is_stateful(&self) -> bool {
        match self.operation {
            Operation::Files | Operation::Batches | Operation::Stored => true,
            Operation::Generate
            | Operation::Compact
            | Operation::CountTokens
            | Operation::Embeddings
            | Operation::Models
            | Operation::Audio
            | Operation::Images
            | Operation::Other => false,
        }
    }
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// An answer of a model: the calls whose content, usage and end are read.
    Generate,
    /// A conversation made shorter by the provider (`/responses/compact`).
    Compact,
    /// A count of tokens.
    CountTokens,
    /// Embeddings.
    Embeddings,
    /// The list of models, or one of them.
    Models,
    /// Files, and uploads of them.
    Files,
    /// Batches.
    Batches,
    /// A stored answer or conversation, by its id: read, cancelled, deleted.
    Stored,
    /// Speech and transcription.
    Audio,
    /// Images made or edited.
    Images,
    /// Known to belong to a dialect, and passed on unread.
    Other,
}

/// Recognises a path (no query), with or without its version segment.
pub fn recognise(path: &str) -> Option<Route<'_>> {
    let rest = path.strip_prefix('/')?;
    let (version, rest) = match rest.split_once('/') {
        Some((first, rest)) if is_version(first) => (Some(first), rest),
        Some(_) | None => (None, rest),
    };
    let rest = rest.trim_end_matches('/');
    if let Some(gemini) = gemini(version, rest) {
        return Some(gemini);
    }
    let (prefix, (dialect, operation)) = match fixed(rest) {
        Some(found) => ("", found),
        None => nested(rest)?,
    };
    Some(Route { dialect, operation, prefix, version, model_in_path: None, streams: false })
}

/// Tells whether a path segment names an API version: `v1`, `v1beta`, `v1beta1`, `v4`.
pub(crate) fn is_version(segment: &str) -> bool {
    let Some(rest) = segment.strip_prefix('v') else { return false };
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let word = rest[digits..].trim_end_matches(|c: char| c.is_ascii_digit());
    (1..=2).contains(&digits) && matches!(word, "" | "alpha" | "beta")
}

fn fixed(rest: &str) -> Option<(Dialect, Operation)> {
    use Dialect::{AnthropicMessages, OpenAiChat, OpenAiResponses};
    let mut segments = rest.split('/');
    let found = match (segments.next()?, segments.next(), segments.next()) {
        ("chat", Some("completions"), None) | ("completions", None, None) => {
            (OpenAiChat, Operation::Generate)
        }
        ("chat", Some("completions"), Some(_)) => (OpenAiChat, Operation::Stored),
        ("responses", None, None) => (OpenAiResponses, Operation::Generate),
        ("responses", Some("compact"), None) => (OpenAiResponses, Operation::Compact),
        ("responses", Some("input_tokens"), None) => (OpenAiResponses, Operation::CountTokens),
        ("responses" | "conversations", _, _) => (OpenAiResponses, Operation::Stored),
        ("messages", None, None) => (AnthropicMessages, Operation::Generate),
        ("messages", Some("count_tokens"), None) => (AnthropicMessages, Operation::CountTokens),
        ("messages", Some("batches"), _) => (AnthropicMessages, Operation::Batches),
        ("complete", None, None) => (AnthropicMessages, Operation::Other),
        ("embeddings", None, None) => (OpenAiChat, Operation::Embeddings),
        ("models", _, _) => (OpenAiChat, Operation::Models),
        ("files" | "uploads" | "vector_stores" | "containers", _, _) => (OpenAiChat, Operation::Files),
        ("batches", _, _) => (OpenAiChat, Operation::Batches),
        ("images", _, _) => (OpenAiChat, Operation::Images),
        ("audio", _, _) => (OpenAiChat, Operation::Audio),
        ("moderations" | "rerank", _, _) => (OpenAiChat, Operation::Other),
        _ => return None,
    };
    Some(found)
}

/// Finds a call for an answer at the end of a longer path.
fn nested(rest: &str) -> Option<(&str, (Dialect, Operation))> {
    rest.match_indices('/').find_map(|(slash, _)| {
        let found = fixed(&rest[slash + 1..])?;
        let is_call = match found.1 {
            Operation::Generate | Operation::CountTokens | Operation::Embeddings => true,
            Operation::Compact
            | Operation::Models
            | Operation::Files
            | Operation::Batches
            | Operation::Stored
            | Operation::Audio
            | Operation::Images
            | Operation::Other => false,
        };
        is_call.then_some((&rest[..slash], found))
    })
}

fn gemini<'a>(version: Option<&'a str>, rest: &'a str) -> Option<Route<'a>> {
    let route = |operation, model_in_path, streams| Route {
        dialect: Dialect::Gemini,
        operation,
        prefix: "",
        version,
        model_in_path,
        streams,
    };
    if let Some((resource, verb)) = rest.rsplit_once(':') {
        let (operation, streams) = match verb {
            "generateContent" => (Operation::Generate, false),
            "streamGenerateContent" => (Operation::Generate, true),
            "countTokens" => (Operation::CountTokens, false),
            "embedContent" | "batchEmbedContents" => (Operation::Embeddings, false),
            "batchGenerateContent" | "asyncBatchEmbedContent" => (Operation::Batches, false),
            _ => (Operation::Other, false),
        };
        let model = resource.strip_prefix("models/").filter(|model| !model.is_empty())?;
        return Some(route(operation, Some(percent_decode_str(model).decode_utf8_lossy()), streams));
    }
    let of_gemini = version.is_some_and(|version| version.starts_with("v1beta") || version == "v1alpha");
    let (first, model) = match rest.split_once('/') {
        Some((first, model)) => (first, Some(model)),
        None => (rest, None),
    };
    match first {
        "models" if of_gemini => {
            let model = model.map(|model| percent_decode_str(model).decode_utf8_lossy());
            Some(route(Operation::Models, model, false))
        }
        "files" if of_gemini => Some(route(Operation::Files, None, false)),
        "batches" if of_gemini => Some(route(Operation::Batches, None, false)),
        "cachedContents" | "fileSearchStores" => Some(route(Operation::Files, None, false)),
        "upload" => Some(route(Operation::Files, None, false)),
        _ => None,
    }
}
