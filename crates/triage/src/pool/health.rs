//! The health of one subject (a key, a key's use of one model, an account) as a value that joins.
//!
//! Within an **epoch** health only grows: what two instances, or two attempts that ran side by side, have
//! learned is joined, and the order in which they report does not matter. Only proof that all is well, or a
//! person, opens a new epoch and so forgets.
//!
//! * `disabled` is sticky.
//! * A *stated* end of a rest joins by max: a shorter statement never shortens a longer one.
//! * A *guess* counts only if it is the first failure of its **level**. The level says how often the subject has
//!   relapsed in this epoch; an attempt carries the level at which it began, so that ten parallel failures are one
//!   relapse and never stretch a running rest, while the failure of a probe after the rest is the next level.

use serde::{Deserialize, Serialize};

use crate::{
    Class, HealSource, Penalty, Reason, Timestamp, Verdict, Window,
    ladder::{after, until},
};

/// What is remembered of one subject's health.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Health {
    /// Counts the proofs and people that made everything before them void.
    pub epoch: u64,
    /// The first rest of the highest level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<Rest>,
    /// The rest with the latest stated end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stated: Option<Rest>,
    /// The first quarantine of the highest level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quarantine: Option<Rest>,
    /// Set when it is out of service for good; the earliest proof.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled: Option<Disabled>,
}

impl Health {
    /// Joins what another has learned of the same subject. Commutative, associative, idempotent.
    #[must_use]
    pub fn join(self, other: Self) -> Self {
        if self.epoch != other.epoch {
            return if self.epoch > other.epoch { self } else { other };
        }
        Self {
            epoch: self.epoch,
            first: pick(self.first, other.first, Rest::begins_the_higher_level),
            stated: pick(self.stated, other.stated, Rest::ends_later),
            quarantine: pick(self.quarantine, other.quarantine, Rest::begins_the_higher_level),
            disabled: pick(self.disabled, other.disabled, Disabled::is_earlier),
        }
    }

    /// Adds a rest whose end is a guess.
    pub fn add_guess(&mut self, rest: Rest) {
        self.first = pick(self.first.take(), Some(rest), Rest::begins_the_higher_level);
    }

    /// Adds a rest whose end was stated.
    pub fn add_stated(&mut self, rest: Rest) {
        self.first = pick(self.first.take(), Some(rest.clone()), Rest::begins_the_higher_level);
        self.stated = pick(self.stated.take(), Some(rest), Rest::ends_later);
    }

    /// Adds a quarantine.
    pub fn add_quarantine(&mut self, rest: Rest) {
        self.quarantine = pick(self.quarantine.take(), Some(rest), Rest::begins_the_higher_level);
    }

    /// Takes it out of service.
    pub fn disable(&mut self, disabled: Disabled) {
        self.disabled = pick(self.disabled.take(), Some(disabled), Disabled::is_earlier);
    }

    /// Opens a new epoch in which nothing is wrong.
    pub fn renew(&mut self) {
        *self = Self { epoch: self.epoch.saturating_add(1), ..Self::default() };
    }

    /// How often it has relapsed in this epoch.
    pub fn level(&self) -> u32 {
        self.rests().map(|rest| rest.level).max().unwrap_or(0)
    }

    /// When it may be tried again; `None` if it never rested in this epoch.
    pub fn until(&self) -> Option<Timestamp> {
        self.rests().map(|rest| rest.until).max()
    }

    /// The rest that ends last, which is the one to show.
    pub fn decisive(&self) -> Option<&Rest> {
        self.rests().reduce(|one, other| if other.until > one.until { other } else { one })
    }

    /// Whether nothing is wrong with it.
    pub fn is_clear(&self) -> bool {
        self.disabled.is_none() && self.rests().next().is_none()
    }

    /// The step at which the ladder of `penalty` continues: 0 unless the last rest was of the same kind.
    pub fn next_step(&self, penalty: Penalty) -> u32 {
        let last = if penalty == Penalty::Quarantine { &self.quarantine } else { &self.first };
        last.as_ref().filter(|rest| rest.penalty == penalty).map_or(0, |rest| rest.step.saturating_add(1))
    }

    /// Fits a state from before a restart to the clock of today: no rest ends later than its whole length from
    /// `now` on.
    pub fn anchor(&mut self, now: Timestamp) {
        for rest in [&mut self.first, &mut self.stated, &mut self.quarantine].into_iter().flatten() {
            let whole = until(rest.since, rest.until);
            rest.until = after(now, until(now, rest.until).min(whole));
            rest.since = rest.since.min(now);
        }
    }

    fn rests(&self) -> impl Iterator<Item = &Rest> {
        [&self.quarantine, &self.stated, &self.first].into_iter().flatten()
    }
}

/// One rest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rest {
    /// The relapse it stands for, counted from 1.
    pub level: u32,
    /// The step on the ladder of its penalty, counted from 0.
    pub step: u32,
    /// What kind of rest it is.
    pub penalty: Penalty,
    /// When it began.
    pub since: Timestamp,
    /// When it ends, jitter included.
    pub until: Timestamp,
    /// What it is for.
    pub why: Why,
}

impl Rest {
    fn begins_the_higher_level(&self, other: &Self) -> bool {
        (other.level, self.since, self.until, self.rank())
            < (self.level, other.since, other.until, other.rank())
    }

    fn ends_later(&self, other: &Self) -> bool {
        (other.until, self.since, self.rank()) < (self.until, other.since, other.rank())
    }

    /// Breaks ties between rests of the same time, so that joining has one outcome.
    fn rank(&self) -> impl Ord {
        (self.level, self.step, self.penalty, self.why.rank())
    }
}

/// Out of service until a person, or proof of money, brings it back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Disabled {
    /// Since when.
    pub since: Timestamp,
    /// What it is for.
    pub why: Why,
}

impl Disabled {
    /// Whether a free balance check may bring it back.
    pub fn is_for_money(&self) -> bool {
        self.why.class == Class::BillingExhausted
    }

    fn is_earlier(&self, other: &Self) -> bool {
        (self.since, self.why.rank()) < (other.since, other.why.rank())
    }
}

/// What a rest, a quarantine, a disabling or an open breaker is for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Why {
    /// The class of the failure.
    pub class: Class,
    /// The word for what exactly happened.
    pub reason: Reason,
    /// The upstream's status, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The usage window that the failure named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
    /// Where the end of the rest was read.
    pub source: RestSource,
}

impl Why {
    /// What a verdict says, with the source of the time.
    pub fn of(verdict: &Verdict, status: Option<u16>, source: RestSource) -> Self {
        Self { class: verdict.class, reason: verdict.reason.clone(), status, window: verdict.window, source }
    }

    fn rank(&self) -> impl Ord {
        (self.class, &self.reason, self.status, self.window, self.source)
    }
}

/// Where the end of a rest comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RestSource {
    /// The key's saved quota snapshot.
    Snapshot,
    /// A response header.
    Header,
    /// A header nested in the body.
    NestedHeader,
    /// A JSON field.
    Field,
    /// Prose.
    Text,
    /// A live probe of the usage endpoint.
    Probe,
    /// The monthly usage cycle, whose end nobody states.
    MonthlyCycle,
    /// A setting: nobody stated a time.
    Setting,
    /// The failure itself, which leaves no doubt.
    Verdict,
    /// A sibling of the same account failed.
    Account,
    /// A test of the key.
    Test,
    /// A person.
    Hand,
}

impl From<HealSource> for RestSource {
    fn from(source: HealSource) -> Self {
        match source {
            HealSource::Header => Self::Header,
            HealSource::NestedHeader => Self::NestedHeader,
            HealSource::Field => Self::Field,
            HealSource::Text => Self::Text,
        }
    }
}

/// Of two values the one that `wins`; the only one if there is one.
fn pick<T>(one: Option<T>, other: Option<T>, wins: impl Fn(&T, &T) -> bool) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(if wins(&other, &one) { other } else { one }),
        (one, other) => one.or(other),
    }
}
