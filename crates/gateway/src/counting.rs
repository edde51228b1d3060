//! Counts a prompt's tokens for providers that cannot: by an estimate, marked as one in a header and in the body.
//!
//! Programs ask for a count before each prompt, so that a missing endpoint must not count as a failure of a key, and
//! a made-up zero would have them fill the window until the provider refuses.

use std::collections::VecDeque;

use backstop_dialect::{Dialect, Operation, estimate_tokens};
use backstop_triage::{Basis, Class, Evidence};
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use serde_json::json;

use crate::{
    arrive::REQUEST_ID,
    asked::{Asked, Body},
    attempt::Whole,
    drive::Journey,
    reply::{self, Reply},
};

/// Whether a request asks how many tokens it has, and can be told.
pub(crate) fn is_asked(asked: &Asked) -> bool {
    asked.operation == Operation::CountTokens
        && matches!(&asked.body, Body::Whole(taken) if !taken.bytes.is_empty())
}

/// The answer to a count for whose dialect there is no provider to ask.
pub(crate) fn estimate(asked: &Asked) -> Response<Reply> {
    let mut response = reply::text(StatusCode::OK, "application/json", body(asked));
    response.headers_mut().insert(ESTIMATE, HeaderValue::from_static("true"));
    if let Ok(id) = HeaderValue::try_from(asked.id.to_string()) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

impl Journey {
    /// The estimate that stands for a provider's error, if that says only that it has no such endpoint.
    pub(crate) fn count_here(&mut self, status: u16, evidence: &Evidence) -> Option<Whole> {
        if !is_asked(&self.asked) || !matches!(status, 404 | 405 | 501) {
            return None;
        }
        let verdict = self.verdict(evidence)?;
        let names_the_model =
            verdict.class == Class::ModelError && !matches!(verdict.basis, Basis::Status | Basis::Nothing);
        if names_the_model {
            return None;
        }
        let mut answer = Response::new(());
        answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self.asked.is_estimated = true;
        let pieces = VecDeque::from([Bytes::from(body(&self.asked))]);
        self.answered_here();
        Some(Whole { head: answer.into_parts().0, pieces })
    }
}

fn body(asked: &Asked) -> Vec<u8> {
    let tokens = estimate_tokens(asked.bytes()).max(1);
    let mark = json!({ "estimate": true });
    let body = match asked.dialect {
        Dialect::AnthropicMessages => json!({ "input_tokens": tokens, "backstop": mark }),
        Dialect::Gemini => json!({ "totalTokens": tokens, "backstop": mark }),
        Dialect::OpenAiChat | Dialect::OpenAiResponses => {
            json!({ "object": "response.input_tokens", "input_tokens": tokens, "backstop": mark })
        }
    };
    body.to_string().into_bytes()
}

/// Marks a count that was not the provider's.
pub(crate) const ESTIMATE: HeaderName = HeaderName::from_static("x-backstop-estimate");
