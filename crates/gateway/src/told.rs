//! An error that was told inside a success, made into the answer that it should have been.
//!
//! An error event has the shape of the stream that it stands in. What goes back to the client is no stream, so the
//! error itself is taken out of the event and put into the envelope in which the client's dialect has its errors. An
//! event that has that shape already goes back as it is.

use backstop_dialect::Dialect;
use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};

/// The status that an error event names, if it names one, and the body of the answer that it stands for.
pub(crate) fn as_answer(dialect: Dialect, event: &[u8]) -> (Option<StatusCode>, Bytes) {
    let read = serde_json::from_slice(event).unwrap_or(Value::Null);
    let error = error_in(&read);
    let status = error.and_then(status_in).or_else(|| status_in(&read));
    let body = if has_shape(dialect, &read) {
        Bytes::copy_from_slice(event)
    } else {
        let words = || json!({"type": "invalid_request_error", "message": String::from_utf8_lossy(event)});
        Bytes::from(envelope(dialect, &error.cloned().unwrap_or_else(words)).to_string())
    };
    (status, body)
}

/// The error itself, wherever the event has it.
fn error_in(event: &Value) -> Option<&Value> {
    let nested = [event.pointer("/response/error"), event.get("error")];
    let nested = nested.into_iter().flatten().find(|error| error.is_object());
    nested.or_else(|| event.get("message").is_some().then_some(event))
}

fn has_shape(dialect: Dialect, event: &Value) -> bool {
    let is_named = match dialect {
        Dialect::AnthropicMessages => event.get("type").is_some_and(|kind| kind == "error"),
        Dialect::OpenAiChat | Dialect::OpenAiResponses | Dialect::Gemini => true,
    };
    is_named && event.get("error").is_some_and(Value::is_object)
}

fn envelope(dialect: Dialect, error: &Value) -> Value {
    match dialect {
        Dialect::AnthropicMessages => json!({"type": "error", "error": error}),
        Dialect::OpenAiChat | Dialect::OpenAiResponses | Dialect::Gemini => json!({"error": error}),
    }
}

/// The status that an error names.
fn status_in(error: &Value) -> Option<StatusCode> {
    STATUSES.iter().find_map(|name| {
        let value = error.get(name)?;
        let number = value.as_u64().or_else(|| value.as_str()?.parse().ok())?;
        let status = StatusCode::from_u16(u16::try_from(number).ok()?).ok()?;
        (status.is_client_error() || status.is_server_error()).then_some(status)
    })
}

/// Members of an error that may hold its status.
const STATUSES: [&str; 4] = ["status", "status_code", "code", "http_code"];

#[cfg(test)]
mod tests {
    use super::*;

    fn body(dialect: Dialect, event: &str) -> String {
        let read = serde_json::from_str(event).unwrap_or(Value::Null);
        if has_shape(dialect, &read) {
            return "as it is".into();
        }
        error_in(&read).map_or_else(|| "words".into(), |error| envelope(dialect, error).to_string())
    }

    #[test]
    fn an_error_event_is_put_into_the_envelope_of_its_dialect() {
        let chat = r#"{"error":{"message":"no"}}"#;
        assert_eq!(body(Dialect::OpenAiChat, chat), "as it is");
        assert_eq!(body(Dialect::AnthropicMessages, chat), r#"{"error":{"message":"no"},"type":"error"}"#);
        let failed = r#"{"type":"response.failed","response":{"error":{"message":"no"}}}"#;
        assert_eq!(body(Dialect::OpenAiResponses, failed), chat);
        assert_eq!(body(Dialect::OpenAiChat, "no json"), "words");
    }

    #[test]
    fn a_status_is_taken_from_where_an_error_names_it() {
        let status =
            |text: &str| status_in(&serde_json::from_str(text).unwrap()).map(|status| status.as_u16());
        assert_eq!(status(r#"{"code":404}"#), Some(404));
        assert_eq!(status(r#"{"status":"INVALID_ARGUMENT","code":"422"}"#), Some(422));
        assert_eq!(status(r#"{"code":200}"#), None, "an error is no success");
        assert_eq!(status(r#"{"code":1213,"message":"no"}"#), None);
    }
}
