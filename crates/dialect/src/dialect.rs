//! The four dialects and the two ways in which their streams are framed.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// A shape in which an LLM API is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dialect {
    /// Chat completions, and everything else that lives beside them (completions, embeddings, files …).
    #[serde(rename = "openai-chat")]
    OpenAiChat,
    /// Responses.
    #[serde(rename = "openai-responses")]
    OpenAiResponses,
    /// Messages.
    AnthropicMessages,
    /// `generateContent` and its kin; the model is in the path.
    Gemini,
}

impl Dialect {
    /// Every dialect.
    pub const ALL: [Self; 4] =
        [Self::OpenAiChat, Self::OpenAiResponses, Self::AnthropicMessages, Self::Gemini];

    /// The public name, as in the configuration's `format`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OpenAiChat => "openai-chat",
            Self::OpenAiResponses => "openai-responses",
            Self::AnthropicMessages => "anthropic-messages",
            Self::Gemini => "gemini",
        }
    }

    /// The version segment that this dialect's paths begin with.
    pub const fn version(self) -> &'static str {
        match self {
            Self::OpenAiChat | Self::OpenAiResponses | Self::AnthropicMessages => "v1",
            Self::Gemini => "v1beta",
        }
    }

    /// Tells whether a provider of format `self` also passes requests of `other` on.
    ///
    /// The two OpenAI shapes live on one server, so each passes the other; what the server does not know it
    /// refuses itself.
    pub const fn passes(self, other: Self) -> bool {
        match self {
            Self::OpenAiChat | Self::OpenAiResponses => {
                matches!(other, Self::OpenAiChat | Self::OpenAiResponses)
            }
            Self::AnthropicMessages => matches!(other, Self::AnthropicMessages),
            Self::Gemini => matches!(other, Self::Gemini),
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Dialect {
    type Err = UnknownDialect;

    fn from_str(text: &str) -> Result<Self, UnknownDialect> {
        Self::ALL.into_iter().find(|dialect| dialect.as_str() == text).ok_or(UnknownDialect)
    }
}

/// The name is none of the four dialects'.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown format: use openai-chat, openai-responses, anthropic-messages or gemini")]
pub struct UnknownDialect;

/// How the events of a stream are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Framing {
    /// Server-sent events.
    Sse,
    /// One JSON array whose elements arrive one by one (Gemini without `alt=sse`).
    JsonArray,
}

impl Framing {
    /// Tells the framing of a streamed answer from its dialect and its `content-type`.
    pub fn of(dialect: Dialect, content_type: Option<&str>) -> Self {
        let is_json = content_type.is_some_and(|text| {
            text.trim_start().get(..16).is_some_and(|head| head.eq_ignore_ascii_case("application/json"))
        });
        match dialect {
            Dialect::Gemini if is_json => Self::JsonArray,
            Dialect::Gemini | Dialect::OpenAiChat | Dialect::OpenAiResponses | Dialect::AnthropicMessages => {
                Self::Sse
            }
        }
    }
}
