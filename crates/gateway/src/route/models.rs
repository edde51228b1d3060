//! The lists of models that we make ourselves: of the unified routes, and of combos.

use backstop_dialect::{Dialect, ListShape, ModelEntry, Operation, model_list};
use http::{Method, Response, StatusCode};

use super::{Way, entry::Intake};
use crate::{
    auth::Client,
    context,
    plan::{Plan, combo_models},
    reply::{self, Reply},
};

/// The list that a request asks for, if it is ours to make.
pub(super) fn list(intake: &Intake<'_>, client: Option<&Client>) -> Option<Response<Reply>> {
    let Intake { shared, plan, parts, .. } = *intake;
    let route = intake.known.filter(|route| route.operation == Operation::Models)?;
    if !matches!(parts.method, Method::GET | Method::HEAD) {
        return None;
    }
    let (mut models, combo, path) = match intake.way {
        Way::Unified => (plan.models(), None, parts.uri.path()),
        Way::Named { name, path } => {
            let combo = plan.combo(name)?;
            (combo_models(combo, false), Some(combo), path.as_str())
        }
    };
    if let Some(client) = client {
        models.retain(|entry| client.may_name(&entry.owner, asked_as(plan, entry)));
    }
    context::list(shared, plan, combo, &mut models);
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

/// The model of an entry as its provider or combo is asked for it.
fn asked_as<'a>(plan: &'a Plan, entry: &'a ModelEntry) -> &'a str {
    if let Some(alias) = plan.alias(&entry.id) {
        return &alias.model;
    }
    let prefixed = entry.id.strip_prefix(entry.owner.as_str()).and_then(|rest| rest.strip_prefix('/'));
    prefixed.unwrap_or(&entry.id)
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
