//! What the admin side needs of the running gateway, and nothing more of it.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use backstop_alerts::ChannelStatus;
use backstop_dialect::Dialect;
use backstop_gateway::QuotaTold;
use backstop_store::{Secret, Store};
use backstop_triage::{
    Catalog, Fault, KeyId, ModelId, ProviderId, Settings, Timestamp,
    alert::{Episode, Topic},
    pool::Pool,
};
use bytes::Bytes;
use http::Method;

/// The running gateway.
pub trait Live: Send + Sync + 'static {
    /// Where everything is remembered.
    fn store(&self) -> &Store;

    /// The rules in force.
    fn catalog(&self) -> Arc<Catalog>;

    /// The moment by which the pool decides.
    fn now(&self) -> Timestamp;

    /// Every provider in its order, those of the file first.
    fn providers(&self) -> Vec<Configured>;

    /// Works on the pool, then writes its transitions through. The work must not block.
    fn with_pool(&self, work: &mut dyn FnMut(&mut Pool, Timestamp));

    /// Checks the definition of a provider, a `[[provider]]` table, without using it; what is wrong with it.
    fn check_provider(&self, definition: &str) -> Result<(), Vec<String>>;

    /// Takes up what has changed in the store: providers, keys, models, fallbacks, combos, clients, settings, rules.
    fn reload(self: Arc<Self>) -> Later<'static, Result<(), String>>;

    /// Reads everything again, as at a signal: what changed in the store, the configuration and its rule packs, and the
    /// file of the admin password. What was refused, if anything was.
    fn read_again(self: Arc<Self>) -> Later<'static, Result<(), String>>;

    /// The alerts of the gateway that are on, each with its stamp.
    fn alerts(&self) -> Vec<(Topic, Episode)>;

    /// A person has seen an alert of the gateway: no more reminders until it is over. `false` if it is not on.
    fn acknowledge(&self, topic: &Topic) -> bool;

    /// How the channels for alerts fare.
    fn alert_channels(&self) -> Vec<ChannelStatus>;

    /// Sends a test message to a channel; what came back, or `None` if there is no such channel.
    fn test_alert_channel(&self, name: &str) -> Later<'static, Option<Result<String, String>>>;

    /// The settings of the whole gateway that are in force: those of the file over those of people.
    fn settings(&self) -> Arc<Settings>;

    /// Asks a provider's usage endpoint how full a key's windows are, and lets the pool know.
    fn ask_quota<'a>(&'a self, provider: &'a ProviderId, key: KeyId) -> Later<'a, QuotaTold>;

    /// Makes one call to a provider. Never counted as traffic; no key is blamed for how it ends. An upstream that
    /// repeats the key in its answer is not believed: the key's own text is taken out.
    fn ask(&self, question: Question) -> Later<'_, Result<Reply, Unanswered>>;
}

/// Something that takes a while.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A provider as it is configured.
#[derive(Clone, Debug)]
pub struct Configured {
    /// Its id.
    pub id: ProviderId,
    /// Whether the file defines it, so that it is read-only here.
    pub from_file: bool,
    /// The API shape.
    pub format: Dialect,
    /// Where its API lies.
    pub base_url: String,
    /// The rule pack that reads its failures.
    pub rules: ProviderId,
    /// The preset that it was made from.
    pub preset: Option<String>,
    /// Whose credential travels upstream: `managed`, `none` or `pass-through`.
    pub auth: String,
    /// Its models in order.
    pub models: Vec<ModelId>,
    /// Its chain in order.
    pub fallbacks: Vec<(ProviderId, Option<ModelId>)>,
    /// Its settings, the global ones laid under.
    pub settings: Arc<Settings>,
}

/// A call for a connection test, a list of models or a usage endpoint.
#[derive(Clone, Debug)]
pub struct Question {
    /// Whom to ask.
    pub target: Target,
    /// With which key.
    pub key: Credential,
    /// How.
    pub method: Method,
    /// A path below the base URL (`/v1/models`; its version is dropped if the base has one), one below its origin (`{origin}/x`), or a whole URL of its host.
    pub url: String,
    /// The body, JSON.
    pub body: Option<Bytes>,
    /// When to give up.
    pub timeout: Duration,
}

/// Whom to ask.
#[derive(Clone, Debug)]
pub enum Target {
    /// A configured provider.
    Configured(ProviderId),
    /// One that is not saved yet, as a `[[provider]]` table.
    Draft(String),
}

/// With which key to ask.
#[derive(Clone, Debug)]
pub enum Credential {
    /// A key of the provider.
    Key(KeyId),
    /// One that is not saved yet.
    Unsaved(Secret),
    /// None.
    Nothing,
}

/// An answer, whatever its status.
#[derive(Clone, Debug)]
pub struct Reply {
    /// Its status.
    pub status: u16,
    /// Its headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// Its body, at most 4 MiB of it.
    pub body: Bytes,
    /// How long it took.
    pub took: Duration,
}

/// Why there was no answer.
#[derive(Clone, Debug)]
pub struct Unanswered {
    /// What failed.
    pub fault: Fault,
    /// What the system said, without URL and secret.
    pub detail: String,
    /// How long it took to fail.
    pub took: Duration,
}
