//! The list of models, in the shape that the asker reads.

use http::HeaderMap;
use jiff::Timestamp;
use serde::Serialize;

use crate::Dialect;

/// One model of the list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelEntry {
    /// The id that clients send: `provider/model`, a combo or an alias.
    pub id: String,
    /// The name for people, if there is one.
    pub display_name: Option<String>,
    /// Who serves it.
    pub owner: String,
    /// When it was made, in seconds since 1970; 0 if nobody knows.
    pub created: i64,
    /// The window in tokens.
    pub context_length: Option<u64>,
    /// The most tokens that it writes.
    pub max_output: Option<u64>,
}

/// The shapes of a list of models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListShape {
    /// `{"object": "list", "data": […]}`.
    OpenAi,
    /// `{"data": […], "has_more": …, "first_id": …, "last_id": …}`.
    Anthropic,
    /// `{"models": […]}`.
    Gemini,
}

impl ListShape {
    /// Tells the shape from the path's dialect and from the headers: `anthropic-version` is sent by those who
    /// read the Anthropic shape.
    pub fn of(dialect: Dialect, headers: &HeaderMap) -> Self {
        match dialect {
            Dialect::Gemini => Self::Gemini,
            Dialect::AnthropicMessages => Self::Anthropic,
            Dialect::OpenAiChat | Dialect::OpenAiResponses => {
                if headers.contains_key("anthropic-version") {
                    Self::Anthropic
                } else {
                    Self::OpenAi
                }
            }
        }
    }
}

/// Writes the body of a list of models.
pub fn model_list(shape: ListShape, models: &[ModelEntry]) -> Vec<u8> {
    let written = match shape {
        ListShape::OpenAi => {
            serde_json::to_vec(&OpenAiList { object: "list", data: models.iter().map(openai).collect() })
        }
        ListShape::Anthropic => serde_json::to_vec(&AnthropicList {
            data: models.iter().map(anthropic).collect(),
            has_more: false,
            first_id: models.first().map(|model| model.id.as_str()),
            last_id: models.last().map(|model| model.id.as_str()),
        }),
        ListShape::Gemini => serde_json::to_vec(&GeminiList { models: models.iter().map(gemini).collect() }),
    };
    written.expect("plain structs and texts always serialise")
}

#[derive(Serialize)]
struct OpenAiList<'a> {
    object: &'static str,
    data: Vec<OpenAiModel<'a>>,
}

#[derive(Serialize)]
struct OpenAiModel<'a> {
    id: &'a str,
    object: &'static str,
    created: i64,
    owned_by: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    context_length: Option<u64>,
    #[serde(flatten)]
    limits: Limits,
}

#[derive(Serialize)]
struct AnthropicList<'a> {
    data: Vec<AnthropicModel<'a>>,
    has_more: bool,
    first_id: Option<&'a str>,
    last_id: Option<&'a str>,
}

#[derive(Serialize)]
struct AnthropicModel<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    id: &'a str,
    display_name: &'a str,
    created_at: String,
    #[serde(flatten)]
    limits: Limits,
}

#[derive(Serialize)]
struct Limits {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_input_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
}

#[derive(Serialize)]
struct GeminiList<'a> {
    models: Vec<GeminiModel<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GeminiModel<'a> {
    name: String,
    display_name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_token_limit: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_token_limit: Option<u64>,
    supported_generation_methods: [&'static str; 2],
}

fn openai(model: &ModelEntry) -> OpenAiModel<'_> {
    OpenAiModel {
        id: &model.id,
        object: "model",
        created: model.created,
        owned_by: &model.owner,
        context_length: model.context_length,
        limits: limits(model),
    }
}

fn anthropic(model: &ModelEntry) -> AnthropicModel<'_> {
    AnthropicModel {
        kind: "model",
        id: &model.id,
        display_name: model.display_name.as_ref().unwrap_or(&model.id),
        created_at: Timestamp::from_second(model.created).unwrap_or_default().to_string(),
        limits: limits(model),
    }
}

fn limits(model: &ModelEntry) -> Limits {
    Limits { max_input_tokens: model.context_length, max_tokens: model.max_output }
}

fn gemini(model: &ModelEntry) -> GeminiModel<'_> {
    GeminiModel {
        name: format!("models/{}", model.id),
        display_name: model.display_name.as_ref().unwrap_or(&model.id),
        input_token_limit: model.context_length,
        output_token_limit: model.max_output,
        supported_generation_methods: ["generateContent", "countTokens"],
    }
}
