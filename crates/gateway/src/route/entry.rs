//! A request on its way in: may it, what does it say of itself, and whom does it mean?

use std::{sync::Arc, time::Duration};

use backstop_dialect::{Dialect, Operation, Problem, Route};
use http::{HeaderName, HeaderValue, Method, Response, header, request::Parts};
use hyper::body::{Body as _, Incoming};

use super::{Entry, Refusal, Way, models, target::Target};
use crate::{
    asked::{Asked, Body},
    auth::{Client, Denied},
    context, counting,
    intake::IntakeError,
    meters, objects,
    plan::Plan,
    reply::Reply,
    shared::Shared,
    upstream::Upload,
};

/// What becomes of a request that may come in.
pub(super) enum Entered {
    /// It asks for something that we make ourselves: a list, or a count.
    Listed(Response<Reply>),
    /// It goes to a provider.
    Asked(Box<Asked>, Target),
}

/// Reads a request's body and what it says about itself.
pub(super) struct Intake<'a> {
    pub(super) shared: &'a Arc<Shared>,
    pub(super) plan: &'a Plan,
    pub(super) entry: &'a Entry,
    pub(super) parts: &'a Parts,
    pub(super) known: Option<&'a Route<'a>>,
    pub(super) way: &'a Way,
}

impl Intake<'_> {
    /// Takes the request in.
    pub(super) async fn enter(&self, body: Incoming) -> Result<Entered, Refusal> {
        let now = self.shared.clock.now();
        if let Some(left) = self.shared.boot.safe_for(now) {
            return Err(Refusal { problem: Problem::GatewayFault, retry_after: Some(left) });
        }
        let client = match self.plan.clients.find(&self.parts.headers, self.parts.uri.query(), now) {
            Ok(client) => Some(Arc::clone(client)),
            Err(denied) if self.plan.client_auth => return Err(denial(denied)),
            Err(_) => None,
        };
        if matches!(self.parts.method, Method::TRACE | Method::CONNECT) {
            // What answers TRACE repeats the request, with the key in it.
            return Err(Problem::NotSupported { what: format!("the method {}", self.parts.method) }.into());
        }
        if let Some(response) = models::list(self, client.as_deref()) {
            return Ok(Entered::Listed(response));
        }
        let path = match self.way {
            Way::Named { path, .. } => path.clone(),
            Way::Unified => self.parts.uri.path().to_owned(),
        };
        let mut asked = Box::new(self.read(body, client, path).await?);
        let target = match self.way {
            Way::Named { name, .. } => Target::named(self.plan, name, &mut asked),
            Way::Unified => Target::unified(self.plan, self.known, &mut asked),
        };
        let mut target = match target {
            Err(Refusal { problem: Problem::WrongDialect { .. }, .. }) if counting::is_asked(&asked) => {
                if let Some(client) = &asked.client {
                    client.may_ask(&asked.provider, None, asked.operation, now).map_err(denial)?;
                }
                return Ok(Entered::Listed(counting::estimate(&asked)));
            }
            target => target?,
        };
        stays_inside(self.plan, &target, &asked.path)?;
        if let Some(client) = &asked.client {
            may_ask(client, &asked, &target, now)?;
        }
        context::fit(self.shared, self.plan, &mut asked, &mut target.legs);
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
            way: match self.way {
                Way::Named { .. } => meters::Way::Proxy,
                Way::Unified => meters::Way::Unified,
            },
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
            window: None,
            is_estimated: false,
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
        let is_limited = asked.client.as_ref().is_some_and(|client| client.is_held_to_models());
        if head.is_model_ambiguous && is_limited {
            // The provider might read another model than the one that is checked here.
            return Err(Problem::BadRequest { why: "it names its model more than once".into() }.into());
        }
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
    fn own_credentials(&self) -> Vec<(HeaderName, HeaderValue)> {
        if !self.plan.passes_credentials {
            return Vec::new();
        }
        let ours = |value: &HeaderValue| {
            let text = value.to_str().unwrap_or_default();
            text.split_ascii_whitespace().any(|word| self.plan.clients.knows(word))
        };
        let names = [header::AUTHORIZATION.as_str(), "x-api-key", "x-goog-api-key", "api-key"];
        let credential = |name: &str| {
            let value = self.parts.headers.get(name).filter(|value| !ours(value))?;
            Some((HeaderName::try_from(name).ok()?, value.clone()))
        };
        names.iter().filter_map(|name| credential(name)).collect()
    }
}

fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
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
