//! `backstop doctor`: what is wrong with a set-up, each finding with its cure.
//!
//! Files, disk, clock and port are looked at from outside, so that it works when the gateway does not; what a running
//! gateway knows of its providers and keys is asked of it. Nothing is changed, and no provider is called unless
//! --online says so.

mod machine;
mod network;
mod state;

use std::{
    io::{self, IsTerminal as _, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::Result;
use serde_json::json;

use super::{api::Connect, places, setup::Setup};

/// Looks for what is wrong with a set-up, and says what to do about it.
///
/// Exits with 1 if something keeps the gateway from working, with 0 otherwise; warnings change nothing.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  backstop doctor
  backstop doctor --online     # also whether the providers' hosts can be reached; no key is sent
  backstop doctor --json | jq '.[] | select(.level != \"ok\")'")]
pub(crate) struct Args {
    /// The configuration; default: ~/.config/backstop/backstop.toml, if it is there.
    #[arg(long, value_name = "FILE", env = "BACKSTOP_CONFIG")]
    config: Option<PathBuf>,
    /// Connects to the host of every provider, without a key.
    #[arg(long)]
    online: bool,
    #[command(flatten)]
    connect: Connect,
}

/// One thing that was looked at.
#[derive(Debug)]
pub(crate) struct Finding {
    level: Level,
    /// What was looked at.
    what: String,
    /// What was found.
    said: String,
    /// What to do about it.
    cure: Option<String>,
}

/// How grave a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Ok,
    Warn,
    Fail,
}

impl Finding {
    fn ok(what: &str, said: impl Into<String>) -> Self {
        Self { level: Level::Ok, what: what.to_owned(), said: said.into(), cure: None }
    }

    fn warn(what: &str, said: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { level: Level::Warn, what: what.to_owned(), said: said.into(), cure: Some(cure.into()) }
    }

    fn fail(what: &str, said: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { level: Level::Fail, what: what.to_owned(), said: said.into(), cure: Some(cure.into()) }
    }
}

impl Level {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }

    /// The word, coloured.
    const fn painted(self) -> &'static str {
        match self {
            Self::Ok => "\u{1b}[32mok  \u{1b}[0m",
            Self::Warn => "\u{1b}[33mwarn\u{1b}[0m",
            Self::Fail => "\u{1b}[31mfail\u{1b}[0m",
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let file = places::config_file(args.config.as_deref());
    let folder = args.connect.data_dir(args.config.as_deref())?;
    let mut findings = Vec::new();
    let setup = configuration(&mut findings, args);
    if let Some(file) = &file {
        findings.extend(state::configuration_file(file));
    }
    findings.extend(state::data_folder(&folder));
    findings.extend(machine::disk(&folder));
    findings.push(machine::clock(&folder));
    findings.extend(machine::open_files());
    findings.extend(machine::certificates());
    if let Some(setup) = &setup {
        findings.extend(machine::proxies(setup));
        findings.extend(network::listening(&setup.config.server));
    }
    findings.extend(network::gateway(&args.connect));
    if let Some(setup) = setup.as_ref().filter(|_| args.online) {
        findings.extend(network::providers(setup, &args.connect)?);
    }
    tell(&findings, args.connect.json)?;
    let failed = findings.iter().any(|finding| finding.level == Level::Fail);
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn configuration(findings: &mut Vec<Finding>, args: &Args) -> Option<Setup> {
    let setup = match Setup::load(args.config.as_deref()) {
        Ok(setup) => setup,
        Err(error) => {
            let cure = "`backstop check` tells every mistake with its line and its fix";
            findings.push(Finding::fail("configuration", format!("{error:#}").replace('\n', " "), cure));
            return None;
        }
    };
    let said = match &setup.config.file {
        Some(file) => format!("{} is right", file.display()),
        None => "none; the environment names the providers".to_owned(),
    };
    findings.push(Finding::ok("configuration", said));
    for warning in &setup.config.warnings {
        let said = format!("line {}: {}", warning.line, warning.what);
        findings.push(Finding::warn("configuration", said, warning.fix.clone()));
    }
    Some(setup)
}

fn tell(findings: &[Finding], as_json: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if as_json {
        let all: Vec<_> = findings
            .iter()
            .map(|finding| {
                json!({
                    "level": finding.level.as_str(), "what": finding.what, "said": finding.said,
                    "cure": finding.cure,
                })
            })
            .collect();
        return writeln!(out, "{:#}", serde_json::Value::Array(all));
    }
    let colours = out.is_terminal() && std::env::var_os("NO_COLOR").is_none();
    for Finding { level, what, said, cure } in findings {
        let word = if colours { level.painted().to_owned() } else { format!("{:<4}", level.as_str()) };
        writeln!(out, "{word}  {what}: {said}")?;
        if let Some(cure) = cure {
            writeln!(out, "      -> {cure}")?;
        }
    }
    let count = |level: Level| findings.iter().filter(|finding| finding.level == level).count();
    writeln!(
        out,
        "\n{} looked at, {} to look into, {} that must be mended",
        findings.len(),
        count(Level::Warn),
        count(Level::Fail)
    )
}
