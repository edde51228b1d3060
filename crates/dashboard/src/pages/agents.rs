//! Agents: the supervised processes, how each fares, and what has happened to one.

use askama::Template;
use axum::extract::{Query, State};
use backstop_triage::Class;
use http::HeaderMap;
use serde::Deserialize;

use super::{Page, filters, frame::Frame, render, times, words, words::Badge};
use crate::{
    actions::agents::{self, AgentView},
    app::App,
};

/// Which seat to look at.
#[derive(Deserialize)]
pub(super) struct Asked {
    #[serde(default)]
    seat: String,
}

#[derive(Template)]
#[template(path = "agents.html")]
struct Agents {
    frame: Frame,
    agents: Vec<AgentView>,
    /// The place of the seat that is looked at.
    shown: usize,
}

pub(super) async fn show(State(app): State<App>, headers: HeaderMap, Query(asked): Query<Asked>) -> Page {
    let agents = agents::list(&app).await?;
    let asked = agents.iter().position(|agent| agent.name == asked.seat);
    let shown = asked.or_else(|| agents.iter().position(|agent| agent.failures > 0)).unwrap_or(0);
    let frame = Frame::load(&app, &headers, "agents", "Agents").await?;
    render(&Agents { frame, agents, shown }, &headers)
}

impl Agents {
    fn one(&self) -> Option<&AgentView> {
        self.agents.get(self.shown)
    }

    fn summary(&self) -> String {
        let count = |state: &str| self.agents.iter().filter(|agent| agent.state == state).count();
        let broken = self.agents.iter().filter(|agent| agent.circuit == "open").count();
        let broken = match broken {
            0 => String::new(),
            1 => " One counts as broken.".to_owned(),
            many => format!(" {many} count as broken."),
        };
        let (running, resting, stopped) = (count("running"), count("resting"), count("stopped"));
        format!("{running} running, {resting} resting, {stopped} stopped.{broken}")
    }
}

fn state_badge(agent: &AgentView) -> Badge<'static> {
    match (agent.state, agent.circuit) {
        ("running", "open") => Badge::new("warn", "wave", "Running, on trial"),
        ("running", _) => Badge::new("ok", "check", "Running"),
        ("resting", _) => Badge::new("rest", "clock", "Resting"),
        (_, "open") => Badge::new("bad", "stop", "Stopped, broken"),
        (_, _) => Badge::new("off", "stop", "Stopped"),
    }
}

/// The class by its name.
fn class(name: &str) -> Class {
    Class::parse(name).unwrap_or(Class::Unknown)
}
