//! Cuts a JSON array that arrives in pieces into its elements.
//!
//! The elements are told like server-sent events without a name. An object outside any array counts as an
//! element too, since an error may stand there alone.

use memchr::memchr2;

use crate::{
    carry::Carry,
    sse::{Event, Part},
};

/// Cuts chunks into the elements of an array.
#[derive(Clone, Debug, Default)]
pub struct ArraySplitter {
    carry: Carry,
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// The seam at the last byte read.
    reading: Seam,
    /// The seam as of the last chunk that ended between two elements.
    seam: Seam,
}

/// What stands before the next element of an array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Seam {
    /// Nothing: the array has not been opened.
    #[default]
    Unopened,
    /// The opening bracket or a comma: an element can follow at once.
    Ready,
    /// An element: a comma must come first.
    AfterElement,
    /// The closing bracket.
    Closed,
}

impl ArraySplitter {
    /// Makes a splitter for the beginning of an array.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads one chunk; calls `on_event` for each element that ends in it (or outgrows the cap in it), with
    /// the offset in the chunk behind the element.
    pub fn push(&mut self, chunk: &[u8], mut on_event: impl FnMut(Event<'_>, usize)) {
        let (mut at, mut start) = (0, 0);
        while at < chunk.len() {
            if self.in_string {
                at = self.skip_string(chunk, at);
                continue;
            }
            match chunk[at] {
                b'"' if self.depth > 0 => self.in_string = true,
                b'{' => {
                    if self.depth == 0 {
                        start = at;
                    }
                    self.depth += 1;
                }
                b'[' if self.depth > 0 => self.depth += 1,
                b'[' | b',' => self.reading = Seam::Ready,
                b']' if self.depth == 0 => self.reading = Seam::Closed,
                b'}' | b']' if self.depth > 0 => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        self.reading = Seam::AfterElement;
                        self.seam = self.reading;
                        self.close(&chunk[start..=at], at + 1, &mut on_event);
                        start = at + 1;
                    }
                }
                _ => {}
            }
            at += 1;
        }
        if self.depth == 0 {
            self.seam = self.reading;
        } else if self.carry.extend(&chunk[start..]) {
            on_event(event(self.carry.head(), Part::Head), chunk.len());
        }
    }

    /// Reads what is left when the body has ended: an element that broke off.
    pub fn finish(&mut self, mut on_event: impl FnMut(Event<'_>, usize)) {
        if !self.carry.is_empty() && !self.carry.has_overflowed() {
            on_event(event(self.carry.head(), Part::Torn), 0);
        }
        self.carry.clear();
    }

    /// Tells whether the bytes so far end between two elements.
    pub fn is_between_events(&self) -> bool {
        self.carry.is_empty()
    }

    /// The seam behind the last byte that belongs to no open element.
    pub fn seam(&self) -> Seam {
        self.seam
    }

    /// The offset behind the string's closing quote, or the chunk's end.
    fn skip_string(&mut self, chunk: &[u8], mut at: usize) -> usize {
        if std::mem::take(&mut self.escaped) {
            at += 1;
        }
        while let Some(found) = memchr2(b'"', b'\\', chunk.get(at..).unwrap_or_default()) {
            at += found + 1;
            if chunk[at - 1] == b'"' {
                self.in_string = false;
                return at;
            }
            if at == chunk.len() {
                self.escaped = true;
                return at;
            }
            at += 1;
        }
        chunk.len()
    }

    fn close(&mut self, rest: &[u8], end: usize, on_event: &mut impl FnMut(Event<'_>, usize)) {
        if self.carry.is_empty() && rest.len() <= Carry::CAP {
            on_event(event(rest, Part::Whole), end);
            return;
        }
        if self.carry.extend(rest) {
            on_event(event(self.carry.head(), Part::Head), end);
        }
        if self.carry.has_overflowed() {
            on_event(event(self.carry.tail(), Part::Tail), end);
        } else {
            on_event(event(self.carry.head(), Part::Whole), end);
        }
        self.carry.clear();
    }
}

fn event(data: &[u8], part: Part) -> Event<'_> {
    Event { name: None, data: Some(data), part }
}
