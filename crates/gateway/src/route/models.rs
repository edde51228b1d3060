//! The lists of models that we make ourselves: of the unified routes, and of combos.

use backstop_dialect::{Dialect, ListShape, ModelEntry, Operation, Route, model_list};
use http::{Method, Response, StatusCode, request::Parts};

use super::Way;
use crate::{
    plan::{Plan, combo_models},
    reply::{self, Reply},
};

/// The list that a request asks for, if it is ours to make.
pub(super) fn list(
    plan: &Plan,
    way: &Way,
    known: Option<&Route<'_>>,
    parts: &Parts,
) -> Option<Response<Reply>> {
    let route = known.filter(|route| route.operation == Operation::Models)?;
    if !matches!(parts.method, Method::GET | Method::HEAD) {
        return None;
    }
    let (models, path) = match way {
        Way::Unified => (plan.models(), parts.uri.path()),
        Way::Named { name, path } => (combo_models(plan.combo(name)?, false), path.as_str()),
    };
    let shape = ListShape::of(route.dialect, &parts.headers);
    let asked = one_of(route.dialect, route.model_in_path.as_deref(), path);
    let body = match asked {
        None => model_list(shape, &models),
        Some(id) => {
            let one: Vec<ModelEntry> = models.into_iter().filter(|model| model.id == id).collect();
            if one.is_empty() {
                return None;
            }
            entry(shape, &one)
        }
    };
    Some(reply::text(StatusCode::OK, "application/json", body))
}

/// The one model that a path asks for.
fn one_of(dialect: Dialect, in_path: Option<&str>, path: &str) -> Option<String> {
    match dialect {
        Dialect::Gemini => in_path.map(str::to_owned),
        Dialect::OpenAiChat | Dialect::OpenAiResponses | Dialect::AnthropicMessages => {
            let (_, id) = path.split_once("/models/")?;
            let id = percent_encoding::percent_decode_str(id).decode_utf8_lossy().into_owned();
            (!id.is_empty()).then_some(id)
        }
    }
}

/// One entry, out of a list of one.
fn entry(shape: ListShape, one: &[ModelEntry]) -> Vec<u8> {
    let list: serde_json::Value = serde_json::from_slice(&model_list(shape, one)).unwrap_or_default();
    let member = match shape {
        ListShape::OpenAi | ListShape::Anthropic => "data",
        ListShape::Gemini => "models",
    };
    list[member][0].to_string().into_bytes()
}
