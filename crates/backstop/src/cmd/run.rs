//! `backstop run`: supervise a process that talks to a model.

use std::{
    ffi::OsString,
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use backstop_supervisor::{
    Event, Finish, Job, Policy, Program, SeatLine, SeatName, Seats, Signals, Terminal, Watch,
};
use backstop_triage::{
    Catalog, Evidence, ProviderId, Timestamp, Verdict,
    respawn::{self, Jitter},
};
use serde_json::json;

use super::{own_rules, places};

mod trouble;

use trouble::Trouble;

/// Runs a command, and after a failure starts it again when that makes sense.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Shows all seats and ends.
    #[arg(long, conflicts_with = "command")]
    list: bool,
    /// The seat's name; by default made of the command and the folder.
    #[arg(long, value_name = "SEAT")]
    name: Option<String>,
    /// The provider that the command talks to: a rule pack or one of its names; by default the command's name.
    #[arg(long, value_name = "ID")]
    provider: Option<String>,
    /// The account that this seat shares with others: a full window or an empty purse of one rests all.
    #[arg(long)]
    account: Option<String>,
    /// When to start again.
    #[arg(long, value_enum, default_value_t = Restart::OnFailure)]
    policy: Restart,
    /// Runs once and tells by the exit status how it went: 75 come back later, 77 credentials or money,
    /// 78 set-up or model, 65 the request itself, 69 unknown. While the seat rests, nothing is started.
    #[arg(long)]
    once: bool,
    /// A run at least this long clears all failures.
    #[arg(long, value_name = "SECONDS", default_value_t = respawn::HEALTHY_AFTER.as_secs())]
    healthy_after: u64,
    /// Stops a run that takes longer, as a timeout.
    #[arg(long, value_name = "SECONDS")]
    time_limit: Option<u64>,
    /// How long the command may take to end when asked to, before it is killed.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    grace: u64,
    /// Does not spread the seats of a fleet.
    #[arg(long)]
    no_jitter: bool,
    /// Gives the command pipes even on a terminal.
    #[arg(long)]
    no_pty: bool,
    /// Writes decisions (or the list) as JSON, one object a line.
    #[arg(long)]
    json: bool,
    /// Where seats are kept.
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
    /// The configuration whose `[[alert]]` channels hear of trouble.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The command and its arguments.
    #[arg(last = true, required_unless_present = "list")]
    command: Vec<OsString>,
}

/// When to start again.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Restart {
    /// After a failure.
    OnFailure,
    /// After an exit with 0 too.
    Always,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let data_dir = places::data_dir(args.data_dir.as_deref(), args.config.as_deref())?;
    let seats = Seats::open(&data_dir)?;
    if args.list {
        return list(&seats, args.json);
    }
    let config = places::config_file(args.config.as_deref());
    let rules = config.as_deref().and_then(own_rules::beside);
    let (catalog, _) = own_rules::load(rules.as_deref())?;
    let job = args.job(&catalog)?;
    let channels = super::alerts::channels(config.as_deref())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let finish = runtime.block_on(async {
        let trouble = Arc::new(Trouble::new(&data_dir, &job, channels)?);
        let ticking = tokio::spawn(Arc::clone(&trouble).tick());
        let finish = supervise(&seats, &job, &catalog, (&trouble, args.json)).await;
        ticking.abort();
        trouble.finish(matches!(finish, Ok(Finish::Done))).await;
        finish
    });
    // A reader that does not take our output must not keep us from ending.
    runtime.shutdown_background();
    Ok(match finish? {
        Finish::Done => ExitCode::SUCCESS,
        Finish::Failed(class) => ExitCode::from(respawn::exit_code(class)),
        Finish::Signal(signal) => ExitCode::from(128_u8.saturating_add(u8::try_from(signal).unwrap_or(0))),
    })
}

async fn supervise(
    seats: &Seats,
    job: &Job,
    catalog: &Catalog,
    (trouble, as_json): (&Trouble, bool),
) -> Result<Finish> {
    let pack = ProviderId::from(job.provider.clone().unwrap_or_else(|| NO_PROVIDER.to_owned()));
    let classify = |evidence: &Evidence| -> Verdict { catalog.classify(&pack, evidence, Timestamp::now()) };
    let mut observe = |event: Event| {
        if let Some(line) = line(&event, job.name.as_str(), as_json) {
            eprintln!("{line}");
        }
        trouble.hear(&event);
    };
    let mut signals = Signals::watch()?;
    Ok(Watch::new(seats, job, &classify, &mut observe)?.run(&mut signals).await?)
}

impl Args {
    fn job(&self, catalog: &Catalog) -> Result<Job> {
        let [program, arguments @ ..] = self.command.as_slice() else { bail!("no command given") };
        let base = PathBuf::from(program);
        let base = base.file_name().unwrap_or(program).to_string_lossy().into_owned();
        let provider = match &self.provider {
            Some(named) => Some(catalog.resolve(named).with_context(|| {
                format!("no rule pack knows {named:?}; `backstop rules list` shows them")
            })?),
            None => catalog.resolve(&base),
        };
        let seconds = Duration::from_secs;
        Ok(Job {
            name: match &self.name {
                Some(name) => SeatName::new(name)?,
                None => self.usual_name(&base)?,
            },
            program: Program {
                program: program.clone(),
                arguments: arguments.to_vec(),
                time_limit: self.time_limit.map(seconds),
                grace: seconds(self.grace),
                terminal: if self.no_pty { Terminal::Never } else { Terminal::AsOurs },
            },
            provider: provider.map(ToString::to_string),
            account: self.account.clone(),
            policy: match (self.once, self.policy) {
                (true, _) => Policy::Once,
                (false, Restart::OnFailure) => Policy::OnFailure,
                (false, Restart::Always) => Policy::Always,
            },
            healthy_after: seconds(self.healthy_after),
            jitter: if self.no_jitter { Jitter::Off } else { Jitter::PerSeat },
        })
    }

    /// The same command in the same folder is the same seat.
    fn usual_name(&self, base: &str) -> Result<SeatName> {
        let folder = std::env::current_dir().context("the working folder is gone; use --name")?;
        let whole = format!("{}\0{:?}", folder.display(), self.command);
        let plain: String =
            base.chars().filter(|c| c.is_ascii_alphanumeric() || "-_".contains(*c)).take(40).collect();
        Ok(SeatName::new(&format!("{plain}-{:08x}", respawn::fnv1a(whole.as_bytes())))?)
    }
}

/// The log line of an event.
fn line(event: &Event, seat: &str, as_json: bool) -> Option<String> {
    let (text, object) = match event {
        Event::Started { .. } => return None,
        Event::Failed { decision, .. } => {
            let mut object = serde_json::to_value(decision).ok()?;
            object["event"] = json!("failed");
            (decision.to_string(), object)
        }
        Event::EndedOrphan { pid } => (
            format!("seat={seat} event=ended_orphan pid={pid}"),
            json!({ "event": "ended_orphan", "seat": seat, "pid": pid }),
        ),
        Event::Rests { until, account, class } => {
            let class = class.map_or("unknown", backstop_triage::Class::as_str);
            let of = account.as_deref().map(|account| format!(" account={account}")).unwrap_or_default();
            (
                format!("seat={seat} event=rests class={class}{of} until={until:.0}"),
                json!({ "event": "rests", "seat": seat, "class": class, "account": account, "until": until }),
            )
        }
        Event::OtherTries { account } => (
            format!("seat={seat} event=other_seat_tries account={account}"),
            json!({ "event": "other_seat_tries", "seat": seat, "account": account }),
        ),
        Event::Healthy => {
            (format!("seat={seat} event=healthy circuit=closed"), json!({ "event": "healthy", "seat": seat }))
        }
    };
    Some(if as_json { object.to_string() } else { text })
}

fn list(seats: &Seats, as_json: bool) -> Result<ExitCode> {
    let lines = seats.list(Timestamp::now());
    if as_json {
        for line in &lines {
            writeln!(io::stdout(), "{}", serde_json::to_string(line)?)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if lines.is_empty() {
        writeln!(io::stdout(), "no seats yet; `backstop run -- COMMAND` takes one")?;
        return Ok(ExitCode::SUCCESS);
    }
    let width = lines.iter().map(|line| line.name.as_str().len()).max().unwrap_or(0).max(4);
    writeln!(
        io::stdout(),
        "{:<width$}  {:<8} {:<20} {:>3}  {:<20}  {:<12} COMMAND",
        "SEAT",
        "PHASE",
        "LAST",
        "N",
        "UNTIL",
        "ACCOUNT"
    )?;
    for SeatLine { name, phase, record, next_start, account_until: _ } in &lines {
        let last = record.seat.last.as_ref().map_or("-", |last| last.class.as_str());
        let until = next_start.map_or_else(|| "-".to_owned(), |until| format!("{until:.0}"));
        writeln!(
            io::stdout(),
            "{name:<width$}  {:<8} {last:<20} {:>3}  {until:<20}  {:<12} {}",
            phase.as_str(),
            record.seat.failures,
            record.account.as_deref().unwrap_or("-"),
            record.program,
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The pack of a command that no pack knows: only the generic rules speak.
const NO_PROVIDER: &str = "generic";
