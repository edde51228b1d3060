//! What every handler and every page is given.

use std::{net::IpAddr, sync::Arc};

use backstop_store::{Secret, Store, StoreError};
use backstop_triage::{
    KeyId, ProviderId,
    pool::{KeyStatus, Pool},
};
use serde_json::{Value, json};

use crate::{
    credentials::Credentials,
    events::{Events, SharedEvents},
    live::{Configured, Live},
    models_cache::ModelsCache,
    problem::{Answer, Problem},
    replays::Replays,
};

/// The admin side; clones share it.
#[derive(Clone)]
pub struct App {
    pub(crate) live: Arc<dyn Live>,
    pub(crate) events: SharedEvents,
    pub(crate) credentials: Arc<Credentials>,
    pub(crate) models: Arc<ModelsCache>,
    pub(crate) replays: Replays,
}

/// Who does something, for the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    /// What it showed.
    pub(crate) proof: Proof,
    /// Where it comes from, if the server knows.
    pub(crate) peer: Option<IpAddr>,
}

/// What somebody shows to come in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// The admin token: a script.
    Token,
    /// A session's token: a person who signed in.
    Session(Secret),
    /// Nothing yet: somebody who is signing in.
    Nothing,
}

impl Actor {
    fn name(&self) -> String {
        let proof = match self.proof {
            Proof::Token => "token",
            Proof::Session(_) => "session",
            Proof::Nothing => "nobody",
        };
        self.peer.map_or_else(|| proof.to_owned(), |peer| format!("{proof} from {peer}"))
    }
}

impl App {
    pub(crate) fn new(live: Arc<dyn Live>) -> Self {
        let credentials = Arc::new(Credentials::new(live.store().clone()));
        let events = Arc::new(Events::new());
        Self { live, events, credentials, models: Arc::default(), replays: Replays::default() }
    }

    /// Reads from the store off the async threads.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Answer<T> {
        self.blocking(move |app| read(app.live.store()).map_err(Problem::from)).await
    }

    /// Does something that takes milliseconds off the async threads.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Answer<T> + Send + 'static,
    ) -> Answer<T> {
        let app = self.clone();
        let done = tokio::task::spawn_blocking(move || work(&app)).await;
        done.unwrap_or_else(|_| Err(Problem::broken("the operation ended early; the log says why")))
    }

    /// Works on the pool.
    pub(crate) fn pool<T>(
        &self,
        mut work: impl FnMut(&mut Pool, backstop_triage::Timestamp) -> T,
    ) -> Option<T> {
        let mut result = None;
        self.live.with_pool(&mut |pool, now| result = Some(work(pool, now)));
        result
    }

    /// A provider's keys as the pool sees them.
    pub(crate) fn key_statuses(&self, provider: &ProviderId) -> Vec<KeyStatus> {
        self.pool(|pool, now| pool.snapshot(provider, now)).unwrap_or_default()
    }

    /// A configured provider.
    pub(crate) fn provider(&self, id: &str) -> Answer<Configured> {
        let found = self.live.providers().into_iter().find(|provider| provider.id.as_str() == id);
        found.ok_or_else(|| Problem::not_found("provider"))
    }

    /// A key of a provider.
    pub(crate) fn key(&self, provider: &ProviderId, id: KeyId) -> Answer<backstop_store::keys::KeyRow> {
        let row = self.live.store().key(id)?;
        row.filter(|row| row.provider == *provider).ok_or_else(|| Problem::not_found("key"))
    }

    /// Takes a change up, notes who made it, and tells the pages.
    pub(crate) async fn changed(
        &self,
        actor: &Actor,
        action: &str,
        subject: &str,
        detail: &str,
    ) -> Answer<()> {
        Arc::clone(&self.live).reload().await.map_err(Problem::broken)?;
        self.note(actor, action, subject, detail).await;
        Ok(())
    }

    /// Notes who did something that needs no reload, and tells the pages.
    pub(crate) async fn note(&self, actor: &Actor, action: &str, subject: &str, detail: &str) {
        if let Err(error) = self.live.store().audit(&actor.name(), action, subject, detail).await {
            tracing::warn!(%error, action, subject, "a change could not be noted in the audit log");
        }
        self.events.publish("changed", json!({ "action": action, "subject": subject }));
    }
}

/// A JSON text as a value; text that is none stays text.
pub(crate) fn value_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}
