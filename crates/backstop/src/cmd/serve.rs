//! `backstop serve`: the gateway, until a signal stops it.

use std::{
    io::{self, IsTerminal as _},
    net::SocketAddr,
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result};
use backstop_dashboard::{
    Dashboard, PasswordError,
    live::Live,
    prepare_password, prepare_token,
    running::{Base, ComposeError, ReadError, Running, Slot, Source, compose},
    token_file,
};
use backstop_gateway::{Control, Gateway, Running as Serving, StartError, config::Config};
use backstop_store::{OpenError, Store};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use super::{
    seen::Seen,
    setup::{Setup, SetupError},
};
use crate::redaction::{Redaction, tell_panics};

/// Runs the gateway.
///
/// Without a configuration it takes the usual environment keys (OPENAI_API_KEY, ANTHROPIC_API_KEY …; NAME_1, NAME_2 …
/// and lists separated by commas are several keys). A client key is made at the first start and shown once.
///
/// SIGHUP, and a change of the file or of a rule pack in the folder `rules` beside it, read the configuration and the
/// packs again; a wrong one is told in the log and changes nothing. SIGTERM stops
/// accepting, lets open requests finish for [server] drain_s, and ends. A set-up that cannot work exits with 78.
#[derive(Clone, clap::Args)]
#[command(after_help = "Try it:
  OPENAI_API_KEY=sk-… backstop serve
  curl http://127.0.0.1:3030/v1/chat/completions -H \"authorization: Bearer $CLIENT_KEY\" \\
    -d '{\"model\": \"openai/gpt-5-nano\", \"messages\": [{\"role\": \"user\", \"content\": \"hello\"}]}'

`backstop check --example` prints a configuration with every setting explained.")]
pub(crate) struct Args {
    /// The configuration; default: ~/.config/backstop/backstop.toml, if it is there.
    #[arg(long, value_name = "FILE", env = "BACKSTOP_CONFIG")]
    config: Option<PathBuf>,
    /// The address to listen on, in place of the configuration's; may be repeated.
    #[arg(long, value_name = "ADDRESS")]
    listen: Vec<SocketAddr>,
    /// The folder of keys, health and history, in place of the configuration's.
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
    /// A file with the password of the dashboard, in place of the configuration's.
    #[arg(long, value_name = "FILE", env = "BACKSTOP_ADMIN_PASSWORD_FILE")]
    admin_password_file: Option<PathBuf>,
    /// What is logged: error, warn, info, debug, or a filter such as `backstop_gateway=debug`.
    #[arg(long, value_name = "FILTER", env = "BACKSTOP_LOG", default_value = "info")]
    log: String,
    /// How it is logged; by default as text on a terminal, and as JSON lines elsewhere.
    #[arg(long, value_enum, value_name = "FORMAT", env = "BACKSTOP_LOG_FORMAT", default_value_t = LogFormat::Auto)]
    log_format: LogFormat,
}

/// The formats of the log.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum LogFormat {
    /// Text on a terminal, JSON elsewhere.
    Auto,
    /// For people.
    Text,
    /// One object a line.
    Json,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    log_to_stderr(&args.log, args.log_format)?;
    give_memory_back();
    match run_to_the_end(args) {
        Err(error) if is_permanent(&error) => {
            eprintln!("backstop: {}", Redaction::of_process().text(&format!("{error:#}")));
            Ok(ExitCode::from(EX_CONFIG))
        }
        ended => ended.map(|()| ExitCode::SUCCESS),
    }
}

fn run_to_the_end(args: &Args) -> Result<()> {
    let (setup, store) = prepare(args)?;
    for warning in &setup.config.warnings {
        tracing::warn!(line = warning.line, fix = warning.fix, "{}", warning.what);
    }
    Redaction::of_process().learn(&setup.config, &setup.catalog, &store);
    // Before anything takes time: a change from here on is noticed.
    let seen = Seen::of(setup.config.file.as_deref(), setup.rules.as_deref());
    let began_blank = setup.config.file.is_some() && setup.config.is_blank;
    let (config, catalog) = compose(base(setup), &store)?;
    let new_token = prepare_token(&store).unwrap_or_else(|error| {
        tracing::error!(%error, "no admin token can be made; it is made at the next start");
        None
    });
    let slot = Slot::default();
    let mount = Some(slot.mount(store.clone()));
    let gateway = Gateway { config: config.clone(), store: store.clone(), catalog, mount }.start()?;
    let source = source(args, began_blank, store.clone());
    let live = Running::new(gateway.control(), source, Arc::clone(&config.settings));
    let live = Arc::new(live);
    let dashboard = Dashboard::new(Arc::clone(&live) as Arc<dyn Live>);
    slot.fill(dashboard.clone());
    greet(&gateway, &config);
    // The link is a credential for ten minutes; a log keeps longer.
    if let Some(address) = gateway.addresses().first().filter(|_| io::stderr().is_terminal()) {
        eprintln!("  dashboard      http://{address}{}", dashboard.sign_in_path());
    }
    if new_token.is_some() {
        eprintln!("  admin token    in {}", token_file(store.data_dir()).display());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // The rest of it, with every key, lives where it is used.
    let drain = config.server.drain;
    drop(config);
    runtime.block_on(serve(gateway, &live, (drain, seen)))?;
    store.close();
    Ok(())
}

/// What the file says, for the admin side to read again whenever something was changed.
///
/// A file that has become empty is being written, or was lost: it takes nothing out of force.
fn source(args: &Args, began_blank: bool, store: Store) -> Source {
    let args = args.clone();
    Arc::new(move || {
        let mut setup = Setup::load(args.config.as_deref()).map_err(|error| format!("{error:#}"))?;
        let is_lost = setup.config.is_blank && !began_blank;
        if let Some(file) = setup.config.file.as_deref().filter(|_| is_lost) {
            let file = file.display();
            return Err(format!(
                "{file}: the file is empty\n  fix: put the configuration back; to go on without one, start the gateway again"
            ));
        }
        overlay(&args, &mut setup.config);
        Redaction::of_process().learn(&setup.config, &setup.catalog, &store);
        Ok(base(setup))
    })
}

fn base(setup: Setup) -> Base {
    Base { config: setup.config, packs: setup.packs }
}

fn prepare(args: &Args) -> Result<(Setup, Store)> {
    let mut setup = Setup::load(args.config.as_deref())?;
    overlay(args, &mut setup.config);
    let server = &setup.config.server;
    let store = Store::open_with(&server.data_dir, &server.key_source)?;
    let has_password = prepare_password(&store, server.admin_password_file.as_deref())?;
    let wide = server.listen.iter().find(|address| !address.ip().is_loopback());
    if let Some(address) = wide.filter(|_| !has_password) {
        return Err(SetupError::NoPassword(*address).into());
    }
    Ok((setup, store))
}

/// Puts the flags over the configuration.
fn overlay(args: &Args, config: &mut Config) {
    if !args.listen.is_empty() {
        config.server.listen.clone_from(&args.listen);
    }
    if let Some(folder) = &args.data_dir {
        config.server.data_dir.clone_from(folder);
    }
    if let Some(file) = &args.admin_password_file {
        config.server.admin_password_file = Some(file.clone());
    }
}

/// Whether starting again cannot help until a person has changed something.
fn is_permanent(error: &anyhow::Error) -> bool {
    error.is::<SetupError>()
        || matches!(error.downcast_ref(), Some(ComposeError::Rules(_)))
        || error.downcast_ref().is_some_and(OpenError::is_permanent)
        || error.downcast_ref().is_some_and(StartError::is_permanent)
        || error.downcast_ref().is_some_and(PasswordError::is_permanent)
}

/// Says on stderr what a person needs in the first minute. The client key appears here and nowhere else.
fn greet(running: &Serving, config: &Config) {
    for address in running.addresses() {
        eprintln!("backstop listens on http://{address}");
    }
    match &config.file {
        Some(file) => eprintln!("  configuration  {}", file.display()),
        None => eprintln!("  configuration  none; the environment names the providers"),
    }
    if config.providers.is_empty() {
        eprintln!("  providers      none yet: export OPENAI_API_KEY or the like, or write a configuration");
        eprintln!("                 (`backstop check --example` prints one to begin with)");
    }
    let width = config
        .providers
        .iter()
        .map(|provider| provider.id.as_str().len())
        .max()
        .unwrap_or(0)
        .max("configuration".len());
    for provider in &config.providers {
        let keys = running.control().keys(&provider.id).len();
        let plural = if keys == 1 { "key" } else { "keys" };
        eprintln!("  {:width$}  {keys} {plural}, {}", provider.id, provider.base_url);
    }
    if let Some(key) = running.first_client_key() {
        eprintln!("  client key     {}", key.expose());
        eprintln!(
            "                 shown this once; send it as `Authorization: Bearer`, `x-api-key` or `x-goog-api-key`"
        );
    }
}

async fn serve(running: Serving, live: &Running, (drain, mut seen): (Duration, Seen)) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let control = running.control();
    let mut look = tokio::time::interval(LOOK_EVERY);
    loop {
        tokio::select! {
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            _ = hangup.recv() => reload(&control, live),
            _ = look.tick() => if seen.changed() { reload(&control, live) },
        }
    }
    tracing::info!(seconds = drain.as_secs(), "stopping; open requests may finish");
    running.shutdown().await;
    Ok(())
}

fn reload(control: &Control, live: &Running) {
    match live.read_again() {
        Ok(()) => tracing::info!("the configuration was read again"),
        Err(error @ ReadError::Password(_)) => tracing::error!("{error}"),
        Err(error @ ReadError::Refused(_)) => {
            control.reload_refused();
            tracing::error!("{error}");
        }
    }
}

/// Has a thread of the allocator return what a peak left behind; without it, only threads that go on allocating do.
fn give_memory_back() {
    #[cfg(feature = "jemalloc")]
    {
        use tikv_jemalloc_ctl::{background_thread, max_background_threads};
        if let Err(error) = max_background_threads::write(1).and_then(|()| background_thread::write(true)) {
            tracing::debug!(%error, "the allocator keeps what was freed");
        }
    }
}

fn log_to_stderr(filter: &str, format: LogFormat) -> Result<()> {
    let filter = EnvFilter::try_new(filter)
        .with_context(|| format!("--log {filter} is no filter; try info, debug or backstop_gateway=debug"))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(Redaction::of_process());
    let as_text = match format {
        LogFormat::Auto => io::stderr().is_terminal(),
        LogFormat::Text => true,
        LogFormat::Json => false,
    };
    if as_text {
        builder.with_ansi(io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none()).init();
    } else {
        builder.json().flatten_event(true).init();
    }
    tell_panics();
    Ok(())
}

const EX_CONFIG: u8 = 78;
const LOOK_EVERY: Duration = Duration::from_secs(2);
