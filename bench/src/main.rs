//! The benchmark: the gateway beside nginx, as ratios, on the machine at hand.
//!
//! An upstream that costs next to nothing, nginx as a plain reverse proxy, and the gateway with everything on are
//! started, each on its core, and measured in alternating rounds. What is asked, and what the figures do not show,
//! stands in `docs/speed.md`.

mod failover;
mod growth;
mod load;
mod machine;
mod programs;
mod results;
mod rounds;
mod trouble;

use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Parser;
use serde_json::json;

use crate::machine::{Cores, resident_kib};
use crate::programs::{Ground, Size, Target};
use crate::results::{DIRECT, Results, Sample};
use crate::rounds::{Effort, Round, SCRIPT, Section, small_body, stream_body};

/// Measures the gateway beside nginx.
#[derive(Parser)]
#[command(name = "bench/run")]
struct Arguments {
    /// Where the programs `backstop` and `faultd` lie.
    #[arg(long)]
    programs: PathBuf,
    /// Rounds of each target.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Open streams when memory is measured.
    #[arg(long, default_value_t = 2000)]
    streams: usize,
    /// Seconds until memory is looked at again after a peak.
    #[arg(long, default_value_t = 60)]
    settle: u64,
    /// Seconds until a target that has been asked a little counts as idle.
    #[arg(long, default_value_t = 12)]
    rest: u64,
    /// Rows in the log when its growth is measured.
    #[arg(long, default_value_t = 1_000_000)]
    log_rows: u32,
    /// Seconds for which the database fails.
    #[arg(long, default_value_t = 30)]
    outage: u64,
    /// Minutes of mixed load with faults, in the section `soak`, which runs only when it is named.
    #[arg(long, default_value_t = 5)]
    soak: u64,
    /// The soak for an hour.
    #[arg(long)]
    hour: bool,
    /// Measures only these sections.
    #[arg(long, value_delimiter = ',')]
    only: Vec<Section>,
    /// Leaves the gateway out.
    #[arg(long)]
    without_gateway: bool,
    /// Measures this too: name=http://127.0.0.1:1234/v1 or name=URL,key.
    #[arg(long)]
    target: Vec<String>,
    /// Writes all figures here as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Fails when a ratio of the gateway is worse than in this file by more than a quarter.
    #[arg(long)]
    check: Option<PathBuf>,
}

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a program's own words")]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    programs::check_programs(&arguments.programs)?;
    let folder = tempfile::tempdir()?;
    let programs = std::fs::canonicalize(&arguments.programs)?;
    let ground = Ground {
        programs,
        folder: folder.path().to_path_buf(),
        cores: Cores::of_this_machine(),
        folders: AtomicUsize::new(0),
    };
    let mut results = Results::default();
    let targets = run(&arguments, &ground, &mut results).await?;
    println!("{}", results.table(&targets));
    let record = json!({ "machine": machine::description(), "rounds": arguments.rounds, "settle_s": arguments.settle, "metrics": results.json() });
    if let Some(file) = &arguments.json {
        std::fs::write(file, format!("{record:#}\n"))
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    if let Some(file) = &arguments.check {
        let recorded =
            std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let (found, compared) = results.regressions(&serde_json::from_str(&recorded)?, "gateway", 0.25);
        found.iter().for_each(|regression| eprintln!("worse than recorded: {regression}"));
        if compared == 0 {
            bail!(
                "nothing could be compared with {}: every figure is noisy, or none is recorded",
                file.display()
            );
        }
        if !found.is_empty() {
            bail!("{} figures are worse than in {}", found.len(), file.display());
        }
    }
    Ok(())
}

#[expect(clippy::print_stderr, reason = "progress of a long run")]
async fn run(arguments: &Arguments, ground: &Ground, results: &mut Results) -> Result<Vec<String>> {
    let upstream = ground.upstream(SCRIPT).await?;
    let expected = load::expected_digest(&upstream, &stream_body()).await?;
    let mut targets = start(arguments, ground, upstream).await?;
    let effort = Effort {
        rounds: arguments.rounds,
        seconds: arguments.seconds,
        streams: arguments.streams,
        settle: Duration::from_secs(arguments.settle),
        rest: Duration::from_secs(arguments.rest),
        log_rows: arguments.log_rows,
    };
    for target in targets.iter().filter(|target| target.name != DIRECT) {
        load::pace(target, &small_body(), 100, Duration::from_secs(1)).await?;
    }
    tokio::time::sleep(effort.rest).await;
    for target in targets.iter().filter(|target| target.name != DIRECT) {
        if let Some(process) = target.process() {
            let value = resident_kib(process) as f64 / 1024.0;
            results.add("idle", &target.name, Sample { round: 0, value, foreign: 0.0 });
        }
    }
    let wanted = |section: &Section| arguments.only.is_empty() || arguments.only.contains(section);
    for section in SECTIONS.into_iter().filter(wanted) {
        // Memory is looked at in processes that have no past.
        let rounds = if section == Section::Held { 1 } else { effort.rounds };
        if section == Section::Held {
            let upstream = targets.swap_remove(0);
            drop(targets);
            targets = start(arguments, ground, upstream).await?;
        }
        for number in 0..rounds {
            let round = Round { ground, effort, number, expected };
            for target in &targets {
                eprintln!("{section:?}, round {}: {}", number + 1, target.name);
                round.measure(section, target, results).await?;
            }
        }
    }
    if wanted(&Section::Failover) && !arguments.without_gateway {
        eprintln!("Failover");
        eprintln!("{}", failover::measure(ground, results).await?);
    }
    if wanted(&Section::Growth) && !arguments.without_gateway {
        eprintln!("Growth");
        let upstream = targets.first().map(|direct| direct.addr).expect("the upstream is the first target");
        growth::measure(ground, upstream, effort, results).await?;
    }
    if wanted(&Section::Outage) && !arguments.without_gateway {
        eprintln!("Outage");
        let upstream = targets.first().map(|direct| direct.addr).expect("the upstream is the first target");
        trouble::outage(ground, upstream, Duration::from_secs(arguments.outage), results).await?;
    }
    if arguments.only.contains(&Section::Soak) {
        let minutes = if arguments.hour { 60 } else { arguments.soak };
        eprintln!("Soak, {minutes} minutes");
        trouble::soak(ground, Duration::from_secs(minutes * 60), results).await?;
    }
    Ok(targets.iter().map(|target| target.name.clone()).collect())
}

/// Starts everything in front of an upstream that runs.
async fn start(arguments: &Arguments, ground: &Ground, upstream: Target) -> Result<Vec<Target>> {
    let addr = upstream.addr;
    let mut targets = vec![upstream, ground.nginx(addr).await?];
    if !arguments.without_gateway {
        let size = Size { keys: 10, clients: 1 };
        targets.push(ground.gateway(addr, size).await?.0);
    }
    for target in &arguments.target {
        targets.push(Target::parse(target)?);
    }
    Ok(targets)
}

const SECTIONS: [Section; 5] =
    [Section::Small, Section::Bodies, Section::Paced, Section::Events, Section::Held];
