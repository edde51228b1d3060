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
    /// How long memory may take to settle after a start.
    pub(crate) rest: Duration,
    /// Rows in a long log.
    pub(crate) log_rows: u32,
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
    /// Many keys, client keys, rules, rows in the log, streams.
    Growth,
    /// A database that cannot be written for a while.
    Outage,
    /// Minutes or an hour of mixed load with faults.
    Soak,
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
            Section::Failover | Section::Growth | Section::Outage | Section::Soak => return Ok(()),
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
        Meter::start(self.ground, target)
    }
}

/// Figures by name, and what others used of the core.
type Figures = (Vec<(&'static str, f64)>, f64);

/// What a process uses while something runs, and what others use of the core it has to itself.
pub(crate) struct Meter {
    /// The direct way has none: then all that happens on the core is somebody else's.
    process: Option<u32>,
    core: usize,
    before: Reading,
    started: Instant,
}

/// What was used between start and reading of a meter.
pub(crate) struct Usage {
    used: Used,
    of_a_process: bool,
}

impl Meter {
    pub(crate) fn start(ground: &Ground, target: &Target) -> Result<Self> {
        let process = target.process().filter(|_| target.name != crate::results::DIRECT);
        let core = ground.cores.target;
        Ok(Self { process, core, before: Reading::of(process, core)?, started: Instant::now() })
    }

    /// Watches the core for a target that is about to start.
    pub(crate) fn before_start(ground: &Ground) -> Result<Self> {
        let core = ground.cores.target;
        Ok(Self { process: None, core, before: Reading::of(None, core)?, started: Instant::now() })
    }

    /// Reads with a target that was started since.
    pub(crate) fn read_started(&self, target: &Target) -> Result<Usage> {
        let after = Reading::of(target.process(), self.core)?;
        Ok(Usage { used: self.before.until(after, self.started.elapsed()), of_a_process: true })
    }

    pub(crate) fn read(&self) -> Result<Usage> {
        let after = Reading::of(self.process, self.core)?;
        let used = self.before.until(after, self.started.elapsed());
        Ok(Usage { used, of_a_process: self.process.is_some() })
    }
}

impl Usage {
    /// Microseconds on a core; no number where there is no process.
    pub(crate) fn micros(&self) -> f64 {
        if self.of_a_process { self.used.cpu.as_secs_f64() * 1e6 } else { f64::NAN }
    }

    pub(crate) fn foreign(&self) -> f64 {
        self.used.foreign
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
