//! `backstop check`: is the configuration right, and what does it come to?

use std::{
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::Result;
use backstop_gateway::config::{AuthMode, Config, ConfigError, Problem, Provider};
use serde_json::{Value, json};

use super::setup::{Setup, SetupError};

/// Checks a configuration without starting anything, and tells what it comes to.
///
/// Every mistake is told with its line and its fix. Nothing is called and nothing is written. Exits with 0 if the
/// configuration is right and with 1 if not.
#[derive(clap::Args)]
#[command(after_help = "Begin with a file that explains every setting:
  backstop check --example > ~/.config/backstop/backstop.toml")]
pub(crate) struct Args {
    /// The configuration; default: ~/.config/backstop/backstop.toml, if it is there.
    #[arg(long, value_name = "FILE", env = "BACKSTOP_CONFIG")]
    config: Option<PathBuf>,
    /// Prints a configuration with every setting explained.
    #[arg(long, conflicts_with_all = ["config", "json"])]
    example: bool,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let mut out = io::stdout().lock();
    if args.example {
        out.write_all(Config::EXAMPLE.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    match Setup::load(args.config.as_deref()) {
        Ok(setup) if args.json => writeln!(out, "{}", right(&setup))?,
        Ok(setup) => tell(&mut out, &setup)?,
        Err(error) if args.json => {
            writeln!(out, "{}", wrong(&error))?;
            return Ok(ExitCode::FAILURE);
        }
        Err(error) => {
            eprintln!("{error:#}");
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn tell(out: &mut impl io::Write, setup: &Setup) -> io::Result<()> {
    let config = &setup.config;
    match &config.file {
        Some(file) => writeln!(out, "{} is right", file.display())?,
        None => writeln!(out, "no configuration file; the environment names the providers")?,
    }
    let addresses: Vec<String> = config.server.listen.iter().map(ToString::to_string).collect();
    writeln!(out, "listens on    {}", addresses.join(", "))?;
    writeln!(out, "data folder   {}", config.server.data_dir.display())?;
    if !setup.packs.is_empty() {
        writeln!(out, "rule packs    {} of yours", setup.packs.len())?;
    }
    if config.providers.is_empty() {
        writeln!(out, "providers     none: export OPENAI_API_KEY or the like, or add a [[provider]]")?;
    }
    for provider in &config.providers {
        writeln!(out, "provider      {}: {}", provider.id, summary(provider))?;
    }
    for combo in &config.combos {
        writeln!(out, "combo         {}: {} members", combo.id, combo.members.len())?;
    }
    for client in &config.clients {
        writeln!(out, "client        {}", client.name)?;
    }
    for alert in &config.alerts {
        writeln!(out, "alerts to     {}", alert.channel)?;
    }
    for Problem { line, what, fix } in &config.warnings {
        writeln!(out, "warning       line {line}: {what}\n              fix: {fix}")?;
    }
    Ok(())
}

fn summary(provider: &Provider) -> String {
    let keys = match (provider.auth, provider.keys.len()) {
        (AuthMode::None, _) => "no key".to_owned(),
        (AuthMode::PassThrough, _) => "the client's own key".to_owned(),
        (AuthMode::Managed, 0) => "no key yet".to_owned(),
        (AuthMode::Managed, 1) => "1 key".to_owned(),
        (AuthMode::Managed, count) => format!("{count} keys"),
    };
    let models = match provider.models.len() {
        0 => String::new(),
        1 => ", 1 model".to_owned(),
        count => format!(", {count} models"),
    };
    let chain: Vec<&str> = provider.fallbacks.iter().map(|fallback| fallback.provider.as_str()).collect();
    let chain = if chain.is_empty() { String::new() } else { format!(", then {}", chain.join(", ")) };
    format!("{keys}{models}, {} at {}, rules {}{chain}", provider.format, provider.base_url, provider.rules)
}

fn right(setup: &Setup) -> Value {
    let config = &setup.config;
    let provider = |provider: &Provider| {
        json!({
            "id": provider.id,
            "format": provider.format,
            "base_url": provider.base_url.to_string(),
            "rules": provider.rules,
            "keys": provider.keys.iter().map(|key| key.label.as_str()).collect::<Vec<_>>(),
            "models": provider.models,
            "fallbacks": provider.fallbacks.iter().map(|fallback| &fallback.provider).collect::<Vec<_>>(),
        })
    };
    json!({
        "ok": true,
        "file": config.file,
        "listen": config.server.listen,
        "data_dir": config.server.data_dir,
        "rule_packs": setup.packs.len(),
        "providers": config.providers.iter().map(provider).collect::<Vec<_>>(),
        "combos": config.combos.iter().map(|combo| combo.id.as_str()).collect::<Vec<_>>(),
        "clients": config.clients.iter().map(|client| client.name.as_str()).collect::<Vec<_>>(),
        "warnings": problems(&config.warnings),
    })
}

fn wrong(error: &anyhow::Error) -> Value {
    match error.downcast_ref::<SetupError>() {
        Some(SetupError::Config(ConfigError { file, problems: found })) => {
            json!({ "ok": false, "file": file, "problems": problems(found) })
        }
        Some(SetupError::Rules(error)) => json!({
            "ok": false,
            "file": error.file,
            "problems": [{ "line": error.line, "what": error.problem, "fix": error.fix }],
        }),
        Some(SetupError::NoPassword(_)) | None => {
            json!({ "ok": false, "problems": [{ "line": 0, "what": error.to_string(), "fix": "" }] })
        }
    }
}

fn problems(problems: &[Problem]) -> Value {
    problems
        .iter()
        .map(|problem| json!({ "line": problem.line, "what": problem.what, "fix": problem.fix }))
        .collect()
}
