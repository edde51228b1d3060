//! All rules of all packs, compiled once: one automaton for every phrase, one table for every token.
//!
//! A failure is scanned once. What is found names the few rules that can match at all (its candidates);
//! everything else is never looked at, so that the cost does not grow with the number of rules.

use std::{collections::HashMap, ops::Range};

use aho_corasick::{AhoCorasick, AhoCorasickKind};

use crate::{
    Evidence, Kind,
    facts::{Facts, View},
    rules::{BodyShape, KindName, Pack, Rule},
};

/// The compiled rules of a list of packs.
#[derive(Debug)]
pub(crate) struct Matcher {
    automaton: AhoCorasick,
    /// The phrases of the rules that read web pages, and their numbers: pages are long and these are few.
    pages: AhoCorasick,
    page_phrases: Vec<u32>,
    tokens: HashMap<Box<str>, u32>,
    armed: Vec<Armed>,
    packs: Vec<Range<u32>>,
    /// The pack of every rule.
    pack_of: Vec<u32>,
    /// Rules by the phrase, token or header that triggers them.
    by_phrase: Vec<Vec<u32>>,
    by_token: Vec<Vec<u32>>,
    by_header: HashMap<Box<str>, Vec<u32>>,
    /// Rules that nothing triggers, by pack.
    untriggered: Vec<Vec<u32>>,
    quote_phrases: Vec<u32>,
    quote_tokens: Vec<u32>,
}

/// One rule with its literals replaced by their numbers.
#[derive(Debug, Default)]
struct Armed {
    all: Vec<u32>,
    any: Vec<u32>,
    none: Vec<u32>,
    codes: Vec<u32>,
    types: Vec<u32>,
    /// The name of a field that must be there.
    key: Option<Box<str>>,
}

/// What one scan of one failure found.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// Phrases that were found, and in which layers (as bits).
    phrases: Hits,
    /// Tokens that were found, likewise.
    tokens: Hits,
    /// Type-like tokens that were found, likewise.
    kinds: Hits,
    candidates: Vec<u32>,
    /// Whether a relay's own words show that it quotes somebody.
    pub(crate) quotes: bool,
}

/// Literals by number with the layers where they stand. They are few, and almost every question about one is
/// answered with no by a bit of its number.
#[derive(Debug, Default)]
struct Hits {
    found: Vec<(u32, u32)>,
    marks: [u64; 4],
}

impl Hits {
    fn add(&mut self, number: u32, bit: u32) {
        if self.may_have(number)
            && let Some((_, layers)) = self.found.iter_mut().find(|(known, _)| *known == number)
        {
            *layers |= bit;
            return;
        }
        self.marks[(number >> 6 & 3) as usize] |= 1 << (number & 63);
        self.found.push((number, bit));
    }

    fn may_have(&self, number: u32) -> bool {
        self.marks[(number >> 6 & 3) as usize] & 1 << (number & 63) != 0
    }

    fn has(&self, number: u32, mask: u32) -> bool {
        self.may_have(number)
            && self.found.iter().any(|(known, layers)| *known == number && layers & mask != 0)
    }

    fn numbers(&self) -> impl Iterator<Item = usize> {
        self.found.iter().map(|(number, _)| *number as usize)
    }
}

/// Why a rule did not match: the first condition that failed.
pub(crate) type Failed = &'static str;

impl Matcher {
    pub(crate) fn new(packs: &[Pack]) -> Self {
        let mut builder = Builder::default();
        for content in packs {
            let start = builder.count();
            let mut untriggered = Vec::new();
            for rule in &content.rules {
                if !builder.add(rule) {
                    untriggered.push(builder.count() - 1);
                }
            }
            builder.packs.push(start..builder.count());
            builder.untriggered.push(untriggered);
            let phrases = content.quotes.any.iter().map(|phrase| builder.literals.phrase(phrase));
            builder.quote_phrases.extend(phrases);
            let tokens = content.quotes.codes.iter().map(|code| builder.literals.token(code));
            builder.quote_tokens.extend(tokens);
        }
        builder.build()
    }

    /// Scans a failure for all phrases and tokens.
    pub(crate) fn scan(&self, facts: &Facts<'_>) -> Scan {
        let mut scan = Scan::default();
        let mut layer = 0;
        for found in self.automaton.find_overlapping_iter(&facts.text) {
            while facts.layers.get(layer).is_some_and(|layer| layer.words.end < found.end()) {
                layer += 1;
            }
            scan.phrases.add(found.pattern().as_u32(), 1 << layer.min(Facts::LAYERS));
        }
        for found in self.automaton.find_overlapping_iter(&facts.code_words) {
            scan.phrases.add(found.pattern().as_u32(), View::CODES.0);
        }
        for found in self.pages.find_overlapping_iter(&facts.page) {
            if let Some(number) = self.page_phrases.get(found.pattern().as_usize()) {
                scan.phrases.add(*number, PAGE);
            }
        }
        for token in &facts.tokens {
            if let Some(number) = self.tokens.get(token.text.as_str()) {
                scan.tokens.add(*number, 1 << token.layer);
                if token.is_type {
                    scan.kinds.add(*number, 1 << token.layer);
                }
            }
        }
        scan.quotes = self.quote_phrases.iter().any(|phrase| scan.phrases.has(*phrase, View::WHOLE.0))
            || self.quote_tokens.iter().any(|token| scan.tokens.has(*token, View::WHOLE.0));
        scan
    }

    /// Collects the rules that something triggers, of the packs that are consulted.
    pub(crate) fn find_candidates(
        &self,
        scan: &mut Scan,
        facts: &Facts<'_>,
        evidence: &Evidence,
        consulted: &dyn Fn(u32) -> bool,
    ) {
        let by_phrase = scan.phrases.numbers().filter_map(|number| self.by_phrase.get(number));
        let by_token = scan.tokens.numbers().filter_map(|number| self.by_token.get(number));
        let headers = evidence.headers.iter().chain(&facts.nested_headers);
        let by_header = headers.filter_map(|(name, _)| self.by_header.get(name.as_str()));
        let triggered = by_phrase.chain(by_token).chain(by_header).flatten().copied();
        let in_a_consulted_pack =
            |rule: &u32| self.pack_of.get(*rule as usize).is_some_and(|pack| consulted(*pack));
        scan.candidates = triggered.filter(in_a_consulted_pack).collect();
        scan.candidates.sort_unstable();
        scan.candidates.dedup();
        scan.candidates.retain(|rule| {
            let key = self.armed.get(*rule as usize).and_then(|armed| armed.key.as_deref());
            key.is_none_or(|key| evidence.text.contains(key) || evidence.stderr.contains(key))
        });
    }

    /// The rules of a pack that may match, in their order: their number here and their place in the pack.
    pub(crate) fn candidates(&self, scan: &Scan, pack: usize) -> impl Iterator<Item = (u32, usize)> {
        let range = self.packs.get(pack).cloned().unwrap_or_default();
        let start = scan.candidates.partition_point(|rule| *rule < range.start);
        let end = scan.candidates.partition_point(|rule| *rule < range.end);
        let mut triggered = scan.candidates.get(start..end).unwrap_or_default().iter().copied().peekable();
        let mut others = self.untriggered.get(pack).into_iter().flatten().copied().peekable();
        std::iter::from_fn(move || {
            let next = match (triggered.peek(), others.peek()) {
                (Some(one), Some(other)) if one < other => triggered.next(),
                (_, Some(_)) => others.next(),
                (_, None) => triggered.next(),
            };
            next.map(|rule| (rule, (rule - range.start) as usize))
        })
    }

    /// Whether the literals of a rule stand in a view; the first condition that fails otherwise.
    pub(crate) fn literals_hold(
        &self,
        rule: u32,
        body: &[BodyShape],
        scan: &Scan,
        view: View,
    ) -> Result<(), Failed> {
        let Some(armed) = self.armed.get(rule as usize) else {
            return Err("rule");
        };
        let mask = if body.contains(&BodyShape::Html) { view.0 | PAGE } else { view.0 & !PAGE };
        if !armed.codes.is_empty() && !armed.codes.iter().any(|token| scan.tokens.has(*token, mask)) {
            return Err("code");
        }
        if !armed.types.is_empty() && !armed.types.iter().any(|token| scan.kinds.has(*token, mask)) {
            return Err("type");
        }
        if !armed.all.iter().all(|phrase| scan.phrases.has(*phrase, mask)) {
            return Err("all");
        }
        if !armed.any.is_empty() && !armed.any.iter().any(|phrase| scan.phrases.has(*phrase, mask)) {
            return Err("any");
        }
        if armed.none.iter().any(|phrase| scan.phrases.has(*phrase, mask)) {
            return Err("none");
        }
        Ok(())
    }

    /// The literal of a rule that was found: what `matched` shows.
    pub(crate) fn matched<'r>(&self, number: u32, rule: &'r Rule, scan: &Scan) -> Option<&'r str> {
        let armed = self.armed.get(number as usize)?;
        let any = u32::MAX;
        let found = |numbers: &[u32], texts: &'r [String], there: &dyn Fn(u32) -> bool| {
            numbers.iter().zip(texts).find(|(number, _)| there(**number)).map(|(_, text)| text.as_str())
        };
        found(&armed.codes, &rule.when.codes, &|token| scan.tokens.has(token, any))
            .or_else(|| found(&armed.types, &rule.when.types, &|token| scan.kinds.has(token, any)))
            .or_else(|| found(&armed.any, &rule.when.any, &|phrase| scan.phrases.has(phrase, any)))
            .or_else(|| rule.when.all.iter().max_by_key(|phrase| phrase.len()).map(String::as_str))
    }
}

/// Whether the kind of failure, exit code, signal and fault are what a rule asks for.
pub(crate) fn kind_holds(rule: &Rule, facts: &Facts<'_>, evidence: &Evidence) -> Result<(), Failed> {
    let when = &rule.when;
    if !when.kinds.is_empty() && !when.kinds.contains(&facts.kind) {
        return Err("kind");
    }
    if !when.bodies.is_empty() && !when.bodies.contains(&facts.shape) {
        return Err("body");
    }
    let fault = match evidence.kind {
        Kind::Transport(fault) => Some(fault),
        Kind::Http { .. } | Kind::Stream { .. } | Kind::Process { .. } => None,
    };
    if !when.faults.is_empty() && !fault.is_some_and(|fault| when.faults.contains(&fault)) {
        return Err("transport");
    }
    // A connection that failed says so itself: words count only for rules that are about connections.
    if fault.is_some() && when.faults.is_empty() && !when.kinds.contains(&KindName::Transport) {
        return Err("kind");
    }
    let (code, ended_by) = match evidence.kind {
        Kind::Process { exit_code, signal } => (exit_code, signal),
        Kind::Http { .. } | Kind::Stream { .. } | Kind::Transport(_) => (None, None),
    };
    if !when.exit_codes.is_empty() && !code.is_some_and(|code| when.exit_codes.contains(&code)) {
        return Err("exit_code");
    }
    if !when.signals.is_empty() && !ended_by.is_some_and(|signal| when.signals.contains(&signal)) {
        return Err("signal");
    }
    Ok(())
}

/// Phrases and tokens by number.
#[derive(Default)]
struct Literals {
    phrases: HashMap<Box<str>, u32>,
    tokens: HashMap<Box<str>, u32>,
    by_phrase: Vec<Vec<u32>>,
    by_token: Vec<Vec<u32>>,
}

impl Literals {
    fn phrase(&mut self, text: &str) -> u32 {
        number(&mut self.phrases, &mut self.by_phrase, text)
    }

    fn token(&mut self, text: &str) -> u32 {
        number(&mut self.tokens, &mut self.by_token, text)
    }
}

fn number(known: &mut HashMap<Box<str>, u32>, by: &mut Vec<Vec<u32>>, text: &str) -> u32 {
    let next = u32::try_from(by.len()).unwrap_or(u32::MAX);
    let number = *known.entry(Box::from(text)).or_insert(next);
    if number == next {
        by.push(Vec::new());
    }
    number
}

/// The name of a field without which a rule cannot hold.
fn required_key(rule: &Rule) -> Option<Box<str>> {
    let (path, _) = rule.when.fields.iter().find(|(_, test)| !test.passes(None))?;
    path.iter().rev().find(|name| *name != "*").map(|name| name.as_str().into())
}

#[derive(Default)]
struct Builder {
    literals: Literals,
    armed: Vec<Armed>,
    packs: Vec<Range<u32>>,
    by_header: HashMap<Box<str>, Vec<u32>>,
    untriggered: Vec<Vec<u32>>,
    quote_phrases: Vec<u32>,
    quote_tokens: Vec<u32>,
    page_phrases: Vec<u32>,
}

impl Builder {
    fn count(&self) -> u32 {
        u32::try_from(self.armed.len()).unwrap_or(u32::MAX)
    }

    /// Adds a rule; says whether something triggers it.
    fn add(&mut self, rule: &Rule) -> bool {
        let id = self.count();
        let when = &rule.when;
        let literals = &mut self.literals;
        let armed = Armed {
            all: when.all.iter().map(|text| literals.phrase(text)).collect(),
            any: when.any.iter().map(|text| literals.phrase(text)).collect(),
            none: when.none.iter().map(|text| literals.phrase(text)).collect(),
            codes: when.codes.iter().map(|text| literals.token(text)).collect(),
            types: when.types.iter().map(|text| literals.token(text)).collect(),
            key: required_key(rule),
        };
        if when.bodies.contains(&BodyShape::Html) {
            self.page_phrases.extend(armed.all.iter().chain(&armed.any).chain(&armed.none));
        }
        let longest =
            armed.all.iter().zip(&when.all).max_by_key(|(_, text)| text.len()).map(|(number, _)| *number);
        let (by, triggers) = match (longest, armed.codes.is_empty(), armed.types.is_empty()) {
            (Some(phrase), _, _) => (&mut literals.by_phrase, vec![phrase]),
            (None, false, _) => (&mut literals.by_token, armed.codes.clone()),
            (None, true, false) => (&mut literals.by_token, armed.types.clone()),
            (None, true, true) => (&mut literals.by_phrase, armed.any.clone()),
        };
        for trigger in &triggers {
            if let Some(rules) = by.get_mut(*trigger as usize) {
                rules.push(id);
            }
        }
        let header = when.headers.iter().find(|(_, test)| !test.passes(None));
        let by_header = header.filter(|_| triggers.is_empty());
        if let Some((name, _)) = by_header {
            self.by_header.entry(name.as_str().into()).or_default().push(id);
        }
        self.armed.push(armed);
        !triggers.is_empty() || by_header.is_some()
    }

    fn build(mut self) -> Matcher {
        let mut phrases: Vec<_> = self.literals.phrases.into_iter().collect();
        phrases.sort_by_key(|(_, number)| *number);
        let automaton = AhoCorasick::builder()
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .dense_depth(4)
            .build(phrases.iter().map(|(text, _)| text.as_bytes()))
            .expect("the phrases of all packs are far below the automaton's limits");
        self.page_phrases.sort_unstable();
        self.page_phrases.dedup();
        let text_of =
            |number: &u32| phrases.get(*number as usize).map_or(&[][..], |(text, _)| text.as_bytes());
        let pages = AhoCorasick::new(self.page_phrases.iter().map(text_of))
            .expect("the phrases of all packs are far below the automaton's limits");
        let pack_of =
            (0u32..).zip(&self.packs).flat_map(|(pack, rules)| rules.clone().map(move |_| pack)).collect();
        Matcher {
            automaton,
            pages,
            page_phrases: self.page_phrases,
            pack_of,
            tokens: self.literals.tokens,
            armed: self.armed,
            packs: self.packs,
            by_phrase: self.literals.by_phrase,
            by_token: self.literals.by_token,
            by_header: self.by_header,
            untriggered: self.untriggered,
            quote_phrases: self.quote_phrases,
            quote_tokens: self.quote_tokens,
        }
    }
}

/// The bit of a scan's masks that stands for a web page.
const PAGE: u32 = 1 << 31;
