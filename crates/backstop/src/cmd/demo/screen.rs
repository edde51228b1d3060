//! What a person sees of the demo: a table that redraws itself on a terminal, plain lines elsewhere.

#![expect(clippy::print_stdout, reason = "what the demo shows goes to standard output")]

use std::collections::{BTreeMap, VecDeque};
use std::io::{IsTerminal as _, Write as _, stdout};

use backstop_triage::pool::{KeyState, KeyStatus, Why};
use backstop_triage::{KeyId, ProviderId, Timestamp};

use super::summary::Tally;

/// All keys of all providers.
pub(super) type Keys = Vec<(ProviderId, Vec<KeyStatus>)>;

/// The place where the demo shows itself.
pub(super) struct Screen {
    terminal: bool,
    colours: bool,
    title: String,
    states: BTreeMap<(ProviderId, KeyId), KeyState>,
    changes: VecDeque<String>,
    drawn: usize,
    told: u64,
}

impl Screen {
    pub(super) fn new(title: String) -> Self {
        let terminal = stdout().is_terminal();
        let colours = terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let (states, changes) = Default::default();
        Self { terminal, colours, title, states, changes, drawn: 0, told: 0 }
    }

    /// Shows the title, where there is no table to show it.
    pub(super) fn open(&self) {
        if !self.terminal {
            println!("{}", self.title);
        }
    }

    /// Shows how things stand.
    pub(super) fn show(&mut self, keys: &Keys, tally: &Tally, now: Timestamp) {
        let changes = self.changes(keys, now);
        if self.terminal {
            self.changes.extend(changes);
            while self.changes.len() > CHANGES_SHOWN {
                self.changes.pop_front();
            }
            return self.draw(keys, tally, now);
        }
        changes.iter().for_each(|change| println!("{change}"));
        if tally.asked / LINE_EVERY > self.told {
            self.told = tally.asked / LINE_EVERY;
            println!("{}  {}", clock(now), tally.line());
        }
    }

    /// Leaves the last table standing.
    pub(super) fn close(&mut self) {
        if self.terminal && self.drawn > 0 {
            print!("{SHOW_CURSOR}");
            println!();
        }
    }

    fn changes(&mut self, keys: &Keys, now: Timestamp) -> Vec<String> {
        let mut changes = Vec::new();
        for (provider, keys) in keys {
            for key in keys {
                let place = (provider.clone(), key.id);
                let before = self.states.insert(place, key.state).unwrap_or(KeyState::Active);
                if before == key.state {
                    continue;
                }
                let until =
                    key.until.map_or_else(String::new, |until| format!(", back {}", ahead(until, now)));
                let why = key.why.as_ref().map_or_else(String::new, |why| format!(": {}", because(why)));
                changes.push(format!(
                    "{}  {:4} {:24} {before} -> {}{until}{why}",
                    clock(now),
                    provider.as_str(),
                    key.label,
                    key.state
                ));
            }
        }
        changes
    }

    fn draw(&mut self, keys: &Keys, tally: &Tally, now: Timestamp) {
        let mut lines = vec![self.bold(&self.title), tally.line(), String::new()];
        lines.push(self.bold(&format!(
            "{:4} {:24} {:11} {:>9} {:>6} {:>6}  {}",
            "", "key", "state", "back", "calls", "failed", "why"
        )));
        for (provider, keys) in keys {
            lines.extend(keys.iter().map(|key| self.row(provider, key, now)));
        }
        lines.push(String::new());
        lines.extend(self.changes.iter().cloned());
        let mut text = String::from(HIDE_CURSOR);
        if self.drawn > 0 {
            text += &format!("\x1b[{}A", self.drawn);
        }
        for line in &lines {
            text += &format!("\r{line}\x1b[K\n");
        }
        self.drawn = lines.len();
        print!("{text}\x1b[J");
        let _ = stdout().flush();
    }

    fn row(&self, provider: &ProviderId, key: &KeyStatus, now: Timestamp) -> String {
        // A key that serves all models but some shows the first of those.
        let model = key.models.first().filter(|_| key.why.is_none());
        let until = key.until.or_else(|| model?.until);
        let back = until.map_or_else(String::new, |until| ahead(until, now));
        let why = match (&key.why, model) {
            (Some(why), _) => because(why),
            (None, Some(rest)) => {
                format!("model {}: {}", rest.model, rest.why.as_ref().map_or_else(String::new, because))
            }
            (None, None) => String::new(),
        };
        let state = self.coloured(key.state, &format!("{:11}", key.state.as_str()));
        format!(
            "{:4} {:24} {state} {back:>9} {:>6} {:>6}  {why}",
            provider.as_str(),
            key.label,
            key.counters.attempts,
            key.counters.failures
        )
    }

    fn bold(&self, text: &str) -> String {
        if self.colours { format!("\x1b[1m{text}\x1b[0m") } else { text.to_string() }
    }

    fn coloured(&self, state: KeyState, text: &str) -> String {
        let colour = match state {
            KeyState::Active => 32,
            KeyState::Unstable | KeyState::HalfOpen | KeyState::Resting => 33,
            KeyState::Quarantined => 35,
            KeyState::Disabled => 31,
            KeyState::Paused => 36,
        };
        if self.colours { format!("\x1b[{colour}m{text}\x1b[0m") } else { text.to_string() }
    }
}

/// A failure in a few words: class, reason, and the window if it names one.
pub(super) fn because(why: &Why) -> String {
    let window = why.window.map_or_else(String::new, |window| format!(", {window}"));
    format!("{} {}{window}", why.class, why.reason)
}

fn clock(now: Timestamp) -> String {
    let text = now.to_string();
    text.get(11..19).unwrap_or(&text).to_string()
}

fn ahead(until: Timestamp, now: Timestamp) -> String {
    let seconds = until.duration_since(now).as_secs().max(0);
    match seconds {
        0..120 => format!("in {seconds} s"),
        120..7200 => format!("in {} min", seconds / 60),
        _ => format!("in {} h", seconds / 3600),
    }
}

const HIDE_CURSOR: &str = "\x1b[?25l";

const SHOW_CURSOR: &str = "\x1b[?25h";

const CHANGES_SHOWN: usize = 8;

const LINE_EVERY: u64 = 50;
