//! Figures, and what they say: a table of ratios with their spread, and the same as JSON.
//!
//! Every ratio is taken within one round, between two measurements a few seconds apart, and the median of the rounds is
//! shown with the least and the greatest. A ratio is clean if nobody else used the target's core to speak of while
//! either side of it was measured. Without a majority of clean rounds a figure is shown as noisy and never judged:
//! on a busy machine rates and times tell how the scheduler shared the core.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value, json};

/// One thing that is measured.
#[derive(Debug)]
pub(crate) struct Metric {
    pub(crate) id: &'static str,
    title: &'static str,
    unit: &'static str,
    judged: Judged,
    /// The goal and the stretch goal.
    bar: Option<(f64, f64)>,
}

/// By what a figure is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Judged {
    /// Over nginx's figure; more is better.
    MoreThanNginx,
    /// Over nginx's figure; less is better.
    LessThanNginx,
    /// What is added to the direct way, over what nginx adds to it.
    AddedByNginx,
    /// The figure itself; less is better.
    Itself,
}

/// One figure of one round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) round: usize,
    pub(crate) value: f64,
    /// What others used of the target's core meanwhile, as a share.
    pub(crate) foreign: f64,
}

/// All figures of a run.
#[derive(Debug, Default)]
pub(crate) struct Results {
    samples: BTreeMap<(usize, String), Vec<Sample>>,
}

/// A figure over the rounds.
#[derive(Clone, Copy, Debug)]
struct Spread {
    median: f64,
    least: f64,
    greatest: f64,
    rounds: usize,
    clean: bool,
}

impl Metric {
    fn named(id: &str) -> (usize, &'static Self) {
        METRICS
            .iter()
            .enumerate()
            .find(|(_, metric)| metric.id == id)
            .expect("every figure has its line in the table")
    }
}

impl Results {
    pub(crate) fn add(&mut self, id: &str, target: &str, sample: Sample) {
        let (row, _) = Metric::named(id);
        self.samples.entry((row, target.to_string())).or_default().push(sample);
    }

    /// The table for people.
    pub(crate) fn table(&self, targets: &[String]) -> String {
        let mut text = String::new();
        let _ = writeln!(
            text,
            "{:38} {:>12} {:>10}  {:28} {:>6} {:>7}",
            "", "figure", "", "against nginx", "goal", "stretch"
        );
        for (row, metric) in METRICS.iter().enumerate() {
            for target in targets {
                let Some(figure) = self.spread(row, target, |sample| Some((sample.value, sample.foreign)))
                else {
                    continue;
                };
                let judged = self.judged(row, target);
                let against = judged.map_or_else(String::new, |judged| judged.to_string());
                let bar = metric.bar.filter(|_| target != NGINX && target != DIRECT);
                let (goal, stretch) = bar
                    .map_or_else(Default::default, |(goal, stretch)| (goal.to_string(), stretch.to_string()));
                let verdict = match (bar, judged) {
                    (Some(_), Some(judged)) if !judged.clean => "not judged",
                    (Some((goal, stretch)), Some(judged)) => metric.verdict(judged.median, goal, stretch),
                    (None, _) | (_, None) => "",
                };
                let name = format!("{} · {target}", metric.title);
                let value = format!("{:.*}", digits(figure.median), figure.median);
                let _ = writeln!(
                    text,
                    "{name:38} {value:>12} {:>10}  {against:28} {goal:>6} {stretch:>7}  {verdict}",
                    metric.unit
                );
            }
        }
        text
    }

    /// Everything, for programs.
    pub(crate) fn json(&self) -> Value {
        let mut metrics = serde_json::Map::new();
        for (row, metric) in METRICS.iter().enumerate() {
            let mut targets = serde_json::Map::new();
            for ((_, target), samples) in self.samples.iter().filter(|((of, _), _)| *of == row) {
                let values: Vec<Value> = samples
                    .iter()
                    .map(|sample| json!({ "round": sample.round, "value": sample.value, "foreign": sample.foreign }))
                    .collect();
                let judged = self.judged(row, target).map(|spread| {
                    json!({ "median": spread.median, "min": spread.least, "max": spread.greatest, "clean": spread.clean })
                });
                targets.insert(target.clone(), json!({ "samples": values, "judged": judged }));
            }
            if !targets.is_empty() {
                metrics.insert(metric.id.to_string(), json!({ "unit": metric.unit, "targets": targets }));
            }
        }
        Value::Object(metrics)
    }

    /// Figures that are worse than recorded ones by more than `slack`, each as a sentence, and how many could be
    /// compared at all: a noisy figure proves nothing in either direction.
    pub(crate) fn regressions(&self, recorded: &Value, target: &str, slack: f64) -> (Vec<String>, usize) {
        let (mut found, mut compared) = (Vec::new(), 0);
        for (row, metric) in METRICS.iter().enumerate() {
            let path = format!("/metrics/{}/targets/{target}/judged/median", metric.id);
            let (Some(judged), Some(before)) =
                (self.judged(row, target), recorded.pointer(&path).and_then(Value::as_f64))
            else {
                continue;
            };
            if !judged.clean {
                continue;
            }
            compared += 1;
            let worse = match metric.judged {
                Judged::MoreThanNginx => before / judged.median,
                Judged::LessThanNginx | Judged::AddedByNginx | Judged::Itself => judged.median / before,
            };
            if worse > 1.0 + slack {
                found.push(format!("{}: {:.2}, recorded {before:.2}", metric.title, judged.median));
            }
        }
        (found, compared)
    }

    fn judged(&self, row: usize, target: &str) -> Option<Spread> {
        let of = |name: &str, round: usize| {
            let samples = self.samples.get(&(row, name.to_string()))?;
            samples.iter().find(|sample| sample.round == round).copied()
        };
        match METRICS[row].judged {
            Judged::MoreThanNginx | Judged::LessThanNginx => self.spread(row, target, |sample| {
                let nginx = of(NGINX, sample.round)?;
                Some((sample.value / nginx.value, sample.foreign.max(nginx.foreign)))
            }),
            Judged::AddedByNginx => self.spread(row, target, |sample| {
                let (direct, nginx) = (of(DIRECT, sample.round)?, of(NGINX, sample.round)?);
                let ratio = (sample.value - direct.value) / (nginx.value - direct.value);
                Some((ratio, sample.foreign.max(nginx.foreign).max(direct.foreign)))
            }),
            Judged::Itself => self.spread(row, target, |sample| Some((sample.value, sample.foreign))),
        }
    }

    /// The spread of what is made of each sample: a value, and how much others disturbed all that went into it.
    fn spread(
        &self,
        row: usize,
        target: &str,
        make: impl Fn(&Sample) -> Option<(f64, f64)>,
    ) -> Option<Spread> {
        let samples = self.samples.get(&(row, target.to_string()))?;
        let made: Vec<(f64, f64)> =
            samples.iter().filter_map(make).filter(|made| made.0.is_finite()).collect();
        let clean = made.iter().filter(|made| made.1 < CLEAN).count();
        let enough = clean * 2 > made.len();
        let chosen = made.iter().filter(|made| !enough || made.1 < CLEAN);
        let mut values: Vec<f64> = chosen.map(|made| made.0).collect();
        values.sort_by(f64::total_cmp);
        Some(Spread {
            median: *values.get(values.len() / 2)?,
            least: *values.first()?,
            greatest: *values.last()?,
            rounds: values.len(),
            clean: enough,
        })
    }
}

impl Metric {
    fn verdict(&self, value: f64, goal: f64, stretch: f64) -> &'static str {
        let reaches = |bar: f64| match self.judged {
            Judged::MoreThanNginx => value >= bar,
            Judged::LessThanNginx | Judged::AddedByNginx | Judged::Itself => value <= bar,
        };
        match (reaches(goal), reaches(stretch)) {
            (_, true) => "stretch reached",
            (true, false) => "reached",
            (false, false) => "MISSED",
        }
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { median, least, greatest, rounds, clean } = self;
        let mark = if *clean { "" } else { " noisy" };
        let text = if *rounds == 1 {
            format!("{median:.2}{mark}")
        } else {
            format!("{median:.2} ({least:.2}-{greatest:.2}, {rounds}){mark}")
        };
        out.pad(&text)
    }
}

/// The value below which so many hundredths of the values lie.
pub(crate) fn percentile(values: &mut [f64], hundredths: f64) -> f64 {
    if values.is_empty() {
        return f64::NAN;
    }
    values.sort_by(f64::total_cmp);
    let at = (values.len() as f64 * hundredths / 100.0) as usize;
    values[at.min(values.len() - 1)]
}

fn digits(value: f64) -> usize {
    match value.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    }
}

pub(crate) const NGINX: &str = "nginx";

pub(crate) const DIRECT: &str = "direct";

/// A sample is clean while others use less than this share of the target's core.
const CLEAN: f64 = 0.1;

const fn metric(
    id: &'static str,
    title: &'static str,
    unit: &'static str,
    judged: Judged,
    bar: Option<(f64, f64)>,
) -> Metric {
    Metric { id, title, unit, judged, bar }
}

const METRICS: &[Metric] = &[
    metric("rate", "requests, 1 KB", "1/s", Judged::MoreThanNginx, Some((0.62, 0.8))),
    metric("cpu", "CPU per request, 1 KB", "µs", Judged::LessThanNginx, Some((1.65, 1.3))),
    metric("body_rate", "requests, 128 KB", "1/s", Judged::MoreThanNginx, None),
    metric("body_cpu", "CPU per request, 128 KB", "µs", Judged::LessThanNginx, Some((1.2, 0.9))),
    metric("paced_p50", "p50 at 1,000/s", "µs", Judged::AddedByNginx, Some((1.4, 1.15))),
    metric("paced_p99", "p99 at 1,000/s", "µs", Judged::LessThanNginx, Some((1.5, 1.1))),
    metric("first_p50", "first content p50", "µs", Judged::AddedByNginx, Some((1.4, 1.1))),
    metric("event_p50", "event p50", "µs", Judged::AddedByNginx, Some((1.3, 1.1))),
    metric("event_p99", "event p99", "µs", Judged::LessThanNginx, None),
    metric("event_band", "events late by 30-45 ms", "%", Judged::Itself, Some((0.1, 0.0))),
    metric("event_cpu", "CPU per event", "µs", Judged::LessThanNginx, Some((1.6, 1.25))),
    metric("broken", "streams not byte for byte", "", Judged::Itself, Some((0.0, 0.0))),
    metric("idle", "idle memory", "MiB", Judged::Itself, Some((15.0, 8.0))),
    metric("stream_kib", "memory per open stream", "KiB", Judged::Itself, Some((36.0, 27.0))),
    metric("after_peak", "memory after the peak, of it", "", Judged::Itself, Some((0.6, 0.4))),
    metric("visible", "failures that clients saw", "", Judged::Itself, Some((0.0, 0.0))),
    metric("dead_calls", "calls of a dead key, 20 in a row", "", Judged::Itself, Some((1.0, 1.0))),
    metric("dead_at_once", "the same, of those at once", "", Judged::Itself, Some((1.0, 1.0))),
    metric("forged", "cut streams that ended cleanly", "", Judged::Itself, Some((0.0, 0.0))),
    metric("failover", "first byte after a failed key", "", Judged::Itself, Some((1.8, 1.5))),
    metric("ready", "ready with 1,000 keys", "ms", Judged::Itself, Some((100.0, 50.0))),
    metric("keys_cpu", "CPU, 10,000 keys / 1", "", Judged::Itself, Some((1.05, 1.02))),
    metric("keys_kib", "memory per key", "KiB", Judged::Itself, Some((1.0, 0.5))),
    metric("clients_cpu", "CPU, 100,000 client keys / 1", "", Judged::Itself, Some((1.1, 1.0))),
    metric("rules_cpu", "CPU, 1,000 more rules / none", "", Judged::Itself, Some((1.1, 1.0))),
    metric("rows_cpu", "CPU, a long log / an empty one", "", Judged::Itself, Some((1.1, 1.0))),
    metric("streams_kib", "KiB per stream, many / few", "", Judged::Itself, Some((1.1, 1.0))),
    metric("outage_mib", "database down: memory grown", "MiB", Judged::Itself, Some((8.0, 8.0))),
    metric("outage_p50", "database down: p50 / before", "", Judged::Itself, Some((1.1, 1.0))),
    metric(
        "outage_rows",
        "database down: rows neither kept nor counted",
        "",
        Judged::Itself,
        Some((0.0, 0.0)),
    ),
    metric("soak_memory", "soak: memory at the end / early", "", Judged::Itself, Some((1.1, 1.0))),
    metric("soak_visible", "soak: failures that clients saw", "", Judged::Itself, Some((0.0, 0.0))),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn results(gateway: (f64, f64), nginx: (f64, f64)) -> Results {
        let mut results = Results::default();
        for round in 0..3 {
            for (name, (value, foreign)) in [("gateway", gateway), (NGINX, nginx)] {
                results.add("cpu", name, Sample { round, value, foreign });
            }
        }
        results
    }

    fn row(results: &Results) -> String {
        let table = results.table(&["gateway".to_string()]);
        table.lines().find(|line| line.contains("gateway")).unwrap_or_default().to_string()
    }

    #[test]
    fn clean_figures_are_judged() {
        assert!(row(&results((26.0, 0.0), (20.0, 0.0))).ends_with("stretch reached"));
        assert!(row(&results((40.0, 0.0), (20.0, 0.0))).ends_with("MISSED"));
    }

    #[test]
    fn a_disturbed_figure_is_shown_and_not_judged() {
        let line = row(&results((20.0, 0.5), (20.0, 0.0)));
        assert!(line.contains("noisy") && line.ends_with("not judged"), "{line}");
    }

    #[test]
    fn a_ratio_is_as_noisy_as_what_it_is_taken_over() {
        assert!(row(&results((20.0, 0.0), (20.0, 0.9))).ends_with("not judged"));
    }

    #[test]
    fn a_check_compares_clean_figures_alone() {
        let recorded =
            json!({ "metrics": { "cpu": { "targets": { "gateway": { "judged": { "median": 1.0 } } } } } });
        let check = |results: Results| results.regressions(&recorded, "gateway", 0.25);
        assert_eq!(check(results((24.0, 0.0), (20.0, 0.0))), (Vec::new(), 1));
        assert_eq!(check(results((30.0, 0.0), (20.0, 0.0))).0.len(), 1);
        assert_eq!(check(results((90.0, 0.0), (20.0, 0.9))), (Vec::new(), 0));
    }
}
