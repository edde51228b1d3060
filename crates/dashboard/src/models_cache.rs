//! Lists of models as providers gave them, for five minutes.

use std::{collections::HashMap, time::Duration};

use backstop_triage::{ProviderId, Timestamp};
use parking_lot::Mutex;

/// What each provider listed last.
#[derive(Default)]
pub(crate) struct ModelsCache(Mutex<HashMap<ProviderId, (Timestamp, Vec<String>)>>);

impl ModelsCache {
    /// A list that is fresh enough, and when it was fetched.
    pub(crate) fn find(&self, provider: &ProviderId, now: Timestamp) -> Option<(Timestamp, Vec<String>)> {
        let lists = self.0.lock();
        let (at, models) = lists.get(provider)?;
        let age = Duration::try_from(now.duration_since(*at)).unwrap_or_default();
        (age < FRESH).then(|| (*at, models.clone()))
    }

    /// Keeps a list.
    pub(crate) fn keep(&self, provider: &ProviderId, now: Timestamp, models: Vec<String>) {
        self.0.lock().insert(provider.clone(), (now, models));
    }
}

const FRESH: Duration = Duration::from_secs(300);
