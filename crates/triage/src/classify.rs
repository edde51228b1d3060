//! Facts against layers: the first rule that matches is the verdict.
//!
//! The order is fixed: the connection's own fault; the user's rules and the provider's; if a relay quotes an
//! error, the rules of the quoted provider for the inner error; the packs that the provider is like; the
//! shared packs; rules that only know a status or an exit code; what the status alone says; `unknown`.

use std::cell::OnceCell;

use crate::{
    Basis, Class, Evidence, Heals, ProviderId, Scope, Timestamp, Verdict,
    catalog::{Catalog, Layers, Plan},
    facts::{Facts, Value, View},
    fallback,
    matcher::{Failed, Scan, kind_holds},
    model_in_words,
    redact::redact,
    reset::{self, Frame},
    rules::{Rule, ValueTest, WindowFrom},
};

impl Catalog {
    /// What a failure is. Total: whatever the evidence holds, there is a verdict.
    pub fn classify(&self, provider: &ProviderId, evidence: &Evidence, now: Timestamp) -> Verdict {
        let facts = Facts::open(evidence);
        let case = Case::new(self.layers(), provider, evidence, &facts, now);
        case.verdict(&mut |_| {})
    }
}

/// One failure against one catalog.
pub(crate) struct Case<'c> {
    pub(crate) layers: &'c Layers,
    plan: &'c Plan,
    pub(crate) evidence: &'c Evidence,
    pub(crate) facts: &'c Facts<'c>,
    pub(crate) scan: Scan,
    pub(crate) quoted: bool,
    pub(crate) quoted_provider: Option<&'c ProviderId>,
    quoted_plan: Option<&'c Plan>,
    now: Timestamp,
    heals: OnceCell<Option<Heals>>,
}

/// A rule that was tried.
pub(crate) struct Trial<'c> {
    pub(crate) rule: &'c Rule,
    pub(crate) failed: Option<Failed>,
}

impl<'c> Case<'c> {
    pub(crate) fn new(
        layers: &'c Layers,
        provider: &'c ProviderId,
        evidence: &'c Evidence,
        facts: &'c Facts<'c>,
        now: Timestamp,
    ) -> Self {
        let mut scan = layers.matcher.scan(facts);
        let quoted = facts.is_quoted() || scan.quotes;
        let named = facts.layers.iter().rev().find_map(|layer| layer.provider.as_deref());
        let quoted_provider = if quoted {
            named.and_then(|name| layers.resolve(name)).or_else(|| {
                let outer = facts.layers.iter().filter(|layer| !layer.quoted || scan.quotes);
                outer
                    .filter_map(|layer| facts.text.get(layer.words.clone()))
                    .find_map(|prose| layers.named_in(prose))
            })
        } else {
            None
        };
        let plan = layers.plan(provider);
        let quoted_plan = quoted_provider.map(|provider| layers.plan(provider));
        let consulted = |pack| plan.consults(pack) || quoted_plan.is_some_and(|plan| plan.consults(pack));
        layers.matcher.find_candidates(&mut scan, facts, evidence, &consulted);
        Self {
            layers,
            plan,
            evidence,
            facts,
            scan,
            quoted,
            quoted_provider,
            quoted_plan,
            now,
            heals: OnceCell::new(),
        }
    }

    /// The verdict; `tried` is told of every rule that was looked at.
    pub(crate) fn verdict(&self, tried: &mut dyn FnMut(Trial<'c>)) -> Verdict {
        if let Some(verdict) = fallback::by_size(self.facts, self.evidence, self.layers) {
            return verdict;
        }
        let found = self.spoken(tried).or_else(|| self.bare(tried));
        let mut verdict = match found {
            Some((number, rule)) => self.by_rule(number, rule),
            None => fallback::verdict(self.facts, self.evidence),
        };
        if !matches!(verdict.basis, Basis::Rule(_)) && states_times(verdict.class) {
            verdict.heals = self.heals().cloned();
        }
        verdict
    }

    /// The rules that need something to be said.
    fn spoken(&self, tried: &mut dyn FnMut(Trial<'c>)) -> Option<(u32, &'c Rule)> {
        let plan = self.plan;
        let whole = View::WHOLE;
        let inner = self.facts.inner_view();
        self.stage(&plan.own, whole, false, tried)
            .or_else(|| {
                let quoted = self.quoted_plan?;
                let view = inner.unwrap_or(whole);
                self.stage(&quoted.own, view, false, tried)
                    .or_else(|| self.stage(&quoted.like, view, false, tried))
            })
            .or_else(|| inner.and_then(|inner| self.stage(&plan.like, inner, false, tried)))
            .or_else(|| inner.and_then(|inner| self.stage(&plan.shared, inner, false, tried)))
            .or_else(|| self.stage(&plan.like, whole, false, tried))
            .or_else(|| {
                plan.shared.iter().find_map(|pack| {
                    let pack = std::slice::from_ref(pack);
                    let whole = self.stage(pack, whole, false, tried);
                    whole.or_else(|| self.stage(pack, View::CODES, false, tried))
                })
            })
    }

    /// The rules that only know a status, an exit code or a shape.
    fn bare(&self, tried: &mut dyn FnMut(Trial<'c>)) -> Option<(u32, &'c Rule)> {
        let plan = self.plan;
        [&plan.own, &plan.like, &plan.shared]
            .into_iter()
            .find_map(|packs| self.stage(packs, View::WHOLE, true, tried))
    }

    fn stage(
        &self,
        packs: &[usize],
        view: View,
        bare: bool,
        tried: &mut dyn FnMut(Trial<'c>),
    ) -> Option<(u32, &'c Rule)> {
        for pack in packs {
            for (number, index) in self.layers.matcher.candidates(&self.scan, *pack) {
                let Some(rule) = self.layers.packs.get(*pack).and_then(|pack| pack.rules.get(index)) else {
                    continue;
                };
                if rule.when.is_bare() != bare {
                    continue;
                }
                let failed = self.holds(number, rule, view).err();
                tried(Trial { rule, failed });
                if failed.is_none() {
                    return Some((number, rule));
                }
            }
        }
        None
    }

    fn holds(&self, number: u32, rule: &Rule, view: View) -> Result<(), Failed> {
        let when = &rule.when;
        kind_holds(rule, self.facts, self.evidence)?;
        let in_range = |status: u16| when.statuses.iter().any(|(low, high)| (*low..=*high).contains(&status));
        if !when.statuses.is_empty() && !self.facts.statuses(view).any(in_range) {
            return Err("status");
        }
        if when.quoted.is_some_and(|quoted| quoted != self.quoted) {
            return Err("quoted");
        }
        self.layers.matcher.literals_hold(number, &when.bodies, &self.scan, view)?;
        if !when.headers.iter().all(|(name, test)| test.passes(self.header(name))) {
            return Err("header");
        }
        if !when.fields.iter().all(|(path, test)| self.field_passes(path, test)) {
            return Err("field");
        }
        if let Some(regex) = &when.regex
            && !self.facts.words(view).any(|words| regex.is_match(words))
        {
            return Err("regex");
        }
        if let Some(comparison) = when.wait {
            let wait = self.heals().and_then(|heals| heals.wait(self.now));
            if !wait.is_some_and(|wait| comparison.holds(wait.as_secs_f64())) {
                return Err("wait");
            }
        }
        Ok(())
    }

    fn header(&self, name: &str) -> Option<&str> {
        let nested = || self.facts.nested_headers.iter().find(|(header, _)| header == name);
        self.evidence.header(name).or_else(|| nested().map(|(_, value)| value.as_str()))
    }

    fn field_passes(&self, path: &[String], test: &ValueTest) -> bool {
        let mut there = false;
        let mut passes = false;
        for value in self.facts.layers.iter().filter_map(|layer| layer.value.as_ref()) {
            value.at(path, &mut |found: &Value<'_>| {
                there |= *found != Value::Null;
                passes |= test.passes(found.scalar())
                    || *test == ValueTest::Present && matches!(found, Value::Object(_) | Value::List(_));
            });
        }
        if *test == ValueTest::Absent { !there } else { passes }
    }

    pub(crate) fn heals(&self) -> Option<&Heals> {
        let quoted = || self.quoted_plan.and_then(|plan| plan.zone.as_ref());
        let zone = self.plan.zone.as_ref().or_else(quoted);
        let frame = Frame { now: self.now, zone };
        self.heals.get_or_init(|| reset::heals(self.facts, self.evidence, &frame)).as_ref()
    }

    fn by_rule(&self, number: u32, rule: &Rule) -> Verdict {
        let then = &rule.then;
        let speaks_of_a_model =
            || model_in_words::names_one(&self.facts.text, self.evidence.hints.model.as_deref());
        let scope = if then.scope_from_text && speaks_of_a_model() { Scope::Model } else { then.scope };
        let mut verdict = Verdict::new(then.class, scope, &then.reason, Basis::Rule(rule.id.clone()));
        verdict.window = match then.window {
            WindowFrom::Nowhere => None,
            WindowFrom::Fixed(window) => Some(window),
            WindowFrom::Text => reset::window_in(self.facts.words(View::WHOLE)),
        };
        verdict.disable_key = then.disable_key && !self.quoted;
        if then.read_time && states_times(then.class) {
            verdict.heals = self.heals().cloned();
        }
        verdict.limit = fallback::stated_limit(then.class, self.facts);
        verdict.matched = redact(self.layers.matcher.matched(number, rule, &self.scan).unwrap_or_default());
        verdict
    }
}

/// Whether a failure of a class heals by itself, so that stated times mean its end.
fn states_times(class: Class) -> bool {
    match class {
        Class::QuotaExhausted
        | Class::RateLimit
        | Class::Overloaded
        | Class::ServerError
        | Class::Timeout
        | Class::NetworkError
        | Class::BillingExhausted
        | Class::Unknown => true,
        Class::RequestError
        | Class::ContextOverflow
        | Class::TransientRequest
        | Class::ModelError
        | Class::AuthError
        | Class::ConfigurationError
        | Class::LocalFault => false,
    }
}
