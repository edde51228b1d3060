//! Watches a streamed answer while its bytes pass.
//!
//! Chunks go in, [`Passage`]s come out: the same bytes in the same order, cut only where their meaning
//! changes, each with the kind of the events that it holds. The bytes of an event are let go when its end has
//! arrived, so that a stream which breaks off never leaves half an event with the client; an event larger
//! than 64 KiB is let go as it comes.
//!
//! ```text
//!             chunks                          passages
//! [pre|ampl][e|cont][ent|content|error]  ->  (preamble) (content) (error)
//! ```

use std::collections::VecDeque;

use bytes::Bytes;

use crate::{
    ArraySplitter, Continuation, Dialect, Event, Framing, Part, Seam, SseSplitter, Usage,
    shape::{self, Facts},
};

/// What an event means for the one who waits for the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// A comment or white space.
    Comment,
    /// A ping: says that the connection lives.
    Ping,
    /// What precedes the answer and carries nothing of it.
    Preamble,
    /// Something of the answer: text, thinking, refusal, audio, a tool call's name or arguments.
    Content,
    /// Counts of tokens.
    Usage,
    /// A failure told inside the stream.
    Error,
    /// The answer's end.
    Terminal {
        /// A finish reason came with it or before it: the answer is one, even without any text.
        finish: bool,
    },
    /// Belongs to the stream, and says nothing that matters here.
    Other,
}

impl EventKind {
    /// Tells whether nothing has to be done about it once the client has seen content.
    const fn is_calm(self) -> bool {
        match self {
            Self::Comment | Self::Ping | Self::Preamble | Self::Content | Self::Usage | Self::Other => true,
            Self::Error | Self::Terminal { .. } => false,
        }
    }
}

/// Bytes that may go on, and what they mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passage {
    /// Whole events, with what stands between them.
    pub bytes: Bytes,
    /// The kind of all of them; after the first content, calm neighbours are joined as
    /// [`EventKind::Content`].
    pub kind: EventKind,
}

/// Reads one streamed answer.
#[derive(Debug)]
pub struct StreamReader {
    dialect: Dialect,
    splitter: Splitter,
    facts: Facts,
    /// The bytes of an event whose end has not arrived.
    held: Vec<Bytes>,
    /// The kind of an event that is let go as it comes.
    open: Option<EventKind>,
    marks: Vec<Mark>,
    ready: VecDeque<Passage>,
}

impl StreamReader {
    /// Makes a reader for the beginning of a stream.
    pub fn new(dialect: Dialect, framing: Framing) -> Self {
        let splitter = match framing {
            Framing::Sse => Splitter::Sse(SseSplitter::new()),
            Framing::JsonArray => Splitter::Array(ArraySplitter::new()),
        };
        Self {
            dialect,
            splitter,
            facts: Facts::default(),
            held: Vec::new(),
            open: None,
            marks: Vec::new(),
            ready: VecDeque::new(),
        }
    }

    /// Takes the next chunk of the upstream's body.
    pub fn push(&mut self, chunk: Bytes) {
        let Self { dialect, splitter, facts, marks, .. } = self;
        splitter.push(&chunk, |event, end| marks.push(Mark::read(*dialect, facts, &event, end)));
        self.release(chunk);
    }

    /// Reads what is left when the body has ended, be it whole or not.
    pub fn finish(&mut self) {
        let Self { dialect, splitter, facts, marks, .. } = self;
        splitter.finish(|event, end| marks.push(Mark::read(*dialect, facts, &event, end)));
        self.release(Bytes::new());
        for bytes in std::mem::take(&mut self.held) {
            self.ready.push_back(Passage { bytes, kind: EventKind::Comment });
        }
    }

    /// The next bytes that may go on.
    pub fn pop(&mut self) -> Option<Passage> {
        self.ready.pop_front()
    }

    /// Tells whether something of the answer has been seen.
    pub fn has_content(&self) -> bool {
        self.facts.content
    }

    /// Tells whether a finish reason has been seen.
    pub fn has_finish_reason(&self) -> bool {
        self.facts.finish
    }

    /// Tells whether the stream may end here: its terminal event has been seen.
    pub fn has_ended(&self) -> bool {
        self.facts.ended
    }

    /// Tells whether the last event of the stream has been seen, so that only the end of the body is missing.
    pub fn is_over(&self) -> bool {
        shape::is_over(self.dialect, &self.facts)
    }

    /// The data of the first error event, at most 64 KiB of it. It may quote the prompt: never log it.
    pub fn error(&self) -> Option<&[u8]> {
        self.facts.error.as_deref()
    }

    /// What the provider counted so far.
    pub fn usage(&self) -> Usage {
        self.facts.usage
    }

    /// What an error event of ours must go on from.
    pub fn continuation(&self) -> Continuation {
        let mut continuation = self.facts.continuation.clone();
        continuation.seam = self.splitter.seam();
        continuation
    }

    /// Tells whether part of an event was let go whose end has not arrived; nothing can follow it.
    pub fn is_mid_event(&self) -> bool {
        self.open.is_some()
    }

    fn release(&mut self, mut chunk: Bytes) {
        let mut marks = std::mem::take(&mut self.marks);
        let mut from = 0;
        let mut run: Option<(EventKind, usize)> = None;
        for mark in marks.drain(..) {
            let kind = match mark.part {
                Part::Whole | Part::Torn => mark.kind,
                Part::Head => *self.open.insert(mark.kind),
                Part::Tail => self.open.take().unwrap_or(EventKind::Other),
            };
            let kind = if mark.settled && kind.is_calm() { EventKind::Content } else { kind };
            if let Some((before, end)) = run.filter(|(before, _)| *before != kind) {
                self.let_go(chunk.split_to(end - from), before);
                from = end;
            }
            run = Some((kind, mark.end));
        }
        self.marks = marks;
        if let Some((kind, end)) = run {
            self.let_go(chunk.split_to(end - from), kind);
        }
        if let Some(kind) = self.open {
            self.let_go(chunk, kind);
        } else if self.splitter.is_between_events() && self.held.is_empty() {
            self.let_go(chunk, EventKind::Comment);
        } else if !chunk.is_empty() {
            self.held.push(chunk);
        }
    }

    fn let_go(&mut self, bytes: Bytes, kind: EventKind) {
        for held in self.held.drain(..) {
            self.ready.push_back(Passage { bytes: held, kind });
        }
        if !bytes.is_empty() {
            self.ready.push_back(Passage { bytes, kind });
        }
    }
}

/// An event within a chunk, once it is read.
#[derive(Clone, Copy, Debug)]
struct Mark {
    kind: EventKind,
    part: Part,
    end: usize,
    /// Content had been seen before or with this event.
    settled: bool,
}

impl Mark {
    fn read(dialect: Dialect, facts: &mut Facts, event: &Event<'_>, end: usize) -> Self {
        let kind = shape::read(dialect, event, facts);
        Self { kind, part: event.part, end, settled: facts.content }
    }
}

#[derive(Debug)]
enum Splitter {
    Sse(SseSplitter),
    Array(ArraySplitter),
}

impl Splitter {
    fn push(&mut self, chunk: &[u8], on_event: impl FnMut(Event<'_>, usize)) {
        match self {
            Self::Sse(splitter) => splitter.push(chunk, on_event),
            Self::Array(splitter) => splitter.push(chunk, on_event),
        }
    }

    fn finish(&mut self, on_event: impl FnMut(Event<'_>, usize)) {
        match self {
            Self::Sse(splitter) => splitter.finish(on_event),
            Self::Array(splitter) => splitter.finish(on_event),
        }
    }

    fn is_between_events(&self) -> bool {
        match self {
            Self::Sse(splitter) => splitter.is_between_events(),
            Self::Array(splitter) => splitter.is_between_events(),
        }
    }

    fn seam(&self) -> Seam {
        match self {
            Self::Sse(_) => Seam::default(),
            Self::Array(splitter) => splitter.seam(),
        }
    }
}
