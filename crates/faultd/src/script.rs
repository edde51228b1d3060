//! The script: which request gets which reply.
//!
//! Rules are read from the top; the first whose conditions hold answers. A rule counts the requests that meet its
//! conditions, whichever rule answers them, so "the first" and "the third" of a key mean what a reader expects.
//! Where no rule fits, limits are charged, and then the usual answer goes out.

use std::ops::{Bound, RangeBounds};
use std::time::Duration;

use crate::reply::Reply;

/// What a scripted provider does.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    pub(crate) rules: Vec<Rule>,
    pub(crate) limits: Vec<Limit>,
    pub(crate) greetings: Vec<(Span, Greeting)>,
    pub(crate) models: Vec<String>,
    pub(crate) keys: Vec<String>,
    pub(crate) otherwise: Reply,
    pub(crate) keep_calls: usize,
}

/// One line of a script.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rule {
    pub(crate) when: When,
    pub(crate) reply: Reply,
}

/// The conditions of a rule; all that are given must hold.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct When {
    pub(crate) key: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) path: Option<String>,
    pub(crate) method: Option<String>,
    pub(crate) streaming: Option<bool>,
    pub(crate) nth: Span,
}

/// A range of counts that begin at 1; empty bounds are open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Span {
    pub(crate) first: Option<u64>,
    pub(crate) last: Option<u64>,
}

/// What happens to a connection before anything is read from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Greeting {
    /// It is accepted, and never read.
    Silent,
    /// It is reset.
    Reset,
    /// It is closed.
    Close,
}

/// A limit that behaves like a real one: good answers are counted, and past the limit the reply is another.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    pub(crate) key: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) requests: u64,
    pub(crate) window: Option<Duration>,
    pub(crate) reply: Reply,
    pub(crate) announced: bool,
}

impl Default for Script {
    fn default() -> Self {
        Self::new()
    }
}

impl Script {
    /// Makes a script that answers every request well.
    #[must_use]
    pub fn new() -> Self {
        Self {
            rules: Vec::new(),
            limits: Vec::new(),
            greetings: Vec::new(),
            models: DEFAULT_MODELS.map(String::from).to_vec(),
            keys: Vec::new(),
            otherwise: Reply::answer(),
            keep_calls: DEFAULT_KEPT_CALLS,
        }
    }

    /// Adds a rule below those there are.
    #[must_use]
    pub fn on(mut self, when: When, reply: Reply) -> Self {
        self.rules.push(Rule { when, reply });
        self
    }

    /// Adds a limit; every limit that fits a request is charged for it.
    #[must_use]
    pub fn limit(mut self, limit: Limit) -> Self {
        self.limits.push(limit);
        self
    }

    /// Treats connections of these numbers, counted from 1, in an unfriendly way.
    #[must_use]
    pub fn greet(mut self, connections: impl RangeBounds<u64>, greeting: Greeting) -> Self {
        self.greetings.push((Span::of(&connections), greeting));
        self
    }

    /// Lists these models.
    #[must_use]
    pub fn models<M: Into<String>>(mut self, models: impl IntoIterator<Item = M>) -> Self {
        self.models = models.into_iter().map(Into::into).collect();
        self
    }

    /// Accepts these keys only: others get a 401. Keys that a rule names need no mention.
    #[must_use]
    pub fn keys<K: Into<String>>(mut self, keys: impl IntoIterator<Item = K>) -> Self {
        self.keys = keys.into_iter().map(Into::into).collect();
        self
    }

    /// Replies so where no rule and no limit speaks.
    #[must_use]
    pub fn otherwise(mut self, reply: Reply) -> Self {
        self.otherwise = reply;
        self
    }

    /// Keeps the newest `calls` calls in the log; 0 keeps none and is fastest.
    #[must_use]
    pub fn keep_calls(mut self, calls: usize) -> Self {
        self.keep_calls = calls;
        self
    }
}

/// Holds for every request.
#[must_use]
pub fn any() -> When {
    When::default()
}

/// Holds for requests with this key, in whichever header or query parameter it comes.
#[must_use]
pub fn key(key: impl Into<String>) -> When {
    When { key: Some(key.into()), ..When::default() }
}

/// Holds for requests for this model.
#[must_use]
pub fn model(model: impl Into<String>) -> When {
    When { model: Some(model.into()), ..When::default() }
}

/// Holds for requests whose path (without its query) ends in this text.
#[must_use]
pub fn path(end: impl Into<String>) -> When {
    When { path: Some(end.into()), ..When::default() }
}

impl When {
    /// Holds only for this key too.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Holds only for this model too.
    #[must_use]
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// Holds only for paths with this end too.
    #[must_use]
    pub fn path(mut self, end: impl Into<String>) -> Self {
        self.path = Some(end.into());
        self
    }

    /// Holds only for this method too.
    #[must_use]
    pub fn method(mut self, method: impl Into<String>) -> Self {
        self.method = Some(method.into());
        self
    }

    /// Holds only for requests that ask for a stream.
    #[must_use]
    pub fn streaming(mut self) -> Self {
        self.streaming = Some(true);
        self
    }

    /// Holds only for requests that ask for no stream.
    #[must_use]
    pub fn plain(mut self) -> Self {
        self.streaming = Some(false);
        self
    }

    /// Holds only for the request of this number, counted from 1, among those that meet the other conditions.
    #[must_use]
    pub fn nth(self, number: u64) -> Self {
        self.between(number..=number)
    }

    /// Holds only for the requests of these numbers, counted from 1, among those that meet the other conditions.
    #[must_use]
    pub fn between(mut self, numbers: impl RangeBounds<u64>) -> Self {
        self.nth = Span::of(&numbers);
        self
    }
}

impl Span {
    fn of(range: &impl RangeBounds<u64>) -> Self {
        let first = match range.start_bound() {
            Bound::Included(first) => Some(*first),
            Bound::Excluded(before) => Some(before.saturating_add(1)),
            Bound::Unbounded => None,
        };
        let last = match range.end_bound() {
            Bound::Included(last) => Some(*last),
            Bound::Excluded(after) => Some(after.saturating_sub(1)),
            Bound::Unbounded => None,
        };
        Self { first, last }
    }

    pub(crate) fn holds(self, number: u64) -> bool {
        self.first.is_none_or(|first| number >= first) && self.last.is_none_or(|last| number <= last)
    }

    pub(crate) fn is_open(self) -> bool {
        self == Self::default()
    }
}

impl Limit {
    /// Lets each key make so many requests in a window that begins with the first of them, then answers 429 with the
    /// time of the reset, in the headers of the request's shape.
    #[must_use]
    pub fn per_window(requests: u64, window: Duration) -> Self {
        Self {
            key: None,
            model: None,
            requests,
            window: Some(window),
            reply: Reply::error(429, "rate_limit_exceeded", "Rate limit reached for requests"),
            announced: true,
        }
    }

    /// Lets each key make so many requests in a minute.
    #[must_use]
    pub fn per_minute(requests: u64) -> Self {
        Self::per_window(requests, Duration::from_secs(60))
    }

    /// Lets each key make so many requests in all: money that does not renew.
    #[must_use]
    pub fn balance(requests: u64) -> Self {
        let message = "You exceeded your current quota, please check your plan and billing details.";
        Self {
            window: None,
            announced: false,
            reply: Reply::error(429, "insufficient_quota", message),
            ..Self::per_minute(requests)
        }
    }

    /// Counts this key only.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Counts requests for this model only.
    #[must_use]
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// Replies so past the limit. In header values and in bytes given as a body, `{{reset_s}}`, `{{reset_at}}`
    /// (RFC 3339), `{{reset_epoch}}`, `{{limit}}` and `{{remaining}}` are filled in.
    #[must_use]
    pub fn reply(mut self, reply: Reply) -> Self {
        self.reply = reply;
        self
    }

    /// Adds no headers of its own, neither to good answers nor to the reply past the limit.
    #[must_use]
    pub fn silent(mut self) -> Self {
        self.announced = false;
        self
    }
}

const DEFAULT_MODELS: [&str; 3] = ["model-large", "model-small", "model-embed"];

const DEFAULT_KEPT_CALLS: usize = 100_000;
