//! The errors that are ours: what the client is told, and what it is told beside it.

use std::{sync::Arc, time::Duration};

use backstop_dialect::{ClientError, Dialect, Problem, estimate_tokens};
use backstop_triage::{
    Class,
    cascade::{FinalError, FinalKind, Tried, TriedResult},
};
use http::{HeaderValue, Response, StatusCode};
use serde_json::{Value, json};

use crate::{
    arrive::REQUEST_ID,
    drive::Journey,
    reply::{self, Reply},
    request_id::RequestId,
    shared::Shared,
};

/// Refuses a request before a provider was asked.
pub(crate) fn before(
    shared: &Arc<Shared>,
    id: RequestId,
    dialect: Dialect,
    problem: &Problem,
    retry_after: Option<Duration>,
) -> Response<Reply> {
    shared.meters.refused.add(1);
    let mut error = ClientError::new(problem, dialect, retry_after);
    error.request_id = id.to_string();
    tracing::debug!(request = %id, code = error.code, "refused");
    let mut response = reply::error(dialect, &error);
    if let Ok(id) = HeaderValue::try_from(error.request_id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

/// Refuses a request whose dialect cannot matter: it does not even name us.
pub(crate) fn bluntly(status: StatusCode, words: &str) -> Response<Reply> {
    reply::text(status, "text/plain; charset=utf-8", format!("{words}\n"))
}

/// The error that a journey ends with.
pub(crate) fn final_error(journey: &Journey, end: &FinalError) -> ClientError {
    let now = journey.shared.clock.now();
    let wait =
        end.retry_at.map(|at| Duration::try_from(at.duration_since(now)).unwrap_or_default().max(LEAST_WAIT));
    let problem = match end.kind {
        FinalKind::ContextOverflow => overflow(journey),
        FinalKind::NoUsableKey => Problem::NoUsableKey,
        FinalKind::MisconfiguredRoute => Problem::MisconfiguredRoute,
        FinalKind::LimitReached => Problem::Limited,
        FinalKind::Overloaded => Problem::Overloaded,
        FinalKind::UpstreamFailed => Problem::Unavailable,
        FinalKind::TimedOut => Problem::TimedOut,
        FinalKind::UnrecognisedFailure => Problem::UnknownFailure,
        FinalKind::OutcomeUnknown => Problem::OutcomeUnknown,
        FinalKind::LocalFault => Problem::GatewayFault,
    };
    let mut error = ClientError::new(&problem, journey.asked.dialect, wait);
    error.should_retry = end.should_retry;
    error.retry_at = end.retry_at;
    if end.kind == FinalKind::UnrecognisedFailure
        && let Some(status) = last_status(journey).filter(|status| (400..500).contains(status))
    {
        error.status = status;
    }
    error.request_id = journey.asked.id.to_string();
    error.extension = extension(journey, end.class, end.retry_at);
    error
}

/// The status of the last attempt's answer.
fn last_status(journey: &Journey) -> Option<u16> {
    match journey.trail().last()?.result {
        TriedResult::Failed { status, .. } => status,
        TriedResult::Pending | TriedResult::Answered | TriedResult::Abandoned => None,
    }
}

/// The error event of a stream that breaks off after content: what the last attempt failed of.
pub(crate) fn in_stream(journey: &Journey) -> ClientError {
    let class = journey.trail().last().and_then(|tried| tried.result.class()).unwrap_or(Class::NetworkError);
    let problem = match class {
        Class::Overloaded => Problem::Overloaded,
        Class::RateLimit | Class::QuotaExhausted => Problem::Limited,
        Class::Timeout => Problem::TimedOut,
        Class::ContextOverflow => overflow(journey),
        Class::LocalFault => Problem::GatewayFault,
        Class::RequestError
        | Class::TransientRequest
        | Class::ModelError
        | Class::AuthError
        | Class::BillingExhausted
        | Class::ServerError
        | Class::NetworkError
        | Class::ConfigurationError
        | Class::Unknown => Problem::Unavailable,
    };
    let mut error = ClientError::new(&problem, journey.asked.dialect, None);
    error.request_id = journey.asked.id.to_string();
    error.extension = extension(journey, class, None);
    error
}

fn overflow(journey: &Journey) -> Problem {
    let stated = journey.trail().iter().rev().find_map(|tried| match &tried.result {
        TriedResult::Failed { verdict, .. } => verdict.limit,
        TriedResult::Pending | TriedResult::Answered | TriedResult::Abandoned => None,
    });
    let tokens = Some(estimate_tokens(journey.asked.bytes())).filter(|tokens| *tokens > 0);
    let window = stated.or_else(|| journey.window()).or(journey.asked.window);
    // An estimate below the window would contradict itself.
    let tokens = tokens.filter(|tokens| window.is_none_or(|window| *tokens > window));
    Problem::ContextOverflow { tokens, window }
}

fn extension(journey: &Journey, class: Class, retry_at: Option<backstop_triage::Timestamp>) -> Value {
    json!({
        "request_id": journey.asked.id.to_string(),
        "class": class.as_str(),
        "attempts": journey.counted_trail().map(attempt).collect::<Vec<_>>(),
        "retry_at": retry_at.map(|at| at.to_string()),
    })
}

fn attempt(tried: &Tried) -> Value {
    let status = match &tried.result {
        TriedResult::Failed { status, .. } => *status,
        TriedResult::Pending | TriedResult::Answered | TriedResult::Abandoned => None,
    };
    let took = tried.ended.map(|ended| ended.duration_since(tried.began).as_millis());
    json!({
        "provider": tried.provider.as_str(),
        "key": tried.label,
        "model": tried.model.as_str(),
        "class": tried.result.class().map(Class::as_str),
        "status": status,
        "waited_ms": u64::try_from(tried.waited.as_millis()).unwrap_or(u64::MAX),
        "took_ms": took.and_then(|took| u64::try_from(took).ok()),
    })
}

const LEAST_WAIT: Duration = Duration::from_millis(1);
