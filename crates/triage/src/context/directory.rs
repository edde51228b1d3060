//! The embedded directory of models: windows, output limits and prices, for when nobody else knows.
//!
//! `data/models.txt` is made by `tools/models/update` from published catalogues; `data/NOTICES` holds their
//! licences. A provider is recognised by the host of its base URL or by its name in the directory; section `*`
//! holds what is usual for a model wherever it runs. Where the sources disagree over a window, the smaller one
//! counts and the larger one is shown.

use std::sync::LazyLock;

use serde::Serialize;

/// All rows, ready to be searched.
#[derive(Debug)]
pub struct Directory {
    sources: Vec<&'static str>,
    public_list: Option<&'static str>,
    anywhere: Section,
    providers: Vec<Section>,
}

impl Directory {
    /// The directory inside the binary.
    pub fn embedded() -> &'static Self {
        static DIRECTORY: LazyLock<Directory> = LazyLock::new(|| Directory::read(DATA));
        &DIRECTORY
    }

    /// Where the rows come from: one line a source, with version, date, licence and address.
    pub fn sources(&self) -> &[&'static str] {
        &self.sources
    }

    /// A list of models that anybody may read without a key.
    pub fn public_list(&self) -> Option<&'static str> {
        self.public_list
    }

    /// What is known of a model. `place` tells the provider: its base URL, or its name in the directory. The
    /// full name wins over the longest part of it, the provider's own row over what is usual.
    pub fn find(&self, place: &str, model: &str) -> Option<Entry> {
        let name = model.trim().to_ascii_lowercase();
        let sections: Vec<&Section> = self.section(place).into_iter().chain([&self.anywhere]).collect();
        for part in parts(&name) {
            let rows = sections.iter().filter_map(|section| Some((*section, section.row(part)?)));
            if let Some(entry) =
                rows.into_iter().find_map(|(section, row)| Entry::read(section, row, part == name))
            {
                return Some(entry);
            }
        }
        None
    }

    fn read(text: &'static str) -> Self {
        let mut directory = Self {
            sources: Vec::new(),
            public_list: None,
            anywhere: Section::default(),
            providers: Vec::new(),
        };
        let mut section = Section::default();
        for line in text.lines() {
            if let Some(source) = line.strip_prefix("# source ") {
                directory.sources.push(source);
            } else if let Some(url) = line.strip_prefix("! public-list ") {
                directory.public_list = Some(url);
            } else if let Some(head) = line.strip_prefix("@ ") {
                directory.keep(std::mem::replace(&mut section, Section::headed(head)));
            } else if !line.starts_with('#')
                && let Some((model, row)) = line.split_once(' ')
            {
                section.models.push((model, row));
            }
        }
        directory.keep(section);
        directory
    }

    fn keep(&mut self, section: Section) {
        match section.name {
            "" => {}
            "*" => self.anywhere = section,
            _ => self.providers.push(section),
        }
    }

    /// The section whose address is the longest beginning of the base URL, or whose name it is.
    fn section(&self, place: &str) -> Option<&Section> {
        let address = place.split_once("://").map_or(place, |(_, rest)| rest).trim_end_matches('/');
        let matching = self.providers.iter().filter_map(|section| {
            let length = section.hosts.iter().filter_map(|host| matches_host(host, address)).max()?;
            Some((length, section))
        });
        matching
            .max_by_key(|(length, section)| (*length, std::cmp::Reverse(section.name)))
            .map(|(_, section)| section)
            .or_else(|| self.providers.iter().find(|section| section.name == place))
    }
}

/// What the directory knows of one model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Entry {
    /// The window in tokens; the smaller one where the sources disagree.
    pub context: u64,
    /// The larger window of a disagreement.
    pub disputed: Option<u64>,
    /// The most tokens of one answer.
    pub max_output: Option<u64>,
    /// What it costs, where the provider is known.
    pub price: Option<Price>,
    /// Whether it reasons before it answers, so that long silence is normal.
    pub reasoning: bool,
    /// The row, as `section/model`.
    pub row: String,
    /// Whether the row bears the full name that was asked for.
    pub exact: bool,
}

impl Entry {
    fn read(section: &Section, (model, row): (&str, &str), exact: bool) -> Option<Self> {
        let fields: Vec<&str> = row.split(' ').collect();
        let (context, disputed) = match fields.first()?.split_once('|') {
            Some((small, large)) => (small.parse().ok()?, large.parse().ok()),
            None => (fields.first()?.parse().ok()?, None),
        };
        let dollars = |index: usize| fields.get(index)?.parse::<f64>().ok();
        let price = dollars(2).zip(dollars(3)).map(|(input, output)| Price {
            input,
            output,
            cache_read: dollars(4),
            cache_write: dollars(5),
        });
        Some(Self {
            context,
            disputed,
            max_output: fields.get(1).and_then(|field| field.parse().ok()),
            price,
            reasoning: fields.get(6).is_some_and(|flags| flags.contains('r')),
            row: format!("{}/{model}", section.name),
            exact,
        })
    }
}

/// List prices in USD per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Price {
    /// Prompt tokens.
    pub input: f64,
    /// Tokens of the answer.
    pub output: f64,
    /// Prompt tokens read from the provider's cache, if they have a price of their own.
    pub cache_read: Option<f64>,
    /// Prompt tokens written to the provider's cache, if they have a price of their own.
    pub cache_write: Option<f64>,
}

impl Price {
    /// The estimated cost of one request in USD.
    pub fn cost(&self, tokens: Tokens) -> f64 {
        let part = |count: u64, price: f64| count as f64 * price / 1e6;
        part(tokens.input, self.input)
            + part(tokens.output, self.output)
            + part(tokens.cache_read, self.cache_read.unwrap_or(self.input))
            + part(tokens.cache_write, self.cache_write.unwrap_or(self.input))
    }
}

/// Tokens of one request by price; no token counts twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Prompt tokens without those of the cache.
    pub input: u64,
    /// Tokens of the answer.
    pub output: u64,
    /// Prompt tokens read from the cache.
    pub cache_read: u64,
    /// Prompt tokens written to the cache.
    pub cache_write: u64,
}

#[derive(Debug, Default)]
struct Section {
    name: &'static str,
    hosts: Vec<&'static str>,
    /// In the order of their names.
    models: Vec<(&'static str, &'static str)>,
}

impl Section {
    fn headed(head: &'static str) -> Self {
        let (name, hosts) = head.split_once(' ').unwrap_or((head, "-"));
        let hosts = hosts.split(',').filter(|host| *host != "-").collect();
        Self { name, hosts, models: Vec::new() }
    }

    fn row(&self, model: &str) -> Option<(&'static str, &'static str)> {
        let index = self.models.binary_search_by_key(&model, |(name, _)| name).ok()?;
        Some(self.models[index])
    }
}

/// How much of an address a host pattern (`host` or `host/path`) covers.
fn matches_host(pattern: &str, address: &str) -> Option<usize> {
    let host_end = pattern.find('/').unwrap_or(pattern.len());
    let (host, path) = pattern.split_at(host_end);
    let (their_host, their_path) = address.split_at(address.find('/').unwrap_or(address.len()));
    let their_host = their_host.split(':').next().unwrap_or_default();
    let same = their_host == host || their_host.strip_suffix(host).is_some_and(|rest| rest.ends_with('.'));
    if !same {
        return None;
    }
    let shared = path.bytes().zip(their_path.bytes()).take_while(|(ours, theirs)| ours == theirs).count();
    Some(host.len() * 1_000 + shared)
}

/// The name itself, then its parts between separators, longest first. A part must hold a digit: words like
/// `chat` or `preview` are no names.
fn parts(name: &str) -> Vec<&str> {
    let is_separator = |c: char| "/:@-_ ()[]".contains(c);
    let mut cuts: Vec<usize> =
        name.char_indices().filter(|(_, c)| is_separator(*c)).map(|(at, _)| at).collect();
    cuts.truncate(SEPARATORS_READ);
    let starts: Vec<usize> = std::iter::once(0).chain(cuts.iter().map(|at| at + 1)).collect();
    let ends: Vec<usize> = cuts.iter().copied().chain([name.len()]).collect();
    let mut parts: Vec<&str> = starts
        .iter()
        .flat_map(|start| ends.iter().filter(move |end| *end > start).map(move |end| &name[*start..*end]))
        .filter(|part| part.len() >= SHORTEST_PART && part.contains(|c: char| c.is_ascii_digit()))
        .collect();
    parts.sort_by_key(|part| std::cmp::Reverse(part.len()));
    if parts.first() != Some(&name) {
        parts.insert(0, name);
    }
    parts
}

const DATA: &str = include_str!("../../data/models.txt");
/// A name with more separators than any real one has.
const SEPARATORS_READ: usize = 24;
/// The shortest part of a name that may stand for a model, such as `o3`.
const SHORTEST_PART: usize = 2;
