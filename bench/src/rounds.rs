//! The alternating rounds: each target in turn, and again in turn, so that what the machine does hits all alike.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::load;
use crate::machine::{Reading, Used, resident_kib};
use crate::programs::{Ground, Target};
use crate::results::{Results, Sample, percentile};

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    pub(crate) rounds: usize,
    pub(crate) seconds: u64,
    pub(crate) streams: usize,
    /// How long memory may take to come back after a peak.
    pub(crate) settle: Duration,
}

/// One kind of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Section {
    /// Small requests at saturation.
    Small,
    /// 128 KB there and back, at saturation.
    Bodies,
    /// A thousand requests a second.
    Paced,
    /// Streams of stamped events.
    Events,
    /// Thousands of open streams.
    Held,
    /// What a failed key costs, and what clients see of it.
    Failover,
    /// Many keys, many client keys, many streams.
    Growth,
}

/// Measures one section of one target once.
pub(crate) struct Round<'a> {
    pub(crate) ground: &'a Ground,
    pub(crate) effort: Effort,
    pub(crate) number: usize,
    /// The digest of one stream's bytes.
    pub(crate) expected: u64,
}

impl Round<'_> {
    pub(crate) async fn measure(
        &self,
        section: Section,
        target: &Target,
        results: &mut Results,
    ) -> Result<()> {
        let figures = match section {
            Section::Small => self.saturated(target, &small_body(), 32, ("rate", "cpu")).await,
            Section::Bodies => self.saturated(target, &large_body(), 8, ("body_rate", "body_cpu")).await,
            Section::Paced => self.paced(target).await,
            Section::Events => self.events(target).await,
            Section::Held => self.held(target).await,
            Section::Failover | Section::Growth => return Ok(()),
        };
        let (figures, foreign) = figures.with_context(|| format!("{section:?} of {}", target.name))?;
        for (id, value) in figures {
            results.add(id, &target.name, Sample { round: self.number, value, foreign });
        }
        Ok(())
    }

    async fn saturated(
        &self,
        target: &Target,
        body: &str,
        connections: usize,
        (rate, cpu): (&'static str, &'static str),
    ) -> Result<Figures> {
        let time = Duration::from_secs(self.effort.seconds);
        let meter = self.meter(target)?;
        let seen = load::saturate(self.ground, target, body, (connections, time)).await?;
        let used = meter.read()?;
        Ok((vec![(rate, seen.per_second), (cpu, used.micros() / seen.requests)], used.foreign()))
    }

    async fn paced(&self, target: &Target) -> Result<Figures> {
        let meter = self.meter(target)?;
        let time = Duration::from_secs(self.effort.seconds);
        let mut times = load::pace(target, &small_body(), 1000, time).await?;
        let foreign = meter.read()?.foreign();
        let (p50, p99) = (percentile(&mut times, 50.0), percentile(&mut times, 99.0));
        Ok((vec![("paced_p50", p50), ("paced_p99", p99)], foreign))
    }

    async fn events(&self, target: &Target) -> Result<Figures> {
        let meter = self.meter(target)?;
        let mut streams = load::stream(target, &stream_body(), STREAMS_AT_ONCE, self.expected).await?;
        let used = meter.read()?;
        let firsts = usize::try_from(self.effort.seconds)? * FIRSTS_A_SECOND;
        let mut first = load::first_contents(target, &first_body(), firsts).await?;
        let late = streams.events.iter().filter(|time| (30_000.0..45_000.0).contains(*time)).count();
        let count = (streams.events.len() + streams.first.len()) as f64;
        let figures = vec![
            ("first_p50", percentile(&mut first, 50.0)),
            ("event_p50", percentile(&mut streams.events, 50.0)),
            ("event_p99", percentile(&mut streams.events, 99.0)),
            ("event_band", late as f64 * 100.0 / count),
            ("event_cpu", used.micros() / count),
            ("broken", streams.broken as f64),
        ];
        Ok((figures, used.foreign()))
    }

    async fn held(&self, target: &Target) -> Result<Figures> {
        let Some(process) = target.process().filter(|_| target.name != crate::results::DIRECT) else {
            return Ok((Vec::new(), 0.0));
        };
        let before = resident_kib(process) as f64;
        let held = load::hold(target, &held_body(), self.effort.streams).await?;
        let peak = resident_kib(process) as f64;
        drop(held);
        tokio::time::sleep(self.effort.settle).await;
        let after = resident_kib(process) as f64;
        let per_stream = (peak - before) / self.effort.streams as f64;
        Ok((vec![("stream_kib", per_stream), ("after_peak", after / peak)], 0.0))
    }

    pub(crate) fn meter(&self, target: &Target) -> Result<Meter> {
        // The direct way has no process of its own between client and upstream.
        let process = target.process().filter(|_| target.name != crate::results::DIRECT);
        let core = self.ground.cores.target;
        let reading = process.map(|process| Reading::of(process, core)).transpose()?;
        Ok(Meter { process, core, reading, started: Instant::now() })
    }
}

/// Figures by name, and what others used of the core.
type Figures = (Vec<(&'static str, f64)>, f64);

/// What a process uses while something runs.
pub(crate) struct Meter {
    process: Option<u32>,
    core: usize,
    reading: Option<Reading>,
    started: Instant,
}

/// What a process used, where there is one.
pub(crate) struct Usage(Option<Used>);

impl Meter {
    pub(crate) fn read(&self) -> Result<Usage> {
        let (Some(process), Some(before)) = (self.process, self.reading) else { return Ok(Usage(None)) };
        let after = Reading::of(process, self.core)?;
        Ok(Usage(Some(before.until(after, self.started.elapsed()))))
    }
}

impl Usage {
    pub(crate) fn micros(&self) -> f64 {
        self.0.map_or(f64::NAN, |used| used.cpu.as_secs_f64() * 1e6)
    }

    pub(crate) fn foreign(&self) -> f64 {
        self.0.map_or(0.0, |used| used.foreign)
    }
}

pub(crate) fn small_body() -> String {
    body("small", "false", 500)
}

fn large_body() -> String {
    body("large", "false", 128 * 1024)
}

pub(crate) fn stream_body() -> String {
    body("stream", "true", 500)
}

fn first_body() -> String {
    body("first", "true", 500)
}

pub(crate) fn held_body() -> String {
    body("held", "true", 500)
}

fn body(model: &str, stream: &str, bytes: usize) -> String {
    let words: String = "The quick brown fox jumps over the lazy dog. ".chars().cycle().take(bytes).collect();
    format!(r#"{{"model":"{model}","stream":{stream},"messages":[{{"role":"user","content":"{words}"}}]}}"#)
}

/// What the upstream does for each of these models.
pub(crate) const SCRIPT: &str = r#"
[[rule]]
when = { model = "small" }
reply = { pieces = 1, piece_bytes = 720 }

[[rule]]
when = { model = "large" }
reply = { pieces = 1, piece_bytes = 130800 }

[[rule]]
when = { model = "stream" }
reply = { pieces = 150, piece_bytes = 48, stamped = true, events_ms = 20 }

[[rule]]
when = { model = "first" }
reply = { pieces = 2, piece_bytes = 48, stamped = true }

[[rule]]
when = { model = "held" }
reply = { pieces = 2, cut = { at = "content", n = 1, how = "hang" } }
"#;

const FIRSTS_A_SECOND: usize = 100;

const STREAMS_AT_ONCE: usize = 100;
