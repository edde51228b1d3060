//! Lists of models as providers gave them, for five minutes.

use std::{collections::HashMap, time::Duration};

use backstop_triage::{ProviderId, Timestamp};
use parking_lot::Mutex;

/// What each provider listed last.
#[derive(Default)]
pub(crate) struct ModelsCache(Mutex<HashMap<ProviderId, (Timestamp, Vec<Listed>)>>);

/// A model in a provider's list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Listed {
    /// Its name.
    pub(crate) name: String,
    /// Whether it costs nothing; none if the list tells no prices.
    pub(crate) free: Option<bool>,
}

impl ModelsCache {
    /// A list that is fresh enough, and when it was fetched.
    pub(crate) fn find(&self, provider: &ProviderId, now: Timestamp) -> Option<(Timestamp, Vec<Listed>)> {
        let lists = self.0.lock();
        let (at, models) = lists.get(provider)?;
        let age = Duration::try_from(now.duration_since(*at)).unwrap_or_default();
        (age < FRESH).then(|| (*at, models.clone()))
    }

    /// Whether a model of the last list, however old, costs nothing.
    pub(crate) fn is_free(&self, provider: &ProviderId, model: &str) -> Option<bool> {
        let lists = self.0.lock();
        let (_, models) = lists.get(provider)?;
        models.iter().find(|listed| listed.name == model)?.free
    }

    /// Keeps a list.
    pub(crate) fn keep(&self, provider: &ProviderId, now: Timestamp, models: Vec<Listed>) {
        self.0.lock().insert(provider.clone(), (now, models));
    }
}

const FRESH: Duration = Duration::from_secs(300);
