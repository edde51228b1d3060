//! From a reply and a request to the bytes for the wire, in parts, with the place where they stop.

use bytes::Bytes;

use crate::bomb;
use crate::reply::{Answer, Body, ErrorEvent, Framing, How, Point, Reply, STAMP_PLACE};
use crate::shape::{Operation, Shape};
use crate::template::{self, Kind};

/// What of a request shapes the bytes of its reply; equal aspects get equal bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Aspect {
    pub(crate) shape: Shape,
    pub(crate) operation: Operation,
    pub(crate) model: String,
    pub(crate) form: Form,
    pub(crate) wants_usage: bool,
    pub(crate) closing: bool,
    pub(crate) head_only: bool,
}

/// The form in which an answer is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Plain,
    Events,
    /// A JSON array that grows: the Gemini stream without `alt=sse`.
    Array,
}

/// A reply, ready to be sent.
#[derive(Debug)]
pub(crate) struct Delivery {
    /// Informational answers.
    pub(crate) preface: Bytes,
    pub(crate) status_line: Bytes,
    /// The headers with the empty line.
    pub(crate) headers: Bytes,
    pub(crate) parts: Vec<Part>,
    /// The last chunk.
    pub(crate) tail: Bytes,
    /// The part at which sending stops, and the bytes of it that still go out.
    pub(crate) stop: Option<(usize, usize)>,
    /// All of it in one piece, where nothing stands in the way.
    pub(crate) whole: Option<Bytes>,
    pub(crate) keep_alive: bool,
}

/// One write: an event or a body.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) bytes: Bytes,
    kind: Kind,
    /// Where the moment of sending is written.
    pub(crate) stamp_at: Option<usize>,
}

struct Content {
    kind: &'static str,
    parts: Vec<Part>,
    streams: bool,
}

impl Delivery {
    /// Renders a reply; `models` is what lists show, `extra` are headers that the moment adds.
    pub(crate) fn render(
        reply: &Reply,
        aspect: &Aspect,
        models: &[String],
        extra: &[(String, String)],
    ) -> Self {
        if let Body::Raw(bytes) = &reply.body {
            return Self::raw(bytes.clone(), reply);
        }
        let mut content = content(reply, aspect, models);
        if let Some(event) = &reply.error_event {
            put_error(&mut content.parts, event, aspect);
        }
        if let Some(cut) = reply.cut.filter(|cut| cut.how == How::End) {
            content.parts.truncate(index_of(&content.parts, cut.at));
        }
        let framing = match (reply.framing, content.streams) {
            (Framing::Usual, true) => Framing::Chunked,
            (Framing::Usual, false) => Framing::Length,
            (framing, _) => framing,
        };
        let length: usize = content.parts.iter().map(|part| part.bytes.len()).sum();
        if matches!(framing, Framing::Chunked | Framing::LengthAndChunked | Framing::BadChunks) {
            content.parts.iter_mut().for_each(|part| part.frame(framing == Framing::BadChunks));
        }
        let breaks = matches!(framing, Framing::UntilClose | Framing::BadChunks)
            || matches!(framing, Framing::WrongLength(1..));
        let keep_alive = reply.keep_alive && !aspect.closing && !breaks;
        let chunked = matches!(framing, Framing::Chunked | Framing::LengthAndChunked);
        let mut delivery = Self {
            preface: "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(reply.informational as usize).into(),
            status_line: format!("HTTP/1.1 {} {}\r\n", reply.status, reason(reply.status)).into(),
            headers: headers(reply, extra, content.kind, (framing, length), keep_alive).into(),
            parts: content.parts,
            tail: if chunked { Bytes::from_static(b"0\r\n\r\n") } else { Bytes::new() },
            stop: None,
            whole: None,
            keep_alive,
        };
        if aspect.head_only || matches!(reply.status, 204 | 304) {
            delivery.parts.clear();
            delivery.tail = Bytes::new();
        }
        delivery.finish(reply)
    }

    fn raw(bytes: Bytes, reply: &Reply) -> Self {
        let part = Part::new(bytes, Kind::Content);
        Self {
            preface: Bytes::new(),
            status_line: Bytes::new(),
            headers: Bytes::new(),
            parts: vec![part],
            tail: Bytes::new(),
            stop: None,
            whole: None,
            keep_alive: reply.keep_alive,
        }
        .finish(reply)
    }

    fn finish(mut self, reply: &Reply) -> Self {
        self.stop = reply.cut.filter(|cut| cut.how != How::End).map(|cut| stop(&self.parts, cut.at));
        let simple = self.parts.len() <= 1 && self.parts.iter().all(|part| part.stamp_at.is_none());
        if simple && self.stop.is_none() && reply.waits == Default::default() && reply.filler_headers == 0 {
            let mut whole = Vec::new();
            let body = self.parts.first().map_or(&b""[..], |part| &part.bytes);
            for piece in [&self.preface[..], &self.status_line, &self.headers, body, &self.tail] {
                whole.extend_from_slice(piece);
            }
            self.whole = Some(whole.into());
        }
        self
    }
}

impl Part {
    fn new(bytes: impl Into<Bytes>, kind: Kind) -> Self {
        Self { bytes: bytes.into(), kind, stamp_at: None }
    }

    fn event(text: &str, kind: Kind) -> Self {
        let stamp_at = text.find(STAMP_PLACE);
        Self { bytes: format!("{text}\n\n").into(), kind, stamp_at }
    }

    fn frame(&mut self, badly: bool) {
        let size = if badly { "size\r\n".to_string() } else { format!("{:x}\r\n", self.bytes.len()) };
        self.stamp_at = self.stamp_at.map(|at| at + size.len());
        self.bytes = [size.as_bytes(), &self.bytes, b"\r\n"].concat().into();
    }
}

fn content(reply: &Reply, aspect: &Aspect, models: &[String]) -> Content {
    let whole =
        |kind, bytes: Bytes| Content { kind, parts: vec![Part::new(bytes, Kind::Content)], streams: false };
    match &reply.body {
        Body::Answer(answer) => match aspect.form {
            Form::Plain => whole(JSON, plain_answer(answer, aspect, models).into()),
            Form::Events => Content { kind: EVENTS, parts: stream(answer, aspect), streams: true },
            Form::Array => Content { kind: JSON, parts: array(stream(answer, aspect)), streams: true },
        },
        Body::Error { code, message } => {
            let (usual, usual_message) = template::usual_error(aspect.shape, reply.status);
            let message = if message.is_empty() { usual_message } else { message };
            let code = code.as_deref().unwrap_or(usual);
            let number = reply.status.to_string();
            whole(JSON, error(template::error(aspect.shape), &[code, message, &number], aspect).into())
        }
        Body::Bytes(bytes) => whole(JSON, bytes.clone()),
        Body::Events(frames) => {
            let parts = frames.iter().map(|frame| Part::new(frame.clone(), Kind::Content)).collect();
            Content { kind: EVENTS, parts, streams: true }
        }
        Body::GzipBomb(bytes) => whole(JSON, bomb::gzip_zeros(*bytes).into()),
        Body::Raw(bytes) => whole(JSON, bytes.clone()),
    }
}

fn plain_answer(answer: &Answer, aspect: &Aspect, models: &[String]) -> String {
    let model = template::escape(&aspect.model);
    let text = template::escape(&answer.pieces().concat());
    let values = [("model", model.as_str()), ("text", text.as_str())];
    match aspect.operation {
        Operation::Generate => template::fill(template::plain(aspect.shape), &values),
        Operation::Models => list(aspect.shape, models),
        Operation::Model => entry(aspect.shape, &aspect.model),
        Operation::Other => r#"{"object":"faultd.ok"}"#.to_string(),
        Operation::Complete | Operation::CountTokens | Operation::Embeddings => {
            let template = template::other(aspect.shape, aspect.operation).expect("these have templates");
            template::fill(template, &values)
        }
    }
}

fn list(shape: Shape, models: &[String]) -> String {
    let entries: Vec<String> = models.iter().map(|model| entry(shape, model)).collect();
    let entries = entries.join(",");
    match shape {
        Shape::Chat | Shape::Responses => format!(r#"{{"object":"list","data":[{entries}]}}"#),
        Shape::Messages => {
            let id = |model: Option<&String>| serde_json::Value::from(model.cloned()).to_string();
            let (first, last) = (id(models.first()), id(models.last()));
            format!(r#"{{"data":[{entries}],"has_more":false,"first_id":{first},"last_id":{last}}}"#)
        }
        Shape::Gemini => format!(r#"{{"models":[{entries}]}}"#),
    }
}

fn entry(shape: Shape, model: &str) -> String {
    let model = template::escape(model);
    match shape {
        Shape::Chat | Shape::Responses => {
            format!(r#"{{"id":"{model}","object":"model","created":1750000000,"owned_by":"faultd"}}"#)
        }
        Shape::Messages => {
            format!(
                r#"{{"type":"model","id":"{model}","display_name":"{model}","created_at":"2025-06-15T00:00:00Z"}}"#
            )
        }
        Shape::Gemini => format!(
            r#"{{"name":"models/{model}","displayName":"{model}","inputTokenLimit":131072,"outputTokenLimit":8192,"supportedGenerationMethods":["generateContent","countTokens"]}}"#
        ),
    }
}

fn stream(answer: &Answer, aspect: &Aspect) -> Vec<Part> {
    let model = template::escape(&aspect.model);
    let pieces = answer.pieces();
    let all = template::escape(&pieces.concat());
    let mut parts: Vec<Part> = Vec::with_capacity(pieces.len() + 8);
    for (kind, event) in template::events(aspect.shape) {
        let push = |parts: &mut Vec<Part>, text: &str| {
            let number = parts.len().to_string();
            let values = [("model", model.as_str()), ("n", &number), ("text", text), ("all", &all)];
            parts.push(Part::event(&template::fill(event, &values), kind));
        };
        match kind {
            Kind::Preamble | Kind::Closing | Kind::Terminal => push(&mut parts, ""),
            Kind::Usage if aspect.wants_usage => push(&mut parts, ""),
            Kind::Usage | Kind::Error => {}
            Kind::Content => {
                let ping = Part::event(template::ping(aspect.shape), Kind::Preamble);
                parts.extend(std::iter::repeat_n(ping, answer.pings));
                pieces.iter().for_each(|piece| push(&mut parts, &template::escape(piece)));
            }
        }
    }
    parts
}

/// Turns events into the elements of one JSON array.
fn array(events: Vec<Part>) -> Vec<Part> {
    let last = events.len().saturating_sub(1);
    let elements = events.into_iter().enumerate().map(|(number, event)| {
        let text = String::from_utf8_lossy(&event.bytes);
        let data = text.trim_end().trim_start_matches("data: ");
        let (open, close) = (if number == 0 { "[" } else { ",\r\n" }, if number == last { "]" } else { "" });
        Part::new(format!("{open}{data}{close}"), event.kind)
    });
    elements.collect()
}

fn put_error(parts: &mut Vec<Part>, event: &ErrorEvent, aspect: &Aspect) {
    parts.truncate(index_of(parts, event.at));
    let part = match &event.frame {
        Some(frame) => Part::new(frame.clone(), Kind::Error),
        None => {
            let template = template::events(aspect.shape).find(|(kind, _)| *kind == Kind::Error);
            let (_, template) = template.expect("every shape has an error event");
            let fields = [event.code.as_str(), &event.message, "500"];
            let text = error(template, &fields, aspect).replace("{{n}}", &parts.len().to_string());
            Part::event(&text, Kind::Error)
        }
    };
    parts.push(part);
}

fn error(template: &str, [code, message, number]: &[&str; 3], aspect: &Aspect) -> String {
    let code = template::escape(code);
    let model = template::escape(&aspect.model);
    let message = template::escape(message);
    let values = [
        ("code", code.as_str()),
        ("type", &code),
        ("message", &message),
        ("number", number),
        ("model", &model),
    ];
    template::fill(template, &values)
}

/// The number of parts before a point.
fn index_of(parts: &[Part], at: Point) -> usize {
    let first =
        |found: &dyn Fn(Kind) -> bool| parts.iter().position(|part| found(part.kind)).unwrap_or(parts.len());
    match at {
        Point::Request | Point::Status | Point::Headers => 0,
        Point::Bytes(bytes) => stop_in_bytes(parts, bytes).0,
        Point::Events(events) | Point::ChunkSize(events) => events.min(parts.len()),
        Point::Content(events) => {
            let preamble = first(&|kind| kind != Kind::Preamble);
            (preamble + events).min(first(&|kind| !matches!(kind, Kind::Preamble | Kind::Content)))
        }
        Point::Closing => first(&|kind| !matches!(kind, Kind::Preamble | Kind::Content)),
        Point::Terminal => first(&|kind| kind == Kind::Terminal),
        Point::FinalChunk => parts.len(),
    }
}

fn stop(parts: &[Part], at: Point) -> (usize, usize) {
    match at {
        Point::Bytes(bytes) => stop_in_bytes(parts, bytes),
        Point::ChunkSize(_) => (index_of(parts, at), 1),
        Point::Request
        | Point::Status
        | Point::Headers
        | Point::Events(_)
        | Point::Content(_)
        | Point::Closing
        | Point::Terminal
        | Point::FinalChunk => (index_of(parts, at), 0),
    }
}

fn stop_in_bytes(parts: &[Part], bytes: usize) -> (usize, usize) {
    let mut left = bytes;
    for (index, part) in parts.iter().enumerate() {
        if left < part.bytes.len() {
            return (index, left);
        }
        left -= part.bytes.len();
    }
    (parts.len(), 0)
}

fn headers(
    reply: &Reply,
    extra: &[(String, String)],
    kind: &str,
    (framing, length): (Framing, usize),
    keep_alive: bool,
) -> String {
    let mut text = String::with_capacity(256);
    let mut add = |name: &str, value: &str| {
        for piece in [name, ": ", value, "\r\n"] {
            text.push_str(piece);
        }
    };
    let named = |name: &str| reply.headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
    if length > 0 && !named("content-type") {
        add("content-type", kind);
    }
    for (name, value) in reply.headers.iter().chain(extra.iter().filter(|(name, _)| !named(name))) {
        add(name, value);
    }
    let told = |length: usize| length.to_string();
    match framing {
        Framing::Usual | Framing::UntilClose => {}
        Framing::Length => add("content-length", &told(length)),
        Framing::Chunked | Framing::BadChunks => add("transfer-encoding", "chunked"),
        Framing::WrongLength(more) => {
            let length = i64::try_from(length).unwrap_or(i64::MAX).saturating_add(more).max(0);
            add("content-length", &length.to_string());
        }
        Framing::DuplicateLength => {
            add("content-length", &told(length));
            add("content-length", &told(length + 1));
        }
        Framing::LengthAndChunked => {
            add("content-length", &told(length));
            add("transfer-encoding", "chunked");
        }
    }
    if !keep_alive {
        add("connection", "close");
    }
    text.push_str("\r\n");
    text
}

fn reason(status: u16) -> &'static str {
    REASONS.iter().find(|(known, _)| *known == status).map_or("Scripted", |(_, reason)| reason)
}

const JSON: &str = "application/json";

const EVENTS: &str = "text/event-stream; charset=utf-8";

const REASONS: &[(u16, &str)] = &[
    (200, "OK"),
    (201, "Created"),
    (204, "No Content"),
    (301, "Moved Permanently"),
    (302, "Found"),
    (304, "Not Modified"),
    (307, "Temporary Redirect"),
    (308, "Permanent Redirect"),
    (400, "Bad Request"),
    (401, "Unauthorized"),
    (402, "Payment Required"),
    (403, "Forbidden"),
    (404, "Not Found"),
    (405, "Method Not Allowed"),
    (408, "Request Timeout"),
    (413, "Content Too Large"),
    (422, "Unprocessable Content"),
    (429, "Too Many Requests"),
    (500, "Internal Server Error"),
    (502, "Bad Gateway"),
    (503, "Service Unavailable"),
    (504, "Gateway Timeout"),
];
