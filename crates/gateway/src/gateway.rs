//! The gateway as a whole: started from a configuration, a store and a catalog; reloaded; stopped.
//!
//! Each worker is a thread with a runtime of its own that serves its connections from accept to answer. What they
//! share is in [`Shared`]; what a request looks up is a [`Plan`] that is replaced as a whole.

use std::{
    io,
    net::{SocketAddr, TcpListener as StdListener},
    sync::Arc,
    thread::JoinHandle,
    time::Duration,
};

use arc_swap::ArcSwap;
use backstop_alerts::{ChannelStatus, DeliveryError};
use backstop_store::{Secret, Store, StoreError};
use backstop_triage::{
    Catalog, KeyId, ProviderId,
    alert::{Episode, Topic},
    pool::{Deed, KeyStatus, Pool, SavedState, Subject},
};
use parking_lot::Mutex;
use tokio::{
    net::TcpListener,
    runtime::Builder,
    sync::{Notify, Semaphore, mpsc, watch},
    time::Instant,
};

use crate::{
    alarms::Alarms,
    aside,
    auth::Clients,
    boot::Boot,
    clock::Clock,
    config::Config,
    context::ContextWindows,
    housekeeping, ingress,
    ingress::Stage,
    intake::Budget,
    meters::Meters,
    mount::Mount,
    plan::{Plan, PlanError, Ways},
    request_id::Ids,
    settle,
    shared::Shared,
    stock,
    stock::First,
    telemetry::Telemetry,
    upstream,
};

/// What a gateway is made of.
pub struct Gateway {
    /// The resolved configuration.
    pub config: Config,
    /// The open store.
    pub store: Store,
    /// Rules and presets.
    pub catalog: Catalog,
    /// What is served beside the data plane.
    pub mount: Option<Mount>,
}

/// Why a gateway does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {source}; stop what listens there, or choose another with --listen")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// A provider cannot be used.
    #[error(transparent)]
    Provider(#[from] PlanError),
    /// Client keys cannot be read, so nobody could be let in.
    #[error("client keys cannot be read: {0}")]
    Clients(StoreError),
    /// A worker cannot be started.
    #[error("cannot start a worker: {0}")]
    Worker(io::Error),
}

impl StartError {
    /// Whether starting again cannot help until a person has changed something.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::Provider(_) => true,
            Self::Listen { source, .. } => source.kind() == io::ErrorKind::PermissionDenied,
            Self::Clients(_) | Self::Worker(_) => false,
        }
    }
}

impl Gateway {
    /// Starts to serve.
    ///
    /// # Errors
    /// When an address is taken, a provider's certificates cannot be read, or the store cannot tell who may come in.
    pub fn start(self) -> Result<Running, StartError> {
        let Self { config, store, catalog, mount } = self;
        let clock = Clock::start();
        let now = clock.now();
        let listeners =
            config.server.listen.iter().map(|address| listen(*address)).collect::<Result<Vec<_>, _>>()?;
        let addresses = listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect();
        let ways = Ways::find(&config, &Plan::default())?;
        let (clients, first_client_key) =
            stock::clients(&config, &store, &Clients::default(), (First::Make, now))
                .map_err(StartError::Clients)?;
        let plan = Plan::new(&config, ways, stock::keys(&config, &store), clients, &Plan::default());
        let mut pool = Pool::new(rand::random());
        for outlet in plan.outlets() {
            pool.set_provider(outlet.spec(&catalog), now);
        }
        restore(&mut pool, &store, now, |_| true);
        let shared = Arc::new(Shared {
            clock,
            plan: ArcSwap::from_pointee(plan),
            reloading: Mutex::default(),
            catalog: ArcSwap::from_pointee(catalog),
            pool: Mutex::new(pool),
            pool_changed: Notify::new(),
            probe_due: Notify::new(),
            boot: Boot::begin(&store, now),
            windows: ContextWindows::open(store.data_dir()),
            alarms: Alarms::open(&config, &store),
            store,
            meters: Meters::default(),
            telemetry: Telemetry::new(config.server.otlp.as_ref(), now),
            budget: Budget::new(config.server.memory_limit),
            stage: watch::Sender::new(Stage::Open),
            mount,
            ids: Ids::new(rand::random()),
        });
        let (mut workers, done) = work(&shared, &config, &listeners)?;
        workers.push(aside::start(&shared).map_err(StartError::Worker)?);
        Ok(Running { shared, addresses, workers, done, drain: config.server.drain, first_client_key })
    }
}

/// A gateway that serves. Dropping it stops it at once.
pub struct Running {
    shared: Arc<Shared>,
    addresses: Vec<SocketAddr>,
    workers: Vec<JoinHandle<()>>,
    /// Closes when the last worker has ended.
    done: mpsc::Receiver<()>,
    drain: Duration,
    first_client_key: Option<Secret>,
}

impl Running {
    /// The first address that it listens on.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addresses[0]
    }

    /// Every address that it listens on.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The client key that was made because there was none; to be shown once.
    #[must_use]
    pub fn first_client_key(&self) -> Option<&Secret> {
        self.first_client_key.as_ref()
    }

    /// A handle for whoever looks in and changes things while it serves.
    #[must_use]
    pub fn control(&self) -> Control {
        Control(Arc::clone(&self.shared))
    }

    /// Takes no new connections, lets what is under way finish within the drain time, ends the rest with an error
    /// event, and returns when the last worker has ended.
    pub async fn shutdown(mut self) {
        self.shared.stage.send_replace(Stage::Draining);
        if tokio::time::timeout(self.drain, self.done.recv()).await.is_err() {
            self.shared.stage.send_replace(Stage::Cut);
            self.done.recv().await;
        }
        self.shared.boot.end(&self.shared.store, self.shared.clock.now());
        for worker in self.workers.drain(..) {
            if worker.join().is_err() {
                tracing::error!("a worker ended by a panic");
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shared.stage.send_replace(Stage::Cut);
    }
}

/// Looks into a running gateway and changes it. Clones share it.
#[derive(Clone)]
pub struct Control(Arc<Shared>);

impl Control {
    pub(crate) fn of(shared: &Arc<Shared>) -> Self {
        Self(Arc::clone(shared))
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0
    }

    /// Puts another configuration and other rules into force, both or none. What is under way goes on with the ones it
    /// began with. Addresses, data folder and workers stay as they are until a restart.
    ///
    /// # Errors
    /// When a provider cannot be used or client keys cannot be read; the old configuration stays in force.
    pub fn reload(&self, config: &Config, catalog: impl Into<Arc<Catalog>>) -> Result<(), StartError> {
        let shared = &self.0;
        let _one_at_a_time = shared.reloading.lock();
        let now = shared.clock.now();
        let before = shared.plan.load_full();
        let catalog = catalog.into();
        let ways = Ways::find(config, &before)?;
        let (clients, _) = stock::clients(config, &shared.store, &before.clients, (First::Never, now))
            .map_err(StartError::Clients)?;
        let plan = Plan::new(config, ways, stock::keys(config, &shared.store), clients, &before);
        let plan = Arc::new(plan);
        shared.catalog.store(Arc::clone(&catalog));
        // Before the pool: whoever gets a new key from it finds that key in the plan.
        shared.plan.store(Arc::clone(&plan));
        drop(settle::work(shared, |pool| {
            for outlet in before.outlets().filter(|outlet| plan.outlet(outlet.config.id.as_str()).is_none()) {
                pool.remove_provider(&outlet.config.id);
            }
            for outlet in plan.outlets() {
                pool.set_provider(outlet.spec(&catalog), now);
            }
            // What comes back after it was out of the configuration is as it was when it went.
            restore(pool, &shared.store, now, |subject| is_new(subject, &before));
        }));
        shared.alarms.configure(config);
        shared.pool_changed.notify_waiters();
        Ok(())
    }

    /// Notes that a configuration was refused; the old one stays in force.
    pub fn reload_refused(&self) {
        self.0.meters.reload_failures.add(1);
        self.0.alarms.reload_refused();
    }

    /// The ids of the providers, in order of the configuration.
    #[must_use]
    pub fn providers(&self) -> Vec<ProviderId> {
        self.0.plan.load().outlets().map(|outlet| outlet.config.id.clone()).collect()
    }

    /// The keys of a provider as people see them.
    #[must_use]
    pub fn keys(&self, provider: &ProviderId) -> Vec<KeyStatus> {
        let now = self.0.clock.now();
        self.0.pool.lock().snapshot(provider, now)
    }

    /// What a person does with a key; whether the key exists. Resolves when it is written.
    pub async fn act(&self, provider: &ProviderId, key: KeyId, deed: Deed) -> bool {
        let now = self.0.clock.now();
        let settled = settle::work(&self.0, |pool| pool.act(provider, key, deed, now));
        self.0.pool_changed.notify_waiters();
        settle::written(&self.0, settled.ack).await;
        settled.result
    }

    /// The alerts that are on, each with its stamp.
    #[must_use]
    pub fn alerts(&self) -> Vec<(Topic, Episode)> {
        self.0.alarms.on()
    }

    /// A person has seen an alert: no more reminders until it is over. `false` if it is not on.
    #[must_use]
    pub fn acknowledge(&self, topic: &Topic) -> bool {
        self.0.alarms.acknowledge(topic)
    }

    /// How the channels for alerts fare.
    #[must_use]
    pub fn alert_channels(&self) -> Vec<ChannelStatus> {
        self.0.alarms.channels()
    }

    /// Sends a test message to a channel; what came back, or `None` if there is no such channel.
    pub async fn test_alert_channel(&self, name: &str) -> Option<Result<String, DeliveryError>> {
        self.0.alarms.test(name, self.0.clock.now()).await
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.0.store
    }

    /// The time as the gateway's decisions see it.
    #[must_use]
    pub fn now(&self) -> backstop_triage::Timestamp {
        self.0.clock.now()
    }
}

fn listen(address: SocketAddr) -> Result<StdListener, StartError> {
    ingress::bind(address).map_err(|source| StartError::Listen { address, source })
}

/// Takes up the saved states of the subjects that `is_new` to the pool.
fn restore(
    pool: &mut Pool,
    store: &Store,
    now: backstop_triage::Timestamp,
    is_new: impl Fn(&Subject) -> bool,
) {
    for (subject, state) in store.load_health() {
        match (Subject::parse(&subject), serde_json::from_str::<SavedState>(&state)) {
            (Some(subject), Ok(state)) => {
                if is_new(&subject) {
                    pool.restore(&subject, state, now);
                }
            }
            (None, _) | (_, Err(_)) => {
                tracing::warn!(subject, "a saved state cannot be read, it is forgotten")
            }
        }
    }
}

/// Whether a plan did not have the subject: its provider, or its key.
fn is_new(subject: &Subject, before: &Plan) -> bool {
    let Some(outlet) = before.outlet(subject.provider().as_str()) else { return true };
    match subject {
        Subject::Key(_, key) | Subject::KeyModel(_, key, _) => !outlet.keys.contains_key(key),
        Subject::Model(..) | Subject::Provider(_) | Subject::Account(..) => false,
    }
}

fn work(
    shared: &Arc<Shared>,
    config: &Config,
    listeners: &[StdListener],
) -> Result<(Vec<JoinHandle<()>>, mpsc::Receiver<()>), StartError> {
    let count = match config.server.workers {
        0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        count => count,
    };
    let slots = Arc::new(Semaphore::new(config.server.max_connections));
    let (alive, done) = mpsc::channel(1);
    let mut workers = Vec::with_capacity(count);
    for number in 0..count {
        let listeners = listeners.iter().map(StdListener::try_clone).collect::<io::Result<Vec<_>>>();
        let listeners = listeners.map_err(StartError::Worker)?;
        let runtime = Builder::new_current_thread().enable_all().build().map_err(StartError::Worker)?;
        let (shared, slots, alive) = (Arc::clone(shared), Arc::clone(&slots), alive.clone());
        let thread = std::thread::Builder::new().name(format!("worker-{number}"));
        let worker = thread.spawn(move || {
            upstream::set_worker(number);
            runtime.block_on(serve(number, shared, slots, listeners));
            drop(alive);
        });
        workers.push(worker.map_err(StartError::Worker)?);
    }
    Ok((workers, done))
}

/// One worker's life: accept until the shutdown begins, then see what is open to its end.
async fn serve(number: usize, shared: Arc<Shared>, slots: Arc<Semaphore>, listeners: Vec<StdListener>) {
    for listener in listeners {
        match TcpListener::from_std(listener) {
            Ok(listener) => {
                drop(tokio::spawn(ingress::accept(listener, Arc::clone(&shared), Arc::clone(&slots))))
            }
            Err(error) => tracing::error!(%error, "a listener cannot be used"),
        }
    }
    if number == 0 {
        tokio::spawn(housekeeping::keep(Arc::clone(&shared)));
    }
    let mut stage = shared.stage.subscribe();
    let _ = stage.wait_for(|stage| *stage != Stage::Open).await;
    let mut give_up = None;
    while shared.meters.connections.value() > 0 {
        if *stage.borrow() == Stage::Cut {
            let end = *give_up.get_or_insert_with(|| Instant::now() + LAST_WORDS);
            if end <= Instant::now() {
                return;
            }
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// How long connections may take to end once they are cut.
const LAST_WORDS: Duration = Duration::from_secs(3);
const LOOK_EVERY: Duration = Duration::from_millis(10);
