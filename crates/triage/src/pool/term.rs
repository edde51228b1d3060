//! How long a rest is: the first source that knows.

use std::time::Duration;

use crate::{
    Penalty, Settings, Timestamp, Verdict, Window,
    ladder::{Ladder, after, until},
    pool::{Health, RestSource},
    quota::QuotaSnapshot,
    treatment::{DOUBT_REST, MODEL_MONEY_REST, REST_CEILING},
};

/// How long a rest is and who says so; jitter comes later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Term {
    pub(super) wait: Duration,
    /// Whether somebody stated it; then it joins by max.
    pub(super) stated: bool,
    pub(super) source: RestSource,
    pub(super) step: u32,
}

/// What is known of the key whose rest is decided.
#[derive(Clone, Copy)]
pub(super) struct Known<'a> {
    pub(super) health: &'a Health,
    /// How often the attempt's subject had relapsed when it began.
    pub(super) level: u32,
    /// The saved snapshot's answer to when this failure heals.
    pub(super) snapshot_says: Option<Timestamp>,
    pub(super) last_success: Option<Timestamp>,
}

impl Term {
    /// The rest that `penalty` means; `None` if it is none.
    pub(super) fn of(
        penalty: Penalty,
        verdict: &Verdict,
        known: Known<'_>,
        settings: &Settings,
        now: Timestamp,
    ) -> Option<Self> {
        let step = known.health.next_step(penalty);
        let seconds = Duration::from_secs;
        let at_least = |ladder: Ladder| Self::at_least(ladder, step, verdict, settings, now);
        let term = match penalty {
            Penalty::None | Penalty::CountUnknown | Penalty::Quarantine | Penalty::Disable => return None,
            Penalty::Count => {
                Self::guess(Ladder::new(seconds(settings.fault_backoff_s), FAULT_CEILING), step)
            }
            Penalty::RestRateLimit => rate_limit(verdict, known, settings, now),
            Penalty::RestQuota => quota(step, verdict, known, settings, now),
            Penalty::RestModelLimit if verdict.class == crate::Class::QuotaExhausted => {
                quota(step, verdict, known, settings, now)
            }
            Penalty::RestModelLimit => rate_limit(verdict, known, settings, now),
            Penalty::RestDoubt => at_least(Ladder::new(DOUBT_REST, DAY)),
            Penalty::RestUnknown => at_least(Ladder::flat(settings.unknown_backoff())),
            Penalty::RestModelPlan => at_least(Ladder::flat(DOUBT_REST)),
            Penalty::RestModelMoney => at_least(Ladder::flat(MODEL_MONEY_REST)),
        };
        Some(term)
    }

    /// A guess of the ladder.
    pub(super) fn guess(ladder: Ladder, step: u32) -> Self {
        Self { wait: ladder.delay(step), stated: false, source: RestSource::Setting, step }
    }

    /// A guess of the ladder, or a longer time that a machine-readable statement gives.
    fn at_least(ladder: Ladder, step: u32, verdict: &Verdict, settings: &Settings, now: Timestamp) -> Self {
        let guess = Self::guess(ladder, step);
        match Statement::of(verdict, settings, now) {
            Some(stated) if stated.trusted && stated.wait > guess.wait => {
                Self { wait: stated.wait, stated: true, source: stated.source, step }
            }
            Some(_) | None => guess,
        }
    }
}

/// A rate limit rests the stated time, or the setting's.
fn rate_limit(verdict: &Verdict, known: Known<'_>, settings: &Settings, now: Timestamp) -> Term {
    let usual = Ladder::flat(settings.rate_limit_backoff());
    match Statement::of(verdict, settings, now) {
        None => Term::guess(usual, 0),
        Some(stated) => Term {
            wait: stated.wait.max(disbelief(known, settings.rate_limit_backoff())),
            stated: !stated.cut,
            source: stated.source,
            step: 0,
        },
    }
}

/// A full window rests until it opens: trusted sources, prose, the monthly cycle, a growing guess.
fn quota(step: u32, verdict: &Verdict, known: Known<'_>, settings: &Settings, now: Timestamp) -> Term {
    let statement = Statement::of(verdict, settings, now);
    let snapshot =
        known.snapshot_says.map(|resets_at| (until(now, resets_at).min(REST_CEILING), RestSource::Snapshot));
    let header = statement.filter(|stated| stated.trusted).map(|stated| (stated.wait, stated.source));
    if let Some((wait, source)) = snapshot.into_iter().chain(header).max_by_key(|(wait, _)| *wait) {
        return Term {
            wait: wait.max(disbelief(known, settings.quota_backoff())),
            stated: true,
            source,
            step,
        };
    }
    let ladder = Ladder::new(settings.quota_backoff(), QUOTA_CEILING);
    if let Some(prose) = statement {
        if !prose.cut {
            let wait = prose.wait.max(disbelief(known, settings.quota_backoff()));
            return Term { wait, stated: true, source: prose.source, step };
        }
        return Term { wait: ladder.delay(step).min(prose.whole), stated: false, source: prose.source, step };
    }
    if verdict.window == Some(Window::Monthly) {
        let wait = monthly(known.last_success, now);
        return Term { wait, stated: true, source: RestSource::MonthlyCycle, step };
    }
    Term::guess(ladder, step)
}

/// Nobody states when a monthly cycle ends: 10-day steps from the last success until it has renewed.
fn monthly(last_success: Option<Timestamp>, now: Timestamp) -> Duration {
    let Some(anchor) = last_success.filter(|then| *then <= now && until(*then, now) <= REST_CEILING) else {
        return MONTHLY_STEP;
    };
    let mut next = after(anchor, MONTHLY_STEP);
    while next <= now {
        next = after(next, MONTHLY_STEP);
    }
    until(now, next)
}

/// The least that a stated time is worth after it has proved false: 1 s doubling with every relapse, so that a
/// provider that always says "one second" is not asked every second.
fn disbelief(known: Known<'_>, ceiling: Duration) -> Duration {
    if known.level == 0 {
        Duration::ZERO
    } else {
        Ladder::new(Duration::from_secs(1), ceiling).delay(known.level)
    }
}

/// A stated time of healing.
#[derive(Clone, Copy)]
struct Statement {
    /// As far as it is believed: machine-readable up to 30 days, prose up to `quota_backoff_s`.
    wait: Duration,
    whole: Duration,
    trusted: bool,
    cut: bool,
    source: RestSource,
}

impl Statement {
    fn of(verdict: &Verdict, settings: &Settings, now: Timestamp) -> Option<Self> {
        let heals = verdict.heals.as_ref()?;
        let whole = heals.wait(now)?.min(REST_CEILING);
        let wait = if heals.trusted { whole } else { whole.min(settings.quota_backoff()) };
        Some(Self { wait, whole, trusted: heals.trusted, cut: wait < whole, source: heals.source.into() })
    }
}

/// What a key's snapshot says of a failure.
pub(super) fn snapshot_says(
    snapshot: Option<&QuotaSnapshot>,
    verdict: &Verdict,
    model: &crate::ModelId,
    now: Timestamp,
) -> Option<Timestamp> {
    snapshot?.heals_at(verdict.window, model, now)
}

pub(super) const DAY: Duration = Duration::from_secs(24 * 3600);
const FAULT_CEILING: Duration = Duration::from_secs(300);
const QUOTA_CEILING: Duration = Duration::from_secs(6 * 3600);
const MONTHLY_STEP: Duration = Duration::from_secs(10 * 24 * 3600);
