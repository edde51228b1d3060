//! Tests and usage probes: when they are due and what their results mean.

use std::time::Duration;

use crate::{
    KeyId, Penalty, QuotaSnapshot, Timestamp, Verdict, Window,
    ladder::{Ladder, after, until},
    pool::{
        Disabled, Health, Notice, Probe, ProbeKind, ProbeResult, Rest, RestSource, Why, gate::Phase,
        probe::About, provider::Provider, refusal::BALANCE_FIRST, term::DAY,
    },
};

impl Provider {
    /// The next probe that is due and still wanted.
    pub(super) fn next_probe(&mut self, now: Timestamp) -> Option<Probe> {
        if let Some(probe) = self.next_revival(now) {
            return Some(probe);
        }
        loop {
            let first = self.due.first().filter(|(at, _, _)| *at <= now)?;
            let (at, key, kind) = *first;
            self.due.remove(&(at, key, kind));
            if let Some(probe) = self.wanted(key, kind) {
                return Some(probe);
            }
        }
    }

    fn wanted(&self, id: KeyId, kind: ProbeKind) -> Option<Probe> {
        let health = &self.key(id)?.gate.health;
        let is_wanted = match kind {
            ProbeKind::Test => health.quarantine.is_some() && health.disabled.is_none(),
            ProbeKind::Quota => guessed_window(health).is_some(),
            ProbeKind::Balance => health.disabled.as_ref().is_some_and(Disabled::is_for_money),
        };
        is_wanted.then(|| Probe { provider: self.id.clone(), key: id, kind, about: About::Key(health.epoch) })
    }

    pub(super) fn take_result(&mut self, probe: &Probe, result: ProbeResult, now: Timestamp) {
        let Some(slot) = self.slot(probe.key, 0) else { return };
        if let ProbeResult::Quota(snapshot) = &result {
            self.save_snapshot(slot, snapshot, now);
        }
        let epoch = match probe.about {
            About::Key(epoch) => epoch,
            About::Provider => {
                self.take_revival(matches!(result, ProbeResult::Passed | ProbeResult::Refused(_)), now);
                return;
            }
        };
        if self.keys[slot].gate.health.epoch != epoch {
            return;
        }
        match result {
            ProbeResult::Passed if probe.kind == ProbeKind::Test => self.test_passed(slot, now),
            ProbeResult::Refused(verdict) if probe.kind == ProbeKind::Test => {
                self.test_refused(slot, &verdict, now)
            }
            ProbeResult::Quota(snapshot) => self.quota_answered(slot, &snapshot, now),
            ProbeResult::Money(true) => self.recover(slot, now),
            ProbeResult::Money(false)
            | ProbeResult::Passed
            | ProbeResult::Refused(_)
            | ProbeResult::Inconclusive => {
                self.ask_again(slot, probe.kind, now);
            }
        }
    }

    /// The headers of an answer, or a probe, told of the key's windows.
    pub(super) fn record_quota(&mut self, id: KeyId, snapshot: &QuotaSnapshot, now: Timestamp) {
        let Some(slot) = self.slot(id, 0) else { return };
        self.save_snapshot(slot, snapshot, now);
        let gate = &self.keys[slot].gate;
        let (Phase::Resting(_), Some(rest)) = (gate.phase(now), gate.health.decisive()) else { return };
        let newer = snapshot.taken_at > rest.since;
        if newer && rest.why.window.is_some_and(|window| snapshot.allows(window)) {
            self.recover(slot, now);
        }
    }

    /// Remembers what is known of the key's windows; written at once if a window has filled or opened, else once a
    /// minute, since traffic tells of it with every answer.
    fn save_snapshot(&mut self, slot: usize, snapshot: &QuotaSnapshot, now: Timestamp) {
        let key = &mut self.keys[slot];
        let before = key.quota.as_ref().map(|known| known.exhausted().count());
        match &mut key.quota {
            Some(known) => known.update(snapshot),
            none @ None => *none = Some(Box::new(snapshot.clone())),
        }
        let turned = before != key.quota.as_ref().map(|known| known.exhausted().count());
        if turned || key.quota_noted.is_none_or(|noted| until(noted, now) >= NOTE_WINDOWS_EVERY) {
            key.quota_noted = Some(now);
            self.note_key(slot, None);
        }
    }

    fn test_passed(&mut self, slot: usize, now: Timestamp) {
        // What was proven while the test was under way stands: only a person brings such a key back.
        if self.keys[slot].gate.health.disabled.is_some() {
            return;
        }
        let vain_tests = self.keys[slot].vain_tests.saturating_add(1);
        self.recover(slot, now);
        // Passing the test only to be refused again is a loop; until the key has answered, time decides.
        self.keys[slot].vain_tests = vain_tests;
    }

    fn test_refused(&mut self, slot: usize, verdict: &Verdict, now: Timestamp) {
        let key = &mut self.keys[slot];
        let Some(quarantine) = key.gate.health.quarantine.clone() else { return };
        let class = quarantine.why.class;
        if self.mass_refusal(class, now).is_some() {
            return;
        }
        self.disable_for(slot, Why::of(verdict, None, RestSource::Test), now);
    }

    /// The provider's own word on the windows replaces a guess, in either direction.
    fn quota_answered(&mut self, slot: usize, snapshot: &QuotaSnapshot, now: Timestamp) {
        let key = &mut self.keys[slot];
        let health = &key.gate.health;
        let Some(rest) = guessed_window(health).cloned() else { return };
        if let Some(resets_at) = snapshot.opens_at(now) {
            let chance = self.chance.about(key.id.0).about(health.epoch);
            let wait = chance.later(until(now, resets_at));
            let why = Why { source: RestSource::Probe, ..rest.why };
            let rest =
                Rest { level: 1, step: 0, penalty: rest.penalty, since: now, until: after(now, wait), why };
            let stated = health.stated.clone().filter(|stated| stated.why.source != RestSource::MonthlyCycle);
            key.gate.renew();
            key.gate.worsen(|health| {
                health.add_stated(rest);
                if let Some(stated) = stated {
                    health.add_stated(stated);
                }
            });
            self.after_key_worsened(slot, None, now);
        } else if rest.why.window == Some(Window::Monthly) {
            // Open short windows are what a full month looks like.
            if !snapshot.short_windows_are_open() {
                self.ask_again(slot, ProbeKind::Quota, now);
            }
        } else if snapshot.is_open() {
            self.recover(slot, now);
        }
    }

    fn recover(&mut self, slot: usize, now: Timestamp) {
        let key = &mut self.keys[slot];
        key.gate.renew();
        key.consecutive_errors = 0;
        let id = key.id;
        self.unknown_resting.remove(&id);
        self.refresh(slot, now);
        self.note_key(slot, Some(Notice::Recovered));
    }

    /// Nothing was learned, or nothing good: again later.
    fn ask_again(&mut self, slot: usize, kind: ProbeKind, now: Timestamp) {
        let key = &mut self.keys[slot];
        let ladder = match kind {
            ProbeKind::Balance => Ladder::new(BALANCE_FIRST, DAY),
            ProbeKind::Test | ProbeKind::Quota => Ladder::new(AGAIN_FIRST, AGAIN_CEILING),
        };
        let delay = ladder.delay(key.probes);
        key.probes = key.probes.saturating_add(1);
        let id = key.id;
        self.due.insert((after(now, delay), id, kind));
    }
}

/// The rest over a full window whose end nobody stated.
fn guessed_window(health: &Health) -> Option<&Rest> {
    let rest =
        health.decisive().filter(|rest| rest.penalty == Penalty::RestQuota && health.disabled.is_none())?;
    let is_guess = rest.why.source == RestSource::MonthlyCycle || health.stated.as_ref() != Some(rest);
    is_guess.then_some(rest)
}

/// How often the windows of a key are written while nothing turns on them.
const NOTE_WINDOWS_EVERY: Duration = Duration::from_secs(60);
const AGAIN_FIRST: Duration = Duration::from_secs(60);
const AGAIN_CEILING: Duration = Duration::from_secs(3600);
