//! Counters of the process, and their text for Prometheus.
//!
//! Counting is one relaxed addition; no label is made per request. Everything is read when somebody asks.

use std::{
    fmt::Write as _,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use backstop_triage::Class;

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

/// Counts of durations, by upper bounds that double.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    buckets: [Counter; BOUNDS_MS.len() + 1],
    sum_ms: Counter,
}

impl Histogram {
    pub(crate) fn record(&self, duration: Duration) {
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let index = BOUNDS_MS.iter().position(|bound| millis <= *bound).unwrap_or(BOUNDS_MS.len());
        self.buckets[index].add(1);
        self.sum_ms.add(millis);
    }

    fn write(&self, out: &mut String, name: &str, labels: &str) {
        let separator = if labels.is_empty() { "" } else { "," };
        let mut sum = 0;
        for (bucket, bound) in self.buckets.iter().zip(BOUNDS_MS) {
            sum += bucket.value();
            let seconds = Duration::from_millis(bound).as_secs_f64();
            let _ = writeln!(out, "{name}_bucket{{{labels}{separator}le=\"{seconds}\"}} {sum}");
        }
        sum += self.buckets[BOUNDS_MS.len()].value();
        let _ = writeln!(out, "{name}_bucket{{{labels}{separator}le=\"+Inf\"}} {sum}");
        let _ = writeln!(
            out,
            "{name}_sum{{{labels}}} {}",
            Duration::from_millis(self.sum_ms.value()).as_secs_f64()
        );
        let _ = writeln!(out, "{name}_count{{{labels}}} {sum}");
    }
}

/// What the whole process counts.
#[derive(Debug, Default)]
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
}

/// What is counted for one provider.
#[derive(Debug, Default)]
pub(crate) struct ProviderMeters {
    /// Requests that began here, by how they ended: succeeded, failed, timed out, left.
    pub(crate) requests: [Counter; 4],
    /// Upstream calls that answered.
    pub(crate) answered: Counter,
    /// Upstream calls that failed, by class.
    pub(crate) failed: [Counter; Class::ALL.len()],
    /// Requests that left this provider for another.
    pub(crate) left_for_fallback: Counter,
    /// Prompt tokens.
    pub(crate) input_tokens: Counter,
    /// Answer tokens.
    pub(crate) output_tokens: Counter,
    /// From arrival to the last byte.
    pub(crate) duration: Histogram,
    /// From arrival to the first content.
    pub(crate) first_content: Histogram,
}

impl ProviderMeters {
    pub(crate) fn failed(&self, class: Class) {
        if let Some(index) = Class::ALL.iter().position(|known| *known == class) {
            self.failed[index].add(1);
        }
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

const BOUNDS_MS: [u64; 16] =
    [5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 120_000, 300_000, 600_000];
