//! What a request looks up: a snapshot of everything configured, replaced as a whole when something changes.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use backstop_dialect::{Dialect, ModelEntry};
use backstop_store::Secret;
use backstop_triage::{
    AccountId, Catalog, KeyId, ModelId, ProviderId,
    pool::{KeySpec, Probes, ProviderSpec},
    probe::QuotaProbe,
};
use http::{HeaderName, HeaderValue};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use crate::{
    auth::Clients,
    config::{Alias, AuthMode, Combo, Config, Provider, Server, nearest},
    hosts::Hosts,
    meters::{ByClass, ProviderMeters},
    price::Prices,
    stock::Stock,
    upstream::{TlsError, Upstream},
    windows::Windows,
};

/// The snapshot.
#[derive(Default)]
pub(crate) struct Plan {
    outlets: HashMap<ProviderId, Arc<Outlet>>,
    order: Vec<ProviderId>,
    combos: BTreeMap<String, Combo>,
    aliases: BTreeMap<String, Alias>,
    /// Who lists a model; `None` where several do.
    listed: HashMap<ModelId, Option<ProviderId>>,
    pub(crate) hosts: Hosts,
    pub(crate) clients: Clients,
    pub(crate) client_auth: bool,
    pub(crate) body_limit: u64,
    pub(crate) upload_limit: u64,
    pub(crate) metrics_open: bool,
    /// Whether any provider passes the client's own credentials on.
    pub(crate) passes_credentials: bool,
}

/// One provider as requests see it.
pub(crate) struct Outlet {
    /// Without its keys, which stand below.
    pub(crate) config: Provider,
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) keys: HashMap<KeyId, Arc<OutletKey>>,
    /// Keys that cannot be decrypted, by label, with why.
    pub(crate) locked: BTreeMap<String, String>,
    pub(crate) id_header: HeaderValue,
    pub(crate) meters: Arc<ProviderMeters>,
    pub(crate) prices: Prices,
    specs: Vec<KeySpec>,
}

/// A key, ready to be sent.
pub(crate) struct OutletKey {
    pub(crate) label: String,
    /// The label as it stands in `x-backstop-key`.
    pub(crate) label_header: HeaderValue,
    pub(crate) credential: Credential,
    /// For taking it out of what is shown.
    pub(crate) secret: Secret,
    pub(crate) windows: Windows,
    /// Its failed calls.
    pub(crate) errors: Arc<ByClass>,
}

/// How a call proves who pays.
pub(crate) enum Credential {
    Header(HeaderName, HeaderValue),
    Query(String),
    Nothing,
}

/// A key with its id, from the configuration or the store.
#[derive(Clone, Debug)]
pub(crate) struct StoredKey {
    pub(crate) id: KeyId,
    pub(crate) label: String,
    pub(crate) account: Option<AccountId>,
    pub(crate) secret: Secret,
}

/// Why a provider cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("provider {provider}: {source}")]
pub struct PlanError {
    provider: ProviderId,
    source: TlsError,
}

/// The way to each provider of a configuration.
pub(crate) struct Ways(HashMap<ProviderId, Arc<Upstream>>);

impl Ways {
    /// Finds them. What is reached as it was in `before` keeps its connections.
    pub(crate) fn find(config: &Config, before: &Plan) -> Result<Self, PlanError> {
        let way = |provider: &Provider| {
            let earlier = before.outlets.get(&provider.id);
            match earlier.filter(|earlier| reaches_the_same(&earlier.config, provider)) {
                Some(earlier) => Ok(Arc::clone(&earlier.upstream)),
                None => Upstream::new(provider).map(Arc::new),
            }
        };
        let found = config.providers.iter().map(|provider| {
            let id = provider.id.clone();
            way(provider).map(|way| (id.clone(), way)).map_err(|source| PlanError { provider: id, source })
        });
        found.collect::<Result<_, _>>().map(Self)
    }
}

impl Plan {
    /// Resolves a configuration, given the ways to its providers, their keys, and the clients. What has not changed
    /// since `before` keeps its counts.
    pub(crate) fn new(
        config: &Config,
        mut ways: Ways,
        mut stocks: HashMap<ProviderId, Stock>,
        clients: Clients,
        before: &Self,
    ) -> Self {
        let mut plan = Self::of_server(&config.server, clients);
        for provider in &config.providers {
            let Some(upstream) = ways.0.remove(&provider.id) else { continue };
            let stock = stocks.remove(&provider.id).unwrap_or_default();
            let earlier = before.outlets.get(&provider.id);
            let outlet = Outlet::new(provider, upstream, stock, earlier);
            for model in &provider.models {
                let entry = plan.listed.entry(model.clone()).or_insert_with(|| Some(provider.id.clone()));
                if entry.as_ref() != Some(&provider.id) {
                    *entry = None;
                }
            }
            plan.passes_credentials |= provider.auth == AuthMode::PassThrough;
            plan.order.push(provider.id.clone());
            plan.outlets.insert(provider.id.clone(), Arc::new(outlet));
        }
        plan.combos = config.combos.iter().map(|combo| (combo.id.clone(), combo.clone())).collect();
        plan.aliases = config.aliases.clone();
        plan
    }

    fn of_server(server: &Server, clients: Clients) -> Self {
        Self {
            hosts: Hosts::new(&server.allowed_hosts),
            clients,
            client_auth: server.client_auth,
            body_limit: server.body_limit,
            upload_limit: server.upload_limit,
            metrics_open: server.metrics_open,
            ..Self::default()
        }
    }

    pub(crate) fn outlet(&self, id: &str) -> Option<&Arc<Outlet>> {
        self.outlets.get(id)
    }

    /// The providers, in order of the configuration.
    pub(crate) fn outlets(&self) -> impl Iterator<Item = &Arc<Outlet>> {
        self.order.iter().filter_map(|id| self.outlets.get(id))
    }

    pub(crate) fn combo(&self, id: &str) -> Option<&Combo> {
        self.combos.get(id)
    }

    pub(crate) fn alias(&self, name: &str) -> Option<&Alias> {
        self.aliases.get(name)
    }

    /// The one provider that lists a model.
    pub(crate) fn lister(&self, model: &str) -> Option<&Arc<Outlet>> {
        self.outlets.get(self.listed.get(model)?.as_ref()?)
    }

    /// Every name that a unified request may ask for.
    pub(crate) fn models(&self) -> Vec<ModelEntry> {
        let of_outlets = self.outlets().flat_map(|outlet| {
            outlet.config.models.iter().map(|model| ModelEntry {
                id: format!("{}/{model}", outlet.config.id),
                owner: outlet.config.id.to_string(),
                ..ModelEntry::default()
            })
        });
        let of_combos = self.combos.values().flat_map(|combo| combo_models(combo, true));
        let of_aliases = self.aliases.iter().map(|(name, alias)| ModelEntry {
            id: name.clone(),
            owner: alias.provider.clone(),
            ..ModelEntry::default()
        });
        of_aliases.chain(of_combos).chain(of_outlets).collect()
    }

    /// The names that somebody may have meant.
    pub(crate) fn near(&self, name: &str) -> Vec<String> {
        let models: Vec<String> = self.models().into_iter().map(|model| model.id).collect();
        let bare = models.iter().map(|id| id.split_once('/').map_or(id.as_str(), |(_, model)| model));
        let near = nearest(name, models.iter().map(String::as_str));
        let of_bare = nearest(name, bare).and_then(|near| models.iter().find(|id| id.ends_with(near)));
        let mut names: Vec<String> = near.map(str::to_owned).into_iter().chain(of_bare.cloned()).collect();
        names.dedup();
        if names.is_empty() {
            let ids: Vec<&str> = self
                .order
                .iter()
                .map(ProviderId::as_str)
                .chain(self.combos.keys().map(String::as_str))
                .collect();
            let asked = name.split_once('/').map_or(name, |(provider, _)| provider);
            names.extend(nearest(asked, ids.into_iter()).map(str::to_owned));
        }
        names
    }
}

/// The models of a combo, each once; with the combo's id before them if `prefixed`.
pub(crate) fn combo_models(combo: &Combo, prefixed: bool) -> Vec<ModelEntry> {
    let mut names: Vec<&str> = combo.members.iter().map(|member| member.alias.as_str()).collect();
    names.dedup();
    let entry = |name: &str| ModelEntry {
        id: if prefixed { format!("{}/{name}", combo.id) } else { name.to_owned() },
        owner: combo.id.clone(),
        ..ModelEntry::default()
    };
    names.into_iter().map(entry).collect()
}

impl Outlet {
    fn new(config: &Provider, upstream: Arc<Upstream>, stock: Stock, earlier: Option<&Arc<Self>>) -> Self {
        let config = Provider { keys: Vec::new(), ..config.clone() };
        let meters: Arc<ProviderMeters> =
            earlier.map(|earlier| Arc::clone(&earlier.meters)).unwrap_or_default();
        let keys = match config.auth {
            AuthMode::Managed => stock.keys,
            AuthMode::None | AuthMode::PassThrough => vec![stand_in(&config)],
        };
        let specs = keys
            .iter()
            .map(|key| KeySpec { id: key.id, label: key.label.clone(), account: key.account.clone() })
            .collect();
        let ready = |key: &StoredKey| {
            let known = earlier.and_then(|earlier| earlier.keys.get(&key.id));
            let errors = known.map(|known| Arc::clone(&known.errors)).unwrap_or_default();
            (key.id, Arc::new(OutletKey { errors, ..OutletKey::new(key, &config) }))
        };
        let ready = keys.iter().map(ready).collect();
        meters.list(&config.models);
        let id_header = HeaderValue::from_str(config.id.as_str()).unwrap_or(HeaderValue::from_static("?"));
        Self {
            config,
            upstream,
            keys: ready,
            locked: stock.locked,
            id_header,
            meters,
            prices: Prices::default(),
            specs,
        }
    }

    /// The provider as the pool knows it.
    pub(crate) fn spec(&self, catalog: &Catalog) -> ProviderSpec {
        let preset = self.config.preset.as_deref().and_then(|preset| catalog.preset(preset));
        let managed = self.config.auth == AuthMode::Managed;
        ProviderSpec {
            id: self.config.id.clone(),
            keys: self.specs.clone(),
            settings: Arc::clone(&self.config.settings),
            probes: Probes {
                test: managed && preset.is_some_and(|preset| preset.free_test().is_some()),
                quota: managed && preset.is_some_and(|preset| !preset.quota.is_empty()),
                balance: managed && preset.is_some_and(|preset| preset.quota.iter().any(tells_a_balance)),
            },
            answer_timeout: self
                .config
                .timeout_is_own
                .then(|| Duration::from_millis(self.config.settings.timeout_ms)),
        }
    }

    /// Which of its dialects a request of this one is read in.
    pub(crate) fn dialect_for(&self, asked: Dialect) -> Dialect {
        if self.config.passes(asked) { asked } else { self.config.format }
    }
}

impl OutletKey {
    pub(crate) fn new(key: &StoredKey, config: &Provider) -> Self {
        let encoded = utf8_percent_encode(&key.label, LABEL).to_string();
        let credential = match config.auth {
            AuthMode::None | AuthMode::PassThrough => Credential::Nothing,
            AuthMode::Managed => match (config.key_header.header(key.secret.expose()), &config.key_header) {
                (Ok(Some((name, value))), _) => Credential::Header(name, value),
                (Ok(None), backstop_dialect::AuthStyle::Query(name)) => Credential::Query(format!(
                    "{name}={}",
                    utf8_percent_encode(key.secret.expose(), percent_encoding::NON_ALPHANUMERIC)
                )),
                (Ok(None) | Err(_), _) => Credential::Nothing,
            },
        };
        Self {
            label: key.label.clone(),
            label_header: HeaderValue::from_str(&encoded).unwrap_or(HeaderValue::from_static("?")),
            credential,
            secret: key.secret.clone(),
            windows: Windows::default(),
            errors: Arc::default(),
        }
    }
}

/// Whether a usage endpoint tells money: an amount that no window bounds in time.
fn tells_a_balance(probe: &QuotaProbe) -> bool {
    probe.window.iter().any(|window| {
        let timeless =
            window.window.is_none() && window.length.is_none() && window.window_from.iter().next().is_none();
        timeless && window.remaining.iter().next().is_some()
    })
}

/// The key that stands for everybody where a provider has none of its own.
fn stand_in(config: &Provider) -> StoredKey {
    let label = if config.auth == AuthMode::PassThrough { "the client's own" } else { "no key" };
    let hash = config.id.as_str().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    // The store counts its ids from 1 and never gets here.
    let id = KeyId(hash | 1 << 63);
    StoredKey { id, label: label.to_owned(), account: None, secret: Secret::new("") }
}

fn reaches_the_same(one: &Provider, other: &Provider) -> bool {
    let proxy = |provider: &Provider| {
        provider.proxy.as_ref().map(|proxy| (proxy.host.clone(), proxy.port, proxy.credentials.clone()))
    };
    one.base_url == other.base_url
        && one.ca_file == other.ca_file
        && one.allow_private == other.allow_private
        && proxy(one) == proxy(other)
}

const LABEL: &AsciiSet = &CONTROLS.add(b' ').add(b'%').add(b'"').add(b'\\');
