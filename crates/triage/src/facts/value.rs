//! A tolerant reader of structured text: JSON, Python's `repr`, and what JavaScript consoles print.
//!
//! Bodies arrive cut off at a size limit, printed by a client library, or quoted inside prose. The reader
//! therefore takes single quotes, `None` and `True`, bare keys and trailing commas, and keeps what it has
//! when the text ends in the middle. It borrows from the text wherever nothing is escaped.

use std::borrow::Cow;

/// One structured value; objects keep their order.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// `null` or `None`.
    Null,
    /// A boolean.
    Bool(bool),
    /// A number, as it is written.
    Number(&'a str),
    /// A text.
    Text(Cow<'a, str>),
    /// A list.
    List(Vec<Self>),
    /// An object.
    Object(Vec<(Cow<'a, str>, Self)>),
}

impl Value<'_> {
    /// The value of a key of an object.
    pub fn key(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Object(pairs) => pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value),
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::Text(_) | Self::List(_) => None,
        }
    }

    /// A scalar as text.
    pub fn scalar(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Number(number) => Some(number),
            Self::Bool(true) => Some("true"),
            Self::Bool(false) => Some("false"),
            Self::Null | Self::List(_) | Self::Object(_) => None,
        }
    }

    /// Calls `visit` with every value at a path; `*` stands for any element of a list.
    pub fn at(&self, path: &[String], visit: &mut dyn FnMut(&Self)) {
        let Some((step, rest)) = path.split_first() else {
            return visit(self);
        };
        match self {
            Self::Object(pairs) => {
                pairs.iter().filter(|(key, _)| key == step).for_each(|(_, value)| value.at(rest, visit));
            }
            Self::List(items) if step == "*" => items.iter().for_each(|item| item.at(rest, visit)),
            Self::List(items) => {
                if let Some(item) = step.parse().ok().and_then(|index: usize| items.get(index)) {
                    item.at(rest, visit);
                }
            }
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::Text(_) => {}
        }
    }
}

/// A value read from the beginning of a text.
#[derive(Debug)]
pub(crate) struct Read<'a> {
    /// The value.
    pub(crate) value: Value<'a>,
    /// How many bytes it took.
    pub(crate) length: usize,
    /// Whether it ended properly, rather than with the text.
    pub(crate) complete: bool,
}

/// Reads one value from the beginning of a text; `None` if there is none.
pub(crate) fn read(text: &str) -> Option<Read<'_>> {
    let mut reader = Reader { text, at: 0, cut: false };
    reader.skip_space();
    let value = reader.value(0)?;
    Some(Read { value, length: reader.at, complete: !reader.cut })
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    cut: bool,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    fn take(&mut self, wanted: u8) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    fn value(&mut self, depth: usize) -> Option<Value<'a>> {
        if depth > DEPTH {
            return None;
        }
        match self.peek()? {
            b'{' => self.object(depth),
            b'[' => self.list(depth, b']'),
            b'(' => self.list(depth, b')'),
            quote @ (b'"' | b'\'') => self.text(quote).map(Value::Text),
            b'-' | b'+' | b'0'..=b'9' => {
                let number = self.run(|byte| matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9'));
                Some(Value::Number(number))
            }
            b'a'..=b'z' | b'A'..=b'Z' => match self.word() {
                "null" | "None" | "undefined" | "NaN" => Some(Value::Null),
                "true" | "True" => Some(Value::Bool(true)),
                "false" | "False" => Some(Value::Bool(false)),
                "b" | "u" | "r" if matches!(self.peek(), Some(b'"' | b'\'')) => self.value(depth),
                _ => None,
            },
            _ => None,
        }
    }

    fn run(&mut self, mut belongs: impl FnMut(u8) -> bool) -> &'a str {
        let start = self.at;
        while self.peek().is_some_and(&mut belongs) {
            self.at += 1;
        }
        self.text.get(start..self.at).unwrap_or_default()
    }

    fn word(&mut self) -> &'a str {
        self.run(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$'))
    }

    fn object(&mut self, depth: usize) -> Option<Value<'a>> {
        self.at += 1;
        let mut pairs = Vec::with_capacity(6);
        loop {
            self.skip_space();
            let key = match self.peek() {
                None => break self.cut = true,
                Some(b'}') => break self.at += 1,
                Some(quote @ (b'"' | b'\'')) => self.text(quote)?,
                Some(_) => match self.word() {
                    "" => return None,
                    word => Cow::Borrowed(word),
                },
            };
            self.skip_space();
            if self.peek().is_none() {
                break self.cut = true;
            }
            if !self.take(b':') {
                return None;
            }
            self.skip_space();
            if self.peek().is_none() {
                break self.cut = true;
            }
            pairs.push((key, self.value(depth + 1)?));
            if self.cut {
                break;
            }
            self.skip_space();
            if !self.take(b',') && !matches!(self.peek(), None | Some(b'}')) {
                return None;
            }
        }
        Some(Value::Object(pairs))
    }

    fn list(&mut self, depth: usize, close: u8) -> Option<Value<'a>> {
        self.at += 1;
        let mut items = Vec::new();
        loop {
            self.skip_space();
            match self.peek() {
                None => break self.cut = true,
                Some(byte) if byte == close => break self.at += 1,
                Some(_) => items.push(self.value(depth + 1)?),
            }
            if self.cut {
                break;
            }
            self.skip_space();
            if !self.take(b',') && self.peek().is_some_and(|byte| byte != close) {
                return None;
            }
        }
        Some(Value::List(items))
    }

    fn text(&mut self, quote: u8) -> Option<Cow<'a, str>> {
        self.at += 1;
        let start = self.at;
        let bytes = self.text.as_bytes().get(start..)?;
        let Some(end) = memchr::memchr2(quote, b'\\', bytes) else {
            self.cut = true;
            self.at = self.text.len();
            return Some(Cow::Borrowed(self.text.get(start..)?));
        };
        let plain = self.text.get(start..start + end)?;
        self.at = start + end;
        if self.take(quote) {
            return Some(Cow::Borrowed(plain));
        }
        Some(Cow::Owned(self.escaped(quote, plain.to_owned())))
    }

    fn escaped(&mut self, quote: u8, mut text: String) -> String {
        loop {
            let rest = self.text.get(self.at..).unwrap_or_default();
            let Some(end) = memchr::memchr2(quote, b'\\', rest.as_bytes()) else {
                text.push_str(rest);
                self.cut = true;
                self.at = self.text.len();
                return text;
            };
            text.push_str(rest.get(..end).unwrap_or_default());
            self.at += end;
            if self.take(quote) {
                return text;
            }
            self.at += 1;
            self.escape(&mut text);
        }
    }

    fn escape(&mut self, text: &mut String) {
        let Some(character) = self.text.get(self.at..).and_then(|rest| rest.chars().next()) else {
            self.cut = true;
            return;
        };
        self.at += character.len_utf8();
        match character {
            'n' => text.push('\n'),
            't' => text.push('\t'),
            'r' => text.push('\r'),
            'b' | 'f' | '0' => text.push(' '),
            'u' => text.push(self.code_point(4)),
            'x' => text.push(self.code_point(2)),
            other => text.push(other),
        }
    }

    fn code_point(&mut self, digits: usize) -> char {
        let Some(first) = self.hex(digits) else {
            return char::REPLACEMENT_CHARACTER;
        };
        if let Some(character) = char::from_u32(first) {
            return character;
        }
        let rest = self.text.get(self.at..).unwrap_or_default();
        if (0xd800..0xdc00).contains(&first) && rest.starts_with("\\u") {
            self.at += 2;
            if let Some(second @ 0xdc00..0xe000) = self.hex(4) {
                let point = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                return char::from_u32(point).unwrap_or(char::REPLACEMENT_CHARACTER);
            }
        }
        char::REPLACEMENT_CHARACTER
    }

    fn hex(&mut self, digits: usize) -> Option<u32> {
        let number = u32::from_str_radix(self.text.get(self.at..self.at + digits)?, 16).ok()?;
        self.at += digits;
        Some(number)
    }
}

/// Deeper nesting is not read: no provider nests so deep, and the reader recurses.
const DEPTH: usize = 48;

#[cfg(test)]
mod tests {
    use super::{Value, read};

    fn scalar_at(text: &str, path: &[&str]) -> Option<String> {
        let path: Vec<_> = path.iter().map(|step| (*step).to_owned()).collect();
        let mut found = None;
        read(text)?.value.at(&path, &mut |value| found = value.scalar().map(str::to_owned));
        found
    }

    #[test]
    fn python_and_console_dumps_read_like_json() {
        let python = "{'error': {'message': \"it's\", 'code': None, 'list': ['a',], 'n': 429}}";
        assert_eq!(scalar_at(python, &["error", "message"]).as_deref(), Some("it's"));
        assert_eq!(scalar_at(python, &["error", "n"]).as_deref(), Some("429"));
        let console = "{\n  errno: -11,\n  code: 'EAGAIN',\n}";
        assert_eq!(scalar_at(console, &["code"]).as_deref(), Some("EAGAIN"));
    }

    #[test]
    fn a_cut_text_keeps_what_it_has() {
        let cut = read(r#"{"error":{"code":"1308","message":"Usage lim"#).expect("a value");
        assert!(!cut.complete);
        assert_eq!(
            cut.value.key("error").and_then(|e| e.key("message")).and_then(Value::scalar),
            Some("Usage lim")
        );
    }

    #[test]
    fn escapes_and_surrogates_are_decoded() {
        assert_eq!(scalar_at(r#"{"a":"\u4f59\ud83d\ude00\n\/"}"#, &["a"]).as_deref(), Some("余😀\n/"));
    }

    #[test]
    fn prose_is_no_value() {
        assert!(read("{not json at all}").is_none());
        assert!(read("hello").is_none());
        assert!(read(&"[".repeat(500)).is_none());
    }
}
