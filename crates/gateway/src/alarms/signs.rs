//! What is wrong, read off the gateway's state.
//!
//! Three kinds of signs. *States* (keys, breakers, the store, the disk) are looked at as a whole, and the book is told
//! the whole truth about each. *Counts* (fallbacks, refused routes, unknown failures) are compared with the round
//! before; each has its own proof that it is over, so that a restart, which begins to count at zero, ends nothing.
//! *Marks* are left behind by whoever noticed.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use backstop_triage::{
    Class, ProviderId, Timestamp,
    alert::{Book, Condition, Topic},
    pool::{KeyState, KeyStatus, RestSource, Why},
};
use parking_lot::Mutex;

use crate::{
    meters::ModelMeters,
    plan::{Outlet, Plan},
    shared::Shared,
    upstream::Trust,
};

/// Left behind by those who noticed something.
#[derive(Default)]
pub(super) struct Marks {
    health: AtomicBool,
    refusals: Mutex<BTreeSet<ProviderId>>,
    /// Whether the last changed configuration was accepted.
    reload: Mutex<Option<bool>>,
}

impl Marks {
    pub(super) fn health(&self) {
        self.health.store(true, Ordering::Relaxed);
    }

    pub(super) fn mass_refusal(&self, provider: &ProviderId) {
        self.refusals.lock().insert(provider.clone());
    }

    pub(super) fn reload(&self, accepted: bool) {
        *self.reload.lock() = Some(accepted);
        self.health();
    }
}

/// What the rounds remember.
pub(super) struct Signs {
    counts: BTreeMap<ProviderId, Counts>,
    unknown_at: BTreeMap<ProviderId, Timestamp>,
    /// When the states change by themselves: a rest ends.
    look_at: Timestamp,
    disk_at: Timestamp,
}

/// Sums of a provider.
#[derive(Clone, Copy, Default)]
struct Counts {
    begun: u64,
    answered: u64,
    left: u64,
    unknown: u64,
    misconfigured: u64,
}

impl Signs {
    pub(super) fn new(shared: &Shared) -> Self {
        let now = shared.clock.now();
        Self { counts: BTreeMap::new(), unknown_at: BTreeMap::new(), look_at: now, disk_at: now }
    }

    /// Enters everything into the book.
    pub(super) fn enter(&mut self, shared: &Arc<Shared>, marks: &Marks, book: &mut Book, now: Timestamp) {
        let plan = shared.plan.load_full();
        let changed = marks.health.swap(false, Ordering::Relaxed);
        if changed || now >= self.look_at {
            self.look_at = now.saturating_add(LOOK_EVERY).unwrap_or(Timestamp::MAX);
            for provider in std::mem::take(&mut *marks.refusals.lock()) {
                let topic = Topic::new(Condition::MassRefusal, provider.as_str());
                book.raise(&topic, provider.as_str(), MASS_REFUSAL, now);
            }
            // Without its key file the store can open none of them: that is one cause, told for the store.
            let vault_is_open = shared.store.stats().locked.is_none();
            let none = BTreeMap::new();
            for outlet in plan.outlets() {
                let topic = Topic::new(Condition::KeyLocked, outlet.config.id.as_str());
                book.reconcile(&topic, if vault_is_open { &outlet.locked } else { &none }, now);
                let states = States::of(shared, outlet, now);
                self.look_at = self.look_at.min(states.change_at.unwrap_or(Timestamp::MAX));
                states.enter(book, outlet.config.id.as_str(), now);
            }
            forget_removed(&plan, book, now);
        }
        for outlet in plan.outlets() {
            self.count(outlet, book, now);
            certificate(outlet, book, now);
        }
        self.house(shared, marks, book, now);
    }

    fn count(&mut self, outlet: &Outlet, book: &mut Book, now: Timestamp) {
        let id = &outlet.config.id;
        let sums = Counts::of(outlet);
        let before = self.counts.insert(id.clone(), sums).unwrap_or_default();
        let grew = |of: fn(&Counts) -> u64| of(&sums) > of(&before);
        let name = id.as_str();
        let mut tell = |condition, is_on, is_over, detail: &str| {
            let topic = Topic::new(condition, name);
            if is_on {
                book.raise(&topic, name, detail, now);
            } else if is_over {
                book.settle(&topic, name, now);
            }
        };
        let stayed = grew(|counts| counts.begun) && grew(|counts| counts.answered);
        tell(Condition::FallbackInUse, grew(|counts| counts.left), stayed, FALLBACK);
        let answers = grew(|counts| counts.answered);
        tell(Condition::MisconfiguredRoute, grew(|counts| counts.misconfigured), answers, MISCONFIGURED);
        let unknown = grew(|counts| counts.unknown);
        let last = self.unknown_at.entry(id.clone()).or_insert(now);
        if unknown {
            *last = now;
        }
        let quiet = now.duration_since(*last) > UNKNOWN_QUIET;
        tell(Condition::UnknownFailures, unknown, quiet, UNKNOWN);
    }

    /// What concerns the gateway itself.
    fn house(&mut self, shared: &Shared, marks: &Marks, book: &mut Book, now: Timestamp) {
        let stats = shared.store.stats();
        whole(book, Condition::StoreFailing, "store", stats.failing.map(|failing| failing.error), now);
        whole(book, Condition::KeyLocked, VAULT, stats.locked, now);
        let safe = shared.boot.safe_for(now).map(|_| CRASH_LOOP.to_owned());
        whole(book, Condition::CrashLoop, "gateway", safe, now);
        if let Some(accepted) = marks.reload.lock().take() {
            let refused = (!accepted).then(|| REFUSED.to_owned());
            whole(book, Condition::ConfigReloadFailed, "configuration", refused, now);
        }
        if now >= self.disk_at {
            self.disk_at = now.saturating_add(DISK_EVERY).unwrap_or(Timestamp::MAX);
            whole(book, Condition::DiskLow, "disk", disk_low(shared.store.data_dir()), now);
        }
    }
}

/// A handshake has told whether a provider's certificate is to be trusted; until one has, nothing is over.
fn certificate(outlet: &Outlet, book: &mut Book, now: Timestamp) {
    let provider = outlet.config.id.as_str();
    let topic = Topic::new(Condition::CertificateTrouble, provider);
    match outlet.upstream.trust() {
        Trust::Unknown => {}
        Trust::Good => book.settle(&topic, provider, now),
        Trust::Refused(why) => book.raise(&topic, provider, &why, now),
    }
}

impl Counts {
    fn of(outlet: &Outlet) -> Self {
        let meters = &outlet.meters;
        Self {
            begun: meters.sum(ModelMeters::begun),
            answered: meters.sum(|model| model.answered.value()),
            left: meters.fallbacks().values().sum(),
            unknown: meters.sum(|model| model.failed.of(Class::Unknown)),
            misconfigured: meters.sum(|model| model.failed.of(Class::ConfigurationError)),
        }
    }
}

/// The states of a provider: for each condition the members that it hits.
struct States {
    on: BTreeMap<Condition, BTreeMap<String, String>>,
    /// Whether a key waits for its test.
    any_quarantined: bool,
    /// When the next rest ends.
    change_at: Option<Timestamp>,
}

impl States {
    fn of(shared: &Shared, outlet: &Outlet, now: Timestamp) -> Self {
        let id = &outlet.config.id;
        let mut states = Self { on: BTreeMap::new(), any_quarantined: false, change_at: None };
        let pool = shared.pool.lock();
        let keys = pool.snapshot(id, now);
        let provider = pool.provider_breaker(id).and_then(|breaker| breaker.open.clone());
        let models: Vec<_> = pool
            .model_breakers(id)
            .filter_map(|(model, breaker)| Some((model.to_string(), breaker.open.clone()?)))
            .collect();
        drop(pool);
        if let Some(opening) = provider {
            states.add(Condition::CircuitOpen, id.as_str(), because(&opening.why));
        }
        for (model, opening) in models {
            states.add(Condition::ModelCircuitOpen, &model, because(&opening.why));
        }
        let in_use: Vec<&KeyStatus> = keys.iter().filter(|key| !is_by_hand(key)).collect();
        in_use.iter().for_each(|key| states.add_key(key));
        let clear = jiff::SignedDuration::from_secs(
            i64::try_from(outlet.config.settings.alert_clear_s).unwrap_or(i64::MAX),
        );
        states.add_outage(id, &in_use, now.saturating_add(clear).unwrap_or(Timestamp::MAX));
        states.change_at = in_use.iter().filter_map(|key| key.until).filter(|until| *until > now).min();
        states
    }

    fn add(&mut self, condition: Condition, member: &str, detail: String) {
        self.on.entry(condition).or_default().insert(member.to_owned(), detail);
    }

    fn add_key(&mut self, key: &KeyStatus) {
        self.any_quarantined |= key.state == KeyState::Quarantined;
        let Some(why) = &key.why else { return };
        let condition = match (key.state, why.class) {
            (KeyState::Disabled | KeyState::Resting | KeyState::Quarantined, Class::BillingExhausted) => {
                let account = key.account.as_ref().map_or(key.label.as_str(), |account| account.as_str());
                return self.add(Condition::AccountOutOfMoney, account, because(why));
            }
            (KeyState::Disabled, _) => Condition::KeyDisabled,
            (KeyState::Resting, Class::QuotaExhausted) => Condition::KeyQuotaExhausted,
            (KeyState::Active | KeyState::Unstable | KeyState::HalfOpen | KeyState::Paused, _)
            | (KeyState::Resting | KeyState::Quarantined, _) => return,
        };
        self.add(condition, &key.label, because(why));
    }

    /// No key is usable, and none will be before `soon`.
    fn add_outage(&mut self, id: &ProviderId, keys: &[&KeyStatus], soon: Timestamp) {
        let is_out = |key: &&&KeyStatus| match key.state {
            KeyState::Disabled | KeyState::Quarantined => true,
            KeyState::Resting => key.until.is_none_or(|until| until > soon),
            KeyState::Active | KeyState::Unstable | KeyState::HalfOpen | KeyState::Paused => false,
        };
        if keys.is_empty() || keys.iter().filter(is_out).count() < keys.len() {
            return;
        }
        let back = keys.iter().filter(|key| key.state == KeyState::Resting).filter_map(|key| key.until).min();
        let back = back.map_or_else(
            || "none of them comes back by itself".to_owned(),
            |back| format!("the first is back at {}", back.strftime("%Y-%m-%d %H:%M:%SZ")),
        );
        let count = keys.len();
        let keys = if count == 1 { "its one key".to_owned() } else { format!("all {count} keys") };
        self.add(Condition::ProviderDown, id.as_str(), format!("{keys} cannot be used; {back}"));
    }

    fn enter(self, book: &mut Book, provider: &str, now: Timestamp) {
        let none = BTreeMap::new();
        for condition in OF_STATES {
            let members = self.on.get(&condition).unwrap_or(&none);
            book.reconcile(&Topic::new(condition, provider), members, now);
        }
        if !self.any_quarantined {
            book.settle(&Topic::new(Condition::MassRefusal, provider), provider, now);
        }
    }
}

/// A provider that is gone has no trouble any more.
fn forget_removed(plan: &Plan, book: &mut Book, now: Timestamp) {
    let gone: Vec<Topic> = book
        .open()
        .map(|(topic, _)| topic)
        .filter(|topic| is_of_a_provider(topic) && plan.outlet(&topic.group).is_none())
        .cloned()
        .collect();
    for topic in gone {
        book.reconcile(&topic, &BTreeMap::new(), now);
    }
}

fn is_of_a_provider(topic: &Topic) -> bool {
    let locked_key = topic.condition == Condition::KeyLocked && topic.group != VAULT;
    locked_key || OF_PROVIDERS.contains(&topic.condition)
}

/// A condition with a single member that is on or off.
fn whole(book: &mut Book, condition: Condition, group: &str, detail: Option<String>, now: Timestamp) {
    let members = detail.map(|detail| (group.to_owned(), detail)).into_iter().collect();
    book.reconcile(&Topic::new(condition, group), &members, now);
}

/// Whether a person took a key out.
fn is_by_hand(key: &KeyStatus) -> bool {
    let by_hand = key.why.as_ref().is_some_and(|why| why.source == RestSource::Hand);
    key.state == KeyState::Paused || by_hand
}

fn because(why: &Why) -> String {
    let status = why.status.map(|status| format!(", status {status}")).unwrap_or_default();
    let window = why.window.map(|window| format!(", window {window}")).unwrap_or_default();
    format!("{} ({}{status}{window})", why.class, why.reason)
}

fn disk_low(folder: &Path) -> Option<String> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    let megabytes = free / (1 << 20);
    (free < LEAST_FREE).then(|| format!("{megabytes} MiB are left where {} lies", folder.display()))
}

const OF_STATES: [Condition; 6] = [
    Condition::ProviderDown,
    Condition::KeyDisabled,
    Condition::KeyQuotaExhausted,
    Condition::AccountOutOfMoney,
    Condition::CircuitOpen,
    Condition::ModelCircuitOpen,
];
const OF_PROVIDERS: [Condition; 11] = [
    Condition::CertificateTrouble,
    Condition::ProviderDown,
    Condition::KeyDisabled,
    Condition::KeyQuotaExhausted,
    Condition::AccountOutOfMoney,
    Condition::CircuitOpen,
    Condition::ModelCircuitOpen,
    Condition::FallbackInUse,
    Condition::UnknownFailures,
    Condition::MisconfiguredRoute,
    Condition::MassRefusal,
];
/// What is locked if every key is; no provider has a slash in its id.
const VAULT: &str = "store/secrets";
const MASS_REFUSAL: &str =
    "several keys were refused within a minute and without proof; none is disabled for it";
const FALLBACK: &str = "requests are answered by its fallback, which may be dearer or weaker";
const MISCONFIGURED: &str = "it refuses the region, the client or the base URL; `backstop doctor` shows more";
const UNKNOWN: &str = "no rule recognises them; the inbox of unknown failures shows them";
const CRASH_LOOP: &str =
    "killed several times while calling providers in vain: no upstream traffic for a while";
const REFUSED: &str = "the old configuration stays in force; `backstop check` says what is wrong";
/// States are looked at this often although nothing is known to have changed.
const LOOK_EVERY: jiff::SignedDuration = jiff::SignedDuration::from_secs(60);
const DISK_EVERY: jiff::SignedDuration = jiff::SignedDuration::from_secs(60);
/// How long nothing unknown must have come for the alert to be over.
const UNKNOWN_QUIET: jiff::SignedDuration = jiff::SignedDuration::from_secs(900);
/// Free space below which the disk counts as low.
const LEAST_FREE: u64 = 256 << 20;
