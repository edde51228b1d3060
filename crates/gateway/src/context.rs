//! How much the models of this gateway take: for the verdict over a cut connection, for legs that need not be tried,
//! for lists and for errors.
//!
//! A request only ever looks up what is known, which never waits ([`backstop_context::Windows::window`]). What it
//! would have liked to know is noted, asked by [`keep`] off the path of requests, and known to the next one. Errors
//! that state a window, and answers to prompts larger than it, correct what is known at once.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
    time::Duration,
};

use backstop_context::{Asker, Direct, Subject, Window};
use backstop_dialect::{Dialect, ModelEntry, Operation, estimate_tokens, split_model};
use backstop_http::{HttpClient, HttpError, HttpReply};
use backstop_triage::{
    Class, Evidence, Fault, KeyId, ModelId, ProviderId, Timestamp, Verdict,
    cascade::Leg,
    context::{Endpoint, Method, Query, Step, is_local, stated_limit},
    pool::KeyState,
    preset::Format,
};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{
    ask::{Ask, Silence, Whom, with_query},
    asked::Asked,
    config::{AuthMode, Combo, Provider},
    drive::{Journey, Route},
    gateway::Control,
    plan::{Outlet, Plan},
    shared::Shared,
};

/// What is known of windows, and what somebody would like to know.
pub(crate) struct ContextWindows {
    known: backstop_context::Windows,
    wanted: Mutex<Wanted>,
    wake: Notify,
}

#[derive(Default)]
struct Wanted {
    open: BTreeSet<(ProviderId, ModelId)>,
    asked: BTreeMap<(ProviderId, ModelId), Timestamp>,
}

impl ContextWindows {
    /// Takes up what earlier runs found out.
    pub(crate) fn open(data_dir: &Path) -> Self {
        let file = data_dir.join("windows.json");
        let known = backstop_context::Windows::open(Some(&file));
        Self { known, wanted: Mutex::default(), wake: Notify::new() }
    }

    /// The window of a model; `None` if nobody knows it.
    pub(crate) fn window(&self, outlet: &Outlet, model: &ModelId, now: Timestamp) -> Option<Window> {
        Some(self.or_default(outlet, model, now)).filter(|window| window.source != Step::Default)
    }

    /// The window of a model, or `default_context` if nobody knows it.
    fn or_default(&self, outlet: &Outlet, model: &ModelId, now: Timestamp) -> Window {
        let base_url = outlet.config.base_url.to_string();
        let window = self.known.window(&subject(outlet, model, &base_url), now);
        match window.source {
            // The setting may have changed since this was worked out.
            Step::Default => Window { context: outlet.config.settings.default_context, ..window },
            Step::Override
            | Step::Cache
            | Step::Endpoint
            | Step::LocalServer
            | Step::ProviderApi
            | Step::PublicList
            | Step::Name
            | Step::Directory => window,
        }
    }

    /// Notes that somebody would like to know a window better.
    fn want(&self, outlet: &Outlet, model: &ModelId, now: Timestamp) {
        let config = &outlet.config;
        // Who asks in the background has no client's credential.
        let has_credential = config.auth != AuthMode::PassThrough;
        let base_url = config.base_url.to_string();
        if !has_credential || !self.known.worth_asking(&subject(outlet, model, &base_url), now) {
            return;
        }
        let pause = if is_local(&base_url) { ASK_LOCALLY_AGAIN } else { ASK_AGAIN };
        let place = (config.id.clone(), model.clone());
        let mut wanted = self.wanted.lock();
        let lately = wanted.asked.get(&place).is_some_and(|at| now.duration_since(*at) < pause);
        if !lately && wanted.open.len() < MOST_WANTED {
            wanted.open.insert(place);
            self.wake.notify_one();
        }
    }

    fn take(&self, now: Timestamp) -> Option<(ProviderId, ModelId)> {
        let mut wanted = self.wanted.lock();
        let place = wanted.open.pop_first()?;
        wanted.asked.retain(|_, at| now.duration_since(*at) < ASK_AGAIN);
        wanted.asked.insert(place.clone(), now);
        Some(place)
    }
}

/// Asks for the windows that are wanted and keeps the file up to date, for as long as it is polled.
pub(crate) async fn keep(shared: &Arc<Shared>) {
    let windows = &shared.windows;
    loop {
        while let Some((provider, model)) = windows.take(shared.clock.now()) {
            ask(shared, &provider, &model).await;
            windows.known.save();
        }
        let _ = tokio::time::timeout(SAVE_EVERY, windows.wake.notified()).await;
        windows.known.save();
    }
}

async fn ask(shared: &Arc<Shared>, provider: &ProviderId, model: &ModelId) {
    let plan = shared.plan.load_full();
    let Some(outlet) = plan.outlet(provider.as_str()) else { return };
    let now = shared.clock.now();
    let keys = shared.pool.lock().snapshot(provider, now);
    let usable = keys.iter().find(|key| matches!(key.state, KeyState::Active | KeyState::Unstable));
    let Some(key) = usable.map(|key| key.id) else { return };
    let base_url = outlet.config.base_url.to_string();
    let control = Control::of(shared);
    let http = HttpClient::new(ASK_WITHIN);
    let asker = OwnWay { control, provider: &outlet.config, key, http };
    let found = shared.windows.known.ask(&subject(outlet, model, &base_url), &asker, now).await;
    tracing::debug!(%provider, %model, context = found.context, source = found.source.as_str(), "window");
}

/// Asks a provider the way that requests go: through its proxy, with its certificates, headers and key.
struct OwnWay<'a> {
    control: Control,
    provider: &'a Provider,
    key: KeyId,
    /// For what has no credential and goes to strangers.
    http: HttpClient,
}

impl Asker for OwnWay<'_> {
    async fn put(&self, query: &Query) -> Result<HttpReply, HttpError> {
        if !query.authorised {
            return Direct { http: self.http.clone(), headers: &[] }.put(query).await;
        }
        let within = query.step.time_limit().unwrap_or(ASK_WITHIN);
        let ask = Ask {
            whom: Whom::Key(self.provider.id.clone(), self.key),
            method: match query.method {
                Method::Get => http::Method::GET,
                Method::Post => http::Method::POST,
            },
            url: with_query(query.url.clone(), self.provider),
            body: query.body.as_ref().map(|body| body.to_string().into()),
            within,
        };
        let told = self.control.ask(ask).await.map_err(|silence| self.error(silence, within))?;
        Ok(HttpReply { status: told.status.as_u16(), headers: told.headers, body: told.body })
    }
}

impl OwnWay<'_> {
    fn error(&self, silence: Silence, within: Duration) -> HttpError {
        let host = self.provider.base_url.authority();
        match silence.fault {
            Fault::ConnectTimeout | Fault::ReadTimeout | Fault::IdleTimeout => {
                HttpError::TimedOut { host, limit_s: within.as_secs() }
            }
            Fault::ConnectRefused
            | Fault::Dns
            | Fault::Tls
            | Fault::ConnectionReset
            | Fault::BrokenPipe
            | Fault::IncompleteBody => HttpError::Unreachable { host, cause: silence.detail },
        }
    }
}

fn subject<'a>(outlet: &'a Outlet, model: &'a ModelId, base_url: &'a str) -> Subject<'a> {
    let config = &outlet.config;
    let format = match config.format {
        Dialect::OpenAiChat => Format::OpenaiChat,
        Dialect::OpenAiResponses => Format::OpenaiResponses,
        Dialect::AnthropicMessages => Format::AnthropicMessages,
        Dialect::Gemini => Format::Gemini,
    };
    Subject {
        model: model.as_str(),
        endpoint: Endpoint { base_url, format },
        fixed: config.context.get(model).copied(),
        default: config.settings.default_context,
    }
}

/// Marks the legs that a prompt does not fit into, or leads them to their model with the larger window.
pub(crate) fn fit(shared: &Shared, plan: &Plan, asked: &mut Asked, legs: &mut [Leg]) {
    if asked.operation != Operation::Generate {
        return;
    }
    let is_short = asked.bytes().len() < SHORT_PROMPT;
    let mut prompt = None;
    for (position, leg) in legs.iter_mut().enumerate() {
        let Some(outlet) = plan.outlet(leg.provider.as_str()) else { continue };
        if is_short && outlet.config.context.is_empty() {
            continue;
        }
        let tokens = *prompt.get_or_insert_with(|| estimate_tokens(asked.bytes()));
        let scene = Scene { shared, outlet, tokens, now: shared.clock.now() };
        let window = scene.fit(leg, position);
        if position == 0 {
            asked.window = window;
        }
    }
}

/// A prompt before a provider.
struct Scene<'a> {
    shared: &'a Shared,
    outlet: &'a Outlet,
    tokens: u64,
    now: Timestamp,
}

impl Scene<'_> {
    /// Fits one leg; the window of the model that was asked for.
    fn fit(&self, leg: &mut Leg, position: usize) -> Option<u64> {
        let first = leg.models.first()?.clone();
        if self.tokens >= LARGE_PROMPT_TOKENS {
            self.shared.windows.want(self.outlet, &first, self.now);
        }
        if leg.models.len() > 1 {
            let mut models = std::mem::take(&mut leg.models);
            leg.models.extend(models.drain(..1));
            leg.models.extend(models.into_iter().filter(|model| !self.is_too_small(model, 1)));
        }
        if self.is_too_small(&first, position) {
            let larger = self.outlet.config.settings.context_fallback.as_deref().map(ModelId::from);
            match larger.filter(|larger| *larger != first && !self.is_too_small(larger, position)) {
                Some(larger) => leg.models = vec![larger],
                None => leg.context_too_small = true,
            }
        }
        self.shared.windows.window(self.outlet, &first, self.now).map(|window| window.context)
    }

    /// What the user says is taken at its word. The prompt is only estimated, so that other sources get a margin; and
    /// what name and directory say of the model that was asked for first is no reason not to ask.
    fn is_too_small(&self, model: &ModelId, position: usize) -> bool {
        let Some(window) = self.shared.windows.window(self.outlet, model, self.now) else { return false };
        let limit = match window.source {
            Step::Override => window.context,
            Step::Name | Step::Directory if position == 0 => return false,
            Step::Cache
            | Step::Endpoint
            | Step::LocalServer
            | Step::ProviderApi
            | Step::PublicList
            | Step::Name
            | Step::Directory
            | Step::Default => window.context.saturating_add(window.context / MARGIN),
        };
        self.tokens > limit
    }
}

impl Journey {
    /// The window of the model that was asked last, for a verdict; `None` if nobody knows it, or if what is sent is
    /// not one prompt.
    pub(crate) fn window(&self) -> Option<u64> {
        let Route { outlet, model, .. } = self.route.as_ref()?;
        if self.asked.operation != Operation::Generate || model.as_str().is_empty() {
            return None;
        }
        let now = self.shared.clock.now();
        self.shared.windows.window(outlet, model, now).map(|window| window.context)
    }

    /// Learns from a prompt that did not fit.
    pub(crate) fn overflowed(&self, verdict: &Verdict, evidence: &Evidence) {
        let Some(Route { outlet, model, .. }) = &self.route else { return };
        if verdict.class != Class::ContextOverflow || self.asked.operation != Operation::Generate {
            return;
        }
        // A client whose own words state a limit may have them repeated in the error.
        let is_echo = evidence.hints.echo.iter().any(|said| stated_limit(said).is_some());
        let text = if is_echo { "" } else { evidence.text.as_str() };
        let now = self.shared.clock.now();
        let base_url = outlet.config.base_url.to_string();
        let subject = subject(outlet, model, &base_url);
        self.shared.windows.known.overflowed(&subject, text, evidence.hints.approx_tokens, now);
        self.shared.windows.want(outlet, model, now);
    }

    /// Learns from a prompt that was answered.
    pub(crate) fn fitted(&self) {
        let Some(Route { outlet, model, .. }) = &self.route else { return };
        let tokens = self.record.usage.input.unwrap_or(0);
        if tokens >= LEAST_WINDOW && self.asked.operation == Operation::Generate {
            let base_url = outlet.config.base_url.to_string();
            self.shared.windows.known.answered(&subject(outlet, model, &base_url), tokens);
        }
    }
}

/// Puts the windows into a list of models, and asks for those that are not known for sure.
pub(crate) fn list(shared: &Shared, plan: &Plan, combo: Option<&Combo>, models: &mut [ModelEntry]) {
    let now = shared.clock.now();
    for entry in models {
        let served = match combo {
            Some(combo) => members(plan, combo, &entry.id),
            None => served(plan, &entry.id),
        };
        let windows: Vec<Window> = served
            .iter()
            .map(|(outlet, model)| {
                shared.windows.want(outlet, model, now);
                shared.windows.or_default(outlet, model, now)
            })
            .collect();
        // Whoever of several answers, the smallest is safe.
        entry.context_length = windows.iter().map(|window| window.context).min();
        entry.max_output = windows.iter().filter_map(|window| window.max_output).min();
    }
}

/// Who serves a name of the unified list, and as what.
fn served<'p>(plan: &'p Plan, id: &str) -> Vec<(&'p Arc<Outlet>, ModelId)> {
    let (provider, model) = match plan.alias(id) {
        Some(alias) => (Some(alias.provider.as_str()), alias.model.as_str()),
        None => split_model(id),
    };
    let Some(provider) = provider else { return Vec::new() };
    match (plan.outlet(provider), plan.combo(provider)) {
        (Some(outlet), _) => vec![(outlet, ModelId::from(model))],
        (None, Some(combo)) => members(plan, combo, model),
        (None, None) => Vec::new(),
    }
}

fn members<'p>(plan: &'p Plan, combo: &Combo, alias: &str) -> Vec<(&'p Arc<Outlet>, ModelId)> {
    let of_alias = combo.members.iter().filter(|member| member.alias == alias);
    of_alias
        .filter_map(|member| Some((plan.outlet(member.provider.as_str())?, member.model.clone())))
        .collect()
}

/// The longest body that fits into any model.
const SHORT_PROMPT: usize = 4 * LEAST_WINDOW as usize;
const LEAST_WINDOW: u64 = 1_024;
/// From this size on a window is worth asking for: the smallest that local servers use by default.
const LARGE_PROMPT_TOKENS: u64 = 2_048;
/// An estimate may be off by this part of the window.
const MARGIN: u64 = 4;
const ASK_WITHIN: Duration = Duration::from_secs(5);
const ASK_AGAIN: jiff::SignedDuration = jiff::SignedDuration::from_hours(6);
const ASK_LOCALLY_AGAIN: jiff::SignedDuration = jiff::SignedDuration::from_mins(5);
/// Names of models come from clients.
const MOST_WANTED: usize = 256;
/// How soon something learned stands in the file.
const SAVE_EVERY: Duration = Duration::from_secs(5);
