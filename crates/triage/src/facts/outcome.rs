//! Whether an answer with a good status reports a failure after all, and whether it has content.

use super::{Answer, Value, walk::is_normal_finish};

/// Whether a value says that something failed, in any of the shapes that providers use.
pub(super) fn reports_failure(value: &Value<'_>) -> bool {
    match value {
        Value::Object(_) => object_reports_failure(value),
        Value::List(items) => items.iter().take(8).any(reports_failure),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) => false,
    }
}

fn object_reports_failure(value: &Value<'_>) -> bool {
    let text = |key: &str| value.key(key).and_then(Value::scalar).unwrap_or_default();
    let kind = text("type");
    says_error(value.key("error"))
        || says_error(value.key("errors"))
        || says_error(value.key("Error"))
        || value.key("Response").is_some_and(|inner| says_error(inner.key("Error")))
        || kind.contains("error")
        || kind.ends_with("failed")
        || kind.contains("exception")
        || text("event") == "error"
        || text("object") == "error"
        || value.key("detail").is_some_and(tells_what_went_wrong)
        || text("success") == "false"
        || text("successResponse") == "false"
        || text("is_error") == "true"
        || matches!(text("status"), "failed" | "error")
        || is_failing_number(text("status"))
        || !matches!(text("error_code"), "" | "0")
        || value
            .key("base_resp")
            .and_then(|resp| resp.key("status_code"))
            .and_then(Value::scalar)
            .is_some_and(|c| c != "0")
        || names_an_exception(value)
        || abnormal(value.key("finish_reason"))
        || choices(value).any(choice_fails)
        || value.key("promptFeedback").is_some_and(|feedback| feedback.key("blockReason").is_some())
        || abnormal(value.key("stop_reason"))
        || value.key("delta").is_some_and(|delta| abnormal(delta.key("stop_reason")))
        || value
            .key("header")
            .and_then(|header| header.key("code"))
            .and_then(Value::scalar)
            .is_some_and(|code| code != "0")
        || ["response", "data"].iter().filter_map(|key| value.key(key)).any(inner_fails)
        || flat_failure(value)
}

fn says_error(value: Option<&Value<'_>>) -> bool {
    match value {
        None | Some(Value::Null | Value::Bool(false)) => false,
        Some(Value::Bool(true)) => true,
        Some(Value::Number(number)) => *number != "0",
        Some(Value::Text(text)) => !text.is_empty(),
        Some(Value::List(items)) => !items.is_empty(),
        Some(Value::Object(pairs)) => !pairs.is_empty(),
    }
}

/// `{"detail": {"status": "quota_exceeded", "message": …}}`.
fn tells_what_went_wrong(detail: &Value<'_>) -> bool {
    says_error(detail.key("error")) || matches!(detail.key("message"), Some(Value::Text(_)))
}

fn is_failing_number(text: &str) -> bool {
    text.parse::<u16>().is_ok_and(|status| (400..=599).contains(&status))
}

fn choices<'v, 'a>(value: &'v Value<'a>) -> impl Iterator<Item = &'v Value<'a>> {
    ["choices", "candidates"]
        .into_iter()
        .filter_map(|key| value.key(key))
        .filter_map(|list| match list {
            Value::List(items) => Some(items),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) | Value::Object(_) => None,
        })
        .flatten()
}

fn choice_fails(choice: &Value<'_>) -> bool {
    says_error(choice.key("error"))
        || ["finish_reason", "finishReason"].iter().any(|key| abnormal(choice.key(key)))
}

fn abnormal(reason: Option<&Value<'_>>) -> bool {
    reason.and_then(Value::scalar).is_some_and(|reason| !is_normal_finish(reason))
}

fn inner_fails(inner: &Value<'_>) -> bool {
    let incomplete = inner.key("incomplete_details").and_then(|details| details.key("reason"));
    let cut_short = |reason: &str| !matches!(reason, "max_output_tokens" | "max_tokens");
    says_error(inner.key("error"))
        || inner.key("status").and_then(Value::scalar) == Some("failed")
        || incomplete.and_then(Value::scalar).is_some_and(cut_short)
}

/// An event whose one field is the exception: `{"throttlingException": {"message": …}}`.
fn names_an_exception(value: &Value<'_>) -> bool {
    matches!(value, Value::Object(pairs) if pairs.iter().any(|(key, value)| is_exception(key, value)))
}

/// Whether a field is called like an exception and holds one.
pub(super) fn is_exception(key: &str, value: &Value<'_>) -> bool {
    key.ends_with("xception") && matches!(value, Value::Object(_))
}

/// `{"code": 1000, "msg": …}`: an error without an envelope.
fn flat_failure(value: &Value<'_>) -> bool {
    if ANSWERS.iter().any(|key| value.key(key).is_some_and(|answer| *answer != Value::Null)) {
        return false;
    }
    let code = value.key("code").and_then(Value::scalar).unwrap_or_default();
    let coded = !matches!(
        code,
        "" | "0" | "200" | "ok" | "OK" | "Ok" | "success" | "Success" | "SUCCESS" | "succeeded"
    );
    let spoken = ["message", "Message", "msg", "detail", "error_msg"];
    coded
        || value.key("id").is_none()
            && spoken.iter().any(|key| matches!(value.key(key), Some(Value::Text(_))))
}

/// Whether an answer without a failure has content. Shapes that are not known count as content.
pub(super) fn answer(value: &Value<'_>) -> Answer {
    let mut known = false;
    for choice in choices(value) {
        known = true;
        for part in ["message", "delta"].iter().filter_map(|key| choice.key(key)) {
            if CONTENTS.iter().any(|key| has_content(part.key(key))) {
                return Answer::Content;
            }
        }
        if has_content(choice.key("text")) || has_content(choice.key("content").and_then(|c| c.key("parts")))
        {
            return Answer::Content;
        }
    }
    for key in ["choices", "candidates", "content", "output"] {
        let Some(part) = value.key(key) else {
            continue;
        };
        known = true;
        if matches!(key, "content" | "output") && has_content(Some(part)) {
            return Answer::Content;
        }
    }
    if known { Answer::Empty } else { Answer::Content }
}

fn has_content(value: Option<&Value<'_>>) -> bool {
    says_error(value)
}

/// Whether a stream of a model's answer says that it is over, in any dialect.
pub(super) fn has_ended(stream: &str) -> bool {
    let stream = stream.as_bytes();
    let says = |mark: &[u8]| memchr::memmem::find(stream, mark).is_some();
    let is_told = |key: &[u8]| {
        memchr::memmem::find_iter(stream, key).any(|at| {
            let rest = stream.get(at + key.len()..).unwrap_or_default();
            let value = rest.iter().find(|byte| !matches!(byte, b' ' | b':'));
            matches!(value, Some(b'"' | b't'))
        })
    };
    ENDS.iter().any(|mark| says(mark)) || ENDING_FIELDS.iter().any(|key| is_told(key))
}

/// What closes a stream.
const ENDS: [&[u8]; 6] = [
    b"[DONE]",
    b"message_stop",
    b"response.completed",
    b"response.incomplete",
    b"message-end",
    b"stream-end",
];
/// Fields that are told, or true, at the end only.
const ENDING_FIELDS: [&[u8]; 6] = [
    b"\"finish_reason\"",
    b"\"finishReason\"",
    b"\"stop_reason\"",
    b"\"stopReason\"",
    b"\"done\"",
    b"\"is_finished\"",
];
const ANSWERS: [&str; 8] =
    ["choices", "content", "output", "candidates", "embedding", "embeddings", "data", "object"];
const CONTENTS: [&str; 5] = ["content", "tool_calls", "reasoning_content", "reasoning", "refusal"];
