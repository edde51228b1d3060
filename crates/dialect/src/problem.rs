//! The errors that the gateway makes itself, and how they are worded.
//!
//! Client programs act on the words as much as on the status, so the words are chosen against them: an
//! overflow of the window has no word about rates in it, nothing speaks of money, and no failure of ours asks
//! a person to log in.

use std::{borrow::Cow, time::Duration};

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::Dialect;

/// What went wrong, as far as the client is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The prompt does not fit the model's window.
    ContextOverflow {
        /// The prompt's tokens, if they are known.
        tokens: Option<u64>,
        /// The window, if it is known.
        window: Option<u64>,
    },
    /// Every key of the route is refused by its provider.
    NoUsableKey,
    /// The route is set up wrongly.
    MisconfiguredRoute,
    /// Every route rests over limits.
    Limited,
    /// The provider lacks capacity.
    Overloaded,
    /// The provider failed or could not be reached.
    Unavailable,
    /// No answer in time.
    TimedOut,
    /// The provider failed in a way that nobody knows.
    UnknownFailure,
    /// Nobody knows whether the provider did what was asked, and asking again could do it twice.
    OutcomeUnknown,
    /// The gateway itself failed.
    GatewayFault,
    /// The client's key is missing or unknown.
    ClientKey,
    /// The client's key is known, and not allowed this.
    ClientKeyScope,
    /// The client's key has used up its own limit.
    ClientKeyLimit,
    /// No such model, or no such provider in front of it.
    ModelNotFound {
        /// What the client asked for.
        model: String,
        /// The nearest names that there are.
        near: Vec<String>,
    },
    /// No such path.
    PathNotFound,
    /// The route speaks another dialect than the path's.
    WrongDialect {
        /// The path that would be right.
        path: String,
    },
    /// The request cannot be read.
    BadRequest {
        /// What is wrong with it.
        why: String,
    },
    /// The request's body is larger than the gateway takes.
    TooLarge {
        /// The limit in bytes.
        limit: u64,
    },
    /// The gateway does not do this.
    NotSupported {
        /// What is not done.
        what: String,
    },
}

/// An error of ours, ready to be put into a client's dialect.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientError {
    /// The status of the answer.
    pub status: u16,
    /// The code, also sent as `x-backstop-error`.
    pub code: &'static str,
    /// The sentence for people.
    pub message: String,
    /// The request's id.
    pub request_id: String,
    /// The `backstop` object.
    pub extension: Value,
    /// How long a client should wait.
    pub retry_after: Option<Duration>,
    /// The moment until which it should wait.
    pub retry_at: Option<Timestamp>,
    /// Whether a repeat by the client can help.
    pub should_retry: bool,
}

impl ClientError {
    /// Words a problem for clients of a dialect.
    pub fn new(problem: &Problem, dialect: Dialect, retry_after: Option<Duration>) -> Self {
        let (status, code) = status_and_code(problem, dialect);
        let retry_after = retry_after.filter(|_| heals(problem));
        let is_limit = matches!(problem, Problem::Limited | Problem::ClientKeyLimit);
        let is_short = retry_after.is_some_and(|wait| wait <= LONGEST_HONEST_RETRY);
        Self {
            status,
            code,
            message: message(problem, dialect, retry_after).into_owned(),
            request_id: String::new(),
            extension: Value::Null,
            retry_after,
            retry_at: None,
            should_retry: heals(problem) && (is_short || !is_limit),
        }
    }
}

/// Tells whether time alone can mend it.
fn heals(problem: &Problem) -> bool {
    match problem {
        Problem::Limited
        | Problem::ClientKeyLimit
        | Problem::Overloaded
        | Problem::Unavailable
        | Problem::TimedOut
        | Problem::GatewayFault => true,
        Problem::ContextOverflow { .. }
        | Problem::NoUsableKey
        | Problem::MisconfiguredRoute
        | Problem::UnknownFailure
        | Problem::OutcomeUnknown
        | Problem::ClientKey
        | Problem::ClientKeyScope
        | Problem::ModelNotFound { .. }
        | Problem::PathNotFound
        | Problem::WrongDialect { .. }
        | Problem::BadRequest { .. }
        | Problem::TooLarge { .. }
        | Problem::NotSupported { .. } => false,
    }
}

/// The `backstop` object without the words that lead clients astray: some libraries make the whole body their
/// error's text, and programs search that text.
///
/// Beside an overflow nothing speaks of rates, and nowhere does anything speak of money. The log has it all.
pub(crate) fn harmless(error: &ClientError) -> Option<Value> {
    let mut extension = error.extension.clone();
    let members = extension.as_object_mut()?;
    let mut attempts = members.remove("attempts");
    forget_money(members);
    if error.code != OVERFLOW
        && let Some(attempts) = attempts.take()
    {
        members.insert("attempts".to_owned(), attempts);
    }
    if let Some(Value::Array(attempts)) = members.get_mut("attempts") {
        attempts.iter_mut().filter_map(Value::as_object_mut).for_each(forget_money);
    }
    Some(extension)
}

fn forget_money(members: &mut Map<String, Value>) {
    if members.get("class").is_some_and(|class| class == MONEY) {
        members.retain(|name, _| !matches!(name.as_str(), "class" | "reason" | "status"));
    }
}

fn status_and_code(problem: &Problem, dialect: Dialect) -> (u16, &'static str) {
    match problem {
        Problem::ContextOverflow { .. } => (400, OVERFLOW),
        Problem::NoUsableKey => (502, "no_usable_key"),
        Problem::MisconfiguredRoute => (502, "misconfigured_route"),
        Problem::Limited | Problem::ClientKeyLimit => (429, "rate_limit_exceeded"),
        Problem::Overloaded if dialect == Dialect::AnthropicMessages => (529, "overloaded"),
        Problem::Overloaded => (503, "overloaded"),
        Problem::Unavailable => (503, "upstream_unavailable"),
        Problem::TimedOut => (504, "upstream_timeout"),
        Problem::UnknownFailure => (502, "unknown_upstream_failure"),
        Problem::OutcomeUnknown => (502, "outcome_unknown"),
        Problem::GatewayFault => (503, "gateway_fault"),
        Problem::ClientKey => (401, "invalid_client_key"),
        Problem::ClientKeyScope => (403, "client_key_not_allowed"),
        Problem::ModelNotFound { .. } => (404, "model_not_found"),
        Problem::PathNotFound => (404, "not_found"),
        Problem::WrongDialect { .. } => (400, "wrong_dialect"),
        Problem::BadRequest { .. } => (400, "bad_request"),
        Problem::TooLarge { .. } => (413, "request_too_large"),
        Problem::NotSupported { .. } => (501, "not_supported"),
    }
}

fn message(problem: &Problem, dialect: Dialect, retry_after: Option<Duration>) -> Cow<'static, str> {
    match problem {
        Problem::ContextOverflow { tokens, window } => overflow(dialect, *tokens, *window).into(),
        Problem::NoUsableKey => {
            "No key of this route is accepted by its provider. The operator must look at the keys.".into()
        }
        Problem::MisconfiguredRoute => {
            "This route is not set up correctly. The operator must look at the provider's settings.".into()
        }
        Problem::Limited => {
            let wait = again(retry_after, "later");
            format!("Every key of this route has reached a limit. Please try again {wait}.").into()
        }
        Problem::ClientKeyLimit => {
            let wait = again(retry_after, "later");
            format!("This client key has reached its limit. Please try again {wait}.").into()
        }
        Problem::Overloaded => "The provider is overloaded. Please try again shortly.".into(),
        Problem::Unavailable => "The provider cannot be reached or fails. Please try again shortly.".into(),
        Problem::TimedOut => "The provider did not answer in time.".into(),
        Problem::UnknownFailure => "The provider failed in a way that is not known.".into(),
        Problem::OutcomeUnknown => {
            "The provider did not say whether it has done this. Look before asking for it again.".into()
        }
        Problem::GatewayFault => "The gateway cannot serve this request at present.".into(),
        Problem::ClientKey => "The gateway's client key is missing or unknown. Send it as \
             `Authorization: Bearer`, `x-api-key` or `x-goog-api-key`."
            .into(),
        Problem::ClientKeyScope => "This client key is not allowed to use this route.".into(),
        Problem::ModelNotFound { model, near } if near.is_empty() => {
            format!("The model `{model}` does not exist here. Ask for `provider/model`.").into()
        }
        Problem::ModelNotFound { model, near } => {
            format!("The model `{model}` does not exist here. Did you mean `{}`?", near.join("`, `")).into()
        }
        Problem::PathNotFound => "There is nothing at this path.".into(),
        Problem::WrongDialect { path } => {
            format!("This route speaks another API. Send the request to `{path}`.").into()
        }
        Problem::BadRequest { why } => format!("The request cannot be read: {why}.").into(),
        Problem::TooLarge { limit } => format!("The request is larger than {limit} bytes.").into(),
        Problem::NotSupported { what } => format!("The gateway does not support {what}.").into(),
    }
}

fn overflow(dialect: Dialect, tokens: Option<u64>, window: Option<u64>) -> String {
    match (dialect, tokens, window) {
        (Dialect::AnthropicMessages, Some(tokens), Some(window)) => {
            format!("prompt is too long: {tokens} tokens > {window} maximum")
        }
        (Dialect::AnthropicMessages, _, _) => {
            "prompt is too long: it exceeds the model's context window".to_owned()
        }
        (Dialect::Gemini, Some(tokens), Some(window)) => {
            format!(
                "The input token count ({tokens}) exceeds the maximum number of tokens allowed ({window})."
            )
        }
        (Dialect::OpenAiChat | Dialect::OpenAiResponses, Some(tokens), Some(window)) => format!(
            "This model's maximum context length is {window} tokens. However, the input has {tokens} tokens."
        ),
        (Dialect::OpenAiChat | Dialect::OpenAiResponses | Dialect::Gemini, _, _) => {
            "The input exceeds the context length of this model, its context window.".to_owned()
        }
    }
}

/// "in 12s", in the form that agents read a wait from.
fn again(retry_after: Option<Duration>, otherwise: &'static str) -> Cow<'static, str> {
    match retry_after {
        Some(wait) => format!("in {}s", wait.as_millis().div_ceil(1_000).max(1)).into(),
        None => otherwise.into(),
    }
}

/// Above this wait some client libraries sleep for all of it and others retry at once, so none should.
const LONGEST_HONEST_RETRY: Duration = Duration::from_secs(60);

const OVERFLOW: &str = "context_length_exceeded";

/// The class of verdicts about money.
const MONEY: &str = "billing_exhausted";
