//! TOML to [`Pack`]: everything that is wrong is reported with file, line and the fix.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use regex::Regex;
use serde::Deserialize;
use thiserror::Error;
use toml::Spanned;

use super::{
    BodyShape, Comparison, Example, KindName, Pack, Quotes, Rule, Then, ValueTest, When, WindowFrom,
};
use crate::{Class, Fault, ProviderId, RuleId, Scope, Window, facts::fold::fold, quota::HeaderWindow};

/// What is wrong with a rule file, and where.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{file}:{line}: {problem}; {fix}")]
pub struct RuleError {
    /// The file's name.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong.
    pub problem: String,
    /// What to do.
    pub fix: String,
}

pub(super) fn pack(file: &str, toml: &str) -> Result<Pack, RuleError> {
    let source = Source { file, toml };
    let raw: RawPack = toml::from_str(toml).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        source.error(at, error.message(), "see docs/rules.md for the fields of a rule")
    })?;
    let id = file.strip_suffix(".toml").unwrap_or(file);
    if raw.provider.get_ref() != id {
        let at = raw.provider.span().start;
        let problem = format!("provider is {:?} but the file is {file:?}", raw.provider.get_ref());
        return Err(source.error(at, &problem, &format!("write provider = {id:?} or rename the file")));
    }
    let zone = match &raw.timezone {
        None => None,
        Some(name) => Some(TimeZone::get(name.get_ref()).map_err(|_| {
            let problem = format!("unknown time zone {:?}", name.get_ref());
            source.error(name.span().start, &problem, "use a name such as \"Asia/Shanghai\"")
        })?),
    };
    let rules = raw.rule.into_iter().map(|rule| rule.resolve(&source, id)).collect::<Result<_, _>>()?;
    Ok(Pack {
        id: ProviderId::from(id),
        names: raw.names.iter().map(|name| fold(name)).collect(),
        hosts: raw.hosts.iter().map(|host| host.to_ascii_lowercase()).collect(),
        like: raw.like.iter().map(|like| ProviderId::from(like.as_str())).collect(),
        zone,
        errors_in_200: raw.errors_in_200,
        shared: raw.shared,
        quotes: Quotes {
            any: raw.quotes.any.iter().map(|phrase| fold(phrase)).collect(),
            codes: raw.quotes.code.iter().map(|code| fold(code)).collect(),
        },
        slow_models: raw.slow_models.iter().map(|name| fold(name)).collect(),
        quota: raw.quota.into_iter().map(|window| source.quota(window)).collect::<Result<_, _>>()?,
        file: file.to_owned(),
        rules,
    })
}

struct Source<'a> {
    file: &'a str,
    toml: &'a str,
}

impl Source<'_> {
    fn line(&self, at: usize) -> usize {
        1 + self.toml.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count()
    }

    fn quota(&self, window: Spanned<HeaderWindow>) -> Result<HeaderWindow, RuleError> {
        let at = window.span().start;
        let window = window.into_inner();
        window.check().map_err(|(problem, fix)| self.error(at, problem, fix))?;
        Ok(window)
    }

    fn error(&self, at: usize, problem: &str, fix: &str) -> RuleError {
        RuleError {
            file: self.file.to_owned(),
            line: self.line(at),
            problem: problem.replace('\n', " "),
            fix: fix.to_owned(),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPack {
    provider: Spanned<String>,
    #[serde(default)]
    names: Vec<String>,
    #[serde(default)]
    hosts: Vec<String>,
    #[serde(default)]
    like: Vec<String>,
    timezone: Option<Spanned<String>>,
    #[serde(default)]
    errors_in_200: bool,
    shared: Option<u8>,
    #[serde(default)]
    quotes: RawQuotes,
    #[serde(default)]
    slow_models: Vec<String>,
    #[serde(default)]
    quota: Vec<Spanned<HeaderWindow>>,
    #[serde(default)]
    rule: Vec<RawRule>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RawQuotes {
    any: Vec<String>,
    code: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRule {
    id: Spanned<String>,
    #[serde(default)]
    kind: Vec<KindName>,
    #[serde(default)]
    status: Vec<Spanned<RawStatus>>,
    #[serde(default)]
    code: Vec<RawCode>,
    #[serde(default, rename = "type")]
    types: Vec<String>,
    #[serde(default)]
    all: Vec<Spanned<String>>,
    #[serde(default)]
    any: Vec<Spanned<String>>,
    #[serde(default)]
    none: Vec<Spanned<String>>,
    regex: Option<Spanned<String>>,
    #[serde(default)]
    header: BTreeMap<String, RawTest>,
    #[serde(default)]
    field: BTreeMap<Spanned<String>, RawTest>,
    #[serde(default)]
    transport: Vec<Fault>,
    #[serde(default)]
    exit_code: Vec<i32>,
    #[serde(default)]
    signal: Vec<i32>,
    #[serde(default)]
    body: Vec<BodyShape>,
    wait: Option<Spanned<String>>,
    quoted: Option<bool>,
    #[serde(default)]
    weak: bool,
    class: Class,
    scope: Option<Spanned<String>>,
    reason: Spanned<String>,
    window: Option<Spanned<String>>,
    #[serde(default)]
    disable_key: bool,
    #[serde(default)]
    time: RawTime,
    source: Option<String>,
    example: Option<String>,
    example_kind: Option<KindName>,
    example_status: Option<u16>,
    #[serde(default)]
    example_headers: BTreeMap<String, String>,
    example_transport: Option<Fault>,
    example_exit_code: Option<i32>,
    example_signal: Option<i32>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RawStatus {
    One(u16),
    Range(String),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RawCode {
    Number(i64),
    Text(String),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RawTest {
    One(String),
    Any(Vec<String>),
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RawTime {
    #[default]
    Read,
    Ignore,
}

impl RawRule {
    fn resolve(self, source: &Source<'_>, pack: &str) -> Result<Rule, RuleError> {
        let at = self.id.span().start;
        let id = self.id.get_ref().as_str();
        if !id.strip_prefix(pack).is_some_and(|rest| rest.len() > 1 && rest.starts_with('/')) {
            let problem = format!("rule id {id:?} does not begin with its pack");
            return Err(source.error(at, &problem, &format!("write \"{pack}/what-it-says\"")));
        }
        let then = self.then(source)?;
        let when = self.when(source)?;
        if when.matches_anything() {
            let fix = "add a code, a phrase, a status, a header, a field, a fault or a body shape";
            return Err(source.error(at, "the rule has no condition and would match everything", fix));
        }
        if when.regex.is_some() && !when.has_literal() {
            let fix = "add a literal to `all`, `any`, `code` or `type` that every match contains, so that the \
                       pattern is only tried where it can match";
            return Err(source.error(at, "a regex stands alone", fix));
        }
        let example = self.example.as_ref().map(|text| Example {
            kind: self.example_kind,
            text: text.clone(),
            status: self.example_status,
            headers: self.example_headers.iter().map(|(k, v)| (k.to_ascii_lowercase(), v.clone())).collect(),
            transport: self.example_transport,
            exit_code: self.example_exit_code,
            signal: self.example_signal,
        });
        Ok(Rule { id: RuleId::from(id), line: source.line(at), when, then, source: self.source, example })
    }

    fn then(&self, source: &Source<'_>) -> Result<Then, RuleError> {
        let window = match &self.window {
            None => WindowFrom::Nowhere,
            Some(name) if name.get_ref() == "from_text" => WindowFrom::Text,
            Some(name) => match Window::ALL.into_iter().find(|window| window.as_str() == name.get_ref()) {
                Some(window) => WindowFrom::Fixed(window),
                None => {
                    let problem = format!("unknown window {:?}", name.get_ref());
                    let fix = "use minute, 5h, daily, weekly, monthly or from_text";
                    return Err(source.error(name.span().start, &problem, fix));
                }
            },
        };
        let usual = usual_scope(self.class);
        let (scope, scope_from_text) = match &self.scope {
            None => (usual, false),
            Some(name) if name.get_ref() == "from_text" => (usual, true),
            Some(name) => match Scope::ALL.into_iter().find(|scope| scope.as_str() == name.get_ref()) {
                Some(scope) => (scope, false),
                None => {
                    let problem = format!("unknown scope {:?}", name.get_ref());
                    let fix = "use request, model, key, account, provider, network, local or from_text";
                    return Err(source.error(name.span().start, &problem, fix));
                }
            },
        };
        let reason = self.reason.get_ref();
        if reason.is_empty()
            || !reason.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        {
            let problem = format!("reason {reason:?} is not a snake_case word");
            return Err(source.error(
                self.reason.span().start,
                &problem,
                "write one such as \"window_full\"",
            ));
        }
        Ok(Then {
            class: self.class,
            scope,
            scope_from_text,
            reason: reason.clone(),
            window,
            disable_key: self.disable_key,
            read_time: matches!(self.time, RawTime::Read),
        })
    }

    fn when(&self, source: &Source<'_>) -> Result<When, RuleError> {
        Ok(When {
            kinds: self.kind.clone(),
            statuses: self.status.iter().map(|raw| status(source, raw)).collect::<Result<_, _>>()?,
            codes: self.code.iter().map(RawCode::folded).collect(),
            types: self.types.iter().map(|name| fold(name)).collect(),
            all: phrases(source, &self.all)?,
            any: phrases(source, &self.any)?,
            none: phrases(source, &self.none)?,
            regex: self.regex.as_ref().map(|raw| regex(source, raw)).transpose()?,
            headers: self.header.iter().map(|(name, raw)| (name.to_ascii_lowercase(), raw.test())).collect(),
            fields: self.field.iter().map(|(at, raw)| field(source, at, raw)).collect::<Result<_, _>>()?,
            faults: self.transport.clone(),
            exit_codes: self.exit_code.clone(),
            signals: self.signal.clone(),
            bodies: self.body.clone(),
            wait: self.wait.as_ref().map(|raw| wait(source, raw)).transpose()?,
            quoted: self.quoted,
            weak: self.weak,
        })
    }
}

impl RawCode {
    fn folded(&self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => fold(text),
        }
    }
}

impl RawTest {
    fn test(&self) -> ValueTest {
        match self {
            Self::One(text) => ValueTest::parse(text),
            Self::Any(texts) => ValueTest::Any(texts.iter().map(|text| ValueTest::parse(text)).collect()),
        }
    }
}

impl When {
    fn matches_anything(&self) -> bool {
        self.statuses.is_empty()
            && !self.has_literal()
            && self.headers.is_empty()
            && self.fields.is_empty()
            && self.faults.is_empty()
            && self.exit_codes.is_empty()
            && self.signals.is_empty()
            && self.bodies.is_empty()
            && self.wait.is_none()
    }
}

fn status(source: &Source<'_>, raw: &Spanned<RawStatus>) -> Result<(u16, u16), RuleError> {
    let range = match raw.get_ref() {
        RawStatus::One(status) => Some((*status, *status)),
        RawStatus::Range(text) => match text.strip_suffix("xx") {
            Some(hundreds) => {
                hundreds.parse().ok().map(|h: u16| (h.saturating_mul(100), h.saturating_mul(100) + 99))
            }
            None => {
                text.split_once('-').and_then(|(low, high)| Some((low.parse().ok()?, high.parse().ok()?)))
            }
        },
    };
    range
        .filter(|(low, high)| (100..=999).contains(low) && low <= high && *high <= 999)
        .ok_or_else(|| source.error(raw.span().start, "not a status", "write 429, \"5xx\" or \"400-499\""))
}

fn phrases(source: &Source<'_>, raw: &[Spanned<String>]) -> Result<Vec<String>, RuleError> {
    raw.iter()
        .map(|phrase| {
            let folded = fold(phrase.get_ref());
            if folded.len() < 3 {
                let problem = format!("phrase {:?} is too short to mean anything", phrase.get_ref());
                return Err(source.error(phrase.span().start, &problem, "write at least three characters"));
            }
            Ok(folded)
        })
        .collect()
}

fn regex(source: &Source<'_>, raw: &Spanned<String>) -> Result<Regex, RuleError> {
    let at = raw.span().start;
    if raw.get_ref().contains(['"', '`', '“', '’']) {
        return Err(source.error(
            at,
            "the pattern has a quotation mark that folded text never has",
            "write '",
        ));
    }
    Regex::new(raw.get_ref()).map_err(|error| {
        source.error(at, &format!("bad regex: {error}"), "see https://docs.rs/regex for the syntax")
    })
}

fn field(
    source: &Source<'_>,
    at: &Spanned<String>,
    raw: &RawTest,
) -> Result<(Vec<String>, ValueTest), RuleError> {
    let Some(path) = at.get_ref().strip_prefix('/') else {
        let problem = format!("field {:?} is no JSON pointer", at.get_ref());
        return Err(source.error(at.span().start, &problem, "begin it with a slash: \"/error/code\""));
    };
    let path = path.split('/').map(|step| step.replace("~1", "/").replace("~0", "~")).collect();
    Ok((path, raw.test()))
}

fn wait(source: &Source<'_>, raw: &Spanned<String>) -> Result<Comparison, RuleError> {
    Comparison::parse(raw.get_ref()).ok_or_else(|| {
        let problem = format!("{:?} is no comparison", raw.get_ref());
        source.error(raw.span().start, &problem, "write \">120\" (seconds)")
    })
}

/// Whom a class hits unless the rule says otherwise.
fn usual_scope(class: Class) -> Scope {
    match class {
        Class::RequestError | Class::ContextOverflow | Class::TransientRequest | Class::Unknown => {
            Scope::Request
        }
        Class::ModelError => Scope::Model,
        Class::AuthError => Scope::Key,
        Class::BillingExhausted | Class::QuotaExhausted | Class::RateLimit => Scope::Account,
        Class::Overloaded | Class::ServerError | Class::Timeout => Scope::Provider,
        Class::NetworkError => Scope::Network,
        Class::ConfigurationError | Class::LocalFault => Scope::Local,
    }
}
