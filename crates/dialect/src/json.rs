//! A lazy look at JSON: values are offsets into the bytes, and nothing is read that is not asked for.
//!
//! The look is tolerant. It checks only the structure that it walks over, it copies a string only if that has
//! escapes, and where the text breaks off the walk ends; so the first kilobytes of an event that is too large
//! to keep can be read like a whole one. It never panics and never recurses.

use std::{borrow::Cow, ops::Range};

use memchr::memchr;

/// One value, by where it begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Json<'a> {
    doc: &'a [u8],
    start: usize,
}

impl<'a> Json<'a> {
    /// The outermost value of a text.
    pub(crate) fn root(doc: &'a [u8]) -> Option<Self> {
        let start = skip_space(doc, if doc.starts_with(BOM) { BOM.len() } else { 0 });
        (start < doc.len()).then_some(Self { doc, start })
    }

    pub(crate) fn start(&self) -> usize {
        self.start
    }

    /// The bytes of the value, or `None` where the text breaks off inside it.
    pub(crate) fn range(&self) -> Option<Range<usize>> {
        skip_value(self.doc, self.start).map(|end| self.start..end)
    }

    pub(crate) fn bytes(&self) -> Option<&'a [u8]> {
        self.range().map(|range| &self.doc[range])
    }

    pub(crate) fn is_object(&self) -> bool {
        self.first() == Some(b'{')
    }

    pub(crate) fn is_array(&self) -> bool {
        self.first() == Some(b'[')
    }

    pub(crate) fn is_string(&self) -> bool {
        self.first() == Some(b'"')
    }

    pub(crate) fn is_null(&self) -> bool {
        self.first() == Some(b'n')
    }

    /// A string with at least one character; it need not end within the text.
    pub(crate) fn is_filled_string(&self) -> bool {
        self.is_string() && self.doc.get(self.start + 1).is_some_and(|byte| *byte != b'"')
    }

    /// An array or object with something in it; it need not end within the text.
    pub(crate) fn is_filled_container(&self) -> bool {
        let close = match self.first() {
            Some(b'{') => b'}',
            Some(b'[') => b']',
            _ => return false,
        };
        let at = skip_space(self.doc, self.start + 1);
        self.doc.get(at).is_some_and(|byte| *byte != close)
    }

    /// The string, copied only if it has escapes; `None` for anything else and for malformed strings.
    pub(crate) fn text(&self) -> Option<Cow<'a, str>> {
        if !self.is_string() {
            return None;
        }
        let range = self.range()?;
        let inner = &self.doc[range.start + 1..range.end - 1];
        if memchr(b'\\', inner).is_none() {
            return std::str::from_utf8(inner).ok().map(Cow::Borrowed);
        }
        serde_json::from_slice::<String>(&self.doc[range]).ok().map(Cow::Owned)
    }

    pub(crate) fn boolean(&self) -> Option<bool> {
        match self.bytes()? {
            b"true" => Some(true),
            b"false" => Some(false),
            _ => None,
        }
    }

    pub(crate) fn number(&self) -> Option<f64> {
        let is_number = matches!(self.first(), Some(b'-' | b'0'..=b'9'));
        let bytes = self.bytes().filter(|_| is_number)?;
        std::str::from_utf8(bytes).ok()?.parse().ok().filter(|number: &f64| number.is_finite())
    }

    /// A number that is whole and not negative; larger ones than a `u64` holds are its maximum.
    pub(crate) fn whole_number(&self) -> Option<u64> {
        let number = self.number().filter(|number| *number >= 0.0 && number.fract() == 0.0)?;
        let exact = self.bytes().and_then(|bytes| std::str::from_utf8(bytes).ok()?.parse().ok());
        Some(exact.unwrap_or(number as u64))
    }

    /// The members of an object; nothing for other values.
    pub(crate) fn members(&self) -> Members<'a> {
        Members { walk: Walk::into(self, b'{', b'}') }
    }

    /// The elements of an array; nothing for other values.
    pub(crate) fn elements(&self) -> Elements<'a> {
        Elements { walk: Walk::into(self, b'[', b']') }
    }

    /// A member of an object, the last one of that name.
    pub(crate) fn get(&self, name: &str) -> Option<Self> {
        self.members().filter(|(key, _)| key.is(name)).last().map(|(_, value)| value)
    }

    fn first(&self) -> Option<u8> {
        self.doc.get(self.start).copied()
    }
}

/// A member's name, as it stands between its quotes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key<'a>(&'a [u8]);

impl<'a> Key<'a> {
    /// The name, copied only if it has escapes.
    pub(crate) fn name(&self) -> Cow<'a, [u8]> {
        if !self.0.contains(&b'\\') {
            return Cow::Borrowed(self.0);
        }
        let quoted = [b"\"", self.0, b"\""].concat();
        serde_json::from_slice::<String>(&quoted)
            .map_or(Cow::Borrowed(self.0), |name| Cow::Owned(name.into_bytes()))
    }

    /// Compares without a copy where it can: an escape is longer than what it stands for, so a name that is
    /// no longer than the one looked for has to be it to the letter.
    pub(crate) fn is(&self, name: &str) -> bool {
        if self.0.len() <= name.len() {
            return self.0 == name.as_bytes();
        }
        self.0.contains(&b'\\') && *self.name() == *name.as_bytes()
    }
}

/// The walk over an object.
#[derive(Clone, Debug)]
pub(crate) struct Members<'a> {
    walk: Walk<'a>,
}

impl Members<'_> {
    /// A walk over nothing.
    pub(crate) fn none() -> Self {
        Self { walk: Walk::over() }
    }

    /// The offset behind the object, once the walk has come to its end.
    pub(crate) fn end(&self) -> Option<usize> {
        self.walk.end
    }

    /// Goes on at `end`, behind the present value, where that is known; spares walking the value again.
    pub(crate) fn resume(&mut self, end: Option<usize>) {
        self.walk.resume(end);
    }

    /// The offset at which the object turned out to be malformed or cut short.
    pub(crate) fn fault(&self) -> Option<usize> {
        self.walk.fault
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = (Key<'a>, Json<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let walk = &mut self.walk;
        let at = walk.advance()?;
        let doc = walk.doc;
        let Some(end) = (doc.get(at) == Some(&b'"')).then(|| skip_string(doc, at)).flatten() else {
            return walk.fail(at);
        };
        let colon = skip_space(doc, end);
        if doc.get(colon) != Some(&b':') {
            return walk.fail(colon);
        }
        let start = skip_space(doc, colon + 1);
        walk.open(start)?;
        Some((Key(&doc[at + 1..end - 1]), Json { doc, start }))
    }
}

/// The walk over an array.
#[derive(Clone, Debug)]
pub(crate) struct Elements<'a> {
    walk: Walk<'a>,
}

impl Elements<'_> {
    /// The offset behind the array, once the walk has come to its end.
    pub(crate) fn end(&self) -> Option<usize> {
        self.walk.end
    }

    /// Goes on at `end`, behind the present value, where that is known; spares walking the value again.
    pub(crate) fn resume(&mut self, end: Option<usize>) {
        self.walk.resume(end);
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Json<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let start = self.walk.advance()?;
        self.walk.open(start)?;
        Some(Json { doc: self.walk.doc, start })
    }
}

/// What the walks over objects and arrays share: from one value to the next.
#[derive(Clone, Debug)]
struct Walk<'a> {
    doc: &'a [u8],
    close: u8,
    /// Where the next item, or what stands before it, begins.
    at: usize,
    /// A value begins at `at`, and has not been skipped.
    in_value: bool,
    first: bool,
    done: bool,
    /// The offset behind the closing bracket, once that is reached.
    end: Option<usize>,
    fault: Option<usize>,
}

impl<'a> Walk<'a> {
    fn over() -> Self {
        Self { doc: &[], close: 0, at: 0, in_value: false, first: true, done: true, end: None, fault: None }
    }

    fn into(value: &Json<'a>, open: u8, close: u8) -> Self {
        if value.first() != Some(open) {
            return Self::over();
        }
        Self { doc: value.doc, close, at: value.start + 1, done: false, ..Self::over() }
    }

    /// Skips the last value and what separates it from the next item; returns where that begins.
    fn advance(&mut self) -> Option<usize> {
        if self.done {
            return None;
        }
        if self.in_value {
            let Some(end) = skip_value(self.doc, self.at) else { return self.fail(self.doc.len()) };
            self.in_value = false;
            self.at = end;
        }
        let at = skip_space(self.doc, self.at);
        match self.doc.get(at) {
            Some(byte) if *byte == self.close => {
                self.done = true;
                self.end = Some(at + 1);
                None
            }
            Some(b',') if !self.first => Some(skip_space(self.doc, at + 1)),
            Some(_) if self.first => {
                self.first = false;
                Some(at)
            }
            Some(_) | None => self.fail(at),
        }
    }

    fn open(&mut self, start: usize) -> Option<()> {
        match self.doc.get(start) {
            Some(b'"' | b'{' | b'[' | b'-' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z') => {
                self.at = start;
                self.in_value = true;
                Some(())
            }
            Some(_) | None => self.fail(start),
        }
    }

    fn resume(&mut self, end: Option<usize>) {
        if let Some(end) = end {
            self.at = end;
            self.in_value = false;
        }
    }

    fn fail<T>(&mut self, at: usize) -> Option<T> {
        self.done = true;
        self.fault = Some(at);
        None
    }
}

/// The offset behind the value that begins at `at`.
fn skip_value(doc: &[u8], at: usize) -> Option<usize> {
    match doc.get(at)? {
        b'"' => skip_string(doc, at),
        b'{' | b'[' => skip_container(doc, at),
        _ => {
            let length = doc[at..]
                .iter()
                .take_while(|byte| !matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t'))
                .count();
            (length > 0).then_some(at + length)
        }
    }
}

fn skip_container(doc: &[u8], mut at: usize) -> Option<usize> {
    let mut depth = 0usize;
    loop {
        match doc.get(at)? {
            b'"' => {
                at = skip_string(doc, at)?;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
        at += 1;
    }
}

/// Most strings are short, so the first bytes are looked at one by one. Behind them only quotes are searched:
/// escapes are many in long texts, and matter only right before a quote.
fn skip_string(doc: &[u8], open: usize) -> Option<usize> {
    let start = open + 1;
    let mut at = start;
    while at < start + SHORT {
        match doc.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    let from = at;
    loop {
        let quote = at + memchr(b'"', doc.get(at..)?)?;
        let escapes = doc[from..quote].iter().rev().take_while(|byte| **byte == b'\\').count();
        if escapes % 2 == 0 {
            return Some(quote + 1);
        }
        at = quote + 1;
    }
}

fn skip_space(doc: &[u8], mut at: usize) -> usize {
    while matches!(doc.get(at), Some(b' ' | b'\n' | b'\r' | b'\t')) {
        at += 1;
    }
    at
}

/// Bytes of a string that are looked at one by one.
const SHORT: usize = 24;

const BOM: &[u8] = b"\xef\xbb\xbf";
