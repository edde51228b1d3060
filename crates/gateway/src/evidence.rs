//! What is known of a failure, put together for the verdict.

use std::collections::VecDeque;

use backstop_dialect::estimate_tokens;
use backstop_triage::{Evidence, Fault, Hints, Kind};
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header};
use serde_json::Value;

use crate::{drive::Journey, mask};

impl Journey {
    /// What is known of a failed connection.
    pub(crate) fn evidence_of(&self, fault: Fault, bytes_received: u64) -> Evidence {
        let mut hints = self.hints();
        hints.bytes_received = Some(bytes_received);
        Evidence { kind: Kind::Transport(fault), hints, ..Evidence::default() }
    }

    /// What is known of an answer that is a failure.
    pub(crate) fn evidence(&self, kind: Kind, headers: &HeaderMap, text: String) -> Evidence {
        let header = |(name, value): (&header::HeaderName, &header::HeaderValue)| {
            Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
        };
        let mut headers: Vec<(String, String)> =
            headers.iter().filter(|(name, _)| **name != header::SET_COOKIE).filter_map(header).collect();
        let mut text = text;
        if let Some(secret) = self.secret() {
            text = mask::text(text, secret);
            headers.iter_mut().for_each(|(_, value)| *value = mask::text(std::mem::take(value), secret));
        }
        Evidence { kind, headers, text, stderr: String::new(), hints: self.hints() }
    }

    fn hints(&self) -> Hints {
        let route = self.route.as_ref();
        Hints {
            model: route.map(|route| route.model.to_string()).filter(|model| !model.is_empty()),
            approx_tokens: Some(estimate_tokens(self.asked.bytes())).filter(|tokens| *tokens > 0),
            context_length: self.window(),
            messages: self.asked.messages,
            bytes_received: None,
            echo: echoes(self.asked.bytes()),
        }
    }
}

/// Pieces as one.
pub(crate) fn joined(pieces: &VecDeque<Bytes>) -> Bytes {
    match pieces.len() {
        0 => Bytes::new(),
        1 => pieces[0].clone(),
        _ => {
            let mut whole = BytesMut::with_capacity(pieces.iter().map(Bytes::len).sum());
            pieces.iter().for_each(|piece| whole.extend_from_slice(piece));
            whole.freeze()
        }
    }
}

/// The beginning of a body as text.
pub(crate) fn text_of(pieces: &VecDeque<Bytes>) -> String {
    let whole = joined(pieces);
    String::from_utf8_lossy(&whole[..whole.len().min(Evidence::TEXT_CAP)]).into_owned()
}

/// The client's own words, which an error may repeat and which must not be read as the provider's.
fn echoes(body: &[u8]) -> Vec<String> {
    if body.len() > LONGEST_ECHOED {
        return Vec::new();
    }
    let mut found = Vec::new();
    if let Ok(body) = serde_json::from_slice::<Value>(body) {
        gather(&body, false, &mut found);
    }
    found
}

fn gather(value: &Value, speaks: bool, found: &mut Vec<String>) {
    if found.len() >= MOST_ECHOES {
        return;
    }
    match value {
        Value::String(text) if speaks && text.len() >= SHORTEST_ECHO => found.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| gather(item, speaks, found)),
        Value::Object(members) => {
            for (name, member) in members {
                gather(member, speaks || SPOKEN.contains(&name.as_str()), found);
            }
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Members of a request that hold what a person or program says.
const SPOKEN: [&str; 7] = ["content", "text", "input", "prompt", "system", "instructions", "arguments"];
const LONGEST_ECHOED: usize = 256 * 1024;
const SHORTEST_ECHO: usize = 12;
const MOST_ECHOES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_client_says_is_an_echo() {
        let body = br#"{"model":"a-long-model-name","messages":[{"role":"user","content":[{"type":"text","text":"my credit balance is gone"}]}],"user":"somebody-with-a-name"}"#;
        assert_eq!(echoes(body), ["my credit balance is gone"]);
        assert!(echoes(b"no json").is_empty());
    }
}
