//! A known failure inside somebody's envelope keeps its class.

use backstop_triage::{Catalog, KeyAction};
use serde_json::{Value, json};

use super::score::{Line, corpus, percent, report};

#[test]
fn wrapping_keeps_the_class() {
    let catalog = Catalog::embedded();
    let lines: Vec<_> = corpus().iter().filter(|line| is_json_failure(line)).collect();
    for (name, least, wrap) in WRAPPINGS {
        let mut kept = 0;
        let mut lost = Vec::new();
        let mut wrapped = 0;
        for line in &lines {
            let Some(failure) = wrap(line) else {
                continue;
            };
            wrapped += 1;
            let (before, after) = (line.report(&catalog), report(&catalog, &failure));
            if before.class == after.class {
                kept += 1;
            } else {
                lost.push(format!("{}: {} -> {} [{}]", line.id, before.class, after.class, after.rule));
            }
            let relayed = matches!(*name, "litellm" | "prose" | "raw");
            assert!(
                !relayed || after.key_action != KeyAction::Disable,
                "{name}: {} disables a relay's key",
                line.id
            );
        }
        assert!(wrapped > 200, "{name} wraps only {wrapped}");
        let share = percent(kept, wrapped);
        assert!(share >= *least, "{name} keeps {share:.2} %, not {least}\n{}", lost.join("\n"));
    }
}

type Wrap = fn(&Line) -> Option<Value>;

const WRAPPINGS: &[(&str, f64, Wrap)] = &[
    ("key order and extra fields", 99.5, reordered),
    ("upper case and white space", 99.0, shouted),
    ("list of one", 99.0, |line| Some(with_body(line, &format!("[{}]", body(line))))),
    ("json string", 99.0, |line| Some(with_body(line, &Value::from(body(line)).to_string()))),
    ("python", 99.0, |line| Some(with_body(line, &python(&parsed(line))))),
    ("litellm", 97.5, litellm),
    ("prose", 97.0, prose),
    ("raw", 96.0, raw),
    ("error code", 96.0, error_code),
    ("stream", 97.5, stream),
];

fn is_json_failure(line: &Line) -> bool {
    let failing = line.failure["status"].as_u64().is_some_and(|status| status >= 400);
    let plain = line.failure["headers"].as_object().is_none_or(|headers| headers.len() <= 1);
    line.failure["kind"] == "http"
        && failing
        && plain
        && serde_json::from_str::<Value>(body(line)).is_ok_and(|v| v.is_object())
}

fn body(line: &Line) -> &str {
    line.failure["body"].as_str().unwrap_or_default()
}

fn parsed(line: &Line) -> Value {
    serde_json::from_str(body(line)).expect("filtered before")
}

fn with_body(line: &Line, body: &str) -> Value {
    let mut failure = line.failure.clone();
    failure["body"] = json!(body);
    failure
}

fn reordered(line: &Line) -> Option<Value> {
    let extra = r#""zz_trace":{"ids":[1,2,3],"node":"a7"},"#;
    let text = parsed(line).to_string();
    Some(with_body(line, &format!("{{{extra}{}", text.strip_prefix('{')?)))
}

fn shouted(line: &Line) -> Option<Value> {
    fn shout(value: &mut Value) {
        match value {
            Value::String(text) if text.contains(' ') && !text.contains(['{', '/', '[']) => {
                *text = text.to_uppercase().replace(' ', "  ");
            }
            Value::Array(items) => items.iter_mut().for_each(shout),
            Value::Object(fields) => fields.values_mut().for_each(shout),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut value = parsed(line);
    shout(&mut value);
    Some(with_body(line, &serde_json::to_string_pretty(&value).ok()?))
}

fn python(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => {
            format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'").replace('\n', "\\n"))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(python).collect::<Vec<_>>().join(", ")),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| format!("'{key}': {}", python(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
    }
}

fn litellm(line: &Line) -> Option<Value> {
    let provider = line.failure["provider"].as_str()?;
    let status = line.failure["status"].as_u64()?;
    let message = format!(
        "litellm.APIError: {provider}Exception - Error code: {status} - {}\nReceived Model Group=x\nAvailable Model Group Fallbacks=None",
        python(&parsed(line))
    );
    let body =
        json!({ "error": { "message": message, "type": null, "param": null, "code": status.to_string() } });
    let mut failure = with_body(line, &body.to_string());
    failure["provider"] = json!("litellm");
    Some(failure)
}

fn prose(line: &Line) -> Option<Value> {
    let provider = line.failure["provider"].as_str()?;
    let status = line.failure["status"].as_u64()?;
    let message = format!("Error from provider({provider},some-model: {status}): {}", body(line));
    let body =
        json!({ "error": { "message": message, "type": "api_error", "code": "provider_response_error" } });
    let mut failure = with_body(line, &body.to_string());
    failure["provider"] = json!("unheard-of");
    Some(failure)
}

/// An aggregator that passes the upstream's answer on as a text.
fn raw(line: &Line) -> Option<Value> {
    let provider = line.failure["provider"].as_str()?;
    let status = line.failure["status"].as_u64()?;
    let metadata = json!({ "raw": body(line), "provider_name": provider });
    let body =
        json!({ "error": { "message": "Provider returned error", "code": status, "metadata": metadata } });
    let mut failure = with_body(line, &body.to_string());
    failure["provider"] = json!("unheard-of");
    Some(failure)
}

/// What a program prints that uses the official Python library.
fn error_code(line: &Line) -> Option<Value> {
    let status = line.failure["status"].as_u64()?;
    let printed = format!(
        "Traceback (most recent call last):\n  File \"agent.py\", line 403, in ask\nopenai.APIStatusError: Error code: {status} - {}\n",
        python(&parsed(line))
    );
    let mut failure = with_body(line, "");
    failure["kind"] = json!("process");
    failure["status"] = Value::Null;
    failure["exit_code"] = json!(1);
    failure["stderr"] = json!(printed);
    Some(failure)
}

fn stream(line: &Line) -> Option<Value> {
    let value = parsed(line);
    value.get("error")?;
    let frames = format!(
        "data: {{\"choices\":[{{\"delta\":{{\"content\":\"Hi\"}}}}]}}\n\nevent: error\ndata: {value}\n\n"
    );
    let mut failure = with_body(line, &frames);
    failure["kind"] = json!("stream");
    failure["status"] = json!(200);
    Some(failure)
}
