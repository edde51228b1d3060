//! Where a request goes: the data plane, the probes of an operator, or what is mounted beside.
//!
//! ```text
//! /proxy/{provider or combo}/…      a provider's own dialect, every path
//! /v1/…  /v1beta/…                  unified: the model names the provider
//! /healthz  /readyz  /metrics       for operators
//! everything else                   the admin API and the dashboard
//! ```

mod entry;
mod models;
mod target;

use std::{sync::Arc, time::Duration};

use backstop_dialect::{ClientHints, Dialect, Operation, Problem, Route, recognise};
use backstop_triage::cascade::{Call, Limits};
use http::{Request, Response, StatusCode, request::Parts};
use hyper::body::Incoming;
use tokio::time::Instant;

use self::{
    entry::{Entered, Intake},
    target::Target,
};
use crate::{
    arrive::Arrival,
    asked::Asked,
    drive::{Journey, drive},
    hosts::HostError,
    line::Busy,
    metrics,
    mount::Peer,
    objects,
    plan::Plan,
    refuse,
    reply::{self, Content, Reply},
    request_id::RequestId,
    shared::Shared,
    waiting::Waiting,
};

/// Answers one request.
pub(crate) async fn answer(
    shared: &Arc<Shared>,
    (busy, peer): (Busy, Peer),
    request: Request<Incoming>,
) -> Response<Reply> {
    let plan = shared.plan.load_full();
    let response = match plan.hosts.check(request.uri(), request.headers()) {
        Ok(()) => dispatch(shared, plan, peer, request).await,
        Err(error) => foreign(&error),
    };
    response.map(|reply| reply.holding(busy))
}

async fn dispatch(
    shared: &Arc<Shared>,
    plan: Arc<Plan>,
    peer: Peer,
    mut request: Request<Incoming>,
) -> Response<Reply> {
    let path = request.uri().path();
    match path {
        "/healthz" | "/livez" => {
            return reply::text(StatusCode::OK, "application/json", "{\"status\":\"alive\"}\n");
        }
        "/readyz" => return metrics::ready(shared, &plan),
        "/metrics" => return metrics::scrape(shared, &plan, request.headers()),
        _ => {}
    }
    if let Some(rest) = path.strip_prefix("/proxy/") {
        let name = rest.split('/').next().unwrap_or_default().to_owned();
        let path = rest[name.len()..].to_owned();
        return data(shared, plan, request, Way::Named { name, path }).await;
    }
    if path.starts_with("/v1/") || path.starts_with("/v1beta/") {
        return data(shared, plan, request, Way::Unified).await;
    }
    match &shared.mount {
        Some(mount) => {
            request.extensions_mut().insert(peer);
            (mount.serve)(request).await.map(|body| Reply::new(Content::Mounted(body)))
        }
        None => {
            let near = recognise(path).map(|_| format!(" Did you mean /v1{path}?")).unwrap_or_default();
            refuse::bluntly(StatusCode::NOT_FOUND, &format!("There is nothing at this path.{near}"))
        }
    }
}

/// How a request names its provider.
enum Way {
    /// By path.
    Named { name: String, path: String },
    /// By model.
    Unified,
}

/// A request of the data plane on its way in.
pub(crate) struct Entry {
    id: RequestId,
    arrived: Instant,
    dialect: Dialect,
}

/// Why a request goes no further.
pub(crate) struct Refusal {
    problem: Problem,
    retry_after: Option<Duration>,
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Self { problem, retry_after: None }
    }
}

async fn data(
    shared: &Arc<Shared>,
    plan: Arc<Plan>,
    request: Request<Incoming>,
    way: Way,
) -> Response<Reply> {
    let (parts, body) = request.into_parts();
    let known = recognise(match &way {
        Way::Named { path, .. } => path,
        Way::Unified => parts.uri.path(),
    });
    let dialect = dialect(&plan, &way, known.as_ref(), &parts);
    let entry = Entry { id: shared.ids.next(), arrived: Instant::now(), dialect };
    let intake =
        Intake { shared, plan: &plan, entry: &entry, parts: &parts, known: known.as_ref(), way: &way };
    match intake.enter(body).await {
        Ok(Entered::Listed(response)) => response,
        Ok(Entered::Asked(asked, target)) => {
            let mut limits = limits(shared, &asked, &target, &parts);
            let first = target.legs.first().and_then(|leg| plan.outlet(leg.provider.as_str()));
            if let (Some(outlet), true) = (first, asked.object.is_some()) {
                limits.pinned = objects::owner(shared, &asked, outlet).await;
            }
            let journey = Journey::new(Arc::clone(shared), Arc::clone(&plan), *asked, target.legs, limits);
            run(journey, target.keepalive).await
        }
        Err(refusal) => refuse::before(shared, entry.id, dialect, &refusal.problem, refusal.retry_after),
    }
}

/// Drives a journey, and opens its stream early if the client would hear nothing for too long.
async fn run(journey: Box<Journey>, keepalive: Duration) -> Response<Reply> {
    let dialect = journey.asked.dialect;
    let is_patient = !journey.asked.streaming || keepalive.is_zero();
    let framing = journey.asked.framing();
    let id = journey.asked.id;
    // On the heap for this request only: the connection keeps room for what is inline here as long as it is open.
    let mut driving: crate::waiting::Driving = Box::pin(drive(journey));
    if is_patient {
        return driving.await.into_response(dialect);
    }
    match tokio::time::timeout(keepalive, &mut driving).await {
        Ok(arrival) => Arrival::into_response(arrival, dialect),
        Err(_) => Waiting::new(dialect, framing, keepalive, driving).into_response(id),
    }
}

fn dialect(plan: &Plan, way: &Way, known: Option<&Route<'_>>, parts: &Parts) -> Dialect {
    let asked = known.map(|route| route.dialect);
    let shared_by_all = known.is_none_or(|route| {
        matches!(
            route.operation,
            Operation::Models | Operation::Files | Operation::Batches | Operation::Other
        )
    });
    match (way, asked) {
        (Way::Named { name, .. }, _) if shared_by_all => match plan.outlet(name) {
            Some(outlet) => outlet.dialect_for(asked.unwrap_or(outlet.config.format)),
            None => asked.unwrap_or(Dialect::OpenAiChat),
        },
        (_, Some(Dialect::OpenAiChat))
            if parts.headers.contains_key("anthropic-version") && shared_by_all =>
        {
            Dialect::AnthropicMessages
        }
        (_, Some(asked)) => asked,
        (Way::Unified, None) if parts.uri.path().starts_with("/v1beta/") => Dialect::Gemini,
        (_, None) => Dialect::OpenAiChat,
    }
}

fn limits(shared: &Shared, asked: &Asked, target: &Target, parts: &Parts) -> Limits {
    let hints = ClientHints::read(&parts.headers);
    let patience = hints.patience.map_or(target.deadline, |patience| patience.min(target.deadline));
    let deadline = shared.clock.at(asked.arrived).saturating_add(patience);
    Limits {
        call: if asked.stateful { Call::Stateful } else { Call::Generation },
        streaming: asked.streaming,
        deadline: deadline.unwrap_or(backstop_triage::Timestamp::MAX),
        client_retries: hints.retries,
        session: asked.session,
        pinned: None,
    }
}

fn foreign(error: &HostError) -> Response<Reply> {
    match error {
        HostError::Malformed => refuse::bluntly(
            StatusCode::BAD_REQUEST,
            "The request needs exactly one valid Host header, and no login in its target.",
        ),
        HostError::Foreign(name) => {
            let words = format!(
                "This gateway does not go by the name {name}. Add it to [server] allowed_hosts if it should."
            );
            refuse::bluntly(StatusCode::FORBIDDEN, &words)
        }
        HostError::ForeignOrigin => {
            refuse::bluntly(StatusCode::FORBIDDEN, "Web pages of other origins may not call this gateway.")
        }
    }
}
