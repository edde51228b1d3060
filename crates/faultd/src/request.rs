//! Reading requests: head, then body by length or by chunks, from whatever pieces the network brings.
//!
//! The head stays as the bytes that came; only what every request is asked for is picked out on the way.

use std::borrow::Cow;
use std::ops::Range;

use bytes::{Bytes, BytesMut};
use memchr::memmem;
use serde::Deserialize;
use thiserror::Error;

/// One request, read to its end.
#[derive(Debug)]
pub(crate) struct Request {
    head: Bytes,
    method: Range<usize>,
    target: Range<usize>,
    key: Option<Range<usize>>,
    /// Whether a header says that the client speaks the messages dialect.
    pub(crate) speaks_messages: bool,
    /// Whether the client asked to close the connection.
    pub(crate) close: bool,
    pub(crate) body: Bytes,
}

/// What is wrong with the bytes of a request.
#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum BadRequest {
    #[error("the head is longer than {HEAD_LIMIT} bytes")]
    HeadTooLong,
    #[error("the first line is no request line")]
    RequestLine,
    #[error("a header line has no colon")]
    Header,
    #[error("the length of the body is no number")]
    Length,
    #[error("a chunk is malformed")]
    Chunk,
    #[error("the body is longer than {BODY_LIMIT} bytes")]
    BodyTooLong,
}

/// How the body of a request is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyLength {
    Known(usize),
    Chunked,
}

/// A head, with what must be read or said before the request is whole.
#[derive(Debug)]
pub(crate) struct Head {
    request: Request,
    pub(crate) length: BodyLength,
    pub(crate) expects_continue: bool,
}

/// The few fields of a body that steer a reply.
#[derive(Deserialize, Default)]
pub(crate) struct Peek<'a> {
    #[serde(borrow, default)]
    pub(crate) model: Option<Cow<'a, str>>,
    #[serde(default)]
    pub(crate) stream: Option<bool>,
    #[serde(default)]
    pub(crate) stream_options: Option<StreamOptions>,
}

#[derive(Deserialize)]
pub(crate) struct StreamOptions {
    #[serde(default)]
    pub(crate) include_usage: Option<bool>,
}

impl Head {
    /// Takes a head off the front of `input`, once it is complete.
    pub(crate) fn take(input: &mut BytesMut) -> Result<Option<Self>, BadRequest> {
        while input.starts_with(b"\r\n") {
            let _ = input.split_to(2);
        }
        let Some(end) = memmem::find(input, b"\r\n\r\n") else {
            return if input.len() > HEAD_LIMIT { Err(BadRequest::HeadTooLong) } else { Ok(None) };
        };
        if end > HEAD_LIMIT {
            return Err(BadRequest::HeadTooLong);
        }
        let head = input.split_to(end + 4).freeze();
        Self::parse(head).map(Some)
    }

    fn parse(head: Bytes) -> Result<Self, BadRequest> {
        let line_end = memmem::find(&head, b"\r\n").expect("a head ends in an empty line");
        let (method, target) = request_line(&head[..line_end])?;
        let mut seen = Seen::default();
        let mut at = line_end + 2;
        while at + 2 < head.len() {
            let end = at + memmem::find(&head[at..], b"\r\n").expect("a head ends in an empty line");
            let colon = at + memchr::memchr(b':', &head[at..end]).ok_or(BadRequest::Header)?;
            seen.header(&head, at..colon, trim(&head, colon + 1..end))?;
            at = end + 2;
        }
        let key = seen.key.or_else(|| query_key(&head, &target));
        let request = Request {
            method,
            target,
            key,
            speaks_messages: seen.speaks_messages,
            close: seen.close,
            body: Bytes::new(),
            head,
        };
        Ok(Self { request, length: seen.length, expects_continue: seen.expects_continue })
    }

    pub(crate) fn with_body(self, body: Bytes) -> Request {
        Request { body, ..self.request }
    }
}

#[derive(Debug)]
struct Seen {
    key: Option<Range<usize>>,
    speaks_messages: bool,
    close: bool,
    length: BodyLength,
    expects_continue: bool,
}

impl Default for Seen {
    fn default() -> Self {
        Self {
            key: None,
            speaks_messages: false,
            close: false,
            length: BodyLength::Known(0),
            expects_continue: false,
        }
    }
}

impl Seen {
    fn header(&mut self, head: &[u8], name: Range<usize>, value: Range<usize>) -> Result<(), BadRequest> {
        let text = &head[value.clone()];
        let is = |known: &str| head[name.clone()].eq_ignore_ascii_case(known.as_bytes());
        match name.len() {
            6 if is("expect") => self.expects_continue = true,
            7 if is("api-key") => self.key = Some(value),
            9 if is("x-api-key") => self.key = Some(value),
            10 if is("connection") => self.close = text.eq_ignore_ascii_case(b"close"),
            13 if is("authorization") && text.len() > 7 && text[..7].eq_ignore_ascii_case(b"bearer ") => {
                self.key = Some(trim(head, value.start + 7..value.end));
            }
            14 if is("content-length") && self.length != BodyLength::Chunked => {
                let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
                self.length = BodyLength::Known(number.ok_or(BadRequest::Length)?);
            }
            14 if is("x-goog-api-key") => self.key = Some(value),
            17 if is(VERSION_HEADER) => self.speaks_messages = true,
            17 if is("transfer-encoding") => self.length = BodyLength::Chunked,
            _ => {}
        }
        Ok(())
    }
}

impl Request {
    pub(crate) fn method(&self) -> &str {
        text(&self.head[self.method.clone()])
    }

    /// The target as it came: path and query.
    pub(crate) fn target(&self) -> &str {
        text(&self.head[self.target.clone()])
    }

    pub(crate) fn path(&self) -> &str {
        let target = self.target();
        target.split_once('?').map_or(target, |(path, _)| path)
    }

    pub(crate) fn query(&self) -> &str {
        self.target().split_once('?').map_or("", |(_, query)| query)
    }

    pub(crate) fn key(&self) -> Option<&str> {
        self.key.clone().map(|key| text(&self.head[key]))
    }

    /// The headers in order, values without surrounding blanks.
    pub(crate) fn headers(&self) -> impl Iterator<Item = (String, String)> + '_ {
        let lines = self.head.split(|byte| *byte == b'\n').skip(1);
        lines.filter_map(|line| {
            let colon = memchr::memchr(b':', line)?;
            let name = String::from_utf8_lossy(&line[..colon]).to_ascii_lowercase();
            Some((name, String::from_utf8_lossy(&line[colon + 1..]).trim().to_string()))
        })
    }

    /// Looks at the few fields that steer a reply; a body that is no JSON object has none.
    pub(crate) fn peek(&self) -> Peek<'_> {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

fn request_line(line: &[u8]) -> Result<(Range<usize>, Range<usize>), BadRequest> {
    let first = memchr::memchr(b' ', line).ok_or(BadRequest::RequestLine)?;
    let last = memchr::memrchr(b' ', line).ok_or(BadRequest::RequestLine)?;
    let known = line[last + 1..].starts_with(b"HTTP/1.") && line.is_ascii();
    if first == 0 || last <= first + 1 || !known {
        return Err(BadRequest::RequestLine);
    }
    Ok((0..first, first + 1..last))
}

fn query_key(head: &[u8], target: &Range<usize>) -> Option<Range<usize>> {
    let mut at = target.start + memchr::memchr(b'?', &head[target.clone()])? + 1;
    for pair in head[at..target.end].split(|byte| *byte == b'&') {
        if pair.starts_with(b"key=") {
            return Some(at + 4..at + pair.len());
        }
        at += pair.len() + 1;
    }
    None
}

fn trim(bytes: &[u8], mut range: Range<usize>) -> Range<usize> {
    while range.start < range.end && matches!(bytes[range.start], b' ' | b'\t') {
        range.start += 1;
    }
    while range.end > range.start && matches!(bytes[range.end - 1], b' ' | b'\t') {
        range.end -= 1;
    }
    range
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or("")
}

/// Takes a chunked body off the front of `input`, once it is complete; `body` collects it.
pub(crate) fn take_chunks(input: &mut BytesMut, body: &mut BytesMut) -> Result<bool, BadRequest> {
    loop {
        let Some(line_end) = memmem::find(input, b"\r\n") else {
            return if input.len() > CHUNK_LINE_LIMIT { Err(BadRequest::Chunk) } else { Ok(false) };
        };
        let line = text(&input[..line_end]);
        let size = line.split(';').next().unwrap_or("").trim();
        let size = usize::from_str_radix(size, 16).map_err(|_| BadRequest::Chunk)?;
        if size.saturating_add(body.len()) > BODY_LIMIT {
            return Err(BadRequest::BodyTooLong);
        }
        if size == 0 {
            return take_trailers(input, line_end + 2);
        }
        let end = line_end + 2 + size;
        if input.len() < end + 2 {
            return Ok(false);
        }
        if &input[end..end + 2] != b"\r\n" {
            return Err(BadRequest::Chunk);
        }
        body.extend_from_slice(&input[line_end + 2..end]);
        let _ = input.split_to(end + 2);
    }
}

fn take_trailers(input: &mut BytesMut, start: usize) -> Result<bool, BadRequest> {
    let rest = &input[start..];
    let end =
        if rest.starts_with(b"\r\n") { Some(2) } else { memmem::find(rest, b"\r\n\r\n").map(|at| at + 4) };
    let Some(end) = end else {
        return if rest.len() > HEAD_LIMIT { Err(BadRequest::HeadTooLong) } else { Ok(false) };
    };
    let _ = input.split_to(start + end);
    Ok(true)
}

const HEAD_LIMIT: usize = 256 * 1024;

const CHUNK_LINE_LIMIT: usize = 4096;

/// The longest body that is read.
pub(crate) const BODY_LIMIT: usize = 512 * 1024 * 1024;

/// The header by which clients of the messages dialect name their version.
const VERSION_HEADER: &str = "anthropic-version";
