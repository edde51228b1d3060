//! The running gateway as the admin side sees it.

use std::{path::PathBuf, sync::Arc, time::Duration};

use axum::body::Body;
use backstop_alerts::ChannelStatus;
use backstop_gateway::{Ask, Control, Mount, MountBody, QuotaTold, Whom, config};
use backstop_store::{Store, StoreError, configuration::Kind};
use backstop_triage::{
    Catalog, KeyId, ProviderId, Settings, Timestamp,
    alert::{Episode, Topic},
    pool::Pool,
    rules::RuleError,
};
use http::{Request, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use parking_lot::Mutex;
use tokio::{sync::watch, time::Instant};

use crate::{
    Dashboard, PasswordError, added, door,
    live::{Configured, Credential, Later, Live, Question, Reply, Target, Unanswered},
    prepare_password,
};

/// The configuration file and the user's rule packs, read anew.
pub type Source = Arc<dyn Fn() -> Result<Base, String> + Send + Sync>;

/// What the file says, before anything from the store.
pub struct Base {
    /// The configuration of the file or the environment.
    pub config: config::Config,
    /// Rule packs beside it: file names and texts.
    pub packs: Vec<(String, String)>,
}

/// A running gateway with the source of its configuration.
pub struct Running {
    control: Control,
    source: Source,
    settings: Mutex<Arc<Settings>>,
}

/// Why file and store do not make a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ComposeError {
    /// A rule pack of the user is wrong.
    #[error(transparent)]
    Rules(#[from] RuleError),
    /// The store cannot be read.
    #[error("what was added at run time cannot be read: {0}")]
    Store(#[from] StoreError),
}

/// Why not everything that was read again took effect.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Nothing of it did.
    #[error("the new configuration is wrong, the old one stays in force: {0}")]
    Refused(String),
    /// Everything did but the admin password.
    #[error("the configuration was read again, but the admin password stays as it was: {0}")]
    Password(#[from] PasswordError),
}

/// What the gateway starts from: the file and the store together. Nothing is in force yet.
pub fn compose(base: Base, store: &Store) -> Result<(config::Config, Catalog), ComposeError> {
    let rows = store.objects(Kind::Rule)?;
    let own = rows.into_iter().map(|row| (format!("{}.toml", row.id), row.spec));
    let packs: Vec<(String, String)> = base.packs.into_iter().chain(own).collect();
    let catalog = Catalog::with_user_packs(&packs)?;
    let config = added::extend(base.config, store, &catalog)?;
    Ok((config, catalog))
}

impl Running {
    /// Joins a gateway that has started with the source of its configuration.
    pub fn new(control: Control, source: Source, settings: Arc<Settings>) -> Self {
        keep_history(control.store());
        Self { control, source, settings: Mutex::new(settings) }
    }

    /// Reads file and store again, and puts both into force; then the file of the admin password. Blocks.
    ///
    /// # Errors
    /// When the configuration is refused, and then everything stays as it was; or the password alone does.
    pub fn read_again(&self) -> Result<(), ReadError> {
        let file = self.take_up().map_err(ReadError::Refused)?;
        prepare_password(self.control.store(), file.as_deref())?;
        Ok(())
    }

    /// Reads file and store again, and puts both into force; returns the file of the admin password. Blocks.
    fn take_up(&self) -> Result<Option<PathBuf>, String> {
        let composed = compose((self.source)()?, self.control.store());
        let (config, catalog) = composed.map_err(|error| error.to_string())?;
        self.control.reload(&config, catalog).map_err(|error| error.to_string())?;
        *self.settings.lock() = Arc::clone(&config.settings);
        keep_history(self.control.store());
        Ok(config.server.admin_password_file)
    }

    async fn call(&self, question: Question) -> Result<Reply, Unanswered> {
        let began = Instant::now();
        let whom = match (question.target, question.key) {
            (Target::Configured(id), Credential::Key(key)) => Whom::Key(id, key),
            (Target::Configured(id), Credential::Unsaved(secret)) => Whom::Unsaved(id, Some(secret)),
            (Target::Configured(id), Credential::Nothing) => Whom::Unsaved(id, None),
            (Target::Draft(definition), key) => {
                let settings = Arc::clone(&self.settings.lock());
                let provider = added::read_provider(&definition, &settings, &self.control.catalog());
                let provider = provider.map_err(|problems| Unanswered {
                    fault: backstop_triage::Fault::ConnectRefused,
                    detail: problems.join("; "),
                    took: began.elapsed(),
                })?;
                let secret = match key {
                    Credential::Unsaved(secret) => Some(secret),
                    Credential::Key(_) | Credential::Nothing => None,
                };
                Whom::Draft(Box::new(provider), secret)
            }
        };
        let Question { method, url, body, timeout, .. } = question;
        let told = self.control.ask(Ask { whom, method, url, body, within: timeout }).await;
        let took = began.elapsed();
        let told =
            told.map_err(|silence| Unanswered { fault: silence.fault, detail: silence.detail, took })?;
        let header = |(name, value): (&header::HeaderName, &header::HeaderValue)| {
            Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
        };
        let headers = told.headers.iter().filter_map(header).collect();
        Ok(Reply { status: told.status.as_u16(), headers, body: told.body, took })
    }
}

impl Live for Running {
    fn store(&self) -> &Store {
        self.control.store()
    }

    fn catalog(&self) -> Arc<Catalog> {
        self.control.catalog()
    }

    fn now(&self) -> Timestamp {
        self.control.now()
    }

    fn providers(&self) -> Vec<Configured> {
        self.control.configured().into_iter().map(configured).collect()
    }

    fn with_pool(&self, work: &mut dyn FnMut(&mut Pool, Timestamp)) {
        self.control.with_pool(|pool, now| work(pool, now));
    }

    fn check_provider(&self, definition: &str) -> Result<(), Vec<String>> {
        let settings = Arc::clone(&self.settings.lock());
        added::read_provider(definition, &settings, &self.control.catalog()).map(drop)
    }

    fn reload(self: Arc<Self>) -> Later<'static, Result<(), String>> {
        Box::pin(async move {
            let taken = tokio::task::spawn_blocking(move || self.take_up().map(drop)).await;
            taken.unwrap_or_else(|_| Err("taking up the change ended early; the log says why".to_owned()))
        })
    }

    fn read_again(self: Arc<Self>) -> Later<'static, Result<(), String>> {
        Box::pin(async move {
            let read = tokio::task::spawn_blocking(move || Self::read_again(&self)).await;
            let read = read.map_err(|_| "reading it ended early; the log says why".to_owned())?;
            read.map_err(|error| error.to_string())
        })
    }

    fn alerts(&self) -> Vec<(Topic, Episode)> {
        self.control.alerts()
    }

    fn acknowledge(&self, topic: &Topic) -> bool {
        self.control.acknowledge(topic)
    }

    fn alert_channels(&self) -> Vec<ChannelStatus> {
        self.control.alert_channels()
    }

    fn test_alert_channel(&self, name: &str) -> Later<'static, Option<Result<String, String>>> {
        let (control, name) = (self.control.clone(), name.to_owned());
        Box::pin(async move {
            let tested = control.test_alert_channel(&name).await;
            tested.map(|outcome| outcome.map_err(|error| error.to_string()))
        })
    }

    fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.settings.lock())
    }

    fn ask_quota<'a>(&'a self, provider: &'a ProviderId, key: KeyId) -> Later<'a, QuotaTold> {
        Box::pin(self.control.ask_quota(provider, key))
    }

    fn ask(&self, question: Question) -> Later<'_, Result<Reply, Unanswered>> {
        Box::pin(self.call(question))
    }
}

/// The place of a dashboard in a gateway that has not started yet. Who asks too early waits.
#[derive(Clone)]
pub struct Slot(Arc<watch::Sender<Option<Dashboard>>>);

impl Default for Slot {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(None)))
    }
}

impl Slot {
    /// Puts the dashboard in its place.
    pub fn fill(&self, dashboard: Dashboard) {
        self.0.send_replace(Some(dashboard));
    }

    /// What the gateway mounts beside the data plane. Administrators are known before the dashboard is there.
    pub fn mount(&self, store: Store) -> Mount {
        let serving = self.clone();
        Mount {
            serve: Arc::new(move |request| {
                let waiting = serving.0.subscribe();
                Box::pin(async move { answer(waiting, request.map(Body::new)).await })
            }),
            is_admin: Arc::new(move |headers, now| door::is_admin(&store, headers, now)),
        }
    }
}

async fn answer(
    mut waiting: watch::Receiver<Option<Dashboard>>,
    request: Request<Body>,
) -> Response<MountBody> {
    let filled = tokio::time::timeout(START, waiting.wait_for(Option::is_some)).await;
    let dashboard = filled.ok().and_then(Result::ok).and_then(|filled| filled.clone());
    let response = match dashboard {
        Some(dashboard) => dashboard.serve(request).await,
        None => {
            let mut response = Response::new(Body::from("the gateway is starting"));
            *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            response
        }
    };
    response.map(|body| body.map_err(std::io::Error::other).boxed_unsync())
}

/// Has the store keep history for as long as people want it kept.
fn keep_history(store: &Store) {
    match added::retention(store) {
        Ok(retention) => store.set_retention(retention),
        Err(error) => tracing::warn!(%error, "how long history is kept cannot be read; it stays as it was"),
    }
}

fn configured(provider: config::Provider) -> Configured {
    let auth = match provider.auth {
        config::AuthMode::Managed => "managed",
        config::AuthMode::None => "none",
        config::AuthMode::PassThrough => "pass-through",
    };
    let leg = |leg: config::Fallback| -> (ProviderId, _) { (leg.provider, leg.model) };
    Configured {
        id: provider.id,
        from_file: provider.from_file,
        format: provider.format,
        base_url: provider.base_url.to_string(),
        rules: provider.rules,
        preset: provider.preset,
        auth: auth.to_owned(),
        models: provider.models,
        fallbacks: provider.fallbacks.into_iter().map(leg).collect(),
        settings: provider.settings,
    }
}

/// How long somebody waits who asks before everything has started.
const START: Duration = Duration::from_secs(10);
