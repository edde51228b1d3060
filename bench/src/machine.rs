//! What the kernel knows about processes and cores.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

/// Which core runs what. The thing measured has a core to itself; with more than two cores the upstream has, too.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cores {
    pub(crate) upstream: usize,
    pub(crate) target: usize,
    pub(crate) load: usize,
}

/// One reading of a process (with its children) and of the core it runs on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    /// Time on a core.
    pub(crate) cpu: Duration,
    /// Time during which its core did anything, for anybody.
    core: Duration,
}

/// What happened between two readings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Used {
    pub(crate) cpu: Duration,
    /// What others used of the core, as a share of the elapsed time.
    pub(crate) foreign: f64,
}

impl Cores {
    pub(crate) fn of_this_machine() -> Self {
        let count = std::thread::available_parallelism().map_or(1, usize::from);
        match count {
            0 | 1 => Self { upstream: 0, target: 0, load: 0 },
            2 => Self { upstream: 0, target: 1, load: 0 },
            _ => Self { upstream: 0, target: 1, load: 2 },
        }
    }
}

impl Reading {
    pub(crate) fn of(process: Option<u32>, core: usize) -> Result<Self> {
        let cpu = process.map_or(Duration::ZERO, |process| family(process).into_iter().map(cpu_of).sum());
        Ok(Self { cpu, core: core_busy(core)? })
    }

    pub(crate) fn until(self, later: Self, elapsed: Duration) -> Used {
        let cpu = later.cpu.saturating_sub(self.cpu);
        let foreign = later.core.saturating_sub(self.core).saturating_sub(cpu);
        Used { cpu, foreign: foreign.as_secs_f64() / elapsed.as_secs_f64() }
    }
}

/// Resident memory of a process and its children, in KiB.
pub(crate) fn resident_kib(process: u32) -> u64 {
    family(process).into_iter().filter_map(|id| field(format!("/proc/{id}/status"), "VmRSS:")).sum()
}

/// What the machine is, for the record.
pub(crate) fn description() -> serde_json::Value {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .unwrap_or("")
        .trim_start_matches(['\t', ':', ' ']);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    serde_json::json!({ "cpu": model, "cores": cores, "kernel": kernel.trim() })
}

/// A process and its children.
fn family(process: u32) -> Vec<u32> {
    let mut family = vec![process];
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    family.extend(ids.filter(|id| field(format!("/proc/{id}/status"), "PPid:") == Some(u64::from(process))));
    family
}

/// Nanoseconds on a core, over all threads: finer than the clock ticks of `stat`.
fn cpu_of(process: u32) -> Duration {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let nanos = threads.filter_map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanos.sum())
}

fn core_busy(core: usize) -> Result<Duration> {
    let text = fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
    let name = format!("cpu{core} ");
    let line =
        text.lines().find(|line| line.starts_with(&name)).context("this core has no line in /proc/stat")?;
    let ticks: Vec<u64> = line.split_whitespace().skip(1).filter_map(|tick| tick.parse().ok()).collect();
    let (idle, waiting) = (3, 4);
    let busy = ticks.iter().take(8).enumerate().filter(|(at, _)| *at != idle && *at != waiting);
    Ok(Duration::from_millis(busy.map(|(_, tick)| tick).sum::<u64>() * MS_PER_TICK))
}

fn field(file: impl AsRef<Path>, name: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// USER_HZ is 100 on every Linux that people run.
const MS_PER_TICK: u64 = 10;
