//! The list of models, in the shape that the asker reads.

use http::HeaderMap;
use serde_json::{Value, json};

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
    let list = match shape {
        ListShape::OpenAi => {
            json!({ "object": "list", "data": models.iter().map(openai).collect::<Vec<_>>() })
        }
        ListShape::Anthropic => json!({
            "data": models.iter().map(anthropic).collect::<Vec<_>>(),
            "has_more": false,
            "first_id": models.first().map(|model| &model.id),
            "last_id": models.last().map(|model| &model.id),
        }),
        ListShape::Gemini => json!({ "models": models.iter().map(gemini).collect::<Vec<_>>() }),
    };
    list.to_string().into_bytes()
}

fn openai(model: &ModelEntry) -> Value {
    let entry = json!({
        "id": model.id,
        "object": "model",
        "created": model.created,
        "owned_by": model.owner,
        "context_length": model.context_length,
        "max_input_tokens": model.context_length,
        "max_tokens": model.max_output,
    });
    without_nulls(entry)
}

fn anthropic(model: &ModelEntry) -> Value {
    let entry = json!({
        "type": "model",
        "id": model.id,
        "display_name": model.display_name.as_ref().unwrap_or(&model.id),
        "created_at": rfc3339(model.created),
        "max_input_tokens": model.context_length,
        "max_tokens": model.max_output,
    });
    without_nulls(entry)
}

fn gemini(model: &ModelEntry) -> Value {
    let entry = json!({
        "name": format!("models/{}", model.id),
        "displayName": model.display_name.as_ref().unwrap_or(&model.id),
        "inputTokenLimit": model.context_length,
        "outputTokenLimit": model.max_output,
        "supportedGenerationMethods": ["generateContent", "countTokens"],
    });
    without_nulls(entry)
}

fn without_nulls(mut entry: Value) -> Value {
    if let Some(members) = entry.as_object_mut() {
        members.retain(|_, value| !value.is_null());
    }
    entry
}

fn rfc3339(seconds: i64) -> String {
    jiff::Timestamp::from_second(seconds).unwrap_or_default().to_string()
}
