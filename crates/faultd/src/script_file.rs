//! Scripts as TOML, for the program `faultd` and for scripts that many tests share.
//!
//! ```toml
//! models = ["large", "small"]
//!
//! [[rule]]
//! when  = { key = "sk-limited" }
//! reply = { status = 429, headers = { "retry-after" = "30" } }
//!
//! [[rule]]
//! when  = { key = "sk-flaky", stream = true, nth = "1-3" }
//! reply = { cut = { at = "content", n = 2, how = "reset" } }
//!
//! [[limit]]
//! key = "sk-metered"
//! requests = 5
//! window_s = 60          # without it: a balance that does not renew
//! ```
//!
//! A reply takes its body from at most one of `text`, `error`, `json`, `html`, `body`, `events`, `gzip_bomb`, `raw` and
//! `corpus`; without any it is a good answer, or the usual error where the status is one.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use thiserror::Error;

use crate::reply::{Body, Cut, ErrorEvent, Framing, How, Point, Reply};
use crate::script::{Greeting, Limit, Script, Span, When};

/// What is wrong with a script.
#[derive(Debug, Error)]
pub enum ScriptError {
    /// It is no TOML, or names something that there is not.
    #[error(transparent)]
    Toml(#[from] toml::de::Error),
    /// A reply has two bodies.
    #[error("a reply takes its body from one place, this one names {0}; keep one")]
    TwoBodies(String),
    /// A range of numbers cannot be read.
    #[error("\"{0}\" is no range of numbers; write 3, \"2-\", \"-4\" or \"1-3\"")]
    Range(String),
    /// A point does not exist.
    #[error(
        "there is no point \"{0}\"; it is one of request, status, headers, bytes, events, content, chunk-size, closing, terminal, final-chunk"
    )]
    Point(String),
    /// A line of a corpus cannot be played.
    #[error("this corpus line cannot be played: {0}")]
    Corpus(String),
}

impl Script {
    /// Reads a script from TOML.
    ///
    /// # Errors
    /// When the text is no TOML, has unknown names, or contradicts itself.
    pub fn from_toml(text: &str) -> Result<Self, ScriptError> {
        let raw: RawScript = toml::from_str(text)?;
        let mut script = Self::new().keys(raw.keys);
        if !raw.models.is_empty() {
            script = script.models(raw.models);
        }
        if let Some(reply) = raw.otherwise {
            script = script.otherwise(reply.resolve()?);
        }
        for RawRule { when, reply } in raw.rule {
            script = script.on(when.resolve()?, reply.resolve()?);
        }
        for limit in raw.limit {
            script = script.limit(limit.resolve()?);
        }
        for RawConnection { numbers, greeting } in raw.connection {
            script.greetings.push((numbers.resolve()?, greeting.into()));
        }
        Ok(script)
    }
}

impl Reply {
    /// Replays a failure from a line of the corpus: its status, headers and body, byte for byte.
    ///
    /// # Errors
    /// When the line is not JSON, or describes something that no answer can show.
    pub fn corpus(line: &str) -> Result<Self, ScriptError> {
        let line: CorpusLine =
            serde_json::from_str(line).map_err(|error| ScriptError::Corpus(error.to_string()))?;
        let body = line.body.unwrap_or_default();
        let mut reply = match (line.kind.as_str(), line.status) {
            ("http", Some(status)) => Self::with(status, Body::Bytes(body.into())),
            ("stream", _) => Self::events([body]),
            (kind, _) => return Err(ScriptError::Corpus(format!("it is of kind {kind}"))),
        };
        for (name, value) in line.headers.unwrap_or_default() {
            if !FRAMING_HEADERS.iter().any(|framing| name.eq_ignore_ascii_case(framing)) {
                let value = value.as_str().map_or_else(|| value.to_string(), String::from);
                reply = reply.header(name, value);
            }
        }
        Ok(reply)
    }
}

#[derive(Deserialize)]
struct CorpusLine {
    kind: String,
    status: Option<u16>,
    headers: Option<BTreeMap<String, serde_json::Value>>,
    body: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawScript {
    #[serde(default)]
    models: Vec<String>,
    #[serde(default)]
    keys: Vec<String>,
    otherwise: Option<RawReply>,
    #[serde(default)]
    rule: Vec<RawRule>,
    #[serde(default)]
    limit: Vec<RawLimit>,
    #[serde(default)]
    connection: Vec<RawConnection>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRule {
    #[serde(default)]
    when: RawWhen,
    #[serde(default)]
    reply: RawReply,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct RawWhen {
    key: Option<String>,
    model: Option<String>,
    path: Option<String>,
    method: Option<String>,
    stream: Option<bool>,
    nth: Option<RawSpan>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RawSpan {
    One(u64),
    Range(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawConnection {
    numbers: RawSpan,
    greeting: RawGreeting,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum RawGreeting {
    Silent,
    Reset,
    Close,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLimit {
    key: Option<String>,
    model: Option<String>,
    requests: u64,
    window_s: Option<f64>,
    #[serde(default)]
    silent: bool,
    reply: Option<RawReply>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct RawReply {
    status: Option<u16>,
    headers: BTreeMap<String, String>,
    text: Option<String>,
    error: Option<RawError>,
    json: Option<String>,
    html: Option<String>,
    body: Option<String>,
    events: Option<Vec<String>>,
    gzip_bomb: Option<u64>,
    raw: Option<String>,
    corpus: Option<String>,
    pieces: usize,
    piece_bytes: usize,
    pings: usize,
    stamped: bool,
    wait_ms: u64,
    first_event_ms: u64,
    events_ms: u64,
    drip_ms: u64,
    cut: Option<RawCut>,
    error_event: Option<RawErrorEvent>,
    framing: Option<RawFraming>,
    wrong_length: Option<i64>,
    informational: u32,
    filler_headers: u32,
    close: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawError {
    code: Option<String>,
    #[serde(default)]
    message: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCut {
    at: String,
    #[serde(default)]
    n: usize,
    how: RawHow,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum RawHow {
    End,
    Close,
    Reset,
    Hang,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawErrorEvent {
    at: String,
    #[serde(default)]
    n: usize,
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
    frame: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum RawFraming {
    Length,
    Chunked,
    UntilClose,
    DuplicateLength,
    LengthAndChunked,
    BadChunks,
}

impl RawWhen {
    fn resolve(self) -> Result<When, ScriptError> {
        let Self { key, model, path, method, stream: streaming, nth } = self;
        let nth = nth.map(RawSpan::resolve).transpose()?.unwrap_or_default();
        Ok(When { key, model, path, method, streaming, nth })
    }
}

impl RawSpan {
    fn resolve(self) -> Result<Span, ScriptError> {
        let text = match self {
            Self::One(number) => return Ok(Span { first: Some(number), last: Some(number) }),
            Self::Range(text) => text,
        };
        let bound = |bound: &str| match bound.trim() {
            "" => Ok(None),
            number => number.parse().map(Some).map_err(|_| ScriptError::Range(text.clone())),
        };
        let (first, last) = text.split_once('-').unwrap_or((&text, &text));
        Ok(Span { first: bound(first)?, last: bound(last)? })
    }
}

impl From<RawGreeting> for Greeting {
    fn from(raw: RawGreeting) -> Self {
        match raw {
            RawGreeting::Silent => Self::Silent,
            RawGreeting::Reset => Self::Reset,
            RawGreeting::Close => Self::Close,
        }
    }
}

impl RawLimit {
    fn resolve(self) -> Result<Limit, ScriptError> {
        let window = self.window_s.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let mut limit = match window {
            Some(window) => Limit::per_window(self.requests, window),
            None => Limit::balance(self.requests),
        };
        if let Some(reply) = self.reply {
            limit = limit.reply(reply.resolve()?);
        }
        if self.silent {
            limit = limit.silent();
        }
        Ok(Limit { key: self.key, model: self.model, ..limit })
    }
}

impl RawReply {
    fn resolve(self) -> Result<Reply, ScriptError> {
        let mut reply = self.bare()?;
        reply.headers.extend(self.headers);
        reply = reply.pieces(self.pieces, self.piece_bytes).pings(self.pings);
        if self.stamped {
            reply = reply.stamped();
        }
        reply.waits.headers = Duration::from_millis(self.wait_ms);
        reply.waits.first_event = Duration::from_millis(self.first_event_ms);
        reply.waits.events = Duration::from_millis(self.events_ms);
        reply.waits.bytes = Duration::from_millis(self.drip_ms);
        if let Some(RawCut { at, n, how }) = self.cut {
            reply.cut = Some(Cut { at: point(&at, n)?, how: how.into() });
        }
        if let Some(RawErrorEvent { at, n, code, message, frame }) = self.error_event {
            reply.error_event =
                Some(ErrorEvent { at: point(&at, n)?, frame: frame.map(Bytes::from), code, message });
        }
        if let Some(framing) = self.framing {
            reply.framing = framing.into();
        }
        if let Some(more) = self.wrong_length {
            reply.framing = Framing::WrongLength(more);
        }
        reply.informational = self.informational;
        reply.filler_headers = self.filler_headers;
        reply.keep_alive = reply.keep_alive && !self.close;
        Ok(reply)
    }

    /// Status and body alone.
    fn bare(&self) -> Result<Reply, ScriptError> {
        let status = self.status.unwrap_or(200);
        let mut bodies: Vec<(&str, Reply)> = Vec::new();
        if let Some(text) = &self.text {
            bodies.push(("text", Reply { status, ..Reply::text(text) }));
        }
        if let Some(RawError { code, message }) = &self.error {
            let body = Body::Error { code: code.clone(), message: message.clone() };
            bodies.push(("error", Reply::with(status, body)));
        }
        if let Some(json) = &self.json {
            bodies.push(("json", Reply::json(status, json.clone())));
        }
        if let Some(html) = &self.html {
            bodies.push(("html", Reply::html(status, html.clone())));
        }
        if let Some(body) = &self.body {
            bodies.push(("body", Reply::with(status, Body::Bytes(body.clone().into()))));
        }
        if let Some(events) = &self.events {
            bodies.push(("events", Reply { status, ..Reply::events(events.clone()) }));
        }
        if let Some(bytes) = self.gzip_bomb {
            bodies.push(("gzip_bomb", Reply::gzip_bomb(status, bytes)));
        }
        if let Some(raw) = &self.raw {
            bodies.push(("raw", Reply::raw(raw.clone())));
        }
        if let Some(line) = &self.corpus {
            bodies.push(("corpus", Reply::corpus(line)?));
        }
        if bodies.len() > 1 {
            let names: Vec<&str> = bodies.iter().map(|(name, _)| *name).collect();
            return Err(ScriptError::TwoBodies(names.join(" and ")));
        }
        let usual = || if status < 400 { Reply { status, ..Reply::answer() } } else { Reply::status(status) };
        Ok(bodies.pop().map_or_else(usual, |(_, reply)| reply))
    }
}

impl From<RawHow> for How {
    fn from(raw: RawHow) -> Self {
        match raw {
            RawHow::End => Self::End,
            RawHow::Close => Self::Close,
            RawHow::Reset => Self::Reset,
            RawHow::Hang => Self::Hang,
        }
    }
}

impl From<RawFraming> for Framing {
    fn from(raw: RawFraming) -> Self {
        match raw {
            RawFraming::Length => Self::Length,
            RawFraming::Chunked => Self::Chunked,
            RawFraming::UntilClose => Self::UntilClose,
            RawFraming::DuplicateLength => Self::DuplicateLength,
            RawFraming::LengthAndChunked => Self::LengthAndChunked,
            RawFraming::BadChunks => Self::BadChunks,
        }
    }
}

fn point(name: &str, n: usize) -> Result<Point, ScriptError> {
    Ok(match name {
        "request" => Point::Request,
        "status" => Point::Status,
        "headers" => Point::Headers,
        "bytes" => Point::Bytes(n),
        "events" => Point::Events(n),
        "content" => Point::Content(n),
        "chunk-size" => Point::ChunkSize(n),
        "closing" => Point::Closing,
        "terminal" => Point::Terminal,
        "final-chunk" => Point::FinalChunk,
        other => return Err(ScriptError::Point(other.to_string())),
    })
}

/// Headers that describe the transfer of the recorded answer, not of the replayed one.
const FRAMING_HEADERS: [&str; 4] = ["content-length", "transfer-encoding", "connection", "content-encoding"];
