//! Durations and tokens by operation, provider and model, with the buckets of the GenAI conventions.

use std::collections::BTreeMap;

use backstop_triage::Timestamp;
use serde_json::{Value, json};

use super::{Ended, attribute, operation};

/// Sums since the start.
#[derive(Debug, Default)]
pub(super) struct Measures {
    durations: BTreeMap<Labels, Distribution>,
    first_chunks: BTreeMap<Labels, Distribution>,
    tokens: BTreeMap<Labels, Distribution>,
}

/// What a sum is about; all of it is bounded.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Labels {
    operation: &'static str,
    provider: String,
    model: String,
    /// The class of a failure, or the type of tokens.
    detail: Option<(&'static str, &'static str)>,
}

#[derive(Debug)]
struct Distribution {
    bounds: &'static [f64],
    buckets: Vec<u64>,
    sum: f64,
}

impl Measures {
    pub(super) fn take_in(&mut self, ended: &Ended<'_>) {
        let row = ended.row;
        let Some(attempt) = row.attempts.last() else { return };
        let Some(outlet) = ended.plan.outlet(&attempt.provider) else { return };
        let is_listed = outlet.config.models.iter().any(|model| model.as_str() == attempt.model);
        let labels = Labels {
            operation: operation(ended),
            provider: outlet.config.rules.to_string(),
            model: if is_listed { attempt.model.clone() } else { "other".to_owned() },
            detail: None,
        };
        let with = |name, detail| Labels { detail: Some((name, detail)), ..labels.clone() };
        let duration = row.class.map_or_else(|| labels.clone(), |class| with("error.type", class.as_str()));
        note(&mut self.durations, duration, &SECONDS, row.duration_ms as f64 / 1e3);
        if let Some(first) = row.first_content_ms.filter(|_| row.stream) {
            note(&mut self.first_chunks, labels.clone(), &SECONDS, first as f64 / 1e3);
        }
        for (kind, count) in [("input", ended.usage.input), ("output", ended.usage.output)] {
            if let Some(count) = count {
                note(&mut self.tokens, with("gen_ai.token.type", kind), &TOKENS, count as f64);
            }
        }
    }

    /// Everything so far, as OTLP writes it.
    pub(super) fn points(&self, began: Timestamp, now: Timestamp) -> Vec<Value> {
        let metrics = [
            ("gen_ai.client.operation.duration", "s", &self.durations),
            ("gen_ai.client.operation.time_to_first_chunk", "s", &self.first_chunks),
            ("gen_ai.client.token.usage", "{token}", &self.tokens),
        ];
        let metric = |(name, unit, sums): (&str, &str, &BTreeMap<Labels, Distribution>)| {
            let points: Vec<Value> = sums.iter().map(|(labels, sum)| sum.point(labels, began, now)).collect();
            let histogram = json!({ "aggregationTemporality": CUMULATIVE, "dataPoints": points });
            json!({ "name": name, "unit": unit, "histogram": histogram })
        };
        metrics.into_iter().map(metric).collect()
    }
}

fn note(sums: &mut BTreeMap<Labels, Distribution>, labels: Labels, bounds: &'static [f64], value: f64) {
    let fresh = || Distribution { bounds, buckets: vec![0; bounds.len() + 1], sum: 0.0 };
    let sum = sums.entry(labels).or_insert_with(fresh);
    let index = bounds.iter().position(|bound| value <= *bound).unwrap_or(bounds.len());
    sum.buckets[index] += 1;
    sum.sum += value;
}

impl Distribution {
    fn point(&self, labels: &Labels, began: Timestamp, now: Timestamp) -> Value {
        let mut attributes = vec![
            attribute("gen_ai.operation.name", labels.operation),
            attribute("gen_ai.provider.name", labels.provider.as_str()),
            attribute("gen_ai.request.model", labels.model.as_str()),
        ];
        attributes.extend(labels.detail.map(|(name, detail)| attribute(name, detail)));
        json!({
            "attributes": attributes,
            "startTimeUnixNano": began.as_nanosecond().to_string(),
            "timeUnixNano": now.as_nanosecond().to_string(),
            "count": self.buckets.iter().sum::<u64>().to_string(),
            "sum": self.sum,
            "bucketCounts": self.buckets.iter().map(u64::to_string).collect::<Vec<_>>(),
            "explicitBounds": self.bounds,
        })
    }
}

const CUMULATIVE: u8 = 2;
const SECONDS: [f64; 14] =
    [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
const TOKENS: [f64; 14] = [
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1_024.0,
    4_096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];
