//! One task a channel, which empties the channel's outbox and reports how it fares.

use std::{io, path::Path, sync::Arc, time::Duration};

use backstop_triage::{
    Timestamp,
    alert::{Notice, Severity},
};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::{sync::Notify, task::JoinHandle};

use crate::{
    Channel, DeliveryError, HttpClient,
    outbox::{Outbox, Parcel},
};

/// Delivers notices to all channels.
#[derive(Debug)]
pub struct Courier {
    routes: Vec<Arc<Route>>,
    tasks: Vec<JoinHandle<()>>,
}

/// How a channel fares.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ChannelStatus {
    /// Its name.
    pub name: String,
    /// What it is: `webhook`, `email` …
    pub kind: &'static str,
    /// The least severity that it takes.
    pub min_severity: Severity,
    /// Notices that it has taken since the start.
    pub delivered: u64,
    /// Deliveries that failed, those that are tried again among them.
    pub failed: u64,
    /// Notices that were given up.
    pub dropped: u64,
    /// Notices that wait.
    pub queued: usize,
    /// Since when it fails.
    pub failing_since: Option<Timestamp>,
    /// Its last failure.
    pub last_error: Option<String>,
}

impl ChannelStatus {
    /// A channel that has not been used yet.
    pub fn fresh(channel: &Channel) -> Self {
        Self {
            name: channel.name().to_owned(),
            kind: channel.kind(),
            min_severity: channel.min_severity(),
            ..Self::default()
        }
    }
}

impl Courier {
    /// Starts a task for each channel; what earlier lives left in the outbox below `folder` is taken up.
    pub fn start(channels: Vec<Channel>, folder: &Path, http: &HttpClient, pace: Pace) -> io::Result<Self> {
        let mut routes = Vec::new();
        let mut tasks = Vec::new();
        for channel in channels {
            let outbox = Outbox::open(folder, channel.name())?;
            let status = ChannelStatus::fresh(&channel);
            let route = Arc::new(Route {
                channel,
                outbox,
                pace,
                wake: Notify::new(),
                tried: Notify::new(),
                status: Mutex::new(status),
            });
            tasks.push(tokio::spawn(Arc::clone(&route).work(http.clone())));
            routes.push(route);
        }
        Ok(Self { routes, tasks })
    }

    /// Hands a notice to every channel that wants it. Writes a small file for each and returns: nothing is
    /// sent yet. An error means that it is not on disk everywhere; it is delivered to the others.
    pub fn post(&self, notice: &Notice) -> io::Result<()> {
        let mut outcome = Ok(());
        for route in self.routes.iter().filter(|route| route.channel.wants(notice)) {
            let not_before = route.channel.held_until(notice).unwrap_or(notice.at);
            let added = route.outbox.add(&Parcel { notice: notice.clone(), attempts: 0, not_before });
            route.wake.notify_one();
            outcome = outcome.and(added);
        }
        outcome
    }

    /// How the channels fare.
    pub fn status(&self) -> Vec<ChannelStatus> {
        let of =
            |route: &Arc<Route>| ChannelStatus { queued: route.outbox.len(), ..route.status.lock().clone() };
        self.routes.iter().map(of).collect()
    }

    /// Waits until everything that is due has been tried once, at most this long: for a process that is about
    /// to end.
    pub async fn settle(&self, at_most: Duration) {
        let all = async {
            for route in &self.routes {
                loop {
                    let tried = route.tried.notified();
                    if route.next(Timestamp::now()).is_none_or(|(wait, _)| !wait.is_zero()) {
                        break;
                    }
                    tried.await;
                }
            }
        };
        let _ = tokio::time::timeout(at_most, all).await;
    }
}

impl Drop for Courier {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// A channel with its outbox.
#[derive(Debug)]
struct Route {
    channel: Channel,
    outbox: Outbox,
    pace: Pace,
    wake: Notify,
    tried: Notify,
    status: Mutex<ChannelStatus>,
}

impl Route {
    async fn work(self: Arc<Self>, http: HttpClient) {
        loop {
            match self.next(Timestamp::now()) {
                None => self.wake.notified().await,
                Some((wait, _)) if !wait.is_zero() => {
                    // The wall clock may be set meanwhile: look again after a while.
                    let _ = tokio::time::timeout(wait.min(LOOK_AGAIN), self.wake.notified()).await;
                }
                Some((_, (path, parcel))) => {
                    let outcome = self.channel.deliver(&http, &parcel.notice).await;
                    if let Err(error) = self.settle(&path, parcel, outcome) {
                        tracing::error!(channel = self.channel.name(), %error, "the alert outbox cannot be written");
                        tokio::time::sleep(LOOK_AGAIN).await;
                    }
                    self.tried.notify_waiters();
                }
            }
        }
    }

    /// The parcel that is due first and how long to wait for it. One that failed holds back the whole
    /// channel, so that a dead receiver is not asked once for each of them.
    fn next(&self, now: Timestamp) -> Option<(Duration, (std::path::PathBuf, Parcel))> {
        let parcels = self.outbox.list();
        let until =
            |parcel: &Parcel| Duration::try_from(parcel.not_before.duration_since(now)).unwrap_or_default();
        let untried = |(_, parcel): &(_, Parcel)| parcel.attempts == 0;
        let chosen = parcels.into_iter().min_by_key(|entry| (untried(entry), until(&entry.1)))?;
        Some((until(&chosen.1), chosen))
    }

    fn settle(
        &self,
        path: &Path,
        mut parcel: Parcel,
        outcome: Result<String, DeliveryError>,
    ) -> io::Result<()> {
        let now = Timestamp::now();
        let name = self.channel.name();
        let Err(error) = outcome else {
            let mut status = self.status.lock();
            status.delivered += 1;
            status.failing_since = None;
            status.last_error = None;
            drop(status);
            return std::fs::remove_file(path);
        };
        parcel.attempts += 1;
        let mut status = self.status.lock();
        if status.failing_since.is_none() {
            tracing::warn!(channel = name, %error, "an alert channel fails; it is tried again");
        }
        status.failing_since.get_or_insert(now);
        status.last_error = Some(error.to_string());
        status.failed += 1;
        let age = now.duration_since(parcel.notice.at).as_secs();
        let hopeless = matches!(error, DeliveryError::Refused(_)) && parcel.attempts >= REFUSALS;
        if hopeless || age > GIVE_UP_S {
            status.dropped += 1;
            drop(status);
            tracing::error!(channel = name, notice = parcel.notice.id, %error, "an alert is given up");
            return std::fs::remove_file(path);
        }
        drop(status);
        parcel.not_before =
            now.saturating_add(self.pace.pause(parcel.attempts, &error)).unwrap_or(Timestamp::MAX);
        self.outbox.write(path, &parcel)
    }
}

/// How soon a failed delivery is tried again.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The wait after the first failure; doubles.
    pub first: Duration,
    /// The longest wait, unless the receiver states a longer one.
    pub longest: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self { first: Duration::from_secs(5), longest: Duration::from_secs(900) }
    }
}

impl Pace {
    fn pause(self, attempts: u32, error: &DeliveryError) -> Duration {
        let grown = self.first.saturating_mul(1 << attempts.saturating_sub(1).min(10)).min(self.longest);
        match error {
            DeliveryError::Busy { retry_after_s: Some(seconds), .. } => {
                grown.max(Duration::from_secs(*seconds).min(LONGEST_STATED_PAUSE))
            }
            DeliveryError::Busy { .. }
            | DeliveryError::Unreachable(_)
            | DeliveryError::Refused(_)
            | DeliveryError::TimedOut(_) => grown,
        }
    }
}

const LONGEST_STATED_PAUSE: Duration = Duration::from_secs(3_600);
const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// Refusals after which a notice is given up.
const REFUSALS: u32 = 3;
/// The age at which any notice is given up.
const GIVE_UP_S: i64 = 24 * 3_600;
