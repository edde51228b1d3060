//! What is known without a rule: the sizes around a broken connection, the status, the exit of a process.

use crate::{
    Basis, Class, Evidence, Fault, Kind, Scope, Verdict,
    catalog::Layers,
    facts::{Answer, Facts, View, fold::fold},
    rules::{BodyShape, KindName},
};

/// Sizes that decide before any words: a connection cut, or an answer empty, while the prompt fills the window.
pub(crate) fn by_size(facts: &Facts<'_>, evidence: &Evidence, layers: &Layers) -> Option<Verdict> {
    let hints = &evidence.hints;
    let tokens = hints.approx_tokens?;
    let overflow = |reason| Verdict::new(Class::ContextOverflow, Scope::Request, reason, Basis::Structure);
    match evidence.kind {
        Kind::Transport(Fault::ConnectionReset | Fault::BrokenPipe) => {
            let window = hints.context_length?;
            let begun = hints.bytes_received.is_some_and(|bytes| bytes > 0);
            let slow = hints.model.as_deref().is_some_and(|model| layers.is_slow(model));
            // 60 % of the window; up to 256k also 120k tokens: the cut that proxies make of an overflow.
            let near = tokens.saturating_mul(10) > window.saturating_mul(6)
                || window <= SMALL_WINDOW && tokens > LARGE_PROMPT;
            (near && !begun && !slow).then(|| overflow("disconnect_near_limit"))
        }
        Kind::Http { status: 400 | 413 } if facts.shape == BodyShape::Empty => {
            (tokens > hints.context_length?).then(|| overflow("empty_body_near_limit"))
        }
        Kind::Http { .. } | Kind::Stream { .. } | Kind::Transport(_) | Kind::Process { .. } => None,
    }
}

/// The verdict when no rule matches.
pub(crate) fn verdict(facts: &Facts<'_>, evidence: &Evidence) -> Verdict {
    match evidence.kind {
        Kind::Transport(fault) => by_fault(fault),
        Kind::Http { .. } | Kind::Stream { .. } => by_answer(facts)
            .or_else(|| by_model_name(facts, evidence))
            .or_else(|| by_status(facts))
            .unwrap_or_else(|| unknown(facts)),
        Kind::Process { exit_code, signal } => {
            by_status(facts).or_else(|| by_exit(exit_code, signal)).unwrap_or_else(|| unknown(facts))
        }
    }
}

fn by_fault(fault: Fault) -> Verdict {
    let (class, scope, reason) = match fault {
        Fault::ConnectRefused => (Class::NetworkError, Scope::Network, "connection_refused"),
        Fault::Dns => (Class::NetworkError, Scope::Network, "dns_failure"),
        Fault::Tls => (Class::NetworkError, Scope::Network, "tls_failure"),
        Fault::ConnectionReset | Fault::BrokenPipe => {
            (Class::NetworkError, Scope::Network, "connection_reset")
        }
        Fault::ConnectTimeout => (Class::Timeout, Scope::Network, "connect_timeout"),
        Fault::ReadTimeout => (Class::Timeout, Scope::Provider, "read_timeout"),
        Fault::IdleTimeout => (Class::Timeout, Scope::Provider, "idle_timeout"),
        Fault::IncompleteBody => (Class::NetworkError, Scope::Network, "stream_truncated"),
    };
    Verdict::new(class, scope, reason, Basis::Transport)
}

/// A good status without a usable answer.
fn by_answer(facts: &Facts<'_>) -> Option<Verdict> {
    if !facts.status.is_some_and(|status| (200..300).contains(&status)) {
        return None;
    }
    let structure = |class, scope, reason| Some(Verdict::new(class, scope, reason, Basis::Structure));
    match facts.shape {
        BodyShape::Html => structure(Class::ConfigurationError, Scope::Local, "wrong_base_url"),
        BodyShape::Empty => structure(Class::ServerError, Scope::Provider, "empty_answer"),
        BodyShape::Json if facts.answer == Answer::Empty => {
            structure(Class::ServerError, Scope::Provider, "empty_answer")
        }
        BodyShape::Json if facts.answer == Answer::Cut => {
            structure(Class::NetworkError, Scope::Network, "stream_truncated")
        }
        BodyShape::Json | BodyShape::Text => None,
    }
}

/// A 404 that names the model that was asked means the model.
fn by_model_name(facts: &Facts<'_>, evidence: &Evidence) -> Option<Verdict> {
    let model = fold(evidence.hints.model.as_deref()?);
    let not_found = facts.statuses(View::WHOLE).any(|status| status == 404);
    (not_found && model.len() >= 3 && facts.text.contains(&model))
        .then(|| Verdict::new(Class::ModelError, Scope::Model, "model_not_found", Basis::Structure))
}

fn by_status(facts: &Facts<'_>) -> Option<Verdict> {
    let inner = facts.inner_view().and_then(|view| facts.statuses(view).next());
    let status = inner.or_else(|| facts.statuses(View::WHOLE).next())?;
    let says = facts.says_anything();
    let (class, scope, reason) = match status {
        401 => (Class::AuthError, Scope::Key, "unauthorized"),
        403 if says => (Class::AuthError, Scope::Key, "unauthorized"),
        402 => (Class::BillingExhausted, Scope::Account, "payment_required"),
        404 if says && facts.text.contains("model") => (Class::ModelError, Scope::Model, "model_not_found"),
        405 if says => (Class::ConfigurationError, Scope::Local, "wrong_base_url"),
        408 => (Class::Timeout, Scope::Provider, "upstream_timeout"),
        504 => (Class::Timeout, Scope::Provider, "gateway_timeout"),
        413 => (Class::RequestError, Scope::Request, "payload_too_large"),
        429 => (Class::RateLimit, Scope::Key, "rate_limited"),
        400 | 422 if says => (Class::RequestError, Scope::Request, "malformed_request"),
        499 => (Class::RequestError, Scope::Request, "client_closed"),
        503 | 529 => (Class::Overloaded, Scope::Provider, "overloaded"),
        502 | 520..=530 => (Class::ServerError, Scope::Provider, "bad_gateway"),
        500..=599 => (Class::ServerError, Scope::Provider, "internal_error"),
        _ => return None,
    };
    Some(Verdict::new(class, scope, reason, Basis::Status))
}

/// What the operating system says of a process that ended; 128 + n is a shell's word for signal n.
fn by_exit(exit_code: Option<i32>, signal: Option<i32>) -> Option<Verdict> {
    let number = signal.or_else(|| exit_code.filter(|code| *code > 128).map(|code| code - 128));
    let (class, reason) = match (number, exit_code) {
        (Some(9), _) => (Class::LocalFault, "killed"),
        (Some(15), _) => (Class::LocalFault, "terminated"),
        (Some(4 | 6 | 7 | 8 | 11), _) => (Class::LocalFault, "crashed"),
        (None, Some(127)) => (Class::ConfigurationError, "cli_not_found"),
        (None, Some(126)) => (Class::ConfigurationError, "broken_install"),
        _ => return None,
    };
    Some(Verdict::new(class, Scope::Local, reason, Basis::Transport))
}

fn unknown(facts: &Facts<'_>) -> Verdict {
    let (scope, reason) = match (facts.says_anything(), facts.kind) {
        (true, _) => (Scope::Request, "unrecognized"),
        (false, KindName::Process) => (Scope::Provider, "no_output"),
        (false, KindName::Http | KindName::Stream | KindName::Transport) => (Scope::Request, "empty_body"),
    };
    Verdict::new(Class::Unknown, scope, reason, Basis::Nothing)
}

/// The context length that an overflow states, or the limit of a rate limit.
pub(crate) fn stated_limit(class: Class, facts: &Facts<'_>) -> Option<u64> {
    let words: &[&str] = match class {
        Class::ContextOverflow => &OVERFLOW_LIMITS,
        Class::RateLimit | Class::QuotaExhausted => &RATE_LIMITS,
        Class::RequestError
        | Class::TransientRequest
        | Class::ModelError
        | Class::AuthError
        | Class::BillingExhausted
        | Class::Overloaded
        | Class::ServerError
        | Class::Timeout
        | Class::NetworkError
        | Class::ConfigurationError
        | Class::LocalFault
        | Class::Unknown => return None,
    };
    words.iter().find_map(|word| {
        let at = memchr::memmem::find(facts.text.as_bytes(), word.as_bytes())?;
        let rest = facts.text.get(at + word.len()..)?;
        let rest = rest.trim_start_matches([' ', ':', '=', '(', '[']);
        let digits: String =
            rest.chars().take_while(|c| c.is_ascii_digit() || *c == ',').filter(|c| *c != ',').collect();
        digits.parse().ok().filter(|limit| *limit >= 1)
    })
}

const SMALL_WINDOW: u64 = 256_000;
const LARGE_PROMPT: u64 = 120_000;
/// Words that a context length follows.
const OVERFLOW_LIMITS: [&str; 14] = [
    "maximum context length is",
    "maximum context length of",
    "context length is only",
    "context length of only",
    "context length of",
    "model token limit:",
    "tokens allowed (",
    "tokens >",
    "input length should be [1,",
    "must be <=",
    "n_ctx:",
    "context length (",
    "context window of",
    "max size:",
];
/// Words that the limit of a rate limit follows.
const RATE_LIMITS: [&str; 3] = ["limit:", "limit ", "limited to "];
