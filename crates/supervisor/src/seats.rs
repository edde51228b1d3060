//! Seats on disk: one small JSON file each, and a lock that tells whether a supervisor holds it.

use std::{
    collections::BTreeMap,
    fmt, fs,
    path::{Path, PathBuf},
};

use backstop_triage::{
    Class, Timestamp,
    respawn::{Circuit, Decision, Seat},
};
use serde::{Deserialize, Serialize};

use crate::{
    AccountRest, SupervisorError,
    files::{self, Lock},
};

/// The folder of all seats and accounts.
#[derive(Clone, Debug)]
pub struct Seats {
    folder: PathBuf,
}

impl Seats {
    /// Opens (and makes) the folder below a data directory.
    pub fn open(data_dir: &Path) -> Result<Self, SupervisorError> {
        let folder = data_dir.join("seats");
        files::folder(&folder)?;
        files::folder(&data_dir.join("accounts"))?;
        Ok(Self { folder })
    }

    /// The folder as it is, for whoever only looks; it need not exist.
    pub fn look(data_dir: &Path) -> Self {
        Self { folder: data_dir.join("seats") }
    }

    /// Where the files of a seat lie, by extension.
    pub fn path(&self, name: &SeatName, extension: &str) -> PathBuf {
        self.folder.join(format!("{name}.{extension}"))
    }

    /// Every seat that has a file, by name.
    pub fn list(&self, now: Timestamp) -> Vec<SeatLine> {
        let Ok(entries) = fs::read_dir(&self.folder) else { return Vec::new() };
        let mut lines: Vec<SeatLine> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter_map(|file| SeatName::new(file.strip_suffix(".json")?).ok())
            .map(|name| self.line(name, now))
            .collect();
        lines.sort_by(|a, b| a.name.cmp(&b.name));
        lines
    }

    fn line(&self, name: SeatName, now: Timestamp) -> SeatLine {
        let record: SeatRecord = files::read(&self.path(&name, "json"));
        let held = matches!(Lock::try_take(&self.path(&name, "lock")), Ok(None));
        let own = record.seat.until.filter(|_| record.seat.waits(now).is_some());
        let account = record.account.as_deref().and_then(|account| self.account_rests(account, now));
        let next_start = own.max(account);
        let runs = record.child.is_some_and(ChildMark::lives) || next_start.is_none();
        let phase = match (held, runs) {
            (true, true) => Phase::Running,
            (true, false) => Phase::Resting,
            (false, _) => Phase::Stopped,
        };
        SeatLine { name, phase, account_until: account, next_start, record }
    }

    /// Until when an account rests all its seats.
    fn account_rests(&self, account: &str, now: Timestamp) -> Option<Timestamp> {
        let kept: AccountRest = files::read(&self.account_path(account, "json"));
        kept.rest.until.filter(|_| kept.rest.waits(now).is_some())
    }

    /// Takes a seat for this process; it stays taken until the handle is dropped or the process dies.
    pub(crate) fn take(&self, name: &SeatName) -> Result<HeldSeat, SupervisorError> {
        let Some(lock) = Lock::try_take(&self.path(name, "lock"))? else {
            return Err(SupervisorError::SeatTaken(name.clone()));
        };
        let path = self.path(name, "json");
        let record = files::read(&path);
        Ok(HeldSeat { path, record, _lock: lock })
    }

    pub(crate) fn account_path(&self, account: &str, extension: &str) -> PathBuf {
        let folder = self.folder.parent().unwrap_or(&self.folder).join("accounts");
        let file: String =
            account.chars().map(|c| if is_plain(c) && !account.starts_with('.') { c } else { '_' }).collect();
        folder.join(format!("{file}.{extension}"))
    }
}

/// A seat that this process supervises.
#[derive(Debug)]
pub(crate) struct HeldSeat {
    path: PathBuf,
    pub(crate) record: SeatRecord,
    _lock: Lock,
}

impl HeldSeat {
    /// Writes the record through to disk.
    pub(crate) fn keep(&self) -> Result<(), SupervisorError> {
        files::replace(&self.path, &self.record)
    }
}

/// What is kept of a seat.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SeatRecord {
    /// Its failures and its rest.
    #[serde(flatten)]
    pub seat: Seat,
    /// The program, without its arguments: those may hold secrets.
    pub program: String,
    /// The rule pack that reads its failures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The account that it shares with other seats.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// The process that runs, if one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub child: Option<ChildMark>,
    /// When that process, or the last one, was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<Timestamp>,
    /// How often a process was started.
    pub runs: u64,
    /// All failures so far, by class.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub failed: BTreeMap<Class, u64>,
    /// The latest failures, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Incident>,
}

impl SeatRecord {
    /// Remembers what was decided about a failure.
    pub(crate) fn remember(&mut self, decision: &Decision, now: Timestamp) {
        let surplus = (self.history.len() + 1).saturating_sub(INCIDENTS_KEPT);
        self.history.drain(..surplus);
        self.history.push(Incident::of(decision, now));
        *self.failed.entry(decision.class).or_default() += 1;
    }
}

/// A failure of a seat, and what was decided about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Incident {
    /// When it happened.
    pub at: Timestamp,
    /// What kind of failure it was.
    pub class: Class,
    /// What exactly happened, in one word.
    pub reason: String,
    /// What the verdict stood on.
    pub rule: String,
    /// Which failure in a row it was.
    #[serde(rename = "n")]
    pub failures: u32,
    /// The rest that followed, in seconds.
    pub delay_s: u64,
    /// Whether the seat counted as broken.
    pub circuit: Circuit,
}

impl Incident {
    fn of(decision: &Decision, at: Timestamp) -> Self {
        Self {
            at,
            class: decision.class,
            reason: decision.reason.clone(),
            rule: decision.rule.clone(),
            failures: decision.failures,
            delay_s: decision.delay_s,
            circuit: decision.circuit,
        }
    }
}

/// A process, told apart from later ones with the same number by its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildMark {
    /// Its process id, which is also its group.
    pub pid: i32,
    /// Its start in clock ticks since boot.
    pub born: u64,
}

impl ChildMark {
    /// The mark of a live process; `None` where the system does not tell.
    pub(crate) fn of(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The command's name may hold spaces and parentheses; the fields begin after its last one.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        Some(Self { pid, born: fields.get(19)?.parse().ok()? })
    }

    /// Whether the very same process still lives.
    pub(crate) fn lives(self) -> bool {
        Self::of(self.pid) == Some(self)
    }
}

/// A seat as `run --list` and the gateway's page show it.
#[derive(Clone, Debug, Serialize)]
pub struct SeatLine {
    /// Its name.
    pub name: SeatName,
    /// What it does at the moment.
    pub phase: Phase,
    /// Until when its account rests, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account_until: Option<Timestamp>,
    /// When it may start again, after its own rest and that of its account.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_start: Option<Timestamp>,
    /// What is kept of it.
    #[serde(flatten)]
    pub record: SeatRecord,
}

/// What a seat does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Its process runs.
    Running,
    /// It waits before it starts again.
    Resting,
    /// No supervisor holds it.
    Stopped,
}

impl Phase {
    /// The public name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Resting => "resting",
            Self::Stopped => "stopped",
        }
    }
}

/// A seat's name: also the stem of its files.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct SeatName(String);

impl SeatName {
    /// Checks a name.
    pub fn new(name: &str) -> Result<Self, SupervisorError> {
        let fits = (1..=64).contains(&name.len()) && name.chars().all(is_plain) && !name.starts_with('.');
        if fits { Ok(Self(name.to_owned())) } else { Err(SupervisorError::BadName(name.to_owned())) }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SeatName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '@')
}

/// Failures that a seat remembers.
const INCIDENTS_KEPT: usize = 20;
