//! Context length: how many tokens a model takes at one endpoint, from the first source that knows.
//!
//! Nine steps, each more general than the one before: what the user says; what was learned and is remembered;
//! what the endpoint itself, a local server, the provider's own API or a public list says of the model; what
//! its name says; what the embedded [`directory`] says; a default. Four of the steps ask over the network.
//! This module is pure: [`queries`] says what to ask, somebody asks outside any request, and [`resolve`]
//! reads the answers. Every step leaves a [`Trace`], so that `--explain` can show them all.

use std::{fmt, ops::RangeInclusive, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Timestamp;

pub mod directory;
pub mod learn;
pub mod metadata;
mod name;
mod query;

pub use directory::Directory;
pub use learn::{Cached, Origin, stated_limit};
pub use name::window_in_name;
pub use query::{Endpoint, Method, Query, is_local, queries};

/// What a model takes and gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// The window in tokens.
    pub context: u64,
    /// The most tokens of one answer, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output: Option<u64>,
}

/// The sources, in the order in which they are believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// The user's own word.
    Override,
    /// Learned facts and earlier answers.
    Cache,
    /// The active endpoint's metadata of the model.
    Endpoint,
    /// A local server's own query.
    LocalServer,
    /// The provider's models API.
    ProviderApi,
    /// A public list of models.
    PublicList,
    /// A suffix in the model's name.
    Name,
    /// The embedded directory.
    Directory,
    /// The setting `default_context`.
    Default,
}

impl Step {
    /// Every step, in order.
    pub const ALL: [Self; 9] = [
        Self::Override,
        Self::Cache,
        Self::Endpoint,
        Self::LocalServer,
        Self::ProviderApi,
        Self::PublicList,
        Self::Name,
        Self::Directory,
        Self::Default,
    ];

    /// The public name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Override => "override",
            Self::Cache => "cache",
            Self::Endpoint => "endpoint",
            Self::LocalServer => "local_server",
            Self::ProviderApi => "provider_api",
            Self::PublicList => "public_list",
            Self::Name => "name",
            Self::Directory => "directory",
            Self::Default => "default",
        }
    }

    /// How long a query of this step may take; `None` for steps that ask nobody.
    pub const fn time_limit(self) -> Option<Duration> {
        match self {
            Self::LocalServer => Some(Duration::from_secs(2)),
            Self::Endpoint => Some(Duration::from_secs(3)),
            Self::ProviderApi | Self::PublicList => Some(Duration::from_secs(5)),
            Self::Override | Self::Cache | Self::Name | Self::Directory | Self::Default => None,
        }
    }
}

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The model as the upstream names it.
    pub model: &'a str,
    /// The base URL of the endpoint, or the provider's name in the directory.
    pub place: &'a str,
    /// The user's override.
    pub fixed: Option<u64>,
    /// What is remembered of this model at this endpoint.
    pub cached: Option<Cached>,
    /// What was answered to the [`queries`].
    pub answers: &'a [Answer],
    /// The window when nobody knows.
    pub default: u64,
}

/// The answer to a query.
#[derive(Clone, Debug)]
pub struct Answer {
    /// What was asked.
    pub query: Query,
    /// The JSON that came back, or why none came.
    pub result: Result<Value, String>,
}

/// A window and where it comes from.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Resolution {
    /// The window in tokens.
    pub context: u64,
    /// The most tokens of one answer, from the first step that knows.
    pub max_output: Option<u64>,
    /// The step that knew the window.
    pub source: Step,
    /// Every step and what it said.
    pub steps: Vec<Trace>,
}

/// What one step said.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Trace {
    /// Which step.
    pub step: Step,
    /// The window that it knows.
    pub context: Option<u64>,
    /// The output limit that it knows.
    pub max_output: Option<u64>,
    /// How old the knowledge is, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_s: Option<u64>,
    /// How long it may take, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_limit_s: Option<u64>,
    /// Whom it asked and what came of it.
    pub detail: String,
}

/// The window of a model at an endpoint: the first step that knows, with all steps traced.
pub fn resolve(question: &Question<'_>, now: Timestamp) -> Resolution {
    let steps: Vec<Trace> = Step::ALL.into_iter().map(|step| trace(step, question, now)).collect();
    let first = steps.iter().find(|trace| trace.context.is_some());
    let (source, context) = first
        .and_then(|trace| Some((trace.step, trace.context?)))
        .unwrap_or((Step::Default, question.default));
    let max_output = steps.iter().find_map(|trace| trace.max_output).filter(|limit| *limit <= context);
    Resolution { context, max_output, source, steps }
}

fn trace(step: Step, question: &Question<'_>, now: Timestamp) -> Trace {
    let silent = |detail: &str| Trace {
        step,
        context: None,
        max_output: None,
        age_s: None,
        time_limit_s: step.time_limit().map(|limit| limit.as_secs()),
        detail: detail.to_owned(),
    };
    match step {
        Step::Override => match question.fixed {
            Some(window) => Trace { context: Some(window), ..silent("set by the configuration") },
            None => silent("none set"),
        },
        Step::Cache => cache_trace(question.cached, now, silent("nothing remembered")),
        Step::Endpoint | Step::LocalServer | Step::ProviderApi | Step::PublicList => {
            answer_trace(question, silent("not asked"))
        }
        Step::Name => match window_in_name(question.model) {
            Some(window) => Trace { context: Some(window), ..silent("a suffix of the name") },
            None => silent("no size in the name"),
        },
        Step::Directory => directory_trace(question, silent("not listed")),
        Step::Default => Trace { context: Some(question.default), ..silent("the setting default_context") },
    }
}

fn cache_trace(cached: Option<Cached>, now: Timestamp, silent: Trace) -> Trace {
    let Some(cached) = cached else { return silent };
    let age_s = u64::try_from(now.duration_since(cached.at).as_secs()).unwrap_or(0);
    let limit_s = Some(cached.origin.time_to_live().as_secs());
    if !cached.fresh(now) {
        let detail = format!("{}, too old to be believed", cached.origin.as_str());
        return Trace { age_s: Some(age_s), time_limit_s: limit_s, detail, ..silent };
    }
    Trace {
        context: Some(cached.limits.context),
        max_output: cached.limits.max_output,
        age_s: Some(age_s),
        time_limit_s: limit_s,
        detail: cached.origin.as_str().to_owned(),
        ..silent
    }
}

fn answer_trace(question: &Question<'_>, silent: Trace) -> Trace {
    let asked = question.answers.iter().filter(|answer| answer.query.step == silent.step);
    let mut details = Vec::new();
    for answer in asked {
        let Query { method, url, .. } = &answer.query;
        let who = format!("{} {url}", method.as_str());
        let body = match &answer.result {
            Ok(body) => body,
            Err(error) => {
                details.push(format!("{who}: {error}"));
                continue;
            }
        };
        if let Some(limits) = metadata::read(body, question.model, answer.query.alone()) {
            return Trace {
                context: Some(limits.context),
                max_output: limits.max_output,
                detail: who,
                ..silent
            };
        }
        details.push(format!("{who}: says nothing about it"));
    }
    if details.is_empty() { silent } else { Trace { detail: details.join("; "), ..silent } }
}

fn directory_trace(question: &Question<'_>, silent: Trace) -> Trace {
    let Some(entry) = Directory::embedded().find(question.place, question.model) else { return silent };
    let how = if entry.exact { "row" } else { "nearest row" };
    let disputed = entry.disputed.map(|larger| format!(", another source says {larger}")).unwrap_or_default();
    let detail = format!("{how} {}{disputed}", entry.row);
    Trace { context: Some(entry.context), max_output: entry.max_output, detail, ..silent }
}

impl fmt::Display for Resolution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
        writeln!(
            f,
            "{:<13} {:>9} {:>9} {:>9} {:>9}  detail",
            "step", "context", "output", "age_s", "limit_s"
        )?;
        for trace in &self.steps {
            let mark = if trace.step == self.source { "  <-- used" } else { "" };
            writeln!(
                f,
                "{:<13} {:>9} {:>9} {:>9} {:>9}  {}{mark}",
                trace.step.as_str(),
                number(trace.context),
                number(trace.max_output),
                number(trace.age_s),
                number(trace.time_limit_s),
                trace.detail,
            )?;
        }
        Ok(())
    }
}

/// The window when nobody knows (`default_context`).
pub const DEFAULT_CONTEXT: u64 = 128_000;
/// The range that windows have; anything else is a mistake.
pub const SANE: RangeInclusive<u64> = 1_024..=10_000_000;

#[cfg(test)]
mod tests;
