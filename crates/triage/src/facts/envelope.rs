//! Opens envelopes: decides what a text is, and adds a layer for every value and every stretch of prose.

use std::{borrow::Cow, ops::Range};

use super::{
    Answer, Facts, Layer, Token, Value, Words,
    fold::{fold, fold_into},
    frames, outcome, prose, value,
    walk::{Inner, Walk, folded_page, owned, shorten, tail},
};
use crate::{
    Evidence,
    rules::{BodyShape, KindName},
};

/// How an inner text relates to the layer around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quoting {
    /// It is what arrived.
    Outermost,
    /// The same speaker packed it once more.
    Nested,
    /// It stands inside prose.
    Embedded,
    /// A relay passes it on.
    Relay,
}

/// Where a new layer belongs.
#[derive(Clone, Copy)]
pub(super) struct Place {
    parent: Option<usize>,
    quoting: Quoting,
}

impl Place {
    const OUTERMOST: Self = Self { parent: None, quoting: Quoting::Outermost };
}

/// Builds facts layer by layer.
pub(super) struct Opener<'a> {
    pub(super) facts: Facts<'a>,
    echoes: Vec<String>,
    budget: usize,
}

/// Keeps a value read from a text with a life of its own.
type Keep<'t, 'a> = fn(Value<'t>) -> Value<'a>;

impl<'a> Opener<'a> {
    pub(super) fn new(facts: Facts<'a>, evidence: &Evidence) -> Self {
        let echoes =
            evidence.hints.echo.iter().map(|echo| fold(echo)).filter(|echo| echo.len() >= ECHO_LEAST);
        Self { facts, echoes: echoes.collect(), budget: BUDGET }
    }

    pub(super) fn open_evidence(&mut self, evidence: &'a Evidence) {
        if self.facts.kind == KindName::Process {
            self.open(Cow::Borrowed(tail(&evidence.stderr, Evidence::TEXT_CAP)), Place::OUTERMOST);
            self.open(Cow::Borrowed(tail(&evidence.text, Evidence::TEXT_CAP)), Place::OUTERMOST);
        } else {
            self.open(Cow::Borrowed(shorten(&evidence.text, Evidence::TEXT_CAP)), Place::OUTERMOST);
        }
        for (name, value) in &evidence.headers {
            if ERROR_HEADERS.iter().any(|ending| name.ends_with(ending)) {
                self.name_error(value);
            }
        }
    }

    /// A header that names the error: `x-amzn-errortype: ThrottlingException:http://…`.
    fn name_error(&mut self, value: &str) {
        let name = value.split([':', ';', ',']).next().unwrap_or_default().trim();
        if name.is_empty() || name.contains(' ') || name.len() > 80 {
            return;
        }
        if self.facts.layers.is_empty() {
            self.layer(Place::OUTERMOST);
        }
        self.token(0, name, true);
    }

    fn open(&mut self, text: Words<'a>, place: Place) {
        match text {
            Cow::Borrowed(text) => self.open_text(text, place, |value| value),
            Cow::Owned(text) => self.open_text(&text, place, owned),
        }
    }

    fn open_text<'t>(&mut self, text: &'t str, place: Place, keep: Keep<'t, 'a>) {
        let text = text.trim_start_matches('\u{feff}').trim();
        if text.is_empty() || self.facts.layers.len() >= Facts::LAYERS {
            return;
        }
        if text.starts_with(['{', '[', '"'])
            && let Some(read) = self.read(text)
            && (!read.complete || text.get(read.length..).is_some_and(|rest| rest.trim().is_empty()))
        {
            self.shape(place, BodyShape::Json);
            return match read.value {
                Value::Text(Cow::Borrowed(inner)) => self.open_text(inner, place, keep),
                Value::Text(Cow::Owned(inner)) => self.open_text(&inner, place, owned),
                value @ (Value::Null
                | Value::Bool(_)
                | Value::Number(_)
                | Value::List(_)
                | Value::Object(_)) => {
                    self.judge(keep(value), place);
                }
            };
        }
        if prose::is_page(text) {
            self.shape(place, BodyShape::Html);
            if self.facts.page.is_empty() {
                self.facts.page = folded_page(text);
            }
            if let Some(status) = self.printed_page_status() {
                let index = self.layer(place);
                index.into_iter().for_each(|index| self.tell_status(index, Some(status)));
            }
            return;
        }
        if frames::is_stream(text) {
            return self.stream(text, place, keep);
        }
        if let Some(at) = prose::page_within(text) {
            self.shape(place, BodyShape::Html);
            if self.facts.page.is_empty() {
                self.facts.page = folded_page(text.get(at..).unwrap_or_default());
            }
            let index = self.prose(text.get(..at).unwrap_or_default(), place);
            let status = self.printed_page_status();
            index.into_iter().for_each(|index| self.tell_status(index, status));
            return;
        }
        self.mixed(text, place, keep);
    }

    /// The status of a gateway whose page a process printed: `<h1>504 Gateway Time-out</h1>`.
    fn printed_page_status(&self) -> Option<u16> {
        let printed = self.facts.kind == KindName::Process;
        printed.then(|| prose::status(&self.facts.page))?.filter(|status| *status >= 500)
    }

    /// Prose, perhaps with values in it: console output, `Error code: 429 - {…}`, one value a line.
    fn mixed<'t>(&mut self, text: &'t str, place: Place, keep: Keep<'t, 'a>) {
        let mut values = self.values_in(text);
        self.shape(place, if values.is_empty() { BodyShape::Text } else { BodyShape::Json });
        let spoken = without(text, &values);
        let parent = if spoken.trim().is_empty() { place.parent } else { self.prose(&spoken, place) };
        let quoting = if spoken.trim().is_empty() { place.quoting } else { Quoting::Embedded };
        if self.facts.kind == KindName::Process {
            let skipped = values.len().saturating_sub(PROCESS_VALUES);
            values.drain(..skipped);
        }
        for range in values {
            if let Some(read) = text.get(range).and_then(value::read) {
                self.judge(keep(read.value), Place { parent, quoting });
            }
        }
    }

    fn prose(&mut self, text: &str, place: Place) -> Option<usize> {
        let index = self.layer(place)?;
        let process = self.facts.kind == KindName::Process;
        let read = if process { tail(text, PROCESS_WORDS) } else { shorten(text, PROCESS_WORDS) };
        if prose::is_document(read) && !process {
            return Some(index);
        }
        for word in prose::error_words(read).take(16) {
            self.token(index, word, true);
        }
        self.speak(index, read);
        Some(index)
    }

    fn stream<'t>(&mut self, text: &'t str, place: Place, keep: Keep<'t, 'a>) {
        self.shape(place, BodyShape::Json);
        for frame in frames::frames(text) {
            if let (Some(_), Some(index)) = (frame.status, frame.status.and_then(|_| self.layer(place))) {
                self.tell_status(index, frame.status);
            }
            match frame.data {
                Cow::Borrowed(data) => self.frame(data, frame.failed, place, keep),
                Cow::Owned(data) => self.frame(&data, frame.failed, place, owned),
            }
        }
    }

    fn frame<'t>(&mut self, data: &'t str, failed: bool, place: Place, keep: Keep<'t, 'a>) {
        let inner = || frames::glued(data).and_then(|at| data.get(at..)).and_then(value::read);
        let Some(read) = value::read(data) else {
            return match inner().filter(|inner| outcome::reports_failure(&inner.value)) {
                Some(inner) => self.add(keep(inner.value), place),
                None if failed => {
                    self.prose(data, place);
                }
                None => {}
            };
        };
        let reports = failed || outcome::reports_failure(&read.value);
        let glued = if read.complete { None } else { inner() };
        if reports && (read.complete || glued.is_none()) {
            return self.add(keep(read.value), place);
        }
        if let Some(inner) = glued.filter(|inner| outcome::reports_failure(&inner.value)) {
            return self.add(keep(inner.value), place);
        }
        self.answers(&read.value);
    }

    fn answers(&mut self, value: &Value<'_>) {
        if self.facts.answer != Answer::Content {
            self.facts.answer = outcome::answer(value);
        }
    }

    /// Adds a value unless it is an answer that reports no failure.
    fn judge(&mut self, value: Value<'a>, place: Place) {
        let success = self.facts.status.is_some_and(|status| (200..300).contains(&status));
        if success && place.parent.is_none() && !outcome::reports_failure(&value) {
            return self.answers(&value);
        }
        self.add(value, place);
    }

    fn add(&mut self, value: Value<'a>, place: Place) {
        if let Value::List(items) = value {
            return items.into_iter().take(8).for_each(|item| self.add(item, place));
        }
        let Some(index) = self.layer(place) else {
            return;
        };
        let mut inner = Walk::new(self, index).run(&value);
        if inner.is_empty() && !self.says_something(index) {
            inner = Walk::of_everything(self, index).run(&value);
        }
        if let Some(layer) = self.facts.layers.get_mut(index) {
            layer.value = Some(value);
        }
        for Inner { text, quoting } in inner {
            self.open(text, Place { parent: Some(index), quoting });
        }
    }

    fn says_something(&self, layer: usize) -> bool {
        let words = self.facts.layers.get(layer).is_some_and(|layer| layer.words.len() > 1);
        words || self.facts.tokens.iter().any(|token| usize::from(token.layer) == layer)
    }

    fn layer(&mut self, place: Place) -> Option<usize> {
        let index = self.facts.layers.len();
        if index >= Facts::LAYERS {
            return None;
        }
        let parent = place.parent.and_then(|parent| self.facts.layers.get(parent));
        let own_client =
            self.facts.kind == KindName::Process && parent.is_none_or(|parent| parent.depth == 0);
        let quoted = match place.quoting {
            Quoting::Outermost | Quoting::Nested => false,
            Quoting::Embedded => !own_client && place.parent.is_some(),
            Quoting::Relay => true,
        };
        let layer = Layer {
            words: self.facts.text.len()..self.facts.text.len(),
            depth: parent.map_or(0, |parent| parent.depth + 1),
            quoted: quoted || parent.is_some_and(|parent| parent.quoted),
            ..Layer::default()
        };
        self.facts.layers.push(layer);
        Some(index)
    }

    fn shape(&mut self, place: Place, shape: BodyShape) {
        if place.parent.is_none() && self.facts.shape == BodyShape::Empty {
            self.facts.shape = shape;
        }
    }

    fn read<'t>(&mut self, text: &'t str) -> Option<value::Read<'t>> {
        self.budget = self.budget.checked_sub(text.len().min(4096))?;
        value::read(text).filter(|read| match &read.value {
            Value::Object(pairs) => read.complete || !pairs.is_empty(),
            Value::List(items) => items.iter().any(|item| matches!(item, Value::Object(_) | Value::Text(_))),
            Value::Text(_) => read.complete,
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        })
    }

    /// Where values stand in a text that is not one value.
    fn values_in(&mut self, text: &str) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        let mut at = 0;
        while let Some(next) = text.get(at..).and_then(|rest| memchr::memchr2(b'{', b'[', rest.as_bytes())) {
            let start = at + next;
            let candidate = text.get(start..).unwrap_or_default();
            let listed = candidate.starts_with('[');
            let opens = !listed || candidate.get(1..).is_some_and(|rest| rest.trim_start().starts_with('{'));
            let read = if opens { self.read(candidate) } else { None };
            match read {
                Some(read) if matches!(&read.value, Value::Object(pairs) if !pairs.is_empty()) || listed => {
                    found.push(start..start + read.length);
                    at = start + read.length.max(1);
                }
                Some(_) | None => at = start + 1,
            }
        }
        found
    }

    pub(super) fn holds_structure(&self, text: &str) -> bool {
        text.contains(':') && (text.contains('{') || text.trim_start().starts_with('['))
    }

    /// Takes the values out of a message; returns its prose, or `None` if nothing else is in it.
    pub(super) fn split(
        &mut self,
        text: &Words<'a>,
        quoting: Quoting,
        inner: &mut Vec<Inner<'a>>,
    ) -> Option<String> {
        if quoting == Quoting::Nested
            && let Some(read) = self.read(text.trim())
            && (read.complete || matches!(read.value, Value::Object(_)))
        {
            let whole = text.trim().get(read.length..).is_some_and(|rest| rest.trim().is_empty());
            if whole || !read.complete {
                inner.push(Inner { text: text.clone(), quoting });
                return None;
            }
        }
        let values = self.values_in(text);
        for range in &values {
            let text = match text {
                Cow::Borrowed(text) => Cow::Borrowed(text.get(range.clone()).unwrap_or_default()),
                Cow::Owned(text) => Cow::Owned(text.get(range.clone()).unwrap_or_default().to_owned()),
            };
            inner.push(Inner { text, quoting: Quoting::Embedded });
        }
        Some(without(text, &values))
    }

    /// Adds words to a layer.
    pub(super) fn words(&mut self, layer: usize, text: &str) {
        let start = self.facts.text.len();
        fold_into(text, &mut self.facts.text);
        for echo in &self.echoes {
            while let Some(at) = self.facts.text.get(start..).and_then(|words| words.find(echo.as_str())) {
                self.facts.text.replace_range(start + at..start + at + echo.len(), "\u{1}");
            }
        }
        self.facts.text.push('\n');
        let end = self.facts.text.len();
        if let Some(layer) = self.facts.layers.get_mut(layer) {
            layer.words.end = end;
        }
    }

    /// Speaks to people in a layer, and learns what the form of the prose tells.
    pub(super) fn speak(&mut self, layer: usize, text: &str) {
        let start = self.facts.text.len();
        self.words(layer, text);
        let folded = self.facts.text.get(start..).unwrap_or_default().trim_end_matches('\n');
        let codes: Vec<_> = prose::bracketed_codes(folded).map(str::to_owned).collect();
        let bare = prose::bare_word(folded).map(str::to_owned);
        let status = prose::status(folded);
        codes.iter().for_each(|code| self.token(layer, code, false));
        self.tell_status(layer, status);
        if let Some(bare) = bare {
            self.token(layer, &bare, true);
        }
    }

    /// Adds a token to a layer; a word is type-like.
    pub(super) fn token(&mut self, layer: usize, text: &str, word: bool) {
        let (Ok(layer), false) = (u8::try_from(layer), text.is_empty() || self.facts.tokens.len() >= TOKENS)
        else {
            return;
        };
        let is_type = word && !text.bytes().all(|byte| byte.is_ascii_digit());
        if is_type && self.facts.code_words.len() < CODE_WORDS && !text.contains(' ') {
            prose::spell_out(text, &mut self.facts.code_words);
        }
        let text = if text.is_ascii() { text.to_ascii_lowercase() } else { fold(text) };
        self.facts.tokens.push(Token { text, is_type, layer });
    }

    pub(super) fn tell_status(&mut self, layer: usize, status: Option<u16>) {
        if let Some(layer) = self.facts.layers.get_mut(layer) {
            layer.status = layer.status.or(status);
        }
    }

    pub(super) fn name_provider(&mut self, layer: usize, name: &str) {
        if let Some(layer) = self.facts.layers.get_mut(layer) {
            layer.provider = Some(fold(name));
        }
    }

    pub(super) fn mark_quoted(&mut self, layer: usize) {
        if let Some(layer) = self.facts.layers.get_mut(layer) {
            layer.quoted = true;
        }
    }
}

fn without(text: &str, ranges: &[Range<usize>]) -> String {
    let mut rest = String::with_capacity(text.len());
    let mut at = 0;
    for range in ranges {
        rest.push_str(text.get(at..range.start).unwrap_or_default());
        rest.push(' ');
        at = range.end;
    }
    rest.push_str(text.get(at..).unwrap_or_default());
    rest
}

/// Bytes that all attempts to read values may cost together, so that no text is read a thousand times.
const BUDGET: usize = 1024 * 1024;
/// Codes that are read as words.
const CODE_WORDS: usize = 1024;
/// Tokens that are kept.
const TOKENS: usize = 64;
/// Values that are read from a process's output: its last ones.
const PROCESS_VALUES: usize = 12;
/// Words of plain text that are read: an answer's beginning, a process's end.
const PROCESS_WORDS: usize = 4 * 1024;
/// How the names of headers end that name the error.
const ERROR_HEADERS: [&str; 6] =
    ["errortype", "error-type", "exception-type", "error-code", "errorcode", "-error"];
/// Shorter echoes would blank ordinary words.
const ECHO_LEAST: usize = 12;
