//! Counters of the process, and their text for Prometheus.
//!
//! Counting is one relaxed addition; no label is made per request. Everything is read when somebody asks.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use backstop_store::requests::Outcome;
use backstop_triage::{Class, ModelId, ProviderId};
use parking_lot::{Mutex, RwLock};

/// A number that mostly grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn subtract(&self, count: u64) {
        self.0.fetch_sub(count, Ordering::Relaxed);
    }

    pub(crate) fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counts by class of failure.
#[derive(Debug, Default)]
pub(crate) struct ByClass([Counter; Class::ALL.len()]);

impl ByClass {
    pub(crate) fn add(&self, class: Class) {
        if let Some(index) = Class::ALL.iter().position(|known| *known == class) {
            self.0[index].add(1);
        }
    }

    pub(crate) fn of(&self, class: Class) -> u64 {
        self.iter().find(|(known, _)| *known == class).map_or(0, |(_, count)| count)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Class, u64)> {
        Class::ALL.into_iter().zip(self.0.iter().map(Counter::value))
    }
}

/// Counts of durations, by upper bounds.
#[derive(Debug)]
pub(crate) struct Histogram {
    bounds_us: &'static [u64; BOUNDS],
    buckets: [Counter; BOUNDS + 1],
    sum_us: Counter,
}

impl Histogram {
    /// For what takes milliseconds to minutes.
    fn of_calls() -> Self {
        Self { bounds_us: &CALL_BOUNDS_US, buckets: Default::default(), sum_us: Counter::default() }
    }

    /// For what takes microseconds to a second.
    fn of_overhead() -> Self {
        Self { bounds_us: &OVERHEAD_BOUNDS_US, buckets: Default::default(), sum_us: Counter::default() }
    }

    pub(crate) fn record(&self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let index = self.bounds_us.iter().position(|bound| micros <= *bound).unwrap_or(BOUNDS);
        self.buckets[index].add(1);
        self.sum_us.add(micros);
    }

    fn write(&self, out: &mut String, name: &str, labels: &str) {
        let separator = if labels.is_empty() { "" } else { "," };
        let mut sum = 0;
        for (bucket, bound) in self.buckets.iter().zip(self.bounds_us) {
            sum += bucket.value();
            let seconds = Duration::from_micros(*bound).as_secs_f64();
            let _ = writeln!(out, "{name}_bucket{{{labels}{separator}le=\"{seconds}\"}} {sum}");
        }
        sum += self.buckets[BOUNDS].value();
        let _ = writeln!(out, "{name}_bucket{{{labels}{separator}le=\"+Inf\"}} {sum}");
        let total = Duration::from_micros(self.sum_us.value()).as_secs_f64();
        let _ = writeln!(out, "{name}_sum{{{labels}}} {total}");
        let _ = writeln!(out, "{name}_count{{{labels}}} {sum}");
    }
}

/// What the whole process counts.
#[derive(Debug)]
pub(crate) struct Meters {
    /// Open client connections.
    pub(crate) connections: Counter,
    /// Requests under way.
    pub(crate) in_flight: Counter,
    /// Pauses of accepting, for want of file descriptors.
    pub(crate) accept_pauses: Counter,
    /// Requests that were refused before a provider was asked, by us.
    pub(crate) refused: Counter,
    /// Requests that succeeded after a failure that the client never saw.
    pub(crate) masked: Counter,
    /// Attempts made again although the first may have been accepted.
    pub(crate) ambiguous: Counter,
    /// Answers that did not wait for the store, because it took too long.
    pub(crate) store_waits: Counter,
    /// Calls to a provider off the path of requests.
    pub(crate) probes: Counter,
    /// Configurations that were refused on reload.
    pub(crate) reload_failures: Counter,
    /// Attempts after the first, by the failure that led to them.
    pub(crate) retries: ByClass,
    /// From arrival to the first call of a provider.
    pub(crate) overhead: Histogram,
}

impl Default for Meters {
    fn default() -> Self {
        Self {
            connections: Counter::default(),
            in_flight: Counter::default(),
            accept_pauses: Counter::default(),
            refused: Counter::default(),
            masked: Counter::default(),
            ambiguous: Counter::default(),
            store_waits: Counter::default(),
            probes: Counter::default(),
            reload_failures: Counter::default(),
            retries: ByClass::default(),
            overhead: Histogram::of_overhead(),
        }
    }
}

/// What is counted for one provider.
#[derive(Debug)]
pub(crate) struct ProviderMeters {
    /// By the models that the configuration lists.
    listed: RwLock<BTreeMap<ModelId, Arc<ModelMeters>>>,
    /// All other models: their names come from clients, so that there may be any number.
    other: Arc<ModelMeters>,
    /// Requests that left this provider, by the one that they ended with.
    fallbacks: Mutex<BTreeMap<ProviderId, u64>>,
    /// From arrival to the last byte.
    pub(crate) duration: Histogram,
    /// From arrival to the first content.
    pub(crate) first_content: Histogram,
}

/// What is counted for one model of a provider.
#[derive(Debug, Default)]
pub(crate) struct ModelMeters {
    /// Requests that began here, by the way they came in and by how they ended.
    pub(crate) requests: [[Counter; Outcome::ALL.len()]; Way::ALL.len()],
    /// Upstream calls that answered.
    pub(crate) answered: Counter,
    /// Upstream calls that failed.
    pub(crate) failed: ByClass,
    /// Prompt tokens.
    pub(crate) input_tokens: Counter,
    /// Answer tokens.
    pub(crate) output_tokens: Counter,
}

/// How a request named its provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// By path.
    Proxy,
    /// By model.
    Unified,
}

impl Way {
    pub(crate) const ALL: [Self; 2] = [Self::Proxy, Self::Unified];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Proxy => "proxy",
            Self::Unified => "unified",
        }
    }
}

impl Default for ProviderMeters {
    fn default() -> Self {
        Self {
            listed: RwLock::default(),
            other: Arc::default(),
            fallbacks: Mutex::default(),
            duration: Histogram::of_calls(),
            first_content: Histogram::of_calls(),
        }
    }
}

impl ProviderMeters {
    /// Counts these models by name from here on.
    pub(crate) fn list(&self, models: &[ModelId]) {
        let mut listed = self.listed.write();
        for model in models {
            listed.entry(model.clone()).or_default();
        }
    }

    pub(crate) fn model(&self, model: &str) -> Arc<ModelMeters> {
        self.listed.read().get(model).map_or_else(|| Arc::clone(&self.other), Arc::clone)
    }

    /// Each model by the name that its counts bear.
    pub(crate) fn models(&self) -> Vec<(String, Arc<ModelMeters>)> {
        let listed = self.listed.read();
        let named = listed.iter().map(|(model, meters)| (model.to_string(), Arc::clone(meters)));
        named.chain([(OTHER.to_owned(), Arc::clone(&self.other))]).collect()
    }

    /// A sum over all models.
    pub(crate) fn sum(&self, of: impl Fn(&ModelMeters) -> u64) -> u64 {
        self.models().iter().map(|(_, meters)| of(meters)).sum()
    }

    /// A request left for another provider.
    pub(crate) fn left_for(&self, other: &ProviderId) {
        *self.fallbacks.lock().entry(other.clone()).or_default() += 1;
    }

    pub(crate) fn fallbacks(&self) -> BTreeMap<ProviderId, u64> {
        self.fallbacks.lock().clone()
    }
}

impl ModelMeters {
    pub(crate) fn request(&self, way: Way, outcome: Outcome) {
        let way = Way::ALL.iter().position(|known| *known == way).unwrap_or(0);
        let outcome = Outcome::ALL.iter().position(|known| *known == outcome).unwrap_or(0);
        self.requests[way][outcome].add(1);
    }

    /// Requests that began here.
    pub(crate) fn begun(&self) -> u64 {
        self.requests.iter().flatten().map(Counter::value).sum()
    }
}

/// Prometheus text under construction.
#[derive(Default)]
pub(crate) struct Exposition(String);

impl Exposition {
    /// Begins a metric.
    pub(crate) fn metric(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// One sample; `labels` are written as they are.
    pub(crate) fn sample(&mut self, name: &str, labels: &str, value: impl std::fmt::Display) {
        let _ = if labels.is_empty() {
            writeln!(self.0, "{name} {value}")
        } else {
            writeln!(self.0, "{name}{{{labels}}} {value}")
        };
    }

    pub(crate) fn histogram(&mut self, name: &str, labels: &str, histogram: &Histogram) {
        histogram.write(&mut self.0, name, labels);
    }

    pub(crate) fn into_text(self) -> String {
        self.0
    }
}

/// A label's value, made safe.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// What models are called that the configuration does not list.
const OTHER: &str = "other";
const BOUNDS: usize = 16;
const CALL_BOUNDS_US: [u64; BOUNDS] = [
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    30_000_000,
    60_000_000,
    120_000_000,
    300_000_000,
    600_000_000,
];
const OVERHEAD_BOUNDS_US: [u64; BOUNDS] = [
    10, 25, 50, 100, 200, 300, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 500_000, 1_000_000,
];
