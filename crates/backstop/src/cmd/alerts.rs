//! `backstop alerts`: what is on, whether a channel works, and "I have seen it".

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use backstop_alerts::{Channel, ChannelConfig, HttpClient, Notice, Source};
use backstop_supervisor::SeatAlerts;
use backstop_triage::{Timestamp, alert::Topic};
use jiff::tz::TimeZone;

use super::places;

/// Shows alerts, tests channels, acknowledges.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
    /// The configuration with the `[[alert]]` tables.
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where seats keep their alerts.
    #[arg(long, global = true, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
    /// Prints JSON.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(clap::Subcommand)]
enum What {
    /// Shows what is on.
    List,
    /// Sends a test message to a channel and prints what came back.
    Test {
        /// The channel's name; without one, all channels.
        channel: Option<String>,
    },
    /// Sends no more reminders of an alert until it is over.
    Ack {
        /// The alert, as `list` shows it: CONDITION/GROUP.
        alert: String,
    },
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let alerts = SeatAlerts::below(&places::data_dir(args.data_dir.as_deref())?);
    match args.what {
        What::List => list(&alerts, args.json),
        What::Test { channel } => test(channels(args.config.as_deref())?, channel.as_deref(), args.json),
        What::Ack { alert } => acknowledge(&alerts, &alert),
    }
}

/// The channels of a configuration; none without one.
pub(crate) fn channels(config: Option<&Path>) -> Result<Vec<Channel>> {
    let Some(file) = places::config_file(config)? else { return Ok(Vec::new()) };
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let in_file = || format!("{}", file.display());
    let tables: toml::Table = toml::from_str(&text).with_context(in_file)?;
    let Some(alerts) = tables.get("alert").cloned() else { return Ok(Vec::new()) };
    let configs: Vec<ChannelConfig> = expanded(alerts).try_into().with_context(in_file)?;
    let local = TimeZone::system();
    configs.iter().map(|config| Channel::new(config, &lookup, &local).with_context(in_file)).collect()
}

fn lookup(source: Source<'_>) -> Option<String> {
    match source {
        Source::Environment(name) => std::env::var(name).ok(),
        Source::File(path) => fs::read_to_string(path).ok(),
    }
}

/// Puts environment variables in the place of `${NAME}`; an unset one stays as it is, and is then reported
/// by whoever reads the value.
fn expanded(value: toml::Value) -> toml::Value {
    match value {
        toml::Value::String(text) => {
            let mut parts = text.split("${");
            let mut whole = parts.next().unwrap_or_default().to_owned();
            for part in parts {
                match part.split_once('}').and_then(|(name, rest)| Some((std::env::var(name).ok()?, rest))) {
                    Some((value, rest)) => {
                        whole.push_str(&value);
                        whole.push_str(rest);
                    }
                    None => {
                        whole.push_str("${");
                        whole.push_str(part);
                    }
                }
            }
            toml::Value::String(whole)
        }
        toml::Value::Array(values) => toml::Value::Array(values.into_iter().map(expanded).collect()),
        toml::Value::Table(table) => {
            table.into_iter().map(|(name, value)| (name, expanded(value))).collect::<toml::Table>().into()
        }
        plain @ (toml::Value::Integer(_)
        | toml::Value::Float(_)
        | toml::Value::Boolean(_)
        | toml::Value::Datetime(_)) => plain,
    }
}

fn test(channels: Vec<Channel>, only: Option<&str>, as_json: bool) -> Result<ExitCode> {
    let names: Vec<String> = channels.iter().map(|channel| channel.name().to_owned()).collect();
    let chosen: Vec<Channel> =
        channels.into_iter().filter(|channel| only.is_none_or(|only| only == channel.name())).collect();
    if chosen.is_empty() {
        let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        bail!("no such channel; the configuration has: {known}");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let http = HttpClient::new(Duration::from_secs(10));
    let mut all_well = true;
    for channel in &chosen {
        let outcome = runtime.block_on(channel.deliver(&http, &Notice::test(Timestamp::now())));
        all_well &= outcome.is_ok();
        let (word, text) = match &outcome {
            Ok(receipt) => ("delivered", receipt.clone()),
            Err(error) => ("failed", error.to_string()),
        };
        if as_json {
            writeln!(
                io::stdout(),
                "{}",
                serde_json::json!({ "channel": channel.name(), "outcome": word, "answer": text })
            )?;
        } else {
            writeln!(io::stdout(), "{}: {word}: {text}", channel.name())?;
        }
    }
    Ok(if all_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn list(alerts: &SeatAlerts, as_json: bool) -> Result<ExitCode> {
    let open = alerts.on();
    if as_json {
        for (topic, episode) in &open {
            writeln!(
                io::stdout(),
                "{}",
                serde_json::json!({ "alert": topic.to_string(), "episode": episode })
            )?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if open.is_empty() {
        writeln!(io::stdout(), "nothing is wrong that a seat knows of")?;
    }
    for (topic, episode) in &open {
        let seen = if episode.acknowledged { ", seen" } else { "" };
        writeln!(
            io::stdout(),
            "{:<9} {topic}  since {:.0}, {} affected{seen}: {}",
            topic.condition.severity().as_str(),
            episode.opened,
            episode.count(),
            episode.detail
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

fn acknowledge(alerts: &SeatAlerts, alert: &str) -> Result<ExitCode> {
    let Some(topic) = Topic::parse(alert) else {
        bail!("{alert:?} is no alert; `backstop alerts list` shows them");
    };
    if !alerts.acknowledge(&topic)? {
        bail!("{alert} is not on; `backstop alerts list` shows what is");
    }
    writeln!(io::stdout(), "{alert}: no more reminders until it is over")?;
    Ok(ExitCode::SUCCESS)
}
