//! The mind of the provider: which reply a request gets, what the limits say, what is written down.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::log::{Call, Counters, Ended, hash};
use crate::render::{Aspect, Form};
use crate::reply::{Body, How, Point, Reply};
use crate::request::Request;
use crate::script::{Greeting, Limit, Script, When};
use crate::shape::{Operation, Shape, Target};
use crate::template;

/// What all connections share.
pub(crate) struct Provider {
    state: Mutex<State>,
    started: Instant,
    changed: Notify,
    #[cfg(feature = "tls")]
    tls: Option<tokio_rustls::TlsAcceptor>,
}

struct State {
    script: Arc<Script>,
    /// Counts changes of script, so that what belongs to an older one can be told.
    generation: u64,
    hits: Vec<u64>,
    windows: HashMap<(usize, String), Window>,
    log: VecDeque<Call>,
    logged: u64,
    numbered: u64,
    counters: Counters,
}

#[derive(Clone, Copy)]
struct Window {
    began: Instant,
    used: u64,
}

/// What was decided for one request.
pub(crate) struct Decision {
    pub(crate) script: Arc<Script>,
    pub(crate) choice: Choice,
    pub(crate) generation: u64,
    pub(crate) number: u64,
    /// Headers that the moment adds.
    pub(crate) extra: Vec<(String, String)>,
}

/// Which reply of the script was chosen.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Choice {
    Rule(usize),
    Otherwise,
    /// A reply made for this moment.
    Made(Box<Reply>),
}

/// A request, understood: what rules look at, and what shapes its reply.
pub(crate) struct Asked<'a> {
    pub(crate) request: &'a Request,
    pub(crate) connection: u64,
    pub(crate) aspect: &'a Aspect,
}

impl Provider {
    pub(crate) fn new(script: Script) -> Self {
        let state = State {
            hits: vec![0; script.rules.len()],
            script: Arc::new(script),
            generation: 0,
            windows: HashMap::new(),
            log: VecDeque::new(),
            logged: 0,
            numbered: 0,
            counters: Counters::default(),
        };
        Self {
            state: Mutex::new(state),
            started: Instant::now(),
            changed: Notify::new(),
            #[cfg(feature = "tls")]
            tls: None,
        }
    }

    #[cfg(feature = "tls")]
    pub(crate) fn behind(self, acceptor: tokio_rustls::TlsAcceptor) -> Self {
        Self { tls: Some(acceptor), ..self }
    }

    #[cfg(feature = "tls")]
    pub(crate) fn tls(&self) -> Option<tokio_rustls::TlsAcceptor> {
        self.tls.clone()
    }

    pub(crate) fn set_script(&self, script: Script) {
        let mut state = self.state();
        state.hits = vec![0; script.rules.len()];
        state.script = Arc::new(script);
        state.generation += 1;
        state.windows.clear();
    }

    pub(crate) fn clear(&self) {
        let mut state = self.state();
        state.logged += state.log.len() as u64;
        state.log.clear();
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.state().log.iter().cloned().collect()
    }

    pub(crate) fn counters(&self) -> Counters {
        self.state().counters
    }

    /// Waits until `look` finds what it looks for in the log.
    pub(crate) async fn until<T>(&self, mut look: impl FnMut(&[Call]) -> Option<T>) -> T {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if let Some(found) = look(self.state().log.make_contiguous()) {
                return found;
            }
            changed.await;
        }
    }

    /// Counts a connection and tells how to treat it.
    pub(crate) fn greet(&self) -> (u64, Option<Greeting>) {
        let mut state = self.state();
        state.counters.connections += 1;
        let number = state.counters.connections;
        let greeting = state.script.greetings.iter().find(|(span, _)| span.holds(number));
        (number, greeting.map(|(_, greeting)| *greeting))
    }

    pub(crate) fn malformed(&self) {
        self.state().counters.malformed += 1;
        self.changed.notify_waiters();
    }

    /// Chooses the reply to a request and writes the call down.
    pub(crate) fn decide(&self, asked: &Asked<'_>) -> Decision {
        let at = self.started.elapsed();
        let mut state = self.state();
        state.counters.calls += 1;
        state.counters.open += 1;
        state.numbered += 1;
        let (choice, extra) = state.choose(asked);
        let decision = Decision {
            script: Arc::clone(&state.script),
            choice,
            generation: state.generation,
            number: state.numbered,
            extra,
        };
        let kept = decision.script.keep_calls;
        if kept > 0 {
            while state.log.len() >= kept {
                state.log.pop_front();
                state.logged += 1;
            }
            state.log.push_back(decision.call(asked, at));
        }
        drop(state);
        if kept > 0 {
            self.changed.notify_waiters();
        }
        decision
    }

    /// Writes down how a call ended.
    pub(crate) fn ended(&self, number: u64, how: CallEnd) {
        let ended = match how {
            CallEnd::Complete => Ended::Complete,
            CallEnd::Cut => Ended::Cut,
            CallEnd::Gone => Ended::ClientGone { at: self.started.elapsed() },
        };
        let mut state = self.state();
        state.counters.open -= 1;
        state.counters.client_gone += u64::from(matches!(how, CallEnd::Gone));
        let index = number.checked_sub(state.logged + 1).and_then(|index| usize::try_from(index).ok());
        let found = index.is_some_and(|index| match state.log.get_mut(index) {
            Some(call) => {
                call.ended = ended;
                true
            }
            None => false,
        });
        drop(state);
        if found {
            self.changed.notify_waiters();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a call ended, before it is dated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallEnd {
    Complete,
    Cut,
    Gone,
}

impl State {
    fn choose(&mut self, asked: &Asked<'_>) -> (Choice, Vec<(String, String)>) {
        let script = Arc::clone(&self.script);
        let mut chosen = None;
        for (index, rule) in script.rules.iter().enumerate() {
            if !rule.when.holds(asked) {
                continue;
            }
            self.hits[index] += 1;
            if chosen.is_none() && (rule.when.nth.is_open() || rule.when.nth.holds(self.hits[index])) {
                chosen = Some(index);
            }
        }
        if let Some(index) = chosen {
            return (Choice::Rule(index), Vec::new());
        }
        if !script.knows(asked.request.key()) {
            return (Choice::Made(Box::new(Reply::status(401))), Vec::new());
        }
        let limited = matches!(
            asked.aspect.operation,
            Operation::Generate | Operation::Complete | Operation::Embeddings
        );
        if script.limits.is_empty() || !limited {
            return (Choice::Otherwise, Vec::new());
        }
        self.charge(&script, asked)
    }

    fn charge(&mut self, script: &Script, asked: &Asked<'_>) -> (Choice, Vec<(String, String)>) {
        let now = Instant::now();
        let key = asked.request.key().unwrap_or_default();
        let concerned = script.limits.iter().enumerate().filter(|(_, limit)| limit.concerns(asked));
        let mut extra = Vec::new();
        let mut charged = Vec::new();
        for (index, limit) in concerned {
            let place = (index, key.to_string());
            let fresh = Window { began: now, used: 0 };
            let mut window = self.windows.get(&place).copied().unwrap_or(fresh);
            if limit.window.is_some_and(|length| now.duration_since(window.began) >= length) {
                window = fresh;
            }
            if window.used >= limit.requests {
                let values = limit.values(window, now);
                let reply = limit.past(asked.aspect.shape, &values);
                return (Choice::Made(Box::new(reply)), Vec::new());
            }
            window.used += 1;
            if limit.announced {
                let values = limit.values(window, now);
                let told = limit_headers(asked.aspect.shape, &values);
                extra.extend(told.filter(|(name, _)| name != "retry-after"));
            }
            charged.push((place, window));
        }
        self.windows.extend(charged);
        (Choice::Otherwise, extra)
    }
}

impl Decision {
    /// The chosen reply.
    pub(crate) fn reply(&self) -> &Reply {
        match &self.choice {
            Choice::Rule(index) => &self.script.rules[*index].reply,
            Choice::Otherwise => &self.script.otherwise,
            Choice::Made(reply) => reply,
        }
    }

    /// The models that lists show.
    pub(crate) fn models(&self) -> &[String] {
        &self.script.models
    }

    fn call(&self, asked: &Asked<'_>, at: Duration) -> Call {
        let Asked { request, connection, aspect } = asked;
        let reply = self.reply();
        let silent = matches!(reply.body, Body::Raw(_))
            || reply.cut.is_some_and(|cut| cut.at == Point::Request && cut.how != How::End);
        Call {
            number: self.number,
            connection: *connection,
            key: request.key().map(String::from),
            model: (!aspect.model.is_empty()).then(|| aspect.model.clone()),
            method: request.method().to_string(),
            path: request.target().to_string(),
            shape: aspect.shape,
            operation: aspect.operation,
            streaming: aspect.form != Form::Plain,
            headers: request.headers().collect(),
            body: request.body.clone(),
            body_hash: hash(&request.body),
            at,
            status: if silent { 0 } else { reply.status },
            rule: match self.choice {
                Choice::Rule(index) => Some(index),
                Choice::Otherwise | Choice::Made(_) => None,
            },
            ended: Ended::Open,
        }
    }
}

impl Asked<'_> {
    /// What of a request shapes its reply.
    pub(crate) fn aspect(request: &Request) -> Aspect {
        let target = Target::of(request);
        let peek = request.peek();
        let streams = target.stream || (peek.stream == Some(true) && target.operation == Operation::Generate);
        let array = target.shape == Shape::Gemini && !request.query().contains("alt=sse");
        let form = match (streams, array) {
            (false, _) => Form::Plain,
            (true, true) => Form::Array,
            (true, false) => Form::Events,
        };
        Aspect {
            shape: target.shape,
            operation: target.operation,
            form,
            model: target
                .model
                .map(String::from)
                .or_else(|| peek.model.map(String::from))
                .unwrap_or_default(),
            wants_usage: peek.stream_options.is_some_and(|options| options.include_usage == Some(true)),
            closing: request.close,
            head_only: request.method() == "HEAD",
        }
    }
}

impl Script {
    fn knows(&self, key: Option<&str>) -> bool {
        let is = |known: &Option<String>| known.is_some() && known.as_deref() == key;
        self.keys.is_empty()
            || self.keys.iter().any(|known| Some(known.as_str()) == key)
            || self.rules.iter().any(|rule| is(&rule.when.key))
            || self.limits.iter().any(|limit| is(&limit.key))
    }
}

impl When {
    fn holds(&self, asked: &Asked<'_>) -> bool {
        let Asked { request, aspect, .. } = asked;
        self.key.as_deref().is_none_or(|key| request.key() == Some(key))
            && self.model.as_deref().is_none_or(|model| aspect.model == model)
            && self.streaming.is_none_or(|streaming| streaming == (aspect.form != Form::Plain))
            && self.path.as_deref().is_none_or(|end| request.path().ends_with(end))
            && self.method.as_deref().is_none_or(|method| request.method() == method)
    }
}

impl Limit {
    fn concerns(&self, asked: &Asked<'_>) -> bool {
        self.key.as_deref().is_none_or(|key| asked.request.key() == Some(key))
            && self.model.as_deref().is_none_or(|model| asked.aspect.model == model)
    }

    fn values(&self, window: Window, now: Instant) -> [(&'static str, String); 5] {
        let left = self
            .window
            .map_or(Duration::ZERO, |length| length.saturating_sub(now.duration_since(window.began)));
        let seconds = left.as_secs() + u64::from(left.subsec_nanos() > 0);
        let wait = SignedDuration::try_from(left).unwrap_or(SignedDuration::MAX);
        let reset = Timestamp::now().saturating_add(wait).unwrap_or(Timestamp::MAX);
        [
            ("reset_s", seconds.to_string()),
            ("reset_at", format!("{reset:.0}")),
            ("reset_epoch", (reset.as_second() + i64::from(reset.subsec_nanosecond() > 0)).to_string()),
            ("limit", self.requests.to_string()),
            ("remaining", self.requests.saturating_sub(window.used).to_string()),
        ]
    }

    fn past(&self, shape: Shape, values: &[(&str, String)]) -> Reply {
        let fill = |text: &str| fill(text, values);
        let mut reply = self.reply.clone();
        reply.headers.iter_mut().for_each(|(_, value)| *value = fill(value));
        match &mut reply.body {
            Body::Bytes(bytes) => *bytes = fill(&String::from_utf8_lossy(bytes)).into(),
            Body::Error { message, .. } => *message = fill(message),
            Body::Answer(_) | Body::Events(_) | Body::GzipBomb(_) | Body::Raw(_) => {}
        }
        if self.announced {
            let given: Vec<String> =
                reply.headers.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
            reply.headers.extend(limit_headers(shape, values).filter(|(name, _)| !given.contains(name)));
        }
        reply
    }
}

fn limit_headers(shape: Shape, values: &[(&str, String)]) -> impl Iterator<Item = (String, String)> {
    template::limit_headers(shape).map(|(name, value)| (name.to_string(), fill(value, values)))
}

fn fill(text: &str, values: &[(&str, String)]) -> String {
    let values: Vec<(&str, &str)> = values.iter().map(|(name, value)| (*name, value.as_str())).collect();
    template::fill(text, &values)
}
