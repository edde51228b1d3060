//! The rule language: what a pack says, parsed and validated.
//!
//! A pack is one TOML file with the knowledge about one provider (or about something every provider may
//! hide behind: an edge, a relay, an agent's command line). A rule holds conditions, all of which must hold,
//! and the verdict that follows. There are no expressions and no variables: whoever reads a rule sees what
//! it does. `docs/rules.md` describes the language for people; this module is its only parser. Matching is
//! done elsewhere ([`crate::catalog`]), on all packs at once.

mod parse;
mod test_value;

use regex::Regex;

use crate::{Class, Fault, ProviderId, RuleId, Scope, Window, quota::HeaderWindow};

pub use self::{
    parse::RuleError,
    test_value::{Comparison, ValueTest},
};

/// The knowledge about one provider: one file.
#[derive(Clone, Debug)]
pub struct Pack {
    /// The pack's id: the file's name.
    pub id: ProviderId,
    /// How relays name the provider when they quote it, folded.
    pub names: Vec<String>,
    /// Hosts that are this provider, in lower case.
    pub hosts: Vec<String>,
    /// Packs that are consulted after this one.
    pub like: Vec<ProviderId>,
    /// The zone of reset times without a zone.
    pub zone: Option<jiff::tz::TimeZone>,
    /// Whether failures of this provider can hide in an answer with status 200.
    pub errors_in_200: bool,
    /// Consulted for every provider after its own packs, lowest number first.
    pub shared: Option<u8>,
    /// Words and tokens that show that an error is quoted.
    pub quotes: Quotes,
    /// Parts of the names of models that think so long that an idle connection may be cut, folded.
    pub slow_models: Vec<String>,
    /// The headers that tell of a key's windows.
    pub quota: Vec<HeaderWindow>,
    /// The file it was read from.
    pub file: String,
    /// The rules in the order in which they are tried.
    pub rules: Vec<Rule>,
}

impl Pack {
    /// Reads a pack. `file` is its file name, which must be the provider's id with `.toml`.
    pub fn parse(file: &str, toml: &str) -> Result<Self, RuleError> {
        parse::pack(file, toml)
    }
}

/// What shows that an error is quoted, beside the form of the body: a relay's own words and tokens, folded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quotes {
    /// Phrases.
    pub any: Vec<String>,
    /// Structured tokens.
    pub codes: Vec<String>,
}

/// Conditions and the verdict that follows from them.
#[derive(Clone, Debug)]
pub struct Rule {
    /// A unique id: `pack/what-it-says`.
    pub id: RuleId,
    /// The line of the file where its id stands.
    pub line: usize,
    /// When it matches.
    pub when: When,
    /// What the failure then is.
    pub then: Then,
    /// Why we believe it.
    pub source: Option<String>,
    /// A failure that it must match.
    pub example: Option<Example>,
}

/// Conditions; all that are given must hold. Empty lists are not given.
#[derive(Clone, Debug, Default)]
pub struct When {
    /// The kind of failure is one of these.
    pub kinds: Vec<KindName>,
    /// The status is in one of these ranges.
    pub statuses: Vec<(u16, u16)>,
    /// A structured token is one of these, folded.
    pub codes: Vec<String>,
    /// A type-like token is one of these, folded.
    pub types: Vec<String>,
    /// Every one of these phrases stands in the text, folded.
    pub all: Vec<String>,
    /// One of these phrases stands in the text, folded.
    pub any: Vec<String>,
    /// None of these phrases stands in the text, folded.
    pub none: Vec<String>,
    /// Matches the folded text.
    pub regex: Option<Regex>,
    /// Tests of response headers, by lower-case name.
    pub headers: Vec<(String, ValueTest)>,
    /// Tests of values in the opened body, by JSON pointer; `*` stands for any element.
    pub fields: Vec<(Vec<String>, ValueTest)>,
    /// The connection failed in one of these ways.
    pub faults: Vec<Fault>,
    /// The process exited with one of these codes.
    pub exit_codes: Vec<i32>,
    /// The process was ended by one of these signals.
    pub signals: Vec<i32>,
    /// The body has one of these shapes.
    pub bodies: Vec<BodyShape>,
    /// The stated wait in seconds compares so.
    pub wait: Option<Comparison>,
    /// Whether the error was quoted by a relay.
    pub quoted: Option<bool>,
    /// Whether what it asks for says little, so that any words say more.
    pub weak: bool,
}

impl When {
    /// Whether a code, type or phrase must be found.
    pub fn has_literal(&self) -> bool {
        !(self.codes.is_empty() && self.types.is_empty() && self.all.is_empty() && self.any.is_empty())
    }

    /// Whether only the status, the exit or the shape decides, or something else that says little. Such a rule is
    /// tried after all words.
    pub fn is_bare(&self) -> bool {
        self.weak
            || !self.has_literal()
                && self.headers.is_empty()
                && self.fields.is_empty()
                && self.faults.is_empty()
                && self.wait.is_none()
    }
}

/// What a matching rule says.
#[derive(Clone, Debug)]
pub struct Then {
    /// The class.
    pub class: Class,
    /// The scope.
    pub scope: Scope,
    /// Whether the scope is the model if the text speaks of one.
    pub scope_from_text: bool,
    /// The reason word.
    pub reason: String,
    /// The usage window.
    pub window: WindowFrom,
    /// Whether the key is proven to be gone.
    pub disable_key: bool,
    /// Whether times that this failure states are believed.
    pub read_time: bool,
}

/// Where a rule takes its usage window from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowFrom {
    /// It names none.
    Nowhere,
    /// It names this one.
    Fixed(Window),
    /// The text names it.
    Text,
}

/// The kinds of failure by their public names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KindName {
    /// A complete HTTP answer.
    Http,
    /// A stream.
    Stream,
    /// A connection that failed.
    Transport,
    /// A process that ended.
    Process,
}

/// What a body looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BodyShape {
    /// Nothing but white space.
    Empty,
    /// A web page.
    Html,
    /// JSON or something that opens like it.
    Json,
    /// Anything else.
    Text,
}

/// A failure that a rule must match.
#[derive(Clone, Debug, Default)]
pub struct Example {
    /// The kind; HTTP unless said otherwise.
    pub kind: Option<KindName>,
    /// The body, or a process's stderr.
    pub text: String,
    /// The status.
    pub status: Option<u16>,
    /// The headers.
    pub headers: Vec<(String, String)>,
    /// The way the connection failed.
    pub transport: Option<Fault>,
    /// The exit code of the process.
    pub exit_code: Option<i32>,
    /// The signal that ended the process.
    pub signal: Option<i32>,
}
