//! Asks servers about their models' windows, and remembers what they said and what failures taught.
//!
//! `backstop_triage::context` knows what to ask and how to read the answers; this crate does the asking and
//! keeps the cache. A request asks [`Windows::window`], which never waits; somebody in the background calls
//! [`Windows::ask`], which asks once for each (model, endpoint) however many want to know.
//!
//! ```text
//!   request ---> window() --> override, cache, name, directory, default      (no network)
//!   later   ---> ask()   ---> the same with four network steps   ---> cache
//!   failure ---> overflowed() · answer ---> answered()           ---> cache corrected
//!   later   ---> save()                                          ---> file
//! ```

use std::{
    collections::BTreeMap,
    fs,
    future::Future,
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use backstop_http::{HttpClient, HttpError, HttpReply};
use backstop_triage::{
    Timestamp,
    context::{self, Answer, Cached, Endpoint, Limits, Method, Origin, Query, Question, Resolution, Step},
};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The windows of all models that anybody has asked about.
#[derive(Debug)]
pub struct Windows {
    file: Option<PathBuf>,
    memory: Mutex<BTreeMap<Place, Cached>>,
    /// Whether memory holds what the file does not.
    unsaved: AtomicBool,
    settled: Mutex<BTreeMap<Place, Window>>,
    asking: Mutex<BTreeMap<Place, Arc<tokio::sync::Mutex<()>>>>,
}

/// A model at an endpoint.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The model as the upstream names it.
    pub model: &'a str,
    /// Where it is served.
    pub endpoint: Endpoint<'a>,
    /// The user's override.
    pub fixed: Option<u64>,
    /// The window when nobody knows (`default_context`).
    pub default: u64,
}

/// A window without its story.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Tokens.
    pub context: u64,
    /// The most tokens of one answer, where known.
    pub max_output: Option<u64>,
    /// The step that knew it.
    pub source: Step,
}

/// Puts questions to servers, within the time limit of their step.
pub trait Asker {
    /// Puts one question.
    fn put(&self, query: &Query) -> impl Future<Output = Result<HttpReply, HttpError>> + Send;
}

/// Asks straight away, with the provider's credential where a question wants it.
#[derive(Clone, Debug)]
pub struct Direct<'a> {
    /// The client.
    pub http: HttpClient,
    /// What carries the credential.
    pub headers: &'a [(&'a str, String)],
}

impl Asker for Direct<'_> {
    async fn put(&self, query: &Query) -> Result<HttpReply, HttpError> {
        let http = self.http.within(query.step.time_limit().unwrap_or_default());
        let headers = if query.authorised { self.headers } else { &[] };
        match query.method {
            Method::Get => http.get(&query.url, headers).await,
            Method::Post => {
                let body = query.body.as_ref().map(ToString::to_string).unwrap_or_default();
                http.post_json(&query.url, headers, body).await
            }
        }
    }
}

impl Windows {
    /// Opens the cache; a missing or damaged file is an empty one. Without a file nothing survives.
    pub fn open(file: Option<&Path>) -> Self {
        let lines = file.and_then(|file| fs::read(file).ok()).unwrap_or_default();
        let lines: Vec<Line> = serde_json::from_slice(&lines).unwrap_or_default();
        let memory = lines.into_iter().map(|line| (line.place, line.cached)).collect();
        Self {
            file: file.map(Path::to_owned),
            memory: Mutex::new(memory),
            unsaved: AtomicBool::new(false),
            settled: Mutex::default(),
            asking: Mutex::default(),
        }
    }

    /// The window alone, for a request that passes: an override, what is remembered, or what name, directory and
    /// default say, which is worked out once.
    pub fn window(&self, subject: &Subject<'_>, now: Timestamp) -> Window {
        if let Some(context) = subject.fixed {
            return Window { context, max_output: None, source: Step::Override };
        }
        let place = Place::of(subject);
        if let Some(cached) = self.memory.lock().get(&place).filter(|cached| cached.fresh(now)) {
            let Limits { context, max_output } = cached.limits;
            return Window { context, max_output, source: Step::Cache };
        }
        let mut settled = self.settled.lock();
        if settled.len() >= SETTLED_KEPT {
            settled.clear();
        }
        *settled.entry(place).or_insert_with(|| {
            let question = Question { cached: None, ..self.question(subject, &[]) };
            let Resolution { context, max_output, source, .. } = context::resolve(&question, now);
            Window { context, max_output, source }
        })
    }

    /// What is known without asking anybody, with every step.
    pub fn known(&self, subject: &Subject<'_>, now: Timestamp) -> Resolution {
        self.resolve(subject, &[], now)
    }

    /// Whether asking may tell more than is known: no override stands and nothing fresh is remembered.
    pub fn worth_asking(&self, subject: &Subject<'_>, now: Timestamp) -> bool {
        let fresh = self.memory.lock().get(&Place::of(subject)).is_some_and(|cached| cached.fresh(now));
        subject.fixed.is_none() && !fresh
    }

    /// Asks the servers, step by step until one knows, and remembers the answer. Whoever asks the same
    /// meanwhile waits for this answer.
    pub async fn ask(&self, subject: &Subject<'_>, asker: &impl Asker, now: Timestamp) -> Resolution {
        let place = Place::of(subject);
        let turn = Arc::clone(self.asking.lock().entry(place.clone()).or_default());
        let resolution = {
            let _turn = turn.lock().await;
            if self.worth_asking(subject, now) {
                let answers = Self::answers(subject, asker).await;
                let resolution = self.resolve(subject, &answers, now);
                self.remember(&place, &resolution, subject, now);
                resolution
            } else {
                self.known(subject, now)
            }
        };
        drop(turn);
        self.asking.lock().retain(|_, turn| Arc::strong_count(turn) > 1);
        resolution
    }

    /// An overflow taught or disproved something. `text` is what the error said.
    pub fn overflowed(&self, subject: &Subject<'_>, text: &str, prompt_tokens: Option<u64>, now: Timestamp) {
        let place = Place::of(subject);
        let kept = self.memory.lock().get(&place).copied();
        let corrected = match kept {
            Some(cached) => cached.after_overflow(text, prompt_tokens, now),
            None => Cached::learned(text, now),
        };
        self.correct(&place, kept, corrected);
    }

    /// A prompt of so many tokens, as the provider counted them, was answered.
    pub fn answered(&self, subject: &Subject<'_>, prompt_tokens: u64) {
        let place = Place::of(subject);
        let kept = self.memory.lock().get(&place).copied();
        self.correct(&place, kept, kept.and_then(|cached| cached.after_answer(prompt_tokens)));
    }

    /// Writes what was found out since the last time to the file. Blocks; not for the path of a request.
    pub fn save(&self) {
        let Some(file) = &self.file else { return };
        if !self.unsaved.swap(false, Ordering::AcqRel) {
            return;
        }
        let memory = self.memory.lock().clone();
        if let Err(error) = write(file, &memory) {
            tracing::warn!(file = %file.display(), %error, "what is known of windows cannot be kept");
        }
    }

    fn resolve(&self, subject: &Subject<'_>, answers: &[Answer], now: Timestamp) -> Resolution {
        context::resolve(&self.question(subject, answers), now)
    }

    fn question<'a>(&self, subject: &Subject<'a>, answers: &'a [Answer]) -> Question<'a> {
        Question {
            model: subject.model,
            place: subject.endpoint.base_url,
            fixed: subject.fixed,
            cached: self.memory.lock().get(&Place::of(subject)).copied(),
            answers,
            default: subject.default,
        }
    }

    async fn answers(subject: &Subject<'_>, asker: &impl Asker) -> Vec<Answer> {
        let mut answers = Vec::new();
        let mut silent_host = None;
        for query in context::queries(subject.endpoint, subject.model) {
            // A host that cannot be reached is not asked a second time.
            if silent_host.as_deref().is_some_and(|host| query.url.contains(&format!("://{host}/"))) {
                continue;
            }
            let result = asker.put(&query).await;
            if let Err(HttpError::Unreachable { host, .. } | HttpError::TimedOut { host, .. }) = &result {
                silent_host = Some(host.clone());
            }
            answers.push(Answer { query, result: json_of(result) });
            let question = Question {
                model: subject.model,
                place: "",
                fixed: None,
                cached: None,
                answers: &answers,
                default: subject.default,
            };
            if NETWORK_STEPS.contains(&context::resolve(&question, Timestamp::UNIX_EPOCH).source) {
                break;
            }
        }
        answers
    }

    fn remember(&self, place: &Place, resolution: &Resolution, subject: &Subject<'_>, now: Timestamp) {
        // What was learned while the question was under way is newer than its answer.
        let learned_meanwhile = self.memory.lock().get(place).is_some_and(|cached| cached.fresh(now));
        if learned_meanwhile || !NETWORK_STEPS.contains(&resolution.source) {
            return;
        }
        let local = context::is_local(subject.endpoint.base_url);
        let origin = if local { Origin::AskedLocally } else { Origin::Asked };
        let limits = Limits { context: resolution.context, max_output: resolution.max_output };
        self.correct(place, None, Some(Cached { limits, origin, at: now }));
    }

    fn correct(&self, place: &Place, kept: Option<Cached>, corrected: Option<Cached>) {
        if kept == corrected {
            return;
        }
        let mut memory = self.memory.lock();
        match corrected {
            Some(cached) => memory.insert(place.clone(), cached),
            None => memory.remove(place),
        };
        self.unsaved.store(true, Ordering::Release);
    }
}

/// The cache's key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Place {
    base_url: String,
    model: String,
}

impl Place {
    fn of(subject: &Subject<'_>) -> Self {
        let base_url = subject.endpoint.base_url.trim_end_matches('/').to_owned();
        Self { base_url, model: subject.model.to_owned() }
    }
}

/// One fact in the file.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    #[serde(flatten)]
    place: Place,
    #[serde(flatten)]
    cached: Cached,
}

fn json_of(reply: Result<HttpReply, HttpError>) -> Result<Value, String> {
    let reply = reply.map_err(|error| error.to_string())?;
    if !(200..300).contains(&reply.status) {
        return Err(format!("status {}", reply.status));
    }
    serde_json::from_slice(&reply.body).map_err(|_| "no JSON".to_owned())
}

fn write(file: &Path, memory: &BTreeMap<Place, Cached>) -> io::Result<()> {
    let lines = memory.iter().map(|(place, cached)| Line { place: place.clone(), cached: *cached });
    let text = serde_json::to_vec_pretty(&lines.collect::<Vec<_>>())?;
    let fresh = file.with_extension("new");
    let mut writer = fs::File::create(&fresh)?;
    writer.write_all(&text)?;
    writer.sync_all()?;
    fs::rename(&fresh, file)
}

/// Models that anybody asked for; names come from clients, so that there may be any number.
const SETTLED_KEPT: usize = 4_096;
const NETWORK_STEPS: [Step; 4] = [Step::Endpoint, Step::LocalServer, Step::ProviderApi, Step::PublicList];
