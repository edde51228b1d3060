//! One provider: its keys, accounts, models, breaker, and which keys are ready.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque},
    sync::Arc,
    time::Duration,
};

use crate::{
    AccountId, Class, KeyId, ModelId, Penalty, ProviderId, Settings, Timestamp,
    breaker::Breaker,
    ladder::Chance,
    pool::{
        Change, Counters, KeySpec, Notice, Pause, ProbeKind, Probes, ProviderSpec, SavedKey, SavedState,
        Subject, Why,
        circuits::Revival,
        gate::{Gate, Phase},
        outlook::OutlookCache,
        pick::{Sessions, Turn},
        ready::ReadySet,
    },
    quota::QuotaSnapshot,
};

/// A provider with everything that is known of it.
#[derive(Debug)]
pub(super) struct Provider {
    pub(super) id: ProviderId,
    pub(super) settings: Arc<Settings>,
    pub(super) probes: Probes,
    pub(super) answer_timeout: Option<Duration>,
    pub(super) chance: Chance,
    pub(super) keys: Vec<Key>,
    slots: BTreeMap<KeyId, usize>,
    pub(super) accounts: BTreeMap<AccountId, Account>,
    pub(super) models: BTreeMap<ModelId, Model>,
    pub(super) ready: ReadySet,
    timers: BinaryHeap<Reverse<(Timestamp, Timer)>>,
    pub(super) breaker: Breaker,
    /// When requests left it over its own faults, the latest minute of them.
    pub(super) leavers: VecDeque<Timestamp>,
    /// Requests that met the provider's own fault, the latest minute of them and only since it last answered.
    pub(super) failing: VecDeque<(Timestamp, u64)>,
    pub(super) turn: Turn,
    pub(super) sessions: Sessions,
    /// Keys that were refused without proof, the latest minute of them.
    pub(super) refusals: VecDeque<Refusal>,
    pub(super) due: BTreeSet<(Timestamp, KeyId, ProbeKind)>,
    /// When the provider itself is tested, while its breaker is open for long.
    pub(super) revival: Revival,
    /// Keys that rest over an unknown failure.
    pub(super) unknown_resting: BTreeSet<KeyId>,
    /// When one of them was last asked.
    pub(super) last_unknown: Option<Timestamp>,
    /// One reference for every request that waits for a busy key.
    pub(super) queue: Arc<()>,
    pub(super) changes: Vec<Change>,
    pub(super) outlook: OutlookCache,
}

/// A key with everything that is known of it.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) id: KeyId,
    pub(super) label: String,
    pub(super) account: Option<AccountId>,
    pub(super) gate: Gate,
    pub(super) paused: Option<Pause>,
    pub(super) in_flight: u32,
    /// What it failed over while a request climbs the last key's ladder with it.
    pub(super) climbed: Option<Why>,
    pub(super) consecutive_errors: u32,
    /// Unknown 4xx in a row, from as many different requests, and the latest of them.
    pub(super) unknowns: u32,
    pub(super) last_unknown: Option<u64>,
    pub(super) vain_tests: u32,
    pub(super) probes: u32,
    pub(super) counters: Counters,
    pub(super) last_success: Option<Timestamp>,
    pub(super) quota: Option<Box<QuotaSnapshot>>,
    /// When what is known of its windows was last written.
    pub(super) quota_noted: Option<Timestamp>,
}

/// Keys that stand and fall together.
#[derive(Debug, Default)]
pub(super) struct Account {
    pub(super) members: Vec<usize>,
    pub(super) gate: Gate,
}

/// A model: its breaker, and the keys that do not serve it for a time.
#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) breaker: Breaker,
    pub(super) uses: BTreeMap<KeyId, Gate>,
    /// The keys that are ready for it; kept only while `uses` is not empty.
    pub(super) ready: ReadySet,
}

/// A refusal without proof.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    pub(super) at: Timestamp,
    pub(super) key: KeyId,
    pub(super) class: Class,
}

/// A moment at which a subject's readiness may change by itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    Key(KeyId),
    Account(AccountId),
}

impl Provider {
    pub(super) fn new(id: ProviderId, seed: u64) -> Self {
        let about =
            id.as_str().bytes().fold(0_u64, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
        Self {
            id,
            settings: Arc::default(),
            probes: Probes::default(),
            answer_timeout: None,
            chance: Chance::new(seed).about(about),
            keys: Vec::new(),
            slots: BTreeMap::new(),
            accounts: BTreeMap::new(),
            models: BTreeMap::new(),
            ready: ReadySet::default(),
            timers: BinaryHeap::new(),
            breaker: Breaker::default(),
            leavers: VecDeque::new(),
            failing: VecDeque::new(),
            turn: Turn::default(),
            sessions: Sessions::default(),
            refusals: VecDeque::new(),
            due: BTreeSet::new(),
            revival: Revival::default(),
            unknown_resting: BTreeSet::new(),
            last_unknown: None,
            queue: Arc::default(),
            changes: Vec::new(),
            outlook: OutlookCache::default(),
        }
    }

    /// Takes over a configuration; keys and accounts that stay keep their health.
    pub(super) fn configure(&mut self, spec: ProviderSpec, now: Timestamp) {
        self.settings = spec.settings;
        self.probes = spec.probes;
        self.answer_timeout = spec.answer_timeout;
        let mut known: BTreeMap<KeyId, Key> = self.keys.drain(..).map(|key| (key.id, key)).collect();
        let mut accounts = std::mem::take(&mut self.accounts);
        self.slots.clear();
        self.keys = Vec::with_capacity(spec.keys.len());
        for spec in spec.keys {
            if self.slots.contains_key(&spec.id) {
                continue;
            }
            let slot = self.keys.len();
            self.slots.insert(spec.id, slot);
            if let Some(account) = &spec.account {
                self.accounts.entry(account.clone()).or_default().members.push(slot);
            }
            let key = known.remove(&spec.id);
            self.keys.push(Key::configured(key, spec));
        }
        for (id, account) in &mut self.accounts {
            account.gate = accounts.remove(id).map_or_else(Gate::default, |account| account.gate);
        }
        for model in self.models.values_mut() {
            model.uses.retain(|key, _| self.slots.contains_key(key));
            model.ready = ReadySet::with_len(self.keys.len());
        }
        self.ready = ReadySet::with_len(self.keys.len());
        self.turn = Turn::default();
        for slot in 0..self.keys.len() {
            self.refresh(slot, now);
        }
    }

    /// Where a key stands in the order of priority; `hint` is where it stood before.
    pub(super) fn slot(&self, key: KeyId, hint: usize) -> Option<usize> {
        if self.keys.get(hint).is_some_and(|found| found.id == key) {
            return Some(hint);
        }
        self.slots.get(&key).copied()
    }

    pub(super) fn key(&self, key: KeyId) -> Option<&Key> {
        self.slots.get(&key).map(|slot| &self.keys[*slot])
    }

    /// Lets time act: rests that have ended make their keys ready.
    pub(super) fn tick(&mut self, now: Timestamp) {
        while self.timers.peek().is_some_and(|Reverse((at, _))| *at <= now) {
            let Some(Reverse((_, timer))) = self.timers.pop() else { return };
            match timer {
                Timer::Key(key) => {
                    if let Some(slot) = self.slots.get(&key).copied() {
                        self.refresh(slot, now);
                    }
                }
                Timer::Account(account) => self.refresh_account(&account, now),
            }
        }
    }

    /// Has the readiness of a subject looked at again at `at`.
    pub(super) fn wake(&mut self, at: Timestamp, timer: Timer) {
        self.timers.push(Reverse((at, timer)));
    }

    /// Works out anew whether a key may be picked.
    pub(super) fn refresh(&mut self, slot: usize, now: Timestamp) {
        let key = &self.keys[slot];
        let account = key.account.as_ref().and_then(|account| self.accounts.get(account));
        let ready = key.admits(now, self.settings.max_concurrent)
            && account.is_none_or(|account| account.gate.admits(now));
        self.ready.put(slot, ready);
        for model in self.models.values_mut().filter(|model| !model.uses.is_empty()) {
            let serves = model.uses.get(&key.id).is_none_or(|gate| gate.admits(now));
            model.ready.put(slot, ready && serves);
        }
        self.outlook.forget();
    }

    pub(super) fn refresh_account(&mut self, account: &AccountId, now: Timestamp) {
        let members = self.accounts.get(account).map(|account| account.members.clone()).unwrap_or_default();
        for slot in members {
            self.refresh(slot, now);
        }
    }

    /// The gate of a key's use of a model, made if there is none yet.
    pub(super) fn use_gate(&mut self, key: KeyId, model: &ModelId, now: Timestamp) -> &mut Gate {
        self.make_room(now);
        let entry = self.models.entry(model.clone()).or_default();
        if entry.uses.is_empty() {
            entry.ready = self.ready.clone();
        }
        entry.uses.entry(key).or_default()
    }

    /// A model's entry, made if there is none yet.
    pub(super) fn model(&mut self, model: &ModelId, now: Timestamp) -> &mut Model {
        self.make_room(now);
        self.models.entry(model.clone()).or_default()
    }

    /// Forgets models of which nothing is worth knowing: clients can ask for any name.
    fn make_room(&mut self, now: Timestamp) {
        if self.models.len() < MODELS_KEPT {
            return;
        }
        self.models.retain(|_, model| {
            !model.breaker.is_idle() || model.uses.values().any(|gate| gate.phase(now) != Phase::Open)
        });
        while self.models.len() >= MODELS_KEPT {
            self.models.pop_first();
        }
    }

    pub(super) fn note_key(&mut self, slot: usize, notice: Option<Notice>) {
        let key = &self.keys[slot];
        let state = SavedState::Key(Box::new(SavedKey {
            health: key.gate.health.clone(),
            paused: key.paused,
            last_success: key.last_success,
            quota: key.quota.as_deref().cloned(),
            consecutive_errors: key.consecutive_errors,
            vain_tests: key.vain_tests,
        }));
        self.changes.push(Change { subject: Subject::Key(self.id.clone(), key.id), state, notice });
    }

    pub(super) fn note_use(&mut self, key: KeyId, model: &ModelId) {
        let Some(gate) = self.models.get(model).and_then(|model| model.uses.get(&key)) else { return };
        let state = SavedState::Health(gate.health.clone());
        let subject = Subject::KeyModel(self.id.clone(), key, model.clone());
        self.changes.push(Change { subject, state, notice: None });
    }

    pub(super) fn note_account(&mut self, account: &AccountId) {
        let Some(gate) = self.accounts.get(account).map(|account| &account.gate) else { return };
        let state = SavedState::Health(gate.health.clone());
        let subject = Subject::Account(self.id.clone(), account.clone());
        self.changes.push(Change { subject, state, notice: None });
    }

    pub(super) fn note_model(&mut self, model: &ModelId, notice: Option<Notice>) {
        let Some(breaker) = self.models.get(model).map(|model| &model.breaker) else { return };
        let state = SavedState::Breaker(breaker.state().clone());
        self.changes.push(Change { subject: Subject::Model(self.id.clone(), model.clone()), state, notice });
    }

    pub(super) fn note_provider(&mut self, notice: Option<Notice>) {
        let state = SavedState::Breaker(self.breaker.state().clone());
        self.changes.push(Change { subject: Subject::Provider(self.id.clone()), state, notice });
    }
}

impl Key {
    fn configured(known: Option<Self>, spec: KeySpec) -> Self {
        match known {
            Some(key) => Self { label: spec.label, account: spec.account, ..key },
            None => Self {
                id: spec.id,
                label: spec.label,
                account: spec.account,
                gate: Gate::default(),
                paused: None,
                in_flight: 0,
                climbed: None,
                consecutive_errors: 0,
                unknowns: 0,
                last_unknown: None,
                vain_tests: 0,
                probes: 0,
                counters: Counters::default(),
                last_success: None,
                quota: None,
                quota_noted: None,
            },
        }
    }

    pub(super) fn is_paused(&self, now: Timestamp) -> bool {
        self.paused.is_some_and(|pause| pause.until.is_none_or(|until| until > now))
    }

    pub(super) fn is_busy(&self, max_concurrent: u32) -> bool {
        max_concurrent > 0 && self.in_flight >= max_concurrent
    }

    pub(super) fn rests_over_unknown(&self) -> bool {
        self.gate.health.decisive().is_some_and(|rest| rest.penalty == Penalty::RestUnknown)
    }

    fn admits(&self, now: Timestamp, max_concurrent: u32) -> bool {
        self.climbed.is_none()
            && !self.is_busy(max_concurrent)
            && !self.is_paused(now)
            && self.gate.admits(now)
    }
}

/// Models that a provider remembers at a time.
const MODELS_KEPT: usize = 1024;
