//! The packs that are in force, in layers, and who consults whom.
//!
//! A user's packs come before the embedded ones; then a provider's own pack, the packs it is like, and the
//! shared packs. The order of every provider is laid out once, when the catalog is made.

mod lint;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, LazyLock},
};

use jiff::tz::TimeZone;

use crate::{
    Evidence, ProviderId,
    embedded::RULE_FILES,
    facts::{Answer, Facts, fold::fold, reports_failure},
    matcher::Matcher,
    preset::{self, Preset},
    quota::QuotaHeaders,
    rules::{Pack, RuleError},
};

/// All rules and presets that are in force. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Catalog(Arc<Layers>);

/// The packs with their order and their compiled rules.
#[derive(Debug)]
pub(crate) struct Layers {
    /// The user's packs, then the embedded ones.
    pub(crate) packs: Vec<Pack>,
    pub(crate) users: usize,
    pub(crate) matcher: Matcher,
    plans: BTreeMap<ProviderId, Plan>,
    unknown: Plan,
    names: BTreeMap<String, ProviderId>,
    hosts: BTreeMap<String, ProviderId>,
    slow_models: Vec<String>,
    presets: Vec<Preset>,
}

/// Which packs are consulted for a provider, by their numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    /// The user's packs and the provider's own.
    pub(crate) own: Vec<usize>,
    /// The packs that it is like.
    pub(crate) like: Vec<usize>,
    /// The packs that everybody consults.
    pub(crate) shared: Vec<usize>,
    /// The zone of the provider's reset times without a zone.
    pub(crate) zone: Option<TimeZone>,
    /// Whether the provider's failures can hide in an answer with a good status.
    hides_errors: bool,
    /// The headers that tell of windows, as these packs describe them.
    quota: QuotaHeaders,
    /// Per pack: whether it is one of these.
    consulted: Vec<bool>,
}

impl Plan {
    fn new(packs: &[Pack], own: Vec<usize>, like: Vec<usize>, shared: Vec<usize>) -> Self {
        let consulted = (0..packs.len())
            .map(|pack| own.contains(&pack) || like.contains(&pack) || shared.contains(&pack));
        let consulted = consulted.collect();
        let its_own = || own.iter().filter_map(|pack| packs.get(*pack)).filter(|pack| pack.shared.is_none());
        let zone = its_own().find_map(|pack| pack.zone.clone());
        let hides_errors = its_own().any(|pack| pack.errors_in_200);
        let mut quota = QuotaHeaders::default();
        for pack in own.iter().chain(&like).chain(&shared).filter_map(|pack| packs.get(*pack)) {
            quota.extend(&pack.quota);
        }
        Self { own, like, shared, zone, hides_errors, quota, consulted }
    }

    /// Whether a pack is consulted.
    pub(crate) fn consults(&self, pack: u32) -> bool {
        self.consulted.get(pack as usize).copied().unwrap_or_default()
    }
}

impl Catalog {
    /// The packs of this build, compiled once.
    pub fn embedded() -> Self {
        static EMBEDDED: LazyLock<Catalog> = LazyLock::new(|| {
            Catalog::with_user_packs(&[]).expect("a test proves that every embedded pack parses")
        });
        EMBEDDED.clone()
    }

    /// The packs of this build behind a user's own: file names and their TOML.
    pub fn with_user_packs(files: &[(String, String)]) -> Result<Self, RuleError> {
        let mut packs =
            files.iter().map(|(file, toml)| Pack::parse(file, toml)).collect::<Result<Vec<_>, _>>()?;
        let users = packs.len();
        packs.extend_from_slice(&EMBEDDED_PACKS);
        Self::of(packs, users)
    }

    /// A catalog of exactly these packs, the first `users` of which are a user's.
    pub fn of(packs: Vec<Pack>, users: usize) -> Result<Self, RuleError> {
        check_references(&packs)?;
        let matcher = Matcher::new(&packs);
        let shared = shared(&packs);
        let ids: BTreeSet<_> = packs.iter().map(|pack| pack.id.clone()).collect();
        let plans = ids.into_iter().map(|id| (id.clone(), plan(&packs, users, &shared, &id))).collect();
        let everybody: Vec<_> = (0..users).filter(|pack| is_shared(&packs, *pack)).collect();
        let unknown = Plan::new(&packs, everybody, Vec::new(), shared.clone());
        let by = |texts: fn(&Pack) -> &Vec<String>| {
            packs
                .iter()
                .flat_map(|pack| texts(pack).iter().map(|text| (text.clone(), pack.id.clone())))
                .collect()
        };
        Ok(Self(Arc::new(Layers {
            names: by(|pack| &pack.names),
            hosts: by(|pack| &pack.hosts),
            slow_models: packs.iter().flat_map(|pack| pack.slow_models.iter().cloned()).collect(),
            presets: EMBEDDED_PRESETS.clone(),
            packs,
            users,
            matcher,
            plans,
            unknown,
        })))
    }

    pub(crate) fn layers(&self) -> &Layers {
        &self.0
    }

    /// The packs in force: a user's first, then the embedded ones.
    pub fn packs(&self) -> &[Pack] {
        &self.0.packs
    }

    /// How many of the packs are a user's.
    pub fn user_packs(&self) -> usize {
        self.0.users
    }

    /// The embedded pack of a provider, or a user's if there is no embedded one.
    pub fn pack(&self, id: &str) -> Option<&Pack> {
        self.0.packs.iter().rev().find(|pack| pack.id.as_str() == id)
    }

    /// The pack that a provider's id, one of its names, or a host stands for.
    pub fn resolve(&self, text: &str) -> Option<&ProviderId> {
        self.0.resolve(text)
    }

    /// The presets.
    pub fn presets(&self) -> &[Preset] {
        &self.0.presets
    }

    /// One preset.
    pub fn preset(&self, id: &str) -> Option<&Preset> {
        self.0.presets.iter().find(|preset| preset.id == id)
    }

    /// The headers in which a provider tells of its keys' windows.
    pub fn quota_headers(&self, provider: &ProviderId) -> &QuotaHeaders {
        &self.0.plan(provider).quota
    }

    /// Whether a complete answer with a good status reports a failure after all. Only providers that are
    /// known to do so are looked at; for all others this costs nothing.
    pub fn success_looks_failed(&self, provider: &ProviderId, status: u16, body: &[u8]) -> bool {
        if !(200..300).contains(&status) || !self.0.plan(provider).hides_errors {
            return false;
        }
        reports_failure(body)
    }

    /// Whether evidence describes an answer with content rather than a failure.
    pub fn is_success(&self, evidence: &Evidence) -> bool {
        Facts::open(evidence).answer == Answer::Content
    }
}

impl Layers {
    pub(crate) fn plan(&self, provider: &ProviderId) -> &Plan {
        self.plans
            .get(provider)
            .or_else(|| self.resolve(provider.as_str()).and_then(|id| self.plans.get(id)))
            .unwrap_or(&self.unknown)
    }

    pub(crate) fn resolve(&self, text: &str) -> Option<&ProviderId> {
        if let Some((id, _)) = self.plans.get_key_value(text) {
            return Some(id);
        }
        let folded = fold(text);
        self.names
            .get(&folded)
            .or_else(|| self.plans.get_key_value(folded.as_str()).map(|(id, _)| id))
            .or_else(|| {
                let host = folded.split('/').find(|part| part.contains('.')).unwrap_or(&folded);
                let host = host.split(':').next().unwrap_or(host);
                self.hosts.get(host)
            })
    }

    /// The provider that quoting prose names: the longest known name that stands in it as a word.
    pub(crate) fn named_in(&self, prose: &str) -> Option<&ProviderId> {
        let ids = self.plans.keys().map(|id| (id.as_str(), id));
        let names = self.names.iter().map(|(name, id)| (name.as_str(), id));
        names
            .chain(ids)
            .filter(|(name, _)| stands_in(prose, name))
            .max_by_key(|(name, _)| name.len())
            .map(|(_, id)| id)
    }

    pub(crate) fn is_slow(&self, model: &str) -> bool {
        let model = fold(model);
        self.slow_models.iter().any(|part| model.contains(part.as_str()))
    }
}

/// Relays name a provider as `AnthropicException` or `provider(zai,…)`: only the left end must be free.
fn stands_in(prose: &str, name: &str) -> bool {
    name.len() >= 3
        && prose.match_indices(name).any(|(at, _)| {
            let before = prose.get(..at).and_then(|text| text.chars().next_back());
            let after = prose.get(at + name.len()..).unwrap_or_default();
            // `litellm.RateLimitError` names the speaker, not whom it quotes.
            !before.is_some_and(|before| before.is_ascii_alphanumeric())
                && !after.starts_with('.')
                && (!after.starts_with(|c: char| c.is_ascii_alphanumeric())
                    || after.starts_with("exception")
                    || after.starts_with("error"))
        })
}

fn check_references(packs: &[Pack]) -> Result<(), RuleError> {
    for pack in packs {
        for like in &pack.like {
            if !packs.iter().any(|other| other.id == *like) {
                return Err(RuleError {
                    file: pack.file.clone(),
                    line: 1,
                    problem: format!("like names {:?}, which is no pack", like.as_str()),
                    fix: "`backstop rules list` shows the packs".to_owned(),
                });
            }
        }
    }
    Ok(())
}

fn is_shared(packs: &[Pack], pack: usize) -> bool {
    let Some(id) = packs.get(pack).map(|pack| &pack.id) else {
        return false;
    };
    packs.iter().any(|other| other.id == *id && other.shared.is_some())
}

fn shared(packs: &[Pack]) -> Vec<usize> {
    let mut shared: Vec<_> =
        packs.iter().enumerate().filter_map(|(number, pack)| Some((pack.shared?, number))).collect();
    shared.sort_unstable();
    shared.into_iter().map(|(_, number)| number).collect()
}

fn plan(packs: &[Pack], users: usize, shared: &[usize], id: &ProviderId) -> Plan {
    let of = |id: &ProviderId| {
        let id = id.clone();
        packs.iter().enumerate().filter(move |(_, pack)| pack.id == id).map(|(number, _)| number)
    };
    let everybody =
        (0..users).filter(|pack| is_shared(packs, *pack) && packs.get(*pack).is_some_and(|p| p.id != *id));
    let mut own: Vec<_> = of(id).filter(|pack| *pack < users).chain(everybody).collect();
    let is_early =
        |pack: &usize| packs.get(*pack).and_then(|pack| pack.shared).is_some_and(|number| number < EARLY);
    own.extend(shared.iter().copied().filter(|pack| *pack >= users && is_early(pack)));
    own.extend(
        of(id).filter(|pack| *pack >= users && packs.get(*pack).is_some_and(|pack| pack.shared.is_none())),
    );
    let mut like = Vec::new();
    let mut open: Vec<_> =
        own.iter().filter_map(|pack| packs.get(*pack)).flat_map(|pack| pack.like.iter()).collect();
    while !open.is_empty() {
        let next = open.remove(0);
        let fresh: Vec<_> = of(next).filter(|pack| !own.contains(pack) && !like.contains(pack)).collect();
        open.extend(fresh.iter().filter_map(|pack| packs.get(*pack)).flat_map(|pack| pack.like.iter()));
        like.extend(fresh);
    }
    let shared = shared.iter().copied().filter(|pack| !own.contains(pack) && !like.contains(pack)).collect();
    Plan::new(packs, own, like, shared)
}

/// The packs of this build, read once: whoever tries a rule out compiles a catalog of their own.
static EMBEDDED_PACKS: LazyLock<Vec<Pack>> = LazyLock::new(|| {
    let packs = RULE_FILES.iter().map(|(file, toml)| Pack::parse(file, toml));
    packs.collect::<Result<_, _>>().expect("a test proves that every embedded pack parses")
});

static EMBEDDED_PRESETS: LazyLock<Vec<Preset>> =
    LazyLock::new(|| preset::embedded().expect("a test proves that every embedded preset parses"));

/// Shared packs with a lower number come before the embedded pack of the provider.
const EARLY: u8 = 10;
