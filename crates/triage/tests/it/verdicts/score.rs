//! The corpus and how verdicts on it are scored: the same rules as for every other classifier.

use std::{collections::BTreeMap, fs, path::Path, sync::LazyLock};

use backstop_triage::{Catalog, Class, KeyAction, Settings, Timestamp, wire::Failure, wire::Report};
use serde_json::Value;

use super::now;

/// One line of the corpus.
#[derive(Clone)]
pub(super) struct Line {
    pub(super) id: String,
    pub(super) failure: Value,
    pub(super) class: Class,
    also: Vec<Class>,
    disable_key: bool,
    expected: Value,
}

impl Line {
    pub(super) fn report(&self, catalog: &Catalog) -> Report {
        report(catalog, &self.failure)
    }
}

pub(super) fn report(catalog: &Catalog, failure: &Value) -> Report {
    let case = Failure::parse(&failure.to_string()).and_then(|failure| failure.resolve(catalog, now()));
    case.and_then(|case| case.report(catalog, &Settings::default())).expect("every corpus line is a failure")
}

/// All lines of the corpus, in the order of files and lines.
pub(super) fn corpus() -> &'static [Line] {
    static CORPUS: LazyLock<Vec<Line>> = LazyLock::new(read_corpus);
    &CORPUS
}

fn read_corpus() -> Vec<Line> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let mut files: Vec<_> =
        fs::read_dir(folder).expect("the corpus").map(|file| file.expect("a file").path()).collect();
    files.sort();
    files
        .iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
        .flat_map(|path| {
            let text = fs::read_to_string(path).expect("UTF-8");
            text.lines().filter(|line| !line.trim().is_empty()).map(line).collect::<Vec<_>>()
        })
        .collect()
}

fn line(text: &str) -> Line {
    let failure: Value = serde_json::from_str(text).expect("JSON");
    let expected = failure["expected"].clone();
    let class = |value: &Value| value.as_str().and_then(Class::parse).expect("a class");
    Line {
        id: failure["id"].as_str().expect("an id").to_owned(),
        class: class(&expected["class"]),
        also: expected["also"].as_array().map(|also| also.iter().map(class).collect()).unwrap_or_default(),
        disable_key: expected["disable_key"].as_bool().unwrap_or_default(),
        failure,
        expected,
    }
}

/// How many verdicts were right, by class and by field, and which were wrong or harmful.
#[derive(Default)]
pub(super) struct Score {
    pub(super) lines: usize,
    pub(super) right: usize,
    pub(super) by_class: BTreeMap<Class, (usize, usize)>,
    pub(super) by_field: BTreeMap<&'static str, (usize, usize)>,
    pub(super) wrong: Vec<String>,
    pub(super) harmful: Vec<String>,
}

impl Score {
    pub(super) fn add(&mut self, line: &Line, report: &Report) {
        let accepted = report.class == line.class || line.also.contains(&report.class);
        let disables = report.key_action == KeyAction::Disable;
        self.lines += 1;
        let (right, of) = self.by_class.entry(line.class).or_default();
        *of += 1;
        if accepted {
            *right += 1;
            self.right += 1;
        } else {
            self.wrong.push(format!("{}: {} -> {} [{}]", line.id, line.class, report.class, report.rule));
        }
        if let Some(why) = harm(line, report.class, disables) {
            self.harmful
                .push(format!("{}: {} -> {} [{}]: {why}", line.id, line.class, report.class, report.rule));
        }
        self.fields(line, report, disables);
    }

    fn fields(&mut self, line: &Line, report: &Report, disables: bool) {
        let expected = &line.expected;
        let text = |name: &str| expected[name].as_str().map(str::to_owned);
        self.count("disable_key", disables == line.disable_key);
        if let Some(window) = text("window") {
            self.count("window", report.window.is_some_and(|given| given.as_str() == window));
        }
        if let Some(wanted) = expected["retry_after_s"].as_f64() {
            let close = |given: f64| (given - wanted).abs() <= f64::max(1.0, 0.02 * wanted);
            self.count("retry_after_s", report.retry_after_s.is_some_and(close));
        }
        if let Some(wanted) = text("reset_at").and_then(|at| at.parse::<Timestamp>().ok()) {
            let close = |given: Timestamp| given.duration_since(wanted).as_secs().abs() <= 60;
            self.count("reset_at", report.reset_at.is_some_and(close));
        }
        if report.class == line.class {
            self.count("scope", text("scope").as_deref() == Some(report.scope.as_str()));
            self.count("reason", text("reason").as_deref() == Some(report.reason.as_str()));
        }
    }

    fn count(&mut self, field: &'static str, right: bool) {
        let (rights, of) = self.by_field.entry(field).or_default();
        *rights += usize::from(right);
        *of += 1;
    }

    /// Right classes in per cent.
    pub(super) fn accuracy(&self) -> f64 {
        percent(self.right, self.lines)
    }

    pub(super) fn field(&self, name: &str) -> f64 {
        self.by_field.get(name).map_or(100.0, |(right, of)| percent(*right, *of))
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of a corpus are small")]
pub(super) fn percent(right: usize, of: usize) -> f64 {
    100.0 * right as f64 / of.max(1) as f64
}

/// What a verdict leads to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Deed {
    Return,
    RetrySame,
    NextModel,
    RestLong,
    RestShort,
    Disable,
    Rotate,
    Conservative,
}

fn deed(class: Class) -> Deed {
    match class {
        Class::RequestError | Class::ContextOverflow => Deed::Return,
        Class::TransientRequest | Class::Overloaded => Deed::RetrySame,
        Class::ModelError => Deed::NextModel,
        Class::QuotaExhausted => Deed::RestLong,
        Class::RateLimit => Deed::RestShort,
        Class::AuthError | Class::BillingExhausted => Deed::Disable,
        Class::ServerError | Class::Timeout | Class::NetworkError | Class::LocalFault => Deed::Rotate,
        Class::Unknown | Class::ConfigurationError => Deed::Conservative,
    }
}

/// Why a verdict hurts where the right one would not have.
fn harm(line: &Line, given: Class, disables: bool) -> Option<&'static str> {
    let good_key = disables && !line.disable_key;
    if line.also.contains(&given) && given != line.class {
        return good_key.then_some("disables a good key");
    }
    let (right, mut taken) = (deed(line.class), deed(given));
    if right == Deed::Disable && !line.disable_key {
        return good_key.then_some("disables a good key");
    }
    if taken == Deed::Disable && !disables {
        taken = Deed::Conservative;
    }
    match (right, taken) {
        (right, Deed::Disable) if right != Deed::Disable => Some("disables a good key"),
        (Deed::Disable, Deed::RetrySame) => Some("hammers a dead key"),
        (Deed::Disable, Deed::Rotate) => Some("keeps using a dead key"),
        (Deed::Disable, Deed::RestShort) => Some("keeps probing a dead key"),
        (Deed::Disable, Deed::Return) => Some("dead key stays first in line"),
        (Deed::RestLong, Deed::RetrySame | Deed::Rotate) => Some("hammers a full window"),
        (Deed::RestLong | Deed::RestShort | Deed::Rotate, Deed::Return) => {
            Some("client loses an answer another key had")
        }
        (Deed::RestShort, Deed::RetrySame) => Some("hammers a throttled key"),
        (Deed::RetrySame, Deed::Return) => Some("aborts what one retry would have saved"),
        (Deed::Return, Deed::RetrySame) => Some("repeats a request that can only fail"),
        (Deed::Return, Deed::Rotate) => Some("burns every key on a request that can only fail"),
        (Deed::Return, Deed::RestShort | Deed::RestLong) => Some("rests good keys for the request's fault"),
        (Deed::NextModel, Deed::RestLong) => Some("rests a good key for the model's fault"),
        (Deed::NextModel, Deed::RetrySame) => Some("hammers a model that is not there"),
        (Deed::Conservative, Deed::RetrySame | Deed::Rotate | Deed::RestShort) => {
            Some("unknown treated as eager")
        }
        _ => None,
    }
}
