//! `backstop demo`: a provider whose keys fail in every way, the gateway in front of it, clients that notice nothing.
//!
//! Everything runs in this process and on loopback: a scripted provider (`demo/provider.toml`), the gateway
//! (`demo/backstop.toml`) with its state in a folder that is gone afterwards, and steady traffic from clients that
//! check every word of every answer. It ends with a non-zero exit if one of them saw what it should not have seen.

mod screen;
mod summary;
mod traffic;

use std::io::{IsTerminal as _, stdout};
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use backstop_faultd::{Client, Faultd, Script};
use backstop_gateway::config::{Config, Environment};
use backstop_gateway::{Control, Gateway, Running};
use backstop_store::Store;
use backstop_triage::Catalog;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use self::screen::{Keys, Screen};
use self::summary::{Names, Tally};
use self::traffic::{Ask, Seen};

/// Shows the gateway at work: no key, no network.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Stops after this many requests; by default it goes on until Ctrl-C on a terminal, and stops after 200 elsewhere.
    #[arg(long, value_name = "N")]
    exit_after: Option<u64>,
    /// Requests a second.
    #[arg(long, value_name = "N", default_value_t = 25, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rate: u32,
}

/// Runs the demo.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(play(args))
}

#[expect(clippy::print_stdout, reason = "the summary goes to standard output")]
async fn play(args: &Args) -> Result<ExitCode> {
    let folder = tempfile::tempdir().context("cannot make a folder for the demo's state")?;
    let script = Script::from_toml(&include_str!("demo/provider.toml").replace("@ANSWER@", ANSWER))?;
    let upstream = Faultd::start(script).await.context("cannot open a port on loopback")?;
    let config = include_str!("demo/backstop.toml")
        .replace("@DATA@", &folder.path().join("data").display().to_string())
        .replace("@CLIENT@", CLIENT_KEY)
        .replace("@UPSTREAM@", &upstream.addr().to_string());
    let gateway = start(&config)?;
    let control = gateway.control();
    let limit = args.exit_after.or_else(|| (!stdout().is_terminal()).then_some(REQUESTS_ELSEWHERE));
    let mut screen = Screen::new(format!(
        "backstop demo: gateway on http://{}, a provider that fails by script behind it; Ctrl-C ends it",
        gateway.addr()
    ));
    screen.open();
    let started = Instant::now();
    let traffic = Traffic { gateway: gateway.addr(), rate: args.rate, limit: limit.unwrap_or(u64::MAX) };
    let tally = watch(&control, &mut screen, traffic).await;
    let time = started.elapsed();
    let keys = keys(&control);
    screen.show(&keys, &tally, control.now());
    screen.close();
    print!("{}", tally.summary((&keys, &names(&config)?), &upstream.log(), time));
    gateway.shutdown().await;
    Ok(if tally.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn start(config: &str) -> Result<Running> {
    let catalog = Catalog::embedded();
    let config =
        Config::parse(config, Path::new("demo/backstop.toml"), &Environment::of_process(), &catalog)?;
    let store = Store::open(&config.server.data_dir)?;
    Ok(Gateway { config, store, catalog, mount: None }.start()?)
}

fn names(config: &str) -> Result<Names> {
    let config: toml::Table = config.parse()?;
    let text =
        |table: &toml::Value, field: &str| table.get(field).and_then(toml::Value::as_str).map(String::from);
    let list =
        |value: Option<&toml::Value>| value.and_then(toml::Value::as_array).cloned().unwrap_or_default();
    let mut names = Names::new();
    for provider in list(config.get("provider")) {
        for key in list(provider.get("key")) {
            if let (Some(id), Some(label), Some(secret)) =
                (text(&provider, "id"), text(&key, "label"), text(&key, "value"))
            {
                names.insert(secret, (id, label));
            }
        }
    }
    Ok(names)
}

fn keys(control: &Control) -> Keys {
    control.providers().into_iter().map(|provider| (provider.clone(), control.keys(&provider))).collect()
}

/// How much is asked, and of whom.
#[derive(Clone, Copy)]
struct Traffic {
    gateway: SocketAddr,
    rate: u32,
    limit: u64,
}

/// Lets the clients ask until enough is asked or a person has seen enough.
async fn watch(control: &Control, screen: &mut Screen, traffic: Traffic) -> Tally {
    let (seen, mut arrived) = mpsc::unbounded_channel();
    let asking = tokio::spawn(ask_all(traffic, seen));
    let mut tally = Tally::default();
    let mut frame = interval(FRAME);
    frame.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            next = arrived.recv() => match next {
                Some((ask, seen)) => tally.add(ask, seen),
                None => break,
            },
            _ = frame.tick() => screen.show(&keys(control), &tally, control.now()),
            _ = tokio::signal::ctrl_c() => break,
        }
    }
    asking.abort();
    tally
}

/// Asks at a steady rate, whatever the answers do; a client that is free takes the next request.
async fn ask_all(traffic: Traffic, seen: mpsc::UnboundedSender<(Ask, Seen)>) {
    let mut pace = interval(Duration::from_secs(1) / traffic.rate);
    let mut asking = JoinSet::new();
    let mut free: Vec<Client> = Vec::new();
    for number in 0..traffic.limit {
        pace.tick().await;
        while let Some(Ok(client)) = asking.try_join_next() {
            free.push(client);
        }
        if asking.len() >= CLIENTS
            && let Some(Ok(client)) = asking.join_next().await
        {
            free.push(client);
        }
        let mut client = free.pop().unwrap_or_else(|| Client::new(traffic.gateway));
        let seen = seen.clone();
        asking.spawn(async move {
            let ask = Ask::numbered(number);
            let request = ask.request(traffic.gateway, CLIENT_KEY);
            let saw = ask.ask(&mut client, &request, ANSWER).await;
            let _ = seen.send((ask, saw));
            client
        });
    }
    while asking.join_next().await.is_some() {}
}

const ANSWER: &str = "Every word of this answer came through, in order, whichever keys failed on the way.";

/// The credential of the demo's clients; it opens a gateway that lives as long as the demo, on loopback.
const CLIENT_KEY: &str = "bsk_demo_0000000000000000000000000000";

const REQUESTS_ELSEWHERE: u64 = 200;

/// Requests under way at once.
const CLIENTS: usize = 64;

const FRAME: Duration = Duration::from_millis(200);
