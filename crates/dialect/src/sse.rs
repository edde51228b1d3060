//! Cuts a stream of bytes into server-sent events.
//!
//! The chunks may be cut anywhere, inside a character, between `\r` and `\n`, inside the byte order mark: the
//! events are the same. An event that lies within one chunk is read where it lies; one that is spread over
//! several is put together in a [`Carry`]. A line that belongs to no field but begins like JSON is taken as
//! data, since servers in distress answer so.

use memchr::{memchr, memchr2};

use crate::carry::Carry;

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// The value of its `event` field.
    pub name: Option<&'a [u8]>,
    /// Its data, lines joined by a line feed; `None` if it has none (a comment, say).
    pub data: Option<&'a [u8]>,
    /// How much of the event this is.
    pub part: Part,
}

/// How much of an event was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    Whole,
    /// Its first 64 KiB; the rest is still to come, and is followed by the [`Part::Tail`].
    Head,
    /// The last 4 KiB of an event whose head was told before; `data` holds raw bytes.
    Tail,
    /// What there is of an event whose end never came.
    Torn,
}

/// Cuts chunks into events.
#[derive(Clone, Debug)]
pub struct SseSplitter {
    carry: Carry,
    scratch: Vec<u8>,
    /// Bytes of the present line have been seen.
    in_line: bool,
    /// The last byte was `\r`: a `\n` right behind it belongs to the same line end.
    after_cr: bool,
    /// No event has been told, so a byte order mark may stand in front.
    fresh: bool,
}

impl SseSplitter {
    /// Makes a splitter for the beginning of a stream.
    pub fn new() -> Self {
        Self { carry: Carry::default(), scratch: Vec::new(), in_line: false, after_cr: false, fresh: true }
    }

    /// Reads one chunk; calls `on_event` for each event that ends in it (or outgrows the cap in it), with the
    /// offset in the chunk behind the event.
    pub fn push(&mut self, chunk: &[u8], mut on_event: impl FnMut(Event<'_>, usize)) {
        let (mut at, mut start) = (0, 0);
        while at < chunk.len() {
            if std::mem::take(&mut self.after_cr) && chunk[at] == b'\n' {
                at += 1;
                if self.carry.is_empty() && start + 1 == at {
                    start = at;
                }
                continue;
            }
            let Some(length) = memchr2(b'\n', b'\r', &chunk[at..]) else {
                self.in_line = true;
                break;
            };
            let line_end = at + length;
            let blank = length == 0 && !self.in_line;
            at = line_end + 1;
            self.after_cr = chunk[line_end] == b'\r';
            self.in_line = false;
            if blank {
                self.close(&chunk[start..line_end], at, &mut on_event);
                start = at;
            }
        }
        if self.carry.extend(&chunk[start..]) {
            self.tell(None, Part::Head, chunk.len(), &mut on_event);
        }
    }

    /// Reads what is left when the stream has ended: an event that lacks its blank line. One whose head was told
    /// before has nothing to add.
    pub fn finish(&mut self, mut on_event: impl FnMut(Event<'_>, usize)) {
        self.in_line = false;
        if !self.carry.is_empty() && !self.carry.has_overflowed() {
            self.tell(None, Part::Torn, 0, &mut on_event);
        }
        self.carry.clear();
    }

    /// Tells whether the bytes so far end between two events.
    pub fn is_between_events(&self) -> bool {
        self.carry.is_empty()
    }

    fn close(&mut self, rest: &[u8], end: usize, on_event: &mut impl FnMut(Event<'_>, usize)) {
        if self.carry.is_empty() && rest.len() <= Carry::CAP {
            if !rest.is_empty() {
                self.tell(Some(rest), Part::Whole, end, on_event);
            }
            return;
        }
        if self.carry.extend(rest) {
            self.tell(None, Part::Head, end, on_event);
        }
        if self.carry.has_overflowed() {
            on_event(Event { name: None, data: Some(self.carry.tail()), part: Part::Tail }, end);
        } else {
            self.tell(None, Part::Whole, end, on_event);
        }
        self.carry.clear();
    }

    /// Tells an event that lies in `bytes`, or in the carry.
    fn tell(
        &mut self,
        bytes: Option<&[u8]>,
        part: Part,
        end: usize,
        on_event: &mut impl FnMut(Event<'_>, usize),
    ) {
        let mut raw = bytes.unwrap_or_else(|| self.carry.head());
        if std::mem::take(&mut self.fresh) {
            raw = raw.strip_prefix(BOM).unwrap_or(raw);
        }
        self.scratch.clear();
        on_event(parse(raw, part, &mut self.scratch), end);
        self.scratch.shrink_to(Carry::TAIL);
    }
}

impl Default for SseSplitter {
    fn default() -> Self {
        Self::new()
    }
}

fn parse<'a>(raw: &'a [u8], part: Part, scratch: &'a mut Vec<u8>) -> Event<'a> {
    let mut event = Event { name: None, data: None, part };
    let mut joined = false;
    let mut at = 0;
    while at < raw.len() {
        let line_end = memchr2(b'\n', b'\r', &raw[at..]).map_or(raw.len(), |length| at + length);
        let line = &raw[at..line_end];
        if matches!(line.trim_ascii_start().first(), Some(b'{' | b'[')) && event.data.is_none() {
            event.data = Some(raw[at..].trim_ascii());
            break;
        }
        let (field, value) = match memchr(b':', line) {
            Some(colon) => (&line[..colon], strip_space(&line[colon + 1..])),
            None => (line, &b""[..]),
        };
        match field {
            b"event" => event.name = Some(value),
            b"data" if event.data.is_none() => event.data = Some(value),
            b"data" => {
                if !std::mem::replace(&mut joined, true) {
                    scratch.extend_from_slice(event.data.unwrap_or_default());
                }
                scratch.push(b'\n');
                scratch.extend_from_slice(value);
            }
            _ => {}
        }
        at = line_end + 1;
    }
    if joined {
        event.data = Some(scratch);
    }
    event
}

fn strip_space(value: &[u8]) -> &[u8] {
    value.strip_prefix(b" ").unwrap_or(value)
}

const BOM: &[u8] = b"\xef\xbb\xbf";
