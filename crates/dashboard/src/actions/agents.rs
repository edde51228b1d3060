//! Supervised agents: the seats of `backstop run` that keep their state in the gateway's data folder.

use backstop_supervisor::{Incident, SeatLine, Seats};
use backstop_triage::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use crate::{app::App, problem::Answer};

/// A seat.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct AgentView {
    /// The seat's name.
    pub name: String,
    /// `running`, `resting` (it waits before it starts again) or `stopped` (no supervisor holds it).
    pub state: &'static str,
    /// The class of the latest failure since the last healthy run.
    pub class: Option<&'static str>,
    /// What exactly happened, in one word.
    pub reason: Option<String>,
    /// What the verdict stood on.
    pub rule: Option<String>,
    /// When it failed last.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub failed_at: Option<Timestamp>,
    /// Failures since the last healthy run.
    pub failures: u32,
    /// `open` (it counts as broken) or `closed`.
    pub circuit: &'static str,
    /// When its process may start again, after its own rest and that of its account.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub next_start: Option<Timestamp>,
    /// The account that it shares with other seats.
    pub account: Option<String>,
    /// Until when the account rests all its seats.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub account_rests_until: Option<Timestamp>,
    /// The rule pack that reads its failures.
    pub provider: Option<String>,
    /// The program, without its arguments.
    pub program: String,
    /// The process that runs, if one does.
    pub pid: Option<i32>,
    /// When that process, or the last one, was started.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub started: Option<Timestamp>,
    /// How often a process was started.
    pub runs: u64,
    /// The latest failures, newest first.
    pub history: Vec<IncidentView>,
}

/// A failure of a seat, and what was decided about it.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct IncidentView {
    /// When it happened.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// What kind of failure it was.
    pub class: &'static str,
    /// What exactly happened, in one word.
    pub reason: String,
    /// What the verdict stood on.
    pub rule: String,
    /// Which failure in a row it was.
    pub failures: u32,
    /// The rest that followed, in seconds.
    pub delay_s: u64,
    /// `open` or `closed`.
    pub circuit: &'static str,
}

/// Every seat by name.
pub async fn list(app: &App) -> Answer<Vec<AgentView>> {
    app.blocking(|app| {
        let seats = Seats::look(app.live.store().data_dir());
        Ok(seats.list(app.live.now()).into_iter().map(view).collect())
    })
    .await
}

fn view(line: SeatLine) -> AgentView {
    let SeatLine { name, phase, account_until, next_start, record } = line;
    let circuit = record.seat.circuit().as_str();
    let last = record.seat.last;
    AgentView {
        name: name.to_string(),
        state: phase.as_str(),
        class: last.as_ref().map(|last| last.class.as_str()),
        failed_at: last.as_ref().map(|last| last.at),
        rule: last.as_ref().map(|last| last.rule.clone()),
        reason: last.map(|last| last.reason),
        failures: record.seat.failures,
        circuit,
        next_start,
        account: record.account,
        account_rests_until: account_until,
        provider: record.provider,
        program: record.program,
        pid: record.child.map(|child| child.pid),
        started: record.started,
        runs: record.runs,
        history: record.history.into_iter().rev().map(incident).collect(),
    }
}

fn incident(incident: Incident) -> IncidentView {
    let Incident { at, class, reason, rule, failures, delay_s, circuit } = incident;
    IncidentView { at, class: class.as_str(), reason, rule, failures, delay_s, circuit: circuit.as_str() }
}
