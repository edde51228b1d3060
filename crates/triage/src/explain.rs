//! Why a verdict is what it is: the facts that were seen, the rules that were tried, the one that won.
//!
//! Made for people: everything is redacted and short.

use std::fmt;

use serde::Serialize;

use crate::{
    Catalog, Class, Evidence, ProviderId, Scope, Timestamp, Verdict, Window,
    classify::{Case, Trial},
    facts::{Facts, Value},
    redact::redact,
    rules::{BodyShape, KindName},
};

/// A verdict with its reasons.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// The class.
    pub class: Class,
    /// The scope.
    pub scope: Scope,
    /// The reason word.
    pub reason: String,
    /// The usage window.
    pub window: Option<Window>,
    /// The rule, or what else decided.
    pub rule: String,
    /// Why the rule is believed.
    pub source: Option<String>,
    /// The words that matched.
    pub matched: String,
    /// Where they stand: a JSON pointer, or a layer of the evidence.
    pub matched_at: Option<String>,
    /// What was seen.
    pub seen: Seen,
    /// The rules that were tried, in order; `failed` names the first condition that did not hold.
    pub tried: Vec<Tried>,
}

/// The facts of a failure, for people.
#[derive(Clone, Debug, Serialize)]
pub struct Seen {
    /// The kind of failure.
    pub kind: KindName,
    /// The status.
    pub status: Option<u16>,
    /// What the body looks like.
    pub body: BodyShape,
    /// The provider that a relay quotes.
    pub quoted_provider: Option<String>,
    /// What arrived and what it quotes, outermost first.
    pub layers: Vec<SeenLayer>,
    /// When it says that it heals.
    pub heals: Option<String>,
}

/// One layer of a failure, for people.
#[derive(Clone, Debug, Serialize)]
pub struct SeenLayer {
    /// Whether a relay quotes it.
    pub quoted: bool,
    /// The status that it tells.
    pub status: Option<u16>,
    /// Its tokens.
    pub tokens: Vec<String>,
    /// Its words.
    pub words: String,
}

/// A rule that was tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Tried {
    /// The rule.
    pub rule: String,
    /// The first condition that did not hold; none for the rule that won.
    pub failed: Option<&'static str>,
}

impl Catalog {
    /// Classifies a failure and tells why.
    pub fn explain(&self, provider: &ProviderId, evidence: &Evidence, now: Timestamp) -> Explanation {
        let facts = Facts::open(evidence);
        let case = Case::new(self.layers(), provider, evidence, &facts, now);
        let mut tried = Vec::new();
        let mut winner = None;
        let verdict = case.verdict(&mut |trial: Trial<'_>| {
            if trial.failed.is_none() {
                winner = Some(trial.rule);
            }
            let next = Tried { rule: trial.rule.id.as_str().to_owned(), failed: trial.failed };
            if tried.last() != Some(&next) {
                tried.push(next);
            }
        });
        let heals = case.heals().map(|heals| {
            let after =
                heals.after.map(|after| format!("after {} s ", after.as_secs_f64())).unwrap_or_default();
            let at = heals.at.map(|at| format!("at {at} ")).unwrap_or_default();
            format!("{after}{at}({:?}, {})", heals.source, if heals.trusted { "trusted" } else { "prose" })
        });
        Explanation {
            class: verdict.class,
            scope: verdict.scope,
            reason: verdict.reason.to_string(),
            window: verdict.window,
            rule: verdict.basis.to_string(),
            source: winner.and_then(|rule| rule.source.clone()),
            matched_at: matched_at(&verdict, &facts),
            matched: verdict.matched,
            seen: seen(&case, heals),
            tried,
        }
    }
}

fn seen(case: &Case<'_>, heals: Option<String>) -> Seen {
    let facts = case.facts;
    let layers = facts.layers.iter().enumerate().map(|(index, layer)| SeenLayer {
        quoted: layer.quoted,
        status: layer.status,
        tokens: facts
            .tokens
            .iter()
            .filter(|token| usize::from(token.layer) == index)
            .map(|token| redact(&token.text))
            .collect(),
        words: redact(&short(facts.text.get(layer.words.clone()).unwrap_or_default().trim())),
    });
    Seen {
        kind: facts.kind,
        status: facts.status,
        body: facts.shape,
        quoted_provider: case.quoted_provider.map(|provider| provider.as_str().to_owned()),
        layers: layers.collect(),
        heals,
    }
}

fn matched_at(verdict: &Verdict, facts: &Facts<'_>) -> Option<String> {
    if verdict.matched.is_empty() {
        return None;
    }
    let pointer = facts.layers.iter().enumerate().find_map(|(index, layer)| {
        let mut path = String::new();
        pointer_to(layer.value.as_ref()?, &verdict.matched, &mut path).then(|| match index {
            0 => path,
            _ => format!("layer {index}: {path}"),
        })
    });
    pointer.or_else(|| {
        let (index, layer) = facts.layers.iter().enumerate().find(|(_, layer)| {
            facts.text.get(layer.words.clone()).is_some_and(|words| words.contains(&verdict.matched))
        })?;
        Some(if layer.depth == 0 { "text".to_owned() } else { format!("layer {index}: text") })
    })
}

/// Finds the scalar that is, or whose folded text contains, what matched.
fn pointer_to(value: &Value<'_>, matched: &str, path: &mut String) -> bool {
    let length = path.len();
    match value {
        Value::Object(pairs) => {
            for (key, value) in pairs {
                path.push('/');
                path.push_str(&key.replace('~', "~0").replace('/', "~1"));
                if pointer_to(value, matched, path) {
                    return true;
                }
                path.truncate(length);
            }
            false
        }
        Value::List(items) => {
            for (index, item) in items.iter().enumerate() {
                path.push_str(&format!("/{index}"));
                if pointer_to(item, matched, path) {
                    return true;
                }
                path.truncate(length);
            }
            false
        }
        Value::Null | Value::Bool(_) => false,
        Value::Number(number) => *number == matched,
        Value::Text(text) => crate::facts::fold::fold(text).contains(matched),
    }
}

fn short(text: &str) -> String {
    const SHOWN: usize = 400;
    if text.chars().count() <= SHOWN {
        return text.to_owned();
    }
    text.chars().take(SHOWN).chain("…".chars()).collect()
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} · {} · {}", self.class, self.scope, self.reason)?;
        if let Some(window) = self.window {
            write!(f, " · {window} window")?;
        }
        writeln!(f, "\n  decided by  {}", self.rule)?;
        if let Some(source) = &self.source {
            writeln!(f, "  because     {source}")?;
        }
        if !self.matched.is_empty() {
            let at = self.matched_at.as_deref().unwrap_or("the evidence");
            writeln!(f, "  matched     \"{}\" at {at}", self.matched)?;
        }
        if let Some(heals) = &self.seen.heals {
            writeln!(f, "  heals       {heals}")?;
        }
        let status = self.seen.status.map(|status| format!(" {status}")).unwrap_or_default();
        writeln!(f, "  seen        {:?}{status}, body {:?}", self.seen.kind, self.seen.body)?;
        if let Some(provider) = &self.seen.quoted_provider {
            writeln!(f, "  quotes      {provider}")?;
        }
        for (index, layer) in self.seen.layers.iter().enumerate() {
            let quoted = if layer.quoted { " (quoted)" } else { "" };
            let status = layer.status.map(|status| format!(" {status}")).unwrap_or_default();
            writeln!(f, "    layer {index}{quoted}{status}: [{}] {}", layer.tokens.join(", "), layer.words)?;
        }
        writeln!(f, "  tried       {} rules", self.tried.len())?;
        for tried in &self.tried {
            match tried.failed {
                Some(condition) => writeln!(f, "    - {}: {condition} does not hold", tried.rule)?,
                None => writeln!(f, "    + {}: matches", tried.rule)?,
            }
        }
        Ok(())
    }
}
