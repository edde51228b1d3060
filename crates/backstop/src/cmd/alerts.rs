//! `backstop alerts`: what is on, whether a channel works, and "I have seen it".

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context as _, Result, anyhow, bail};
use backstop_alerts::{Channel, ChannelConfig, HttpClient, Notice, Source};
use backstop_gateway::config::Environment;
use backstop_supervisor::SeatAlerts;
use backstop_triage::{
    Timestamp,
    alert::{Episode, Topic},
};
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::{
    api::{Connect, items, text},
    places,
};

/// Shows alerts, tests channels, acknowledges.
///
/// `list` and `ack` ask the gateway, which knows its own alerts and those of the seats of `backstop run` beside it;
/// where none answers, the seats alone.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  backstop alerts list
  backstop alerts ack provider_down/house
  backstop alerts test on-call")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
    /// The configuration with the `[[alert]]` tables.
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    connect: Connect,
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

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let config = args.config.as_deref();
    let seats = || Ok::<_, anyhow::Error>(SeatAlerts::below(&args.connect.data_dir(config)?));
    match &args.what {
        What::List => list(&seats()?, &args.connect),
        What::Test { channel } => test(channels(config)?, channel.as_deref(), args.connect.json),
        What::Ack { alert } => acknowledge(&seats()?, &args.connect, alert),
    }
}

/// The channels of a configuration; none without one.
pub(crate) fn channels(config: Option<&Path>) -> Result<Vec<Channel>> {
    let Some(file) = places::config_file(config) else { return Ok(Vec::new()) };
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let in_file = || format!("{}", file.display());
    let tables: toml::Table = toml::from_str(&text).with_context(in_file)?;
    let Some(alerts) = tables.get("alert").cloned() else { return Ok(Vec::new()) };
    let configs: Vec<ChannelConfig> = expanded(alerts, &Environment::of_process())
        .and_then(|alerts| Ok(alerts.try_into()?))
        .with_context(in_file)?;
    let local = TimeZone::system();
    configs.iter().map(|config| Channel::new(config, &lookup, &local).with_context(in_file)).collect()
}

fn lookup(source: Source<'_>) -> Option<String> {
    match source {
        Source::Environment(name) => std::env::var(name).ok(),
        Source::File(path) => fs::read_to_string(path).ok(),
    }
}

/// Puts environment variables in the place of `${NAME}` and `${NAME:-text}`.
fn expanded(value: toml::Value, environment: &Environment) -> Result<toml::Value> {
    Ok(match value {
        toml::Value::String(text) => {
            let expanded = environment.expand(&text);
            expanded.map_err(|error| anyhow!("{error}; {}", error.fix()))?.into()
        }
        toml::Value::Array(values) => {
            values.into_iter().map(|value| expanded(value, environment)).collect::<Result<Vec<_>>>()?.into()
        }
        toml::Value::Table(table) => table
            .into_iter()
            .map(|(name, value)| Ok((name, expanded(value, environment)?)))
            .collect::<Result<toml::Table>>()?
            .into(),
        plain @ (toml::Value::Integer(_)
        | toml::Value::Float(_)
        | toml::Value::Boolean(_)
        | toml::Value::Datetime(_)) => plain,
    })
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

fn list(seats: &SeatAlerts, connect: &Connect) -> Result<ExitCode> {
    let gateway = connect.open().and_then(|api| api.get("/alerts"));
    let of_seats = || seats.on().iter().map(|(topic, episode)| of_seat(topic, episode)).collect();
    let open: Vec<Value> =
        gateway.as_ref().map_or_else(|_| of_seats(), |alerts| items(alerts).cloned().collect());
    let mut out = io::stdout().lock();
    if connect.json {
        open.iter().try_for_each(|alert| writeln!(out, "{alert}"))?;
        return Ok(ExitCode::SUCCESS);
    }
    if open.is_empty() {
        let whom = if gateway.is_ok() { "the gateway" } else { "a seat" };
        writeln!(out, "nothing is wrong that {whom} knows of")?;
    }
    for alert in &open {
        let seen = if alert["acknowledged"] == true { ", seen" } else { "" };
        let since = text(alert, "since").parse::<Timestamp>().map_or(String::new(), |at| format!("{at:.0}"));
        let [severity, name, count, detail] =
            ["severity", "alert", "count", "detail"].map(|field| text(alert, field));
        writeln!(out, "{severity:<9} {name}  since {since}, {count} affected{seen}: {detail}")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// An alert of a seat in the form in which the gateway tells its own.
fn of_seat(topic: &Topic, episode: &Episode) -> Value {
    json!({
        "alert": topic.to_string(),
        "severity": topic.condition.severity().as_str(),
        "since": episode.opened,
        "count": episode.count(),
        "detail": episode.detail,
        "acknowledged": episode.acknowledged,
    })
}

fn acknowledge(seats: &SeatAlerts, connect: &Connect, alert: &str) -> Result<ExitCode> {
    let Some(topic) = Topic::parse(alert) else {
        bail!("{alert:?} is no alert; `backstop alerts list` shows them");
    };
    if !seats.acknowledge(&topic)? {
        let told = connect.open().and_then(|api| api.post("/alerts/ack", &json!({ "alert": alert })));
        told.with_context(|| format!("{alert} is not on; `backstop alerts list` shows what is"))?;
    }
    writeln!(io::stdout(), "{alert}: no more reminders until it is over")?;
    Ok(ExitCode::SUCCESS)
}
