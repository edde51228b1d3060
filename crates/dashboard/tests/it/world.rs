//! A running gateway in miniature: a real store and pool, and an upstream that is a function.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::body::Body;
use backstop_alerts::ChannelStatus;
use backstop_dashboard::{
    Dashboard,
    live::{Configured, Credential, Later, Live, Question, Reply, Unanswered},
    prepare_token,
};
use backstop_dialect::Dialect;
use backstop_gateway::QuotaTold;
use backstop_store::{
    Secret, Store,
    configuration::Kind,
    requests::{Outcome, RequestRow, Tokens},
};
use backstop_triage::{
    Catalog, Fault, KeyId, ModelId, ProviderId, Settings, Timestamp,
    alert::{Book, Episode, Topic},
    pool::{KeySpec, Pool, Probes, ProviderSpec},
};
use http::{Request, Response, header};
use http_body_util::BodyExt as _;
use parking_lot::Mutex;
use serde_json::Value;

/// How the upstream answers: (secret, url) to (status, body), or a fault.
pub(crate) type Upstream = dyn Fn(&str, &str) -> Result<(u16, String), Fault> + Send + Sync;

pub(crate) struct World {
    pub(crate) dashboard: Dashboard,
    pub(crate) token: String,
    pub(crate) store: Store,
    pub(crate) live: Arc<Fake>,
    _folder: tempfile::TempDir,
}

pub(crate) struct Fake {
    store: Store,
    pool: Mutex<Pool>,
    catalog: Arc<Catalog>,
    upstream: Mutex<Arc<Upstream>>,
    pub(crate) asked: Mutex<Vec<String>>,
    /// What the usage endpoint says.
    pub(crate) usage: Mutex<QuotaTold>,
    pub(crate) alerts: Mutex<Book>,
}

impl World {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open(folder.path()).expect("the store opens");
        let token = prepare_token(&store).expect("a token").expect("a new token").expose().to_owned();
        let fake = Fake {
            store: store.clone(),
            pool: Mutex::new(Pool::new(1)),
            catalog: Arc::new(Catalog::embedded()),
            upstream: Mutex::new(Arc::new(|_, _| Ok((200, "{}".to_owned())))),
            asked: Mutex::default(),
            usage: Mutex::new(QuotaTold::NoEndpoint),
            alerts: Mutex::default(),
        };
        let live = Arc::new(fake);
        live.take_up();
        Self { dashboard: Dashboard::new(live.clone()), token, store, live, _folder: folder }
    }

    pub(crate) fn upstream(
        &self,
        answer: impl Fn(&str, &str) -> Result<(u16, String), Fault> + Send + Sync + 'static,
    ) {
        *self.live.upstream.lock() = Arc::new(answer);
    }

    /// Asks as a script with the admin token.
    pub(crate) async fn ask(&self, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        let response = self.send(self.request(method, path, body)).await;
        let status = response.status().as_u16();
        (status, json_of(response).await)
    }

    /// Asks, and expects that it works.
    pub(crate) async fn done(&self, method: &str, path: &str, body: Option<Value>) -> Value {
        let (status, value) = self.ask(method, path, body).await;
        assert!((200..300).contains(&status), "{method} {path}: {status} {value}");
        value
    }

    pub(crate) fn request(&self, method: &str, path: &str, body: Option<Value>) -> Request<Body> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "127.0.0.1:3030")
            .header(header::AUTHORIZATION, format!("Bearer {}", self.token));
        let request = match body {
            Some(body) => {
                request.header(header::CONTENT_TYPE, "application/json").body(Body::from(body.to_string()))
            }
            None => request.body(Body::empty()),
        };
        request.expect("a request")
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Response<Body> {
        self.dashboard.serve(request).await
    }

    /// Adds the provider `alpha` with two models and so many keys.
    pub(crate) async fn with_alpha(keys: usize) -> Self {
        let world = Self::new();
        let definition = serde_json::json!({
            "id": "alpha", "format": "openai-chat", "base_url": "http://127.0.0.1:9/v1", "allow_private": true,
        });
        world.done("POST", "/api/providers", Some(definition)).await;
        let models = serde_json::json!({ "models": ["large", "small"] });
        world.done("PUT", "/api/providers/alpha/models", Some(models)).await;
        if keys > 0 {
            let text: String =
                (1..=keys).map(|number| format!("key-{number} sk-secret-{number}\n")).collect();
            let body = serde_json::json!({ "text": text });
            world.done("POST", "/api/providers/alpha/keys/bulk", Some(body)).await;
        }
        world
    }
}

pub(crate) async fn json_of(response: Response<Body>) -> Value {
    let bytes = response.into_body().collect().await.expect("a body").to_bytes();
    serde_json::from_slice(&bytes).unwrap_or(Value::Null)
}

impl Fake {
    fn take_up(&self) {
        let now = self.now();
        let providers = self.providers();
        let mut pool = self.pool.lock();
        let gone: Vec<ProviderId> =
            pool.providers().filter(|id| !providers.iter().any(|known| known.id == **id)).cloned().collect();
        gone.iter().for_each(|id| pool.remove_provider(id));
        for provider in providers {
            let rows = self.store.keys(&provider.id).expect("readable");
            let spec = |row: backstop_store::keys::KeyRow| KeySpec {
                id: row.id,
                label: row.label,
                account: row.account,
            };
            let spec = ProviderSpec {
                id: provider.id,
                keys: rows.into_iter().map(spec).collect(),
                settings: provider.settings,
                probes: Probes::default(),
                answer_timeout: None,
            };
            pool.set_provider(spec, now);
        }
    }

    fn secret(&self, provider: &ProviderId, id: KeyId) -> String {
        let secrets = self.store.key_secrets(provider).expect("readable");
        secrets.get(&id).and_then(|secret| secret.as_ref().ok()).map_or("", Secret::expose).to_owned()
    }
}

impl Live for Fake {
    fn store(&self) -> &Store {
        &self.store
    }

    fn settings(&self) -> Arc<Settings> {
        Arc::default()
    }

    fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalog)
    }

    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn providers(&self) -> Vec<Configured> {
        let chains = self.store.fallbacks().expect("readable");
        let added = self.store.objects(Kind::Provider).expect("readable").into_iter().map(|object| {
            let spec: Value = serde_json::from_str(&object.spec).expect("a definition");
            let word = |field: &str, usual: &str| spec[field].as_str().unwrap_or(usual).to_owned();
            let id = ProviderId::from(object.id.as_str());
            let models = self.store.models(&id).expect("readable");
            Configured {
                models: models.into_iter().map(|model| model.id).collect(),
                fallbacks: chains
                    .iter()
                    .filter(|leg| leg.provider == id)
                    .map(|leg| (leg.target_provider.clone(), leg.target_model.clone()))
                    .collect(),
                id,
                from_file: false,
                format: dialect(&word("format", "openai-chat")),
                base_url: word("base_url", "http://127.0.0.1:9/v1"),
                rules: ProviderId::from(word("rules", "generic")),
                preset: spec["preset"].as_str().map(str::to_owned),
                auth: word("auth", "managed"),
                settings: Arc::new(Settings::default()),
            }
        });
        let filed = Configured {
            id: ProviderId::from("filed"),
            from_file: true,
            format: dialect("anthropic-messages"),
            base_url: "https://filed.test".into(),
            rules: ProviderId::from("generic"),
            preset: None,
            auth: "managed".into(),
            models: vec![ModelId::from("m")],
            fallbacks: Vec::new(),
            settings: Arc::new(Settings::default()),
        };
        std::iter::once(filed).chain(added).collect()
    }

    fn with_pool(&self, work: &mut dyn FnMut(&mut Pool, Timestamp)) {
        let mut pool = self.pool.lock();
        work(&mut pool, Timestamp::now());
        let changes = std::iter::from_fn(|| pool.poll_change());
        let rows = changes.map(|change| {
            (change.subject.to_string(), serde_json::to_string(&change.state).expect("a state"))
        });
        drop(self.store.save_health(rows.collect()));
    }

    fn check_provider(&self, definition: &str) -> Result<(), Vec<String>> {
        if definition.contains("base_url") || definition.contains("preset") {
            return Ok(());
        }
        Err(vec!["[[provider]] has neither `base_url` nor `preset`".into()])
    }

    fn read_again(self: Arc<Self>) -> Later<'static, Result<(), String>> {
        self.reload()
    }

    fn reload(self: Arc<Self>) -> Later<'static, Result<(), String>> {
        self.take_up();
        Box::pin(std::future::ready(Ok(())))
    }

    fn alerts(&self) -> Vec<(Topic, Episode)> {
        self.alerts.lock().open().map(|(topic, episode)| (topic.clone(), episode.clone())).collect()
    }

    fn acknowledge(&self, topic: &Topic) -> bool {
        self.alerts.lock().acknowledge(topic)
    }

    fn alert_channels(&self) -> Vec<ChannelStatus> {
        let failing = Some("the receiver answered 503".to_owned());
        vec![ChannelStatus {
            name: "ops".into(),
            kind: "webhook",
            last_error: failing,
            ..ChannelStatus::default()
        }]
    }

    fn test_alert_channel(&self, name: &str) -> Later<'static, Option<Result<String, String>>> {
        let answer = (name == "ops").then(|| Err("the receiver answered 503".to_owned()));
        Box::pin(std::future::ready(answer))
    }

    fn ask_quota<'a>(&'a self, provider: &'a ProviderId, key: KeyId) -> Later<'a, QuotaTold> {
        let windows = self.usage.lock().clone();
        if let QuotaTold::Windows(snapshot) = &windows {
            self.with_pool(&mut |pool, now| pool.record_quota(provider, key, snapshot, now));
        }
        Box::pin(std::future::ready(windows))
    }

    fn ask(&self, question: Question) -> Later<'_, Result<Reply, Unanswered>> {
        let secret = match &question.key {
            Credential::Key(id) => self.secret(&ProviderId::from("alpha"), *id),
            Credential::Unsaved(secret) => secret.expose().to_owned(),
            Credential::Nothing => String::new(),
        };
        self.asked.lock().push(format!("{} {} {secret}", question.method, question.url));
        let answer = (self.upstream.lock().clone())(&secret, &question.url);
        let took = Duration::from_millis(7);
        let reply = match answer {
            Ok((status, body)) if !secret.is_empty() => {
                let body = body.replace(&secret, "***").into();
                Ok(Reply { status, headers: Vec::new(), body, took })
            }
            Ok((status, body)) => Ok(Reply { status, headers: Vec::new(), body: body.into(), took }),
            Err(fault) => Err(Unanswered { fault, detail: String::new(), took }),
        };
        Box::pin(std::future::ready(reply))
    }
}

/// The number of items by a word in one of their fields.
pub(crate) fn counted(items: &Value, field: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for item in items.as_array().into_iter().flatten() {
        *counts.entry(item[field].as_str().unwrap_or("").to_owned()).or_insert(0) += 1;
    }
    counts
}

fn dialect(name: &str) -> Dialect {
    Dialect::ALL.into_iter().find(|dialect| dialect.as_str() == name).expect("a dialect")
}

/// A row of the log: a request that was answered, of this moment, without anything special.
pub(crate) fn answered(id: &str) -> RequestRow {
    RequestRow {
        id: id.into(),
        at: Timestamp::now(),
        client_id: None,
        client: None,
        operation: "generate".into(),
        dialect: "openai-chat".into(),
        provider: "alpha".into(),
        model: Some("large".into()),
        served_provider: Some("alpha".into()),
        served_model: Some("large".into()),
        stream: false,
        fallback: false,
        outcome: Outcome::Succeeded,
        status: 200,
        class: None,
        duration_ms: 10,
        first_content_ms: None,
        tokens: Tokens::default(),
        cost_micros: None,
        cost_reported: false,
        attempts: Vec::new(),
        bodies: None,
    }
}
