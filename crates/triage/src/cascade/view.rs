//! What a leg still has for a request: attempts, models, keys.

use std::sync::Arc;

use crate::{
    Settings, Timestamp,
    breaker::Admission,
    cascade::{Cascade, Tried},
    pool::{Outlook, Pool, Wish},
};

impl Cascade {
    /// Attempts that a leg may still make: one for each later leg is kept back.
    pub(super) fn attempts_left(&self, at: usize, pool: &Pool) -> u32 {
        let Some(settings) = self.settings(at, pool) else { return 0 };
        let most = settings.max_attempts.max(1);
        let most = if self.limits.client_retries > 0 { most.min(ATTEMPTS_FOR_RETRIES) } else { most };
        let later =
            self.legs.iter().skip(at + 1).filter(|stage| !stage.over && stage.tried.is_empty()).count();
        let kept = u32::try_from(later).unwrap_or(u32::MAX).min(most - 1);
        (most - kept).saturating_sub(self.attempts)
    }

    /// Whether a key of the leg that was not left behind could serve the model.
    pub(super) fn has_other_key(&self, model: usize, pool: &mut Pool, now: Timestamp) -> bool {
        self.with_wish(self.at, model, |wish| pool.has_ready(wish, now))
    }

    pub(super) fn outlook(&self, at: usize, model: usize, pool: &mut Pool, now: Timestamp) -> Outlook {
        self.with_wish(at, model, |wish| pool.outlook(wish, now))
    }

    /// Positions of a leg's models that may be asked, from the top.
    pub(super) fn candidates(&self, at: usize, pool: &Pool, now: Timestamp) -> Vec<usize> {
        let stage = &self.legs[at];
        let falls_back = self.settings(at, pool).is_some_and(|settings| settings.model_fallback);
        let count = if falls_back { stage.leg.models.len() } else { 1 };
        let admitted = |model: &usize| {
            let admission = pool.model_admission(&stage.leg.provider, &stage.leg.models[*model], now);
            // A request that rotates keys keeps the model that it has begun with.
            let begun = stage.tried.iter().any(|(_, tried)| tried == model);
            begun || matches!(admission, Admission::Closed | Admission::Probe)
        };
        (0..count).filter(|model| !stage.dead_models.contains(model)).filter(admitted).collect()
    }

    /// Whether an unknown failure, if there was one, allows another key of a leg.
    pub(super) fn unknown_allows(&self, at: usize) -> bool {
        let begun = !self.legs[at].tried.is_empty();
        self.unknown.is_none_or(|allowance| if begun { allowance.keys > 0 } else { allowance.legs > 0 })
    }

    pub(super) fn is_admitted(&self, at: usize, pool: &Pool, now: Timestamp) -> bool {
        let provider = &self.legs[at].leg.provider;
        matches!(pool.provider_admission(provider, now), Admission::Closed | Admission::Probe)
    }

    pub(super) fn settings(&self, at: usize, pool: &Pool) -> Option<Arc<Settings>> {
        pool.settings(&self.legs.get(at)?.leg.provider)
    }

    /// Asks something of the pool for one model of a leg, without the routes that this request has used.
    pub(super) fn with_wish<R>(&self, at: usize, model: usize, ask: impl FnOnce(&Wish<'_>) -> R) -> R {
        let stage = &self.legs[at];
        let provider = &stage.leg.provider;
        let name = &stage.leg.models[model];
        let mut excluded = stage.spent.clone();
        let elsewhere =
            |tried: &&Tried| tried.leg != at && tried.provider == *provider && tried.model == *name;
        excluded.extend(self.trail.iter().filter(elsewhere).map(|tried| tried.key));
        excluded
            .extend(self.refused.iter().filter(|(refusing, _)| refusing == provider).map(|(_, key)| *key));
        ask(&Wish {
            provider,
            model: name,
            excluded: &excluded,
            session: self.limits.session,
            pinned: self.limits.pinned,
            request: self.request,
        })
    }
}

/// Attempts of a request that the client itself repeats.
const ATTEMPTS_FOR_RETRIES: u32 = 8;
