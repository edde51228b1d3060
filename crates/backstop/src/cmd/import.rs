//! `backstop import`: takes a set-up in, from an export or from another gateway.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, Result};
use backstop_gateway::config::Environment;
use backstop_triage::Catalog;
use serde_json::json;

use super::{api::Connect, passphrase::Passphrase};
use crate::transfer::{
    document::Document,
    foreign::{self, Carried},
    plan::{Mark, Plan, Step},
};

/// Takes a set-up in: an export of Backstop, or the set-up of another gateway.
///
/// Without --apply it shows what would change, and changes nothing. It adds and changes, never removes; done twice, the
/// second time changes nothing. What cannot be carried over is listed. No secret is shown.
#[derive(clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Examples:
  backstop import setup.toml                         # what would change
  backstop import backup.toml --passphrase-file phrase.txt --apply
  backstop import litellm config.yaml
  backstop import new-api one-api.db --apply
  backstop import env .env --apply"
)]
pub(crate) struct Args {
    /// The export to read.
    #[arg(value_name = "FILE", required = true)]
    file: Option<PathBuf>,
    #[command(flatten)]
    passphrase: Passphrase,
    /// Leaves sealed secrets closed, and takes in everything else.
    #[arg(long)]
    without_secrets: bool,
    #[command(subcommand)]
    from: Option<From>,
    /// Does it; without this it is only shown.
    #[arg(long, global = true)]
    apply: bool,
    #[command(flatten)]
    connect: Connect,
}

#[derive(clap::Subcommand)]
enum From {
    /// The config.yaml of LiteLLM: deployments become providers, groups of models a combo.
    Litellm(Source),
    /// The database (SQLite) of one-api, or its channels as JSON.
    OneApi(Source),
    /// The database (SQLite) of new-api, or its channels as JSON.
    NewApi(Source),
    /// The database (SQLite) of gpt-load.
    GptLoad(Source),
    /// The config.yaml of CLIProxyAPI; what lies in its auth folder is listed.
    Cliproxyapi(Source),
    /// A file of NAME=value lines: the usual names of keys become providers.
    Env(Source),
}

#[derive(clap::Args)]
struct Source {
    /// The file to read.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let Carried { document, left_out } = read(args)?;
    let api = args.connect.open()?;
    let plan = Plan::new(&api, &document)?;
    let counts = Counts::of(&plan);
    let mut out = io::stdout().lock();
    let as_json = args.connect.json;
    let mut told = Vec::new();
    let mut tell = |step: &Step, failed: Option<&anyhow::Error>| {
        if as_json {
            told.push(json!({
                "mark": step.mark.as_str(), "subject": step.subject, "said": step.said,
                "error": failed.map(|error| format!("{error:#}")),
            }));
        } else {
            told.push(json!(match failed {
                Some(error) => format!("{step}\n    failed: {error:#}"),
                None => step.to_string(),
            }));
        }
    };
    let all_well = if args.apply {
        plan.apply(&api, &mut tell)
    } else {
        plan.steps.iter().for_each(|step| tell(step, None));
        true
    };
    if as_json {
        writeln!(out, "{:#}", json!({ "applied": args.apply, "steps": told, "left_out": left_out }))?;
    } else {
        for line in told.iter().filter_map(serde_json::Value::as_str) {
            writeln!(out, "{line}")?;
        }
        if !left_out.is_empty() {
            writeln!(out, "\nnot carried over:")?;
            left_out.iter().try_for_each(|item| writeln!(out, "  {item}"))?;
        }
        writeln!(out, "\n{}", counts.sentence(args.apply))?;
    }
    Ok(if all_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn read(args: &Args) -> Result<Carried> {
    let catalog = Catalog::embedded();
    let environment = Environment::of_process();
    match (&args.from, &args.file) {
        (Some(From::Litellm(source)), _) => {
            foreign::litellm::read(&text(&source.file)?, &catalog, &environment)
        }
        (Some(From::OneApi(source) | From::NewApi(source)), _) => {
            foreign::one_api::read(&source.file, &catalog)
        }
        (Some(From::GptLoad(source)), _) => foreign::gpt_load::read(&source.file, &catalog),
        (Some(From::Cliproxyapi(source)), _) => {
            foreign::cliproxyapi::read(&source.file, &catalog, &environment)
        }
        (Some(From::Env(source)), _) => Ok(foreign::env::read(&text(&source.file)?, &catalog)),
        (None, Some(file)) => own(file, (!args.without_secrets).then_some(&args.passphrase)),
        (None, None) => anyhow::bail!("name the file to read"),
    }
    .with_context(|| "nothing was changed".to_owned())
}

/// Reads an export; the passphrase is asked for if there is something to open.
fn own(file: &Path, passphrase: Option<&Passphrase>) -> Result<Carried> {
    let mut document = Document::read(&text(file)?)?;
    if let Some(passphrase) = passphrase.filter(|_| document.sealed.is_some()) {
        document.unseal(&passphrase.read()?)?;
    }
    let left_out = document.from_file.iter().map(|id| {
        format!("provider {id}: a configuration file or the environment defined it there; bring that along")
    });
    Ok(Carried { left_out: left_out.collect(), document })
}

fn text(file: &Path) -> Result<String> {
    fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

/// How many steps there are of each kind.
struct Counts {
    add: usize,
    change: usize,
    same: usize,
    refused: usize,
}

impl Counts {
    fn of(plan: &Plan) -> Self {
        let [add, change, same, refused] =
            [Mark::Add, Mark::Change, Mark::Same, Mark::Refused].map(|mark| plan.count(mark));
        Self { add, change, same, refused }
    }

    fn sentence(&self, applied: bool) -> String {
        let Self { add, change, same, refused } = self;
        let end = match (applied, add + change) {
            (true, _) => "Done.",
            (false, 0) => "There is nothing to do.",
            (false, _) => "Nothing was changed; --apply does it.",
        };
        format!("{add} to add, {change} to change, {same} as they are, {refused} that cannot be done. {end}")
    }
}
