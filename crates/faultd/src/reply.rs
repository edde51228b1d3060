//! What goes back for one request, and how it goes wrong.
//!
//! A [`Reply`] is built from a good answer outwards: a body, then a status, headers and framing, then waits, and last
//! the point at which it breaks off ([`Cut`]). Points are named by what the peer has seen so far, not by
//! time, so that a script means the same on a slow machine and a fast one.

use std::time::Duration;

use bytes::Bytes;

/// One scripted reply; every field has a meaning that stands alone, the methods only make scripts read well.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// The status of the answer.
    pub status: u16,
    /// Headers in order, beside `content-type` and the framing, which are added unless they are named here.
    pub headers: Vec<(String, String)>,
    /// What is sent after the headers.
    pub body: Body,
    /// How the body's length is told.
    pub framing: Framing,
    /// Pauses on the way.
    pub waits: Waits,
    /// Where the reply breaks off, if it does.
    pub cut: Option<Cut>,
    /// An error event put into a stream, which ends after it.
    pub error_event: Option<ErrorEvent>,
    /// How many `103 Early Hints` answers come first.
    pub informational: u32,
    /// How many filler headers are sent; `u32::MAX` never ends.
    pub filler_headers: u32,
    /// Whether the connection stays open for the next request.
    pub keep_alive: bool,
}

/// The bytes after the headers.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// A correct answer in the shape of the request, streamed if the request asks for it.
    Answer(Answer),
    /// An error body in the shape of the request; without a code the usual one of the status.
    Error {
        /// The machine-readable code.
        code: Option<String>,
        /// The text for people.
        message: String,
    },
    /// These bytes.
    Bytes(Bytes),
    /// These frames, one write each, as an event stream; every one counts as content.
    Events(Vec<Bytes>),
    /// A gzip body that unpacks to this many zero bytes.
    GzipBomb(u64),
    /// These bytes in place of status line, headers and body.
    Raw(Bytes),
}

/// The text of a good answer.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Answer {
    /// The words; without them each piece says its own number.
    pub text: Option<String>,
    /// Content events of a stream; the same pieces joined are the text of a plain answer. 0 means 5.
    pub pieces: usize,
    /// Bytes of one piece, reached by padding; pieces are never cut.
    pub piece_bytes: usize,
    /// Whether each piece begins with its number and the moment it was sent, `00000007@1750000000000000000 `.
    pub stamped: bool,
    /// Pings before the first content, spaced like events.
    pub pings: usize,
}

/// How the length of a body is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Framing {
    /// Chunks for streams, `content-length` for the rest.
    #[default]
    Usual,
    /// A `content-length`.
    Length,
    /// Chunks.
    Chunked,
    /// Neither: the end of the connection ends the body.
    UntilClose,
    /// A `content-length` that promises this many bytes more (or fewer) than come.
    WrongLength(i64),
    /// Two `content-length` headers that disagree.
    DuplicateLength,
    /// A `content-length` beside chunks.
    LengthAndChunked,
    /// Chunk sizes that are no numbers.
    BadChunks,
}

/// Pauses within a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Waits {
    /// Before the status line.
    pub headers: Duration,
    /// Between the headers and the first event or body byte.
    pub first_event: Duration,
    /// Between events.
    pub events: Duration,
    /// Between single bytes of the whole reply: a drip.
    pub bytes: Duration,
}

/// A reply that breaks off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Where.
    pub at: Point,
    /// How.
    pub how: How,
}

/// A place in a reply, named by what was sent before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// Nothing was sent.
    Request,
    /// The status line was sent.
    Status,
    /// The headers were sent.
    Headers,
    /// So many bytes of the body were sent, counted as they stand on the wire.
    Bytes(usize),
    /// So many events were sent, of any kind.
    Events(usize),
    /// The preamble and so many content events were sent.
    Content(usize),
    /// So many events and half of the next chunk's size line were sent.
    ChunkSize(usize),
    /// All content was sent, neither a finish reason nor a terminal event.
    Closing,
    /// Everything but the terminal event was sent.
    Terminal,
    /// Everything but the last, empty chunk was sent.
    FinalChunk,
}

/// The way in which a reply breaks off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// The framing is completed, as if nothing were missing.
    End,
    /// The connection closes in order (FIN).
    Close,
    /// The connection is reset (RST).
    Reset,
    /// Nothing more is sent; the connection stays open until the peer leaves.
    Hang,
}

/// An error inside a stream that began well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorEvent {
    /// After what it comes.
    pub at: Point,
    /// A frame to send as it is; without it the shape's own frame is made of code and message.
    pub frame: Option<Bytes>,
    /// The machine-readable code.
    pub code: String,
    /// The text for people.
    pub message: String,
}

impl Reply {
    /// Answers well, in the shape of the request.
    #[must_use]
    pub fn answer() -> Self {
        Self::with(200, Body::Answer(Answer::default()))
    }

    /// Answers well with this text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::with(200, Body::Answer(Answer { text: Some(text.into()), ..Answer::default() }))
    }

    /// Fails with this status and the usual error body of it, in the shape of the request.
    #[must_use]
    pub fn status(status: u16) -> Self {
        let message = String::new();
        Self::with(status, Body::Error { code: None, message })
    }

    /// Fails with this status, code and message, in the shape of the request.
    #[must_use]
    pub fn error(status: u16, code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::with(status, Body::Error { code: Some(code.into()), message: message.into() })
    }

    /// Sends this status and this JSON text.
    #[must_use]
    pub fn json(status: u16, body: impl Into<Bytes>) -> Self {
        Self::with(status, Body::Bytes(body.into())).header("content-type", "application/json")
    }

    /// Sends this status and this page.
    #[must_use]
    pub fn html(status: u16, body: impl Into<Bytes>) -> Self {
        Self::with(status, Body::Bytes(body.into())).header("content-type", "text/html; charset=utf-8")
    }

    /// Sends this status and no body at all.
    #[must_use]
    pub fn empty(status: u16) -> Self {
        Self::with(status, Body::Bytes(Bytes::new()))
    }

    /// Streams these frames as they are, one write each.
    #[must_use]
    pub fn events<F: Into<Bytes>>(frames: impl IntoIterator<Item = F>) -> Self {
        Self::with(200, Body::Events(frames.into_iter().map(Into::into).collect()))
    }

    /// Sends the client elsewhere.
    #[must_use]
    pub fn redirect(status: u16, location: impl Into<String>) -> Self {
        Self::empty(status).header("location", location)
    }

    /// Sends a gzip body that unpacks to `bytes` zero bytes.
    #[must_use]
    pub fn gzip_bomb(status: u16, bytes: u64) -> Self {
        Self::with(status, Body::GzipBomb(bytes))
            .header("content-type", "application/json")
            .header("content-encoding", "gzip")
    }

    /// Puts these bytes on the wire in place of an HTTP answer, then closes.
    #[must_use]
    pub fn raw(bytes: impl Into<Bytes>) -> Self {
        Self { keep_alive: false, ..Self::with(200, Body::Raw(bytes.into())) }
    }

    /// Reads the request and never answers.
    #[must_use]
    pub fn never() -> Self {
        Self::answer().cut(Point::Request, How::Hang)
    }

    /// Reads the request and resets the connection.
    #[must_use]
    pub fn reset() -> Self {
        Self::answer().cut(Point::Request, How::Reset)
    }

    /// Sends this status and body, with everything else as usual.
    #[must_use]
    pub fn with(status: u16, body: Body) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body,
            framing: Framing::Usual,
            waits: Waits::default(),
            cut: None,
            error_event: None,
            informational: 0,
            filler_headers: 0,
            keep_alive: true,
        }
    }

    /// Adds a header; one of the same name given before stays.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Breaks off at a point.
    #[must_use]
    pub fn cut(mut self, at: Point, how: How) -> Self {
        self.cut = Some(Cut { at, how });
        self
    }

    /// Puts an error event of the request's shape into the stream; it is the last one.
    #[must_use]
    pub fn error_event(mut self, at: Point, code: impl Into<String>, message: impl Into<String>) -> Self {
        self.error_event = Some(ErrorEvent { at, frame: None, code: code.into(), message: message.into() });
        self
    }

    /// Puts this frame into the stream as the last one.
    #[must_use]
    pub fn error_frame(mut self, at: Point, frame: impl Into<Bytes>) -> Self {
        let (code, message) = (String::new(), String::new());
        self.error_event = Some(ErrorEvent { at, frame: Some(frame.into()), code, message });
        self
    }

    /// Frames the body in another way.
    #[must_use]
    pub fn framing(mut self, framing: Framing) -> Self {
        self.framing = framing;
        self
    }

    /// Waits before the status line.
    #[must_use]
    pub fn after(mut self, wait: Duration) -> Self {
        self.waits.headers = wait;
        self
    }

    /// Waits between headers and first event.
    #[must_use]
    pub fn first_event_after(mut self, wait: Duration) -> Self {
        self.waits.first_event = wait;
        self
    }

    /// Waits between events.
    #[must_use]
    pub fn events_every(mut self, wait: Duration) -> Self {
        self.waits.events = wait;
        self
    }

    /// Sends one byte, waits, sends the next.
    #[must_use]
    pub fn drip(mut self, wait: Duration) -> Self {
        self.waits.bytes = wait;
        self
    }

    /// Answers in this many pieces of at least this many bytes.
    #[must_use]
    pub fn pieces(mut self, pieces: usize, piece_bytes: usize) -> Self {
        if let Body::Answer(answer) = &mut self.body {
            answer.pieces = pieces;
            answer.piece_bytes = piece_bytes;
        }
        self
    }

    /// Sends pings before the first content.
    #[must_use]
    pub fn pings(mut self, pings: usize) -> Self {
        if let Body::Answer(answer) = &mut self.body {
            answer.pings = pings;
        }
        self
    }

    /// Writes into each piece when it was sent.
    #[must_use]
    pub fn stamped(mut self) -> Self {
        if let Body::Answer(answer) = &mut self.body {
            answer.stamped = true;
        }
        self
    }

    /// Sends `103 Early Hints` so many times first.
    #[must_use]
    pub fn informational(mut self, count: u32) -> Self {
        self.informational = count;
        self
    }

    /// Sends so many filler headers; `u32::MAX` never ends.
    #[must_use]
    pub fn filler_headers(mut self, count: u32) -> Self {
        self.filler_headers = count;
        self
    }

    /// Closes the connection after the answer and says so.
    #[must_use]
    pub fn closing(mut self) -> Self {
        self.keep_alive = false;
        self
    }
}

impl Answer {
    /// The pieces of the text, in order: one content event each.
    #[must_use]
    pub fn pieces(&self) -> Vec<String> {
        let count = if self.pieces == 0 { DEFAULT_PIECES } else { self.pieces };
        let Some(text) = &self.text else {
            return (0..count).map(|number| self.numbered(number)).collect();
        };
        let chars: Vec<char> = text.chars().collect();
        let size = chars.len().div_ceil(count).max(1);
        chars.chunks(size).map(|piece| piece.iter().collect()).collect()
    }

    fn numbered(&self, number: usize) -> String {
        let mut piece =
            if self.stamped { format!("{number:08}@{STAMP_PLACE} ") } else { format!("piece {number} ") };
        while piece.len() < self.piece_bytes {
            let letter = char::from(b'a' + u8::try_from(piece.len() % 26).expect("a remainder of 26"));
            piece.push(letter);
        }
        piece
    }
}

const DEFAULT_PIECES: usize = 5;

/// Where the moment of sending stands in a stamped piece: nanoseconds since 1970.
pub(crate) const STAMP_PLACE: &str = "0000000000000000000";
