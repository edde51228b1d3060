//! What it came to: what clients saw, and what the upstream suffered for it.

use std::collections::BTreeMap;
use std::time::Duration;

use backstop_faultd::Call;

use super::screen::{Keys, because};
use super::traffic::{Ask, Outcome, Seen, Wish};

/// Provider and label of each key, by its secret: the demo's secrets are none.
pub(super) type Names = BTreeMap<String, (String, String)>;

/// What clients saw so far.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) asked: u64,
    answered: u64,
    returned: u64,
    told: u64,
    wrong: Vec<String>,
    wrong_count: u64,
    moved_on: u64,
    took: Vec<Duration>,
}

impl Tally {
    pub(super) fn add(&mut self, ask: Ask, seen: Seen) {
        self.asked += 1;
        self.moved_on += u64::from(seen.attempts > 1);
        match seen.outcome {
            Outcome::Answered => {
                self.answered += 1;
                if self.took.len() < KEPT_TIMES {
                    self.took.push(seen.took);
                }
            }
            Outcome::Returned => self.returned += 1,
            Outcome::ToldOfCut => self.told += 1,
            Outcome::Wrong(what) => {
                self.wrong_count += 1;
                if self.wrong.len() < KEPT_WRONGS {
                    self.wrong.push(format!("{ask}: {what}"));
                }
            }
        }
    }

    /// Whether every client saw what it should.
    pub(super) fn is_clean(&self) -> bool {
        self.wrong_count == 0
    }

    /// How it stands, in one line.
    pub(super) fn line(&self) -> String {
        let Self { asked, answered, moved_on, wrong_count, .. } = self;
        format!(
            "{asked} requests, {answered} answered, {moved_on} of them after a failure nobody saw, {wrong_count} wrong"
        )
    }

    /// The summary at the end.
    pub(super) fn summary(&self, (keys, names): (&Keys, &Names), calls: &[Call], time: Duration) -> String {
        let mut text =
            format!("\n{} requests in {:.1} s. What clients saw:\n", self.asked, time.as_secs_f64());
        let mut line = |count: u64, what: &str| text += &format!("  {count:>6}  {what}\n");
        line(self.answered, "whole answers, word for word");
        line(self.returned, "malformed requests, returned with the provider's own words");
        line(self.told, "streams cut after content, told as an error and never as an end");
        line(self.wrong_count, "failures that they should not have seen");
        self.wrong.iter().for_each(|wrong| text += &format!("          {wrong}\n"));
        if let Some((median, longest)) = self.times() {
            text += &format!("  median {median:.0?}, longest {longest:.1?}\n");
        }
        text + &upstream(keys, calls, names)
    }

    fn times(&self) -> Option<(Duration, Duration)> {
        let mut took = self.took.clone();
        took.sort();
        Some((*took.get(took.len() / 2)?, *took.last()?))
    }
}

/// What the provider suffered: calls, failed ones, and each key that failed. What a request brought on itself is not
/// held against a key.
fn upstream(keys: &Keys, calls: &[Call], names: &Names) -> String {
    // Every rule of the script is a way to fail; the usual answer and the limits have none.
    let failed = |call: &Call| call.rule.is_some() || call.status >= 400;
    let mut by_key: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for call in calls.iter().filter(|call| call.model.as_deref() == Some(Wish::Answer.model())) {
        let (all, bad) = by_key.entry(call.key.as_deref().unwrap_or_default()).or_default();
        *all += 1;
        *bad += u64::from(failed(call));
    }
    let mut text = format!(
        "\nWhat the upstream suffered: {} calls, {} of them refused or broken off. Keys that failed:\n",
        calls.len(),
        calls.iter().filter(|call| failed(call)).count()
    );
    for (provider, keys) in keys {
        for key in keys {
            let name = names.iter().find(|(_, (of, label))| of == provider.as_str() && *label == key.label);
            let Some((all, bad)) = name.and_then(|(secret, _)| by_key.get(secret.as_str())) else { continue };
            if *bad > 0 {
                let state = key.why.as_ref().map_or_else(String::new, |why| format!(": {}", because(why)));
                let (provider, label) = (provider.as_str(), &key.label);
                text +=
                    &format!("  {provider:4} {label:24} {bad:>4} of {all:<4} calls  {}{state}\n", key.state);
            }
        }
    }
    text
}

const KEPT_WRONGS: usize = 10;

const KEPT_TIMES: usize = 1_000_000;
