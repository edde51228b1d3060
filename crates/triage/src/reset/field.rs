//! Times in JSON fields, told by the field's name.

use jiff::Timestamp;

use super::{Frame, Stated, clock, duration};
use crate::facts::{Facts, Value, fold::fold};

pub(super) fn stated(facts: &Facts<'_>, frame: &Frame<'_>) -> Stated {
    let mut stated = Stated::default();
    for value in facts.layers.iter().filter_map(|layer| layer.value.as_ref()) {
        visit(value, 0, frame, &mut stated);
    }
    stated
}

fn visit(value: &Value<'_>, depth: usize, frame: &Frame<'_>, stated: &mut Stated) {
    match value {
        Value::List(items) if depth < 12 => {
            items.iter().take(32).for_each(|item| visit(item, depth + 1, frame, stated))
        }
        Value::Object(pairs) if depth < 12 && !has_room(value) => {
            for (key, value) in pairs {
                if let Some(found) = value.scalar().and_then(|text| field(key, text, frame)) {
                    *stated = stated.later(found);
                }
                visit(value, depth + 1, frame, stated);
            }
        }
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::Text(_)
        | Value::List(_)
        | Value::Object(_) => {}
    }
}

/// Whether an object describes a window that is not exhausted.
fn has_room(value: &Value<'_>) -> bool {
    let number = |keys: &[&str]| {
        keys.iter()
            .find_map(|key| value.key(key))
            .and_then(Value::scalar)
            .and_then(|text| text.parse::<f64>().ok())
    };
    number(&["used_percent", "usedPercent", "percentage"]).is_some_and(|used| used < 100.0)
        || number(&["remaining"]).is_some_and(|remaining| remaining > 0.0)
}

fn field(key: &str, text: &str, frame: &Frame<'_>) -> Option<Stated> {
    if text.is_empty() || text.len() > 64 {
        return None;
    }
    let mut name = [0u8; 24];
    let mut length = 0;
    for byte in key.bytes().filter(u8::is_ascii_alphanumeric) {
        *name.get_mut(length)? = byte.to_ascii_lowercase();
        length += 1;
    }
    match std::str::from_utf8(name.get(..length)?).ok()? {
        "retryafterms" | "retrydelayms" | "retryinms" | "resetafterms" => {
            Stated::wait(text.parse::<f64>().ok()? / 1000.0)
        }
        "retryafter"
        | "retryafterseconds"
        | "retryaftersec"
        | "retryaftersecs"
        | "retryafters"
        | "retrydelay"
        | "retryin"
        | "retryinseconds"
        | "quotaresetdelay"
        | "resetinseconds"
        | "resetsinseconds"
        | "resetin"
        | "resetsin"
        | "resetafter"
        | "resetafterseconds"
        | "waitseconds"
        | "waittime"
        | "estimatedtime"
        | "backoffseconds"
        | "cooldownseconds"
        | "secondsuntilreset"
        | "reset"
        | "resetsat"
        | "resetat"
        | "resettime"
        | "resettimestamp"
        | "quotaresettimestamp"
        | "nextresettime"
        | "nextresetat"
        | "retryat"
        | "availableat"
        | "resetdate"
        | "resetstime"
        | "limitresetat"
        | "cooldownuntil" => value(text, frame),
        _ => None,
    }
}

fn value(text: &str, frame: &Frame<'_>) -> Option<Stated> {
    if let Ok(number) = text.parse::<f64>() {
        return Stated::number(number, frame);
    }
    if let Ok(at) = text.parse::<Timestamp>() {
        return Stated::moment(at, frame);
    }
    let folded = fold(text);
    if let Some((seconds, length)) = duration::parse(&folded)
        && length == folded.len()
    {
        return Stated::wait(seconds);
    }
    Stated::moment(clock::moment(&folded, frame)?, frame)
}
