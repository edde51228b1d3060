//! Proves rules: every rule has a witness that reaches it, and nothing earlier takes it away.

use std::collections::BTreeMap;

use crate::{
    Basis, Catalog, Evidence, Fault, Kind, Timestamp,
    rules::{Example, KindName, Pack, Rule, RuleError},
};

impl Catalog {
    /// Everything that is wrong with the packs from number `from` to before `to` (see [`Catalog::packs`]). `now`
    /// is the moment of the examples.
    pub fn lint(&self, packs: std::ops::Range<usize>, now: Timestamp) -> Vec<RuleError> {
        let mut findings = Vec::new();
        let mut ids: BTreeMap<&str, &str> = BTreeMap::new();
        for (number, pack) in self.packs().iter().enumerate() {
            for rule in &pack.rules {
                let known = ids.insert(rule.id.as_str(), &pack.file);
                if let Some(file) = known.filter(|_| packs.contains(&number)) {
                    let problem = format!("rule id {:?} stands in {file} too", rule.id.as_str());
                    findings.push(finding(pack, rule, &problem, "give one of them another id"));
                }
            }
        }
        for pack in self.packs().get(packs).unwrap_or_default() {
            findings.extend(pack.rules.iter().filter_map(|rule| self.lint_rule(pack, rule, now)));
        }
        findings
    }

    fn lint_rule(&self, pack: &Pack, rule: &Rule, now: Timestamp) -> Option<RuleError> {
        if rule.source.as_deref().is_none_or(str::is_empty) {
            return Some(finding(
                pack,
                rule,
                "the rule has no source",
                "write source = \"why we believe it\"",
            ));
        }
        let Some(example) = &rule.example else {
            let problem = "the rule has no example";
            return Some(finding(
                pack,
                rule,
                problem,
                "write example = '…' with a failure that it must match",
            ));
        };
        let evidence = example.evidence(rule);
        let verdict = self.classify(&pack.id, &evidence, now);
        if verdict.basis == Basis::Rule(rule.id.clone()) {
            return None;
        }
        let failed = self.explain(&pack.id, &evidence, now).tried;
        let failed =
            failed.iter().find(|tried| tried.rule == rule.id.as_str()).and_then(|tried| tried.failed);
        let problem = match failed {
            Some(condition) => format!("the example does not match: {condition} does not hold"),
            None => format!("the example is taken by {}, which comes first", verdict.basis),
        };
        Some(finding(pack, rule, &problem, "change the rule, its example, or the order"))
    }
}

fn finding(pack: &Pack, rule: &Rule, problem: &str, fix: &str) -> RuleError {
    RuleError {
        file: pack.file.clone(),
        line: rule.line,
        problem: format!("{}: {problem}", rule.id.as_str()),
        fix: fix.to_owned(),
    }
}

impl Example {
    /// The failure, completed with what its rule asks for.
    pub fn evidence(&self, rule: &Rule) -> Evidence {
        let when = &rule.when;
        let fault = self.transport.or_else(|| when.faults.first().copied());
        let exits = !when.exit_codes.is_empty() || !when.signals.is_empty();
        let kind = self.kind.or_else(|| when.kinds.first().copied()).unwrap_or(match (fault, exits) {
            (Some(_), _) => KindName::Transport,
            (None, true) => KindName::Process,
            (None, false) => KindName::Http,
        });
        let first = when.statuses.first().map(|(low, _)| *low);
        let status = self.status.or(first).unwrap_or(if kind == KindName::Stream { 200 } else { 400 });
        let exit_code = self.exit_code.or_else(|| when.exit_codes.first().copied());
        let signal = self.signal.or_else(|| when.signals.first().copied());
        let mut evidence = Evidence { headers: self.headers.clone(), ..Evidence::default() };
        evidence.kind = match kind {
            KindName::Http => Kind::Http { status },
            KindName::Stream => Kind::Stream { status },
            KindName::Transport => Kind::Transport(fault.unwrap_or(Fault::ConnectionReset)),
            KindName::Process => {
                Kind::Process { exit_code: exit_code.or_else(|| signal.is_none().then_some(1)), signal }
            }
        };
        if kind == KindName::Process {
            evidence.stderr.clone_from(&self.text);
        } else {
            evidence.text.clone_from(&self.text);
        }
        evidence
    }
}
