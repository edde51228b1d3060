//! Keys that are refused: set aside while nothing is proven, out of service once it is, and spared where so many fall the
//! same way that the provider or our own network must be at fault.

use std::{collections::BTreeSet, time::Duration};

use crate::{
    Class, KeyId, Penalty, Timestamp,
    ladder::{Ladder, after},
    pool::{
        Disabled, Notice, ProbeKind, RestSource, Why,
        provider::{Provider, Refusal},
        settle::Case,
        term::{DAY, Term},
    },
};

impl Provider {
    /// Sets the key aside; says whether so many fell the same way that the provider is to be suspected.
    pub(super) fn quarantine(&mut self, case: &Case<'_>, now: Timestamp) -> bool {
        let key = &self.keys[case.slot];
        if !key.gate.is_current(case.key_mark) {
            return false;
        }
        let (id, vain_tests) = (key.id, key.vain_tests);
        let step = key.gate.health.next_step(Penalty::Quarantine).saturating_add(vain_tests);
        let ladder = Ladder::new(Duration::from_secs(self.settings.quarantine_s), DAY);
        let level = case.key_mark.level;
        let rest = self.rest(case, Penalty::Quarantine, (Term::guess(ladder, step), level), now);
        let worse = self.keys[case.slot].gate.worsen(|health| health.add_quarantine(rest));
        self.refusals.push_back(Refusal { at: now, key: id, class: case.verdict.class });
        let mass = self.mass_refusal(case.verdict.class, now);
        if worse {
            self.after_key_worsened(case.slot, (mass == Some(MASS)).then_some(Notice::MassRefusal), now);
            if self.probes.test && vain_tests == 0 && mass.is_none() {
                self.due.insert((now, id, ProbeKind::Test));
            }
        }
        if mass.is_some() {
            self.spare_the_mass(case.verdict.class, now);
        }
        mass.is_some()
    }

    /// How many keys fell the same way within a minute, if they are enough to suspect the provider.
    pub(super) fn mass_refusal(&mut self, class: Class, now: Timestamp) -> Option<usize> {
        self.refusals.retain(|refusal| now.duration_since(refusal.at) <= MASS_WINDOW);
        let keys = self.fallen(class);
        (keys.len() >= MASS).then_some(keys.len())
    }

    /// Keys of a mass refusal are neither tested to death nor left disabled by a test.
    fn spare_the_mass(&mut self, class: Class, now: Timestamp) {
        for id in self.fallen(class) {
            self.due.retain(|(_, key, kind)| (*key, *kind) != (id, ProbeKind::Test));
            let Some(slot) = self.slot(id, 0) else { continue };
            let gate = &mut self.keys[slot].gate;
            let tested = |disabled: &Disabled| disabled.why.source == RestSource::Test;
            if !gate.health.disabled.as_ref().is_some_and(tested) {
                continue;
            }
            let quarantine = gate.health.quarantine.clone();
            gate.renew();
            gate.worsen(|health| health.quarantine = quarantine);
            self.after_key_worsened(slot, None, now);
        }
    }

    fn fallen(&self, class: Class) -> BTreeSet<KeyId> {
        self.refusals.iter().filter(|refusal| refusal.class == class).map(|refusal| refusal.key).collect()
    }

    /// Takes the key out of service for good.
    pub(super) fn disable(&mut self, case: &Case<'_>, now: Timestamp) {
        if self.keys[case.slot].gate.is_current(case.key_mark) {
            self.disable_for(case.slot, Why::of(case.verdict, case.status, RestSource::Verdict), now);
        }
    }

    /// Takes a key out of service; where money is all that it lacks, free looks at its balance may bring it back. Says
    /// whether it was in service.
    pub(super) fn disable_for(&mut self, slot: usize, why: Why, now: Timestamp) -> bool {
        let disabled = Disabled { since: now, why };
        let lacks_money = disabled.is_for_money();
        let key = &mut self.keys[slot];
        if !key.gate.worsen(|health| health.disable(disabled)) {
            return false;
        }
        if lacks_money && self.probes.balance {
            key.probes = 1;
            let id = key.id;
            self.due.insert((after(now, BALANCE_FIRST), id, ProbeKind::Balance));
        }
        self.after_key_worsened(slot, Some(Notice::Disabled), now);
        true
    }
}

const MASS: usize = 3;
const MASS_WINDOW: jiff::SignedDuration = jiff::SignedDuration::from_secs(60);
pub(super) const BALANCE_FIRST: Duration = Duration::from_secs(3600);
