//! Failures beside the corpus: other words, other providers, other statuses for what the rules know.
//!
//! Written from the providers' documentation and from what people report, so that
//! they show whether rules read the kind of a failure or only one line of it.

use backstop_triage::{
    Catalog, Class, KeyAction, Settings, Timestamp, Window,
    wire::{Failure, Report},
};
use serde::Deserialize;

#[derive(Deserialize)]
struct Line {
    id: String,
    expected: Expected,
}

#[derive(Deserialize)]
struct Expected {
    class: Class,
    disable_key: Option<bool>,
    window: Option<Window>,
}

#[test]
fn reworded_failures_keep_their_class_their_window_and_the_fate_of_the_key() {
    let catalog = Catalog::embedded();
    let mut wrong = Vec::new();
    for text in include_str!("reworded.jsonl").lines() {
        let line: Line = serde_json::from_str(text).expect("every line says what is expected");
        let report = report(&catalog, text);
        if let Some(difference) = line.expected.differs(&report) {
            wrong.push(format!("{}: {difference} [{}]", line.id, report.rule));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

impl Expected {
    fn differs(&self, report: &Report) -> Option<String> {
        if report.class != self.class {
            return Some(format!("{} became {}", self.class, report.class));
        }
        let disables = report.key_action == KeyAction::Disable;
        if self.disable_key.is_some_and(|disable| disable != disables) {
            return Some(format!("the key's fate is {:?}", report.key_action));
        }
        (self.window.is_some() && self.window != report.window)
            .then(|| format!("{:?} became {:?}", self.window, report.window))
    }
}

fn report(catalog: &Catalog, text: &str) -> Report {
    Failure::parse(text)
        .expect("every line is a failure")
        .resolve(catalog, Timestamp::UNIX_EPOCH)
        .expect("every line is a failure")
        .report(catalog, &Settings::default())
        .expect("no line is a success")
}
