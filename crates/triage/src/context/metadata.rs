//! Reads windows out of what servers say about their models.
//!
//! Every server has its own names for the same number. One reader accepts them all: it finds the model's
//! object in the answer and takes the first field that holds a sane number, beginning with what is loaded at
//! the moment, then what is configured, then what the model could do.

use serde_json::Value;

use super::Limits;

/// The limits that a server's answer states for a model, if it does. Accepts a single model's object, lists
/// under `data` or `models`, bare lists, and the property pages of local servers. `alone` says whether a list
/// of one is about our model whatever its name, as on a local server that serves one file.
pub fn read(answer: &Value, model: &str, alone: Alone) -> Option<Limits> {
    let object = find(answer, model, alone)?;
    let context = CONTEXT_FIELDS.iter().find_map(|path| sane(object.pointer(path)?));
    let context = context.or_else(|| configured_parameter(object)).or_else(|| architecture_field(object));
    let offered = object.pointer("/top_provider/context_length").and_then(sane);
    let max_output =
        OUTPUT_FIELDS.iter().find_map(|path| number(object.pointer(path)?)).filter(|limit| *limit > 0);
    let context = match (context, offered) {
        (Some(context), Some(offered)) => context.min(offered),
        (context, offered) => context.or(offered)?,
    };
    Some(Limits { context, max_output: max_output.filter(|limit| *limit <= context) })
}

/// Whether a list of one needs the right name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alone {
    /// The only model of a server is ours.
    IsOurs,
    /// The name must fit.
    MustBeNamed,
}

fn find<'a>(answer: &'a Value, model: &str, alone: Alone) -> Option<&'a Value> {
    let list = match answer {
        Value::Array(list) => list,
        Value::Object(fields) => match fields.get("data").or_else(|| fields.get("models")) {
            Some(Value::Array(list)) => list,
            Some(data @ Value::Object(_)) => return Some(data),
            Some(_) | None => return fits_itself(answer, model),
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
    };
    let named = list.iter().find(|entry| names(entry).any(|name| name.eq_ignore_ascii_case(model)));
    named.or_else(|| list.iter().find(|entry| names(entry).any(|name| same_model(name, model)))).or_else(
        || {
            let only = list.first().filter(|_| list.len() == 1)?;
            (alone == Alone::IsOurs).then_some(only)
        },
    )
}

/// A single object is about our model unless it says that it is about another.
fn fits_itself<'a>(object: &'a Value, model: &str) -> Option<&'a Value> {
    let mut names = names(object).peekable();
    (names.peek().is_none() || names.any(|name| same_model(name, model))).then_some(object)
}

fn names(entry: &Value) -> impl Iterator<Item = &str> {
    ["id", "name", "key", "model", "canonical_slug"].iter().filter_map(|field| entry.get(field)?.as_str())
}

/// Names are the same without their path and without a default tag.
fn same_model(theirs: &str, ours: &str) -> bool {
    let bare = |name: &str| {
        let last = name.rsplit('/').next().unwrap_or(name);
        last.trim_end_matches(":latest").to_ascii_lowercase()
    };
    bare(theirs) == bare(ours)
}

/// `num_ctx` in the text of a model's parameters: it is what a local server allocates, whatever the model
/// could do.
fn configured_parameter(object: &Value) -> Option<u64> {
    let parameters = object.get("parameters")?.as_str()?;
    let line = parameters.lines().find(|line| line.split_whitespace().next() == Some("num_ctx"))?;
    sane(&Value::from(line.split_whitespace().nth(1)?))
}

/// `ARCHITECTURE.context_length` in the header of a model file.
fn architecture_field(object: &Value) -> Option<u64> {
    let header = object.get("model_info")?.as_object()?;
    let field = header.iter().find(|(name, _)| name.ends_with(".context_length"))?;
    sane(field.1)
}

/// A number within the range that windows have.
pub(super) fn sane(value: &Value) -> Option<u64> {
    number(value).filter(|limit| super::SANE.contains(limit))
}

fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64().or_else(|| number.as_f64().map(|float| float as u64)),
        Value::String(text) => text.trim().replace(['_', ','], "").parse().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// What is loaded, then what is configured, then what is possible.
const CONTEXT_FIELDS: [&str; 24] = [
    "/loaded_context_length",
    "/loaded_instances/0/config/context_length",
    "/default_generation_settings/n_ctx",
    "/n_ctx",
    "/context_length",
    "/context_window",
    "/contextWindow",
    "/contextLength",
    "/max_model_len",
    "/max_context_length",
    "/max_context_tokens",
    "/max_input_tokens",
    "/inputTokenLimit",
    "/input_token_limit",
    "/max_prompt_tokens",
    "/max_sequence_length",
    "/max_seq_len",
    "/limit/context",
    "/limits/context",
    "/capabilities/limits/max_prompt_tokens",
    "/capabilities/limits/max_context_window_tokens",
    "/model_spec/availableContextTokens",
    "/metadata/context_length",
    "/meta/n_ctx",
];

const OUTPUT_FIELDS: [&str; 10] = [
    "/top_provider/max_completion_tokens",
    "/max_output_tokens",
    "/max_completion_tokens",
    "/outputTokenLimit",
    "/output_token_limit",
    "/max_output_length",
    "/limit/output",
    "/capabilities/limits/max_output_tokens",
    "/metadata/max_tokens",
    "/max_tokens",
];
