//! Where a request goes: the data plane, the probes of an operator, or what is mounted beside.
//!
//! ```text
//! /proxy/{provider or combo}/…      a provider's own dialect, every path
//! /v1/…  /v1beta/…                  unified: the model names the provider
//! /healthz  /readyz  /metrics       for operators
//! everything else                   the admin API and the dashboard
//! ```

mod models;
mod target;

use std::{sync::Arc, time::Duration};

use backstop_dialect::{ClientHints, Dialect, Operation, Problem, Route, recognise};
use backstop_triage::cascade::{Call, Limits};
use http::{Method, Request, Response, StatusCode, header, request::Parts};
use hyper::body::{Body as _, Incoming};
use tokio::time::Instant;

use self::target::Target;
use crate::{
    arrive::Arrival,
    asked::{Asked, Body},
    auth::{Client, Denied},
    drive::{Journey, drive},
    hosts::HostError,
    intake::IntakeError,
    line::Busy,
    metrics, objects,
    plan::Plan,
    refuse,
    reply::{self, Content, Reply},
    request_id::RequestId,
    shared::Shared,
    upstream::Upload,
    waiting::Waiting,
};

/// Answers one request.
pub(crate) async fn answer(shared: &Arc<Shared>, busy: Busy, request: Request<Incoming>) -> Response<Reply> {
    let plan = shared.plan.load_full();
    let response = match plan.hosts.check(request.headers()) {
        Ok(()) => dispatch(shared, plan, request).await,
        Err(error) => foreign(&error),
    };
    response.map(|reply| reply.holding(busy))
}

async fn dispatch(shared: &Arc<Shared>, plan: Arc<Plan>, request: Request<Incoming>) -> Response<Reply> {
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
        Some(mount) => (mount.serve)(request).await.map(|body| Reply::new(Content::Mounted(body))),
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
    let path = match &way {
        Way::Named { path, .. } => path.clone(),
        Way::Unified => parts.uri.path().to_owned(),
    };
    let known = recognise(&path);
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

/// What becomes of a request that may come in.
enum Entered {
    /// It asks for a list that we make ourselves.
    Listed(Response<Reply>),
    /// It goes to a provider.
    Asked(Box<Asked>, Target),
}

/// Drives a journey, and opens its stream early if the client would hear nothing for too long.
async fn run(journey: Box<Journey>, keepalive: Duration) -> Response<Reply> {
    let dialect = journey.asked.dialect;
    if !journey.asked.streaming || keepalive.is_zero() {
        return drive(journey).await.into_response(dialect);
    }
    let framing = journey.asked.framing();
    let id = journey.asked.id;
    let mut driving: crate::waiting::Driving = Box::pin(drive(journey));
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

/// Refuses a path that could leave the provider's base URL.
fn stays_inside(plan: &Plan, target: &Target, path: &str) -> Result<(), Refusal> {
    if !path.contains(['.', '%', '\\']) {
        return Ok(());
    }
    let outlet = target.legs.first().and_then(|leg| plan.outlet(leg.provider.as_str()));
    let joined = outlet.map_or(Ok(String::new()), |outlet| outlet.config.base_url.address.join(path, None));
    joined.map(drop).map_err(|error| Problem::BadRequest { why: error.to_string() }.into())
}

fn may_ask(
    client: &Client,
    asked: &Asked,
    target: &Target,
    now: backstop_triage::Timestamp,
) -> Result<(), Refusal> {
    client.may_ask(&asked.provider, target.model.as_deref(), asked.operation, now).map_err(denial)
}

fn denial(denied: Denied) -> Refusal {
    match denied {
        Denied::Unknown => Problem::ClientKey.into(),
        Denied::Scope => Problem::ClientKeyScope.into(),
        Denied::Limit(seconds) => {
            Refusal { problem: Problem::ClientKeyLimit, retry_after: seconds.map(Duration::from_secs) }
        }
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
        HostError::Malformed => {
            refuse::bluntly(StatusCode::BAD_REQUEST, "The request needs exactly one valid Host header.")
        }
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

/// Reads a request's body and what it says about itself.
struct Intake<'a> {
    shared: &'a Arc<Shared>,
    plan: &'a Plan,
    entry: &'a Entry,
    parts: &'a Parts,
    known: Option<&'a Route<'a>>,
    way: &'a Way,
}

impl Intake<'_> {
    async fn enter(&self, body: Incoming) -> Result<Entered, Refusal> {
        let now = self.shared.clock.now();
        if let Some(left) = self.shared.boot.safe_for(now) {
            return Err(Refusal { problem: Problem::GatewayFault, retry_after: Some(left) });
        }
        let client = match self.plan.clients.find(&self.parts.headers, self.parts.uri.query(), now) {
            Ok(client) => Some(Arc::clone(client)),
            Err(denied) if self.plan.client_auth => return Err(denial(denied)),
            Err(_) => None,
        };
        if let Some(response) = models::list(self.plan, self.way, self.known, self.parts) {
            return Ok(Entered::Listed(response));
        }
        let path = match self.way {
            Way::Named { path, .. } => path.clone(),
            Way::Unified => self.parts.uri.path().to_owned(),
        };
        let mut asked = Box::new(self.read(body, client, path).await?);
        let target = match self.way {
            Way::Named { name, .. } => Target::named(self.plan, name, &mut asked)?,
            Way::Unified => Target::unified(self.plan, self.known, &mut asked)?,
        };
        stays_inside(self.plan, &target, &asked.path)?;
        if let Some(client) = &asked.client {
            may_ask(client, &asked, &target, now)?;
        }
        Ok(Entered::Asked(asked, target))
    }

    async fn read(
        &self,
        body: Incoming,
        client: Option<Arc<Client>>,
        path: String,
    ) -> Result<Asked, Refusal> {
        let operation = self.known.map_or(Operation::Other, |route| route.operation);
        let query = self.parts.uri.query().map(|query| backstop_dialect::without_key(query).into_owned());
        let mut asked = Asked {
            id: self.entry.id,
            arrived: self.entry.arrived,
            client,
            dialect: self.entry.dialect,
            operation,
            streaming: self.known.is_some_and(|route| route.streams),
            stateful: self.known.is_some_and(Route::is_stateful) && !is_safe(&self.parts.method),
            provider: String::new(),
            model: self.known.and_then(|route| route.model_in_path.as_deref()).map(str::to_owned),
            method: self.parts.method.clone(),
            path,
            query,
            headers: backstop_dialect::request_headers(&self.parts.headers),
            own_credentials: self.own_credentials(),
            body: Body::Gone,
            slot: backstop_dialect::Slot::Nowhere,
            messages: None,
            session: None,
            is_stored: false,
            object: None,
        };
        asked.body = self.body(body).await?;
        self.look(&mut asked)?;
        if asked.object.is_none() {
            asked.object = objects::named(operation, &asked.path, None);
        }
        Ok(asked)
    }

    async fn body(&self, body: Incoming) -> Result<Body, Refusal> {
        if self.is_upload() && !body.is_end_stream() {
            let limit = self.plan.upload_limit;
            if body.size_hint().exact().is_some_and(|length| length > limit) {
                return Err(Problem::TooLarge { limit }.into());
            }
            return Ok(Body::Upload(Upload::new(body, limit)));
        }
        let limit = self.plan.body_limit;
        let taken = self.shared.budget.take(body, limit).await.map_err(|error| match error {
            IntakeError::TooLong => Refusal::from(Problem::TooLarge { limit }),
            IntakeError::Full => {
                Refusal { problem: Problem::GatewayFault, retry_after: Some(Duration::from_secs(1)) }
            }
            IntakeError::TooSlow => Problem::BadRequest { why: "the body came too slowly".into() }.into(),
            IntakeError::BrokeOff => Problem::BadRequest { why: "the body broke off".into() }.into(),
        })?;
        Ok(Body::Whole(taken))
    }

    /// What is no JSON streams through: files, audio, images.
    fn is_upload(&self) -> bool {
        let content_type = self.parts.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        content_type.is_some_and(|text| {
            let kind = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
            !(kind.is_empty() || kind.ends_with("json") || kind.starts_with("text/plain"))
        })
    }

    /// Reads the head of a JSON body.
    fn look(&self, asked: &mut Asked) -> Result<(), Refusal> {
        let Body::Whole(taken) = &asked.body else { return Ok(()) };
        let bytes = taken.bytes.clone();
        if bytes.is_empty() || !matches!(self.parts.method, Method::POST | Method::PUT | Method::PATCH) {
            return Ok(());
        }
        let head = match backstop_dialect::head(&bytes, asked.dialect) {
            Ok(head) => head,
            Err(error) if asked.operation == Operation::Generate => {
                return Err(Problem::BadRequest { why: error.to_string() }.into());
            }
            Err(_) => return Ok(()),
        };
        if asked.model.is_none() {
            asked.model = head.model.as_deref().map(str::to_owned);
        }
        asked.streaming |= head.stream && asked.operation == Operation::Generate;
        asked.stateful |= head.is_stateful();
        asked.messages = head.messages;
        asked.session = backstop_dialect::session(&self.parts.headers, &head);
        asked.is_stored = asked.dialect == Dialect::OpenAiResponses && head.store != Some(false);
        asked.object = objects::named(asked.operation, &asked.path, Some(&head));
        asked.slot = head.slot;
        Ok(())
    }

    /// The credentials that are the client's own with the provider, and none of ours.
    fn own_credentials(&self) -> Vec<(http::HeaderName, http::HeaderValue)> {
        if !self.plan.passes_credentials {
            return Vec::new();
        }
        let ours = |value: &http::HeaderValue| {
            let text = value.to_str().unwrap_or_default();
            self.plan.clients.knows(text.rsplit(' ').next().unwrap_or(text))
        };
        let names = [header::AUTHORIZATION.as_str(), "x-api-key", "x-goog-api-key", "api-key"];
        let credential = |name: &str| {
            let value = self.parts.headers.get(name).filter(|value| !ours(value))?;
            Some((http::HeaderName::try_from(name).ok()?, value.clone()))
        };
        names.iter().filter_map(|name| credential(name)).collect()
    }
}

fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}
