//! What happens, as it happens: numbered events that a page follows and resumes after a gap.
//!
//! Nobody announces anything: while somebody listens, a watcher compares what it sees with what it saw a second
//! ago. Listening costs the gateway one look per second, and not listening costs it nothing.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use backstop_store::requests::RequestFilter;
use backstop_triage::{KeyId, ProviderId};
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::broadcast;
use utoipa::ToSchema;

use crate::app::App;

/// Something that happened.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Event {
    /// Its number; numbers have no gaps within one run of the gateway.
    pub id: u64,
    /// What kind of event: `key`, `request`, `notification`, `store`, `changed` or `resync`.
    pub kind: &'static str,
    /// What is known about it.
    #[schema(value_type = Object)]
    pub data: Value,
}

impl Event {
    /// Says that events were missed, so that everything has to be read again.
    pub(crate) fn resync() -> Self {
        Self { id: 0, kind: "resync", data: Value::Null }
    }
}

/// The last events, and those who listen.
pub(crate) struct Events {
    recent: Mutex<Recent>,
    sender: broadcast::Sender<Event>,
}

#[derive(Default)]
struct Recent {
    last: u64,
    events: VecDeque<Event>,
    watching: bool,
}

impl Events {
    pub(crate) fn new() -> Self {
        Self { recent: Mutex::default(), sender: broadcast::channel(KEPT).0 }
    }

    /// Tells everybody who listens.
    pub(crate) fn publish(&self, kind: &'static str, data: Value) {
        let mut recent = self.recent.lock();
        recent.last += 1;
        let event = Event { id: recent.last, kind, data };
        recent.events.push_back(event.clone());
        if recent.events.len() > KEPT {
            recent.events.pop_front();
        }
        // Nobody listening is no error.
        let _listeners = self.sender.send(event);
    }

    /// The events after `last`, and those to come. A gap is one event that says: read everything again.
    pub(crate) fn follow(&self, last: Option<u64>) -> (Vec<Event>, broadcast::Receiver<Event>) {
        let recent = self.recent.lock();
        let receiver = self.sender.subscribe();
        let missed = match last {
            None => Vec::new(),
            Some(last)
                if last > recent.last || recent.events.front().is_some_and(|first| first.id > last + 1) =>
            {
                vec![Event { id: recent.last, kind: "resync", data: Value::Null }]
            }
            Some(last) => recent.events.iter().filter(|event| event.id > last).cloned().collect(),
        };
        (missed, receiver)
    }

    /// How many listen.
    pub(crate) fn listeners(&self) -> usize {
        self.sender.receiver_count()
    }

    fn begin_watching(&self) -> bool {
        !std::mem::replace(&mut self.recent.lock().watching, true)
    }

    /// Ends the watch unless somebody has come.
    fn end_watching(&self) -> bool {
        let mut recent = self.recent.lock();
        let alone = self.sender.receiver_count() == 0;
        if alone {
            recent.watching = false;
        }
        alone
    }
}

/// Watches while somebody listens; one watcher at a time.
pub(crate) fn watch(app: &App) {
    if !app.events.begin_watching() {
        return;
    }
    let app = app.clone();
    tokio::spawn(async move {
        let mut seen = Seen::default();
        let mut first = true;
        while !app.events.end_watching() {
            let looked = app.blocking(move |app| Ok(seen.look(app, first))).await;
            let Ok((next, events)) = looked else { break };
            seen = next;
            first = false;
            for (kind, data) in events {
                app.events.publish(kind, data);
            }
            tokio::time::sleep(INTERVAL).await;
        }
    });
}

/// What the watcher saw last.
#[derive(Default)]
struct Seen {
    keys: BTreeMap<(ProviderId, KeyId), Value>,
    newest_request: Option<String>,
    newest_notice: u64,
    failing: bool,
}

impl Seen {
    fn look(mut self, app: &App, first: bool) -> (Self, Vec<(&'static str, Value)>) {
        let mut events = Vec::new();
        self.look_at_keys(app, &mut events);
        self.look_at_requests(app, &mut events);
        self.look_at_notices(app, &mut events);
        let failing = app.live.store().stats().failing;
        if failing.is_some() != self.failing {
            self.failing = failing.is_some();
            events.push(("store", json!({ "failing": failing })));
        }
        if first {
            events.clear();
        }
        (self, events)
    }

    fn look_at_keys(&mut self, app: &App, events: &mut Vec<(&'static str, Value)>) {
        let mut keys = BTreeMap::new();
        for provider in app.live.providers() {
            for status in app.key_statuses(&provider.id) {
                let value = json!({
                    "provider": provider.id, "id": status.id, "state": status.state, "since": status.since,
                    "until": status.until, "why": status.why,
                });
                keys.insert((provider.id.clone(), status.id), value);
            }
        }
        for (key, value) in &keys {
            if self.keys.get(key) != Some(value) {
                events.push(("key", value.clone()));
            }
        }
        for (provider, id) in self.keys.keys().filter(|key| !keys.contains_key(*key)) {
            events.push(("key", json!({ "provider": provider, "id": id, "state": "removed" })));
        }
        self.keys = keys;
    }

    fn look_at_requests(&mut self, app: &App, events: &mut Vec<(&'static str, Value)>) {
        let Ok(page) = app.live.store().requests(&RequestFilter::default(), None, 50) else { return };
        let newest = page.items.first().map(|row| row.id.clone());
        let unseen = page.items.into_iter().take_while(|row| Some(&row.id) != self.newest_request.as_ref());
        let mut unseen: Vec<_> = unseen.collect();
        unseen.reverse();
        for row in unseen {
            if let Ok(value) = serde_json::to_value(&row) {
                events.push(("request", value));
            }
        }
        self.newest_request = newest;
    }

    fn look_at_notices(&mut self, app: &App, events: &mut Vec<(&'static str, Value)>) {
        let Ok(notices) = app.live.store().notices() else { return };
        for notice in notices.iter().rev().filter(|notice| notice.id > self.newest_notice) {
            if let Ok(value) = serde_json::to_value(notice) {
                events.push(("notification", value));
            }
        }
        self.newest_notice = notices.first().map_or(self.newest_notice, |notice| notice.id);
    }
}

/// Streams that may listen at a time.
pub(crate) const MOST_LISTENERS: usize = 20;
const KEPT: usize = 1000;
const INTERVAL: Duration = Duration::from_secs(1);

/// Shared by everything that happens.
pub(crate) type SharedEvents = Arc<Events>;
