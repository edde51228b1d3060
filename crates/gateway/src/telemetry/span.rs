//! A request as spans: one for the client's call, one for each of ours.

use backstop_store::requests::{AttemptRow, Outcome};
use serde_json::{Value, json};

use super::{Ended, attribute, operation};
use crate::meters::Way;

/// The spans of a request; none if whoever called us has decided not to sample it.
pub(super) fn of(ended: &Ended<'_>) -> Vec<Value> {
    let parent = ended.asked.headers.get("traceparent").and_then(|value| Parent::read(value.to_str().ok()?));
    if parent.as_ref().is_some_and(|parent| !parent.is_sampled) {
        return Vec::new();
    }
    let trace =
        parent.as_ref().map_or_else(|| hex(rand::random::<u128>(), 32), |parent| parent.trace.clone());
    let server = hex(u128::from(rand::random::<u64>()), 16);
    let inbound = inbound(ended, &trace, (&server, parent.as_ref()));
    let last = ended.row.attempts.len().saturating_sub(1);
    let calls = ended.row.attempts.iter().enumerate();
    let calls =
        calls.map(|(ordinal, attempt)| call(ended, (&trace, &server), attempt, (ordinal, ordinal == last)));
    [inbound].into_iter().chain(calls).collect()
}

/// Whoever called us, by the W3C's header.
struct Parent {
    trace: String,
    span: String,
    is_sampled: bool,
}

impl Parent {
    fn read(text: &str) -> Option<Self> {
        let mut parts = text.trim().split('-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let is_hex = |text: &str, length| {
            text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        };
        let is_id = |text: &str, length| is_hex(text, length) && text.bytes().any(|byte| byte != b'0');
        if !is_hex(version, 2)
            || version == "ff"
            || !is_id(trace, 32)
            || !is_id(span, 16)
            || !is_hex(flags, 2)
        {
            return None;
        }
        let flags = u8::from_str_radix(flags, 16).ok()?;
        Some(Self { trace: trace.to_owned(), span: span.to_owned(), is_sampled: flags & 1 == 1 })
    }
}

fn inbound(ended: &Ended<'_>, trace: &str, (id, parent): (&str, Option<&Parent>)) -> Value {
    let row = ended.row;
    let route = match ended.asked.way {
        Way::Proxy => format!("/proxy/{{provider}}{}", ended.asked.path),
        Way::Unified => ended.asked.path.clone(),
    };
    let mut attributes = vec![
        attribute("http.request.method", ended.asked.method.as_str()),
        attribute("http.route", route.as_str()),
        attribute("http.response.status_code", row.status),
        attribute("backstop.request_id", row.id.as_str()),
        attribute("backstop.provider", row.provider.as_str()),
        attribute("backstop.outcome", row.outcome.as_str()),
        attribute("backstop.fallback", row.fallback),
        attribute("backstop.attempts", row.attempts.len()),
    ];
    attributes.extend(row.client.as_deref().map(|client| attribute("backstop.client", client)));
    attributes.extend(row.class.map(|class| attribute("error.type", class.as_str())));
    attributes.extend(row.cost_micros.map(|micros| {
        let name = if row.cost_reported { "backstop.cost_usd" } else { "backstop.estimated_cost_usd" };
        attribute(name, micros as f64 / 1e6)
    }));
    let failed = matches!(row.outcome, Outcome::Failed | Outcome::TimedOut) && row.status >= 500;
    json!({
        "traceId": trace,
        "spanId": id,
        "parentSpanId": parent.map_or("", |parent| &parent.span),
        "name": format!("{} {route}", ended.asked.method),
        "kind": SERVER,
        "startTimeUnixNano": nanos(ended, 0),
        "endTimeUnixNano": nanos(ended, row.duration_ms),
        "attributes": attributes,
        "status": if failed { json!({ "code": ERROR }) } else { json!({}) },
    })
}

fn call(
    ended: &Ended<'_>,
    (trace, parent): (&str, &str),
    attempt: &AttemptRow,
    (ordinal, is_last): (usize, bool),
) -> Value {
    let operation = operation(ended);
    let outlet = ended.plan.outlet(&attempt.provider);
    let mut attributes = vec![
        attribute("gen_ai.operation.name", operation),
        attribute("gen_ai.request.model", attempt.model.as_str()),
        attribute("gen_ai.request.stream", ended.row.stream),
        attribute("backstop.provider", attempt.provider.as_str()),
        attribute("backstop.key", attempt.key_label.as_str()),
    ];
    if let Some(outlet) = outlet {
        attributes.push(attribute("gen_ai.provider.name", outlet.config.rules.as_str()));
        attributes.push(attribute("server.address", outlet.config.base_url.host.as_str()));
        attributes.push(attribute("server.port", outlet.config.base_url.port));
    }
    if ordinal > 0 {
        attributes.push(attribute("http.request.resend_count", ordinal));
    }
    attributes.extend(attempt.status.map(|status| attribute("http.response.status_code", status)));
    attributes.extend(attempt.upstream_id.as_deref().map(|id| attribute("gen_ai.response.id", id)));
    let mut status = json!({});
    let mut end = attempt.after_ms + attempt.took_ms;
    if let Some(failure) = &attempt.failure {
        attributes.push(attribute("error.type", failure.class.as_str()));
        attributes.push(attribute("backstop.reason", failure.reason.as_str()));
        attributes.push(attribute("backstop.rule", failure.basis.as_str()));
        status = json!({ "code": ERROR, "message": failure.reason });
    } else if is_last {
        attributes.extend(usage(ended, attempt));
        end = end.max(ended.row.duration_ms);
    }
    json!({
        "traceId": trace,
        "spanId": hex(u128::from(rand::random::<u64>()), 16),
        "parentSpanId": parent,
        "name": format!("{operation} {}", attempt.model),
        "kind": CLIENT,
        "startTimeUnixNano": nanos(ended, attempt.after_ms),
        "endTimeUnixNano": nanos(ended, end),
        "attributes": attributes,
        "status": status,
    })
}

/// What the answer itself told.
fn usage(ended: &Ended<'_>, attempt: &AttemptRow) -> Vec<Value> {
    let usage = ended.usage;
    let counts = [
        ("gen_ai.usage.input_tokens", usage.input),
        ("gen_ai.usage.output_tokens", usage.output),
        ("gen_ai.usage.cache_read.input_tokens", usage.cache_read),
        ("gen_ai.usage.cache_creation.input_tokens", usage.cache_creation),
        ("gen_ai.usage.reasoning.output_tokens", usage.reasoning),
    ];
    let counts = counts.into_iter().filter_map(|(name, count)| Some(attribute(name, count?)));
    let first = ended.row.first_content_ms.filter(|_| ended.row.stream).map(|at| {
        attribute("gen_ai.response.time_to_first_chunk", at.saturating_sub(attempt.after_ms) as f64 / 1e3)
    });
    counts.chain(first).collect()
}

/// A moment of the request, as text: JSON has no room for 64 bits.
fn nanos(ended: &Ended<'_>, after_ms: u64) -> String {
    let began = ended.row.at.as_nanosecond();
    (began + i128::from(after_ms) * 1_000_000).to_string()
}

fn hex(number: u128, digits: usize) -> String {
    // An id of nothing but zeros is none.
    format!("{:0digits$x}", number.max(1))
}

const SERVER: u8 = 2;
const CLIENT: u8 = 3;
const ERROR: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_is_read_or_left() {
        let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let parent = Parent::read(good).unwrap();
        assert_eq!((parent.span.as_str(), parent.is_sampled), ("00f067aa0ba902b7", true));
        assert!(!Parent::read(&good.replace("-01", "-00")).unwrap().is_sampled);
        for bad in ["", "00-zz-00-01", "00-00000000000000000000000000000000-00f067aa0ba902b7-01", &good[..40]]
        {
            assert!(Parent::read(bad).is_none(), "{bad}");
        }
    }
}
