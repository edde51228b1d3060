//! Tells people what is wrong: keeps the book of alerts, hands its notices to the channels and to the bell.
//!
//! Once a second a round looks at what is on ([`signs`]), enters it into the [`Book`], and sees what the book has to
//! say. A notice goes into the outboxes first, then to the bell, then its stamp into the store: a crash in between may
//! say something twice (with the same id), never lose it. Nothing here is on the path of a request: requests leave
//! counts and a flag behind, and all of this runs on a thread of its own.

mod signs;

use std::{sync::Arc, time::Duration};

use backstop_alerts::{Channel, ChannelStatus, Courier, DeliveryError, HttpClient, Pace};
use backstop_store::{Register, Store};
use backstop_triage::{
    Settings, Timestamp,
    alert::{Book, Episode, Hysteresis, Notice, NoticeKind, Topic},
    pool::{self, Change},
};
use parking_lot::Mutex;

use self::signs::{Marks, Signs};
use crate::{config::Config, shared::Shared};

/// What is wrong, and who is told.
pub(crate) struct Alarms {
    book: Mutex<Book>,
    marks: Marks,
    wishes: Mutex<Wishes>,
    desk: Mutex<Option<Arc<Desk>>>,
}

/// What the configuration says of alerts.
struct Wishes {
    channels: Vec<Channel>,
    hysteresis: Hysteresis,
    /// Whether it has not been acted on yet.
    are_new: bool,
}

/// Who delivers.
struct Desk {
    channels: Vec<Channel>,
    http: HttpClient,
    /// None if the outbox cannot be opened.
    courier: Option<Courier>,
}

impl Alarms {
    /// Takes up the stamps of earlier runs.
    pub(crate) fn open(config: &Config, store: &Store) -> Self {
        let wishes = Wishes::of(config);
        let mut book = Book::new(wishes.hysteresis);
        for (topic, episode) in store.register(Register::Alert) {
            if let (Some(topic), Ok(episode)) = (Topic::parse(&topic), serde_json::from_str(&episode)) {
                book.restore(topic, episode);
            }
        }
        Self {
            book: Mutex::new(book),
            marks: Marks::default(),
            wishes: Mutex::new(wishes),
            desk: Mutex::default(),
        }
    }

    /// A changed configuration is in force.
    pub(crate) fn configure(&self, config: &Config) {
        *self.wishes.lock() = Wishes::of(config);
        self.marks.reload(true);
    }

    /// A changed configuration was refused.
    pub(crate) fn reload_refused(&self) {
        self.marks.reload(false);
    }

    /// Health has changed.
    pub(crate) fn changed(&self, changes: &[Change]) {
        let refused = |change: &&Change| change.notice == Some(pool::Notice::MassRefusal);
        for change in changes.iter().filter(refused) {
            self.marks.mass_refusal(change.subject.provider());
        }
        self.marks.health();
    }

    /// The alerts that are on.
    pub(crate) fn on(&self) -> Vec<(Topic, Episode)> {
        self.book.lock().open().map(|(topic, episode)| (topic.clone(), episode.clone())).collect()
    }

    /// A person has seen an alert.
    pub(crate) fn acknowledge(&self, topic: &Topic) -> bool {
        self.book.lock().acknowledge(topic)
    }

    /// How the channels fare.
    pub(crate) fn channels(&self) -> Vec<ChannelStatus> {
        let Some(desk) = self.desk.lock().clone() else { return Vec::new() };
        let Some(courier) = &desk.courier else {
            let lost = |channel| ChannelStatus {
                last_error: Some(NO_OUTBOX.to_owned()),
                ..ChannelStatus::fresh(channel)
            };
            return desk.channels.iter().map(lost).collect();
        };
        courier.status()
    }

    /// Sends a test message to a channel; what came back, or `None` if there is no such channel.
    pub(crate) async fn test(&self, name: &str, now: Timestamp) -> Option<Result<String, DeliveryError>> {
        let desk = self.desk.lock().clone()?;
        let channel = desk.channels.iter().find(|channel| channel.name() == name)?;
        Some(channel.deliver(&desk.http, &Notice::test(now)).await)
    }

    /// Acts on a configuration that is new. To be called on a runtime: the channels' tasks run on it.
    fn open_desk(&self, store: &Store) {
        let mut wishes = self.wishes.lock();
        if !std::mem::take(&mut wishes.are_new) {
            return;
        }
        let http = HttpClient::new(DELIVER_WITHIN);
        // Two couriers would deliver the same outbox.
        self.desk.lock().take();
        let folder = store.data_dir().join("alerts");
        let courier = Courier::start(wishes.channels.clone(), &folder, &http, Pace::default());
        let courier = courier.inspect_err(|error| {
            tracing::error!(folder = %folder.display(), %error, "the alert outbox cannot be opened");
        });
        let desk = Desk { channels: wishes.channels.clone(), http, courier: courier.ok() };
        *self.desk.lock() = Some(Arc::new(desk));
        let mut book = self.book.lock();
        write_stamps(&mut book, store);
        let mut renewed = Book::new(wishes.hysteresis);
        book.open().for_each(|(topic, episode)| renewed.restore(topic.clone(), episode.clone()));
        *book = renewed;
    }
}

impl Wishes {
    fn of(config: &Config) -> Self {
        let Settings { alert_repeat_s, alert_clear_s, .. } = *config.settings;
        Self {
            channels: config.alerts.iter().map(|alert| alert.route.clone()).collect(),
            hysteresis: Hysteresis {
                repeat: Duration::from_secs(alert_repeat_s),
                clear: Duration::from_secs(alert_clear_s),
                ..Hysteresis::default()
            },
            are_new: true,
        }
    }
}

/// Makes its rounds for as long as it is polled.
pub(crate) async fn keep(shared: &Arc<Shared>) {
    let mut signs = Signs::new(shared);
    loop {
        round(shared, &mut signs);
        tokio::time::sleep(ROUND_EVERY).await;
    }
}

/// Sees that what is due leaves before the process ends.
pub(crate) async fn last_words(shared: &Shared) {
    let desk = shared.alarms.desk.lock().clone();
    if let Some(courier) = desk.as_ref().and_then(|desk| desk.courier.as_ref()) {
        courier.settle(LAST_WORDS).await;
    }
}

fn round(shared: &Arc<Shared>, signs: &mut Signs) {
    let alarms = &shared.alarms;
    alarms.open_desk(&shared.store);
    let now = shared.clock.now();
    let notices = {
        let mut book = alarms.book.lock();
        signs.enter(shared, &alarms.marks, &mut book, now);
        book.poll(now)
    };
    let desk = alarms.desk.lock().clone();
    for notice in &notices {
        if let Some(desk) = &desk {
            desk.post(notice);
        }
        ring(shared, notice);
    }
    write_stamps(&mut alarms.book.lock(), &shared.store);
}

fn write_stamps(book: &mut Book, store: &Store) {
    let stamps: Vec<_> = std::iter::from_fn(|| book.poll_change()).collect();
    let row = |(topic, episode): (Topic, Option<Episode>)| {
        let state = episode.and_then(|episode| serde_json::to_string(&episode).ok());
        (Register::Alert, topic.to_string(), state)
    };
    if !stamps.is_empty() {
        drop(store.save(stamps.into_iter().map(row)));
    }
}

impl Desk {
    fn post(&self, notice: &Notice) {
        let posted = self.courier.as_ref().map(|courier| courier.post(notice));
        if let Some(Ok(())) = posted {
            return;
        }
        // The disk may be what the alert is about: it is sent once, without being kept.
        tracing::error!(
            notice = notice.id,
            "the alert outbox cannot be written, this alert is tried only once"
        );
        for channel in self.channels.iter().filter(|channel| channel.wants(notice)) {
            let (channel, http, notice) = (channel.clone(), self.http.clone(), notice.clone());
            tokio::spawn(async move {
                if let Err(error) = channel.deliver(&http, &notice).await {
                    tracing::error!(channel = channel.name(), %error, "an alert is lost");
                }
            });
        }
    }
}

/// Puts a notice into the bell and the log.
fn ring(shared: &Shared, notice: &Notice) {
    let body = notice.body();
    let text = if body.is_empty() { notice.title() } else { format!("{}\n{body}", notice.title()) };
    match notice.kind {
        NoticeKind::Raised | NoticeKind::Reminder => {
            tracing::warn!(alert = notice.id, severity = notice.severity.as_str(), "{}", notice.title());
        }
        NoticeKind::Recovered => tracing::info!(alert = notice.id, "{}", notice.title()),
    }
    let is_provider = shared.plan.load().outlet(&notice.group).is_some();
    let subject = if is_provider { format!("provider/{}", notice.group) } else { notice.group.clone() };
    drop(shared.store.notify(backstop_store::notices::Notice {
        at: notice.at,
        kind: notice.condition.to_string(),
        severity: notice.severity.to_string(),
        subject,
        text,
    }));
}

const ROUND_EVERY: Duration = Duration::from_secs(1);
const DELIVER_WITHIN: Duration = Duration::from_secs(10);
const LAST_WORDS: Duration = Duration::from_secs(1);
const NO_OUTBOX: &str = "the outbox cannot be written; each alert is tried only once";
