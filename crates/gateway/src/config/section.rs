//! Tables of the file, read field by field.
//!
//! A [`Section`] hands out typed fields and remembers which names were asked for. What is left over when it is
//! finished is unknown and reported with the nearest name. Mistakes are collected, so that one look at the output
//! shows all of them. `${VAR}` and `${VAR:-default}` are replaced in every text.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::source::Source;

/// One table.
pub(super) struct Section<'s, 't> {
    pub(super) source: &'s Source<'t>,
    table: &'s DeTable<'t>,
    span: Range<usize>,
    /// The table as it is written in the file: `[server]`, `[[provider]]`.
    title: String,
    asked: RefCell<BTreeSet<&'static str>>,
}

/// A value and where it stands.
#[derive(Clone)]
pub(super) struct Located<T> {
    pub(super) value: T,
    pub(super) at: Range<usize>,
}

impl<'s, 't> Section<'s, 't> {
    pub(super) fn root(source: &'s Source<'t>, table: &'s Spanned<DeTable<'t>>) -> Self {
        Self { source, table: table.get_ref(), span: 0..0, title: String::new(), asked: RefCell::default() }
    }

    /// Where the table begins.
    pub(super) fn at(&self) -> &Range<usize> {
        &self.span
    }

    /// The line where the table begins.
    pub(super) fn line(&self) -> usize {
        self.source.line(self.span.start)
    }

    pub(super) fn report(&self, at: &Range<usize>, what: impl Into<String>, fix: impl Into<String>) {
        self.source.report(at, what, fix);
    }

    pub(super) fn has(&self, name: &'static str) -> bool {
        self.value(name).is_some()
    }

    pub(super) fn text(&self, name: &'static str) -> Option<Located<String>> {
        let value = self.value(name)?;
        self.text_of(name, value)
    }

    pub(super) fn required_text(&self, name: &'static str, example: &str) -> Option<Located<String>> {
        if self.value(name).is_none() {
            self.report(
                &self.span,
                format!("{} needs `{name}`", self.title),
                format!("add `{name} = {example}`"),
            );
        }
        self.text(name).filter(|text| {
            let filled = !text.value.trim().is_empty();
            if !filled {
                self.report(
                    &text.at,
                    format!("`{name}` is empty"),
                    format!("write for example `{name} = {example}`"),
                );
            }
            filled
        })
    }

    pub(super) fn flag(&self, name: &'static str) -> Option<bool> {
        let value = self.value(name)?;
        if value.get_ref().as_bool().is_none() {
            self.mistyped(name, value, "true or false");
        }
        value.get_ref().as_bool()
    }

    pub(super) fn number(&self, name: &'static str) -> Option<Located<u64>> {
        let value = self.value(name)?;
        let number = unsigned(value.get_ref());
        if number.is_none() {
            self.mistyped(name, value, "a whole number of zero or more");
        }
        Some(Located { value: number?, at: value.span() })
    }

    /// A number of bytes: a plain number, or text such as `"32MiB"`.
    pub(super) fn size(&self, name: &'static str) -> Option<u64> {
        let value = self.value(name)?;
        let size = unsigned(value.get_ref()).or_else(|| bytes(value.get_ref().as_str()?));
        if size.is_none() {
            self.mistyped(name, value, "a size such as \"32MiB\"");
        }
        size
    }

    /// A list of texts; a single text counts as a list of one.
    pub(super) fn texts(&self, name: &'static str) -> Vec<Located<String>> {
        let Some(value) = self.value(name) else { return Vec::new() };
        match value.get_ref() {
            DeValue::Array(items) => items.iter().filter_map(|item| self.text_of(name, item)).collect(),
            DeValue::String(_) => self.text_of(name, value).into_iter().collect(),
            DeValue::Integer(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Table(_) => {
                self.mistyped(name, value, "a list of texts");
                Vec::new()
            }
        }
    }

    /// One of some words.
    pub(super) fn choice<T: Copy>(&self, name: &'static str, words: &[(&str, T)]) -> Option<Located<T>> {
        let text = self.text(name)?;
        let found = words.iter().find(|(word, _)| *word == text.value).map(|(_, meaning)| *meaning);
        if found.is_none() {
            let all: Vec<String> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
            let near = nearest(&text.value, words.iter().map(|(word, _)| *word));
            let fix = near.map_or_else(
                || format!("one of {}", all.join(", ")),
                |near| format!("did you mean \"{near}\"? Possible are {}", all.join(", ")),
            );
            self.report(&text.at, format!("`{name}` cannot be \"{}\"", text.value), fix);
        }
        Some(Located { value: found?, at: text.at })
    }

    pub(super) fn section(&self, name: &'static str) -> Option<Self> {
        let value = self.value(name)?;
        let DeValue::Table(table) = value.get_ref() else {
            self.mistyped(name, value, "a table");
            return None;
        };
        let title =
            if self.title.is_empty() { format!("[{name}]") } else { format!("{} {name}", self.title) };
        Some(self.child(table, value.span(), title))
    }

    pub(super) fn sections(&self, name: &'static str) -> Vec<Self> {
        let Some(value) = self.value(name) else { return Vec::new() };
        let DeValue::Array(items) = value.get_ref() else {
            let outer = self.title.trim_matches(['[', ']']).to_owned();
            let path = if outer.is_empty() { name.to_owned() } else { format!("{outer}.{name}") };
            self.report(
                &value.span(),
                format!("`{name}` is a list of tables"),
                format!("write `[[{path}]]`"),
            );
            return Vec::new();
        };
        let outer = self.title.trim_matches(['[', ']']);
        let title = if outer.is_empty() { format!("[[{name}]]") } else { format!("[[{outer}.{name}]]") };
        let child = |item: &'s Spanned<DeValue<'t>>| match item.get_ref() {
            DeValue::Table(table) => Some(self.child(table, item.span(), title.clone())),
            DeValue::String(_)
            | DeValue::Integer(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Array(_) => {
                self.mistyped(name, item, "a list of tables");
                None
            }
        };
        items.iter().filter_map(child).collect()
    }

    /// All entries of a table of free names, such as `headers`.
    pub(super) fn entries(&self, name: &'static str) -> BTreeMap<String, Located<&'s DeValue<'t>>> {
        let Some(value) = self.value(name) else { return BTreeMap::new() };
        let DeValue::Table(table) = value.get_ref() else {
            self.mistyped(name, value, "a table");
            return BTreeMap::new();
        };
        let entry = |(name, value): (&Spanned<std::borrow::Cow<'t, str>>, &'s Spanned<DeValue<'t>>)| {
            (name.get_ref().to_string(), Located { value: value.get_ref(), at: value.span() })
        };
        table.iter().map(entry).collect()
    }

    /// All entries of a table of free names whose values are texts.
    pub(super) fn pairs(&self, name: &'static str) -> BTreeMap<String, Located<String>> {
        let text = |(key, located): (String, Located<&DeValue<'_>>)| {
            let Some(text) = located.value.as_str() else {
                self.report(&located.at, format!("`{name}.{key}` is no text"), "put it in quotes");
                return None;
            };
            let value = self.source.expand(text, &located.at)?;
            Some((key, Located { value, at: located.at }))
        };
        self.entries(name).into_iter().filter_map(text).collect()
    }

    /// The fields among `names`, as plain values with texts expanded.
    pub(super) fn values(&self, names: &[&'static str]) -> Vec<(&'static str, Located<toml::Value>)> {
        let plain = |name: &&'static str| {
            let value = self.value(name)?;
            let plain = self.plain(value)?;
            Some((*name, Located { value: plain, at: value.span() }))
        };
        names.iter().filter_map(plain).collect()
    }

    /// Reports what nobody asked for.
    pub(super) fn finish(&self) {
        let asked = self.asked.borrow();
        for (name, _) in self.table.iter().filter(|(name, _)| !asked.contains(name.get_ref().as_ref())) {
            let place = if self.title.is_empty() {
                "at the top of the file".to_owned()
            } else {
                format!("in {}", self.title)
            };
            let kind = if self.title.is_empty() { "table or setting" } else { "setting" };
            let fix = nearest(name.get_ref(), asked.iter().copied()).map_or_else(
                || format!("possible are {}", asked.iter().copied().collect::<Vec<_>>().join(", ")),
                |near| format!("did you mean `{near}`?"),
            );
            self.source.report(&name.span(), format!("unknown {kind} `{}` {place}", name.get_ref()), fix);
        }
    }

    fn child(&self, table: &'s DeTable<'t>, span: Range<usize>, title: String) -> Self {
        Self { source: self.source, table, span, title, asked: RefCell::default() }
    }

    fn value(&self, name: &'static str) -> Option<&'s Spanned<DeValue<'t>>> {
        self.asked.borrow_mut().insert(name);
        #[cfg(test)]
        self.source.note(format!("{}.{name}", self.title.trim_matches(['[', ']'])).trim_start_matches('.'));
        self.table.get(name)
    }

    fn text_of(&self, name: &str, value: &Spanned<DeValue<'t>>) -> Option<Located<String>> {
        let Some(text) = value.get_ref().as_str() else {
            self.mistyped(name, value, "a text in quotes");
            return None;
        };
        let at = value.span();
        Some(Located { value: self.source.expand(text, &at)?, at })
    }

    fn plain(&self, value: &Spanned<DeValue<'t>>) -> Option<toml::Value> {
        match value.get_ref() {
            DeValue::String(text) => self.source.expand(text, &value.span()).map(toml::Value::String),
            DeValue::Array(items) => {
                items.iter().map(|item| self.plain(item)).collect::<Option<_>>().map(toml::Value::Array)
            }
            DeValue::Integer(number) => {
                i64::from_str_radix(number.as_str(), number.radix()).ok().map(toml::Value::Integer)
            }
            DeValue::Float(number) => number.as_str().parse().ok().map(toml::Value::Float),
            DeValue::Boolean(flag) => Some(toml::Value::Boolean(*flag)),
            DeValue::Datetime(_) | DeValue::Table(_) => {
                self.report(
                    &value.span(),
                    format!("a {} cannot stand here", value.get_ref().type_str()),
                    "remove it",
                );
                None
            }
        }
    }

    fn mistyped(&self, name: &str, value: &Spanned<DeValue<'t>>, expected: &str) {
        let found = value.get_ref().type_str();
        self.report(&value.span(), format!("`{name}` is a {found}"), format!("it must be {expected}"));
    }
}

/// The known name that somebody most likely meant.
pub(crate) fn nearest<'n>(word: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let folded = word.to_lowercase().replace('-', "_");
    let scored =
        names.map(|name| (strsim::jaro_winkler(&folded, &name.to_lowercase().replace('-', "_")), name));
    let best = scored.max_by(|(one, _), (other, _)| one.total_cmp(other));
    best.filter(|(score, _)| *score >= NEAR_ENOUGH).map(|(_, name)| name)
}

fn unsigned(value: &DeValue<'_>) -> Option<u64> {
    let number = value.as_integer()?;
    u64::from_str_radix(number.as_str(), number.radix()).ok()
}

fn bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let factor = match text[digits..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        _ => return None,
    };
    text[..digits].parse::<u64>().ok()?.checked_mul(factor)
}

/// Jaro-Winkler similarity from which on a name is offered.
const NEAR_ENOUGH: f64 = 0.8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_unit() {
        let sizes = [
            ("32MiB", Some(32 << 20)),
            ("64 kB", Some(64 << 10)),
            ("5", Some(5)),
            ("5x", None),
            ("MiB", None),
        ];
        for (text, size) in sizes {
            assert_eq!(bytes(text), size, "{text}");
        }
    }

    #[test]
    fn the_nearest_name_is_offered_only_when_it_is_near() {
        let names = ["rotation", "models", "base_url"];
        assert_eq!(nearest("rotaton", names.into_iter()), Some("rotation"));
        assert_eq!(nearest("baseUrl", names.into_iter()), Some("base_url"));
        assert_eq!(nearest("zzz", names.into_iter()), None);
    }
}
