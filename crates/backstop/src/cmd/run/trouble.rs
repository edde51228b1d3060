//! What people hear of a seat: the supervisor's own alerts, without a gateway.
//!
//! The stamps lie in a file. Seats of one account share it, so that an empty account is one alert however
//! many seats notice.

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use anyhow::Result;
use backstop_alerts::{Channel, Courier, HttpClient, Notice, Pace};
use backstop_supervisor::{Event, Job, SeatAlerts};
use backstop_triage::{
    Class, Timestamp,
    alert::{Book, Condition, Hysteresis, Topic},
};

/// The alerts of a seat.
pub(super) struct Trouble {
    stamps: SeatAlerts,
    /// What is shared with the other seats of the account, or the seat's own group.
    shared: String,
    own: String,
    seat: String,
    courier: Option<Courier>,
}

impl Trouble {
    /// Starts the channels, if there are any.
    pub(super) fn new(data_dir: &Path, job: &Job, channels: Vec<Channel>) -> Result<Self> {
        let seat = job.name.to_string();
        let own = format!("seat/{seat}");
        let shared = job.account.as_ref().map_or_else(|| own.clone(), |account| format!("account/{account}"));
        let courier = if channels.is_empty() {
            None
        } else {
            let http = HttpClient::new(CALL_LIMIT);
            let outbox = data_dir.join("alerts/outbox").join(&seat);
            Some(Courier::start(channels, &outbox, &http, Pace::default())?)
        };
        Ok(Self { stamps: SeatAlerts::below(data_dir), shared, own, seat, courier })
    }

    /// Takes in what happened.
    pub(super) fn hear(&self, event: &Event) {
        match event {
            Event::Failed { decision, .. } => {
                if let Some(condition) = condition(decision.class, decision.failures) {
                    let topic =
                        Topic::new(condition, if is_shared(condition) { &self.shared } else { &self.own });
                    let detail =
                        format!("{} ({}), next start {:.0}", decision.reason, decision.rule, decision.until);
                    self.speak(HYSTERESIS, |book, now| book.raise(&topic, &self.seat, &detail, now));
                }
            }
            Event::Healthy => self.speak(HYSTERESIS, |book, now| self.all_clear(book, now)),
            Event::Started { .. }
            | Event::EndedOrphan { .. }
            | Event::Rests { .. }
            | Event::OtherTries { .. } => {
                self.speak(HYSTERESIS, |_, _| {});
            }
        }
    }

    /// Reminders and recoveries fall due while the command runs or rests.
    pub(super) async fn tick(self: Arc<Self>) {
        loop {
            tokio::time::sleep(TICK).await;
            self.speak(HYSTERESIS, |_, _| {});
        }
    }

    /// The supervisor ends. After a good end nothing can flap any more, so that recoveries are said at once.
    pub(super) async fn finish(&self, good: bool) {
        if good {
            let at_once = Hysteresis { clear: Duration::ZERO, ..HYSTERESIS };
            self.speak(at_once, |book, now| self.all_clear(book, now));
        }
        if let Some(courier) = &self.courier {
            courier.settle(LAST_WORDS).await;
        }
    }

    /// The account serves again for every seat of it, or the seat is well.
    fn all_clear(&self, book: &mut Book, now: Timestamp) {
        let ours = |topic: &Topic| [&self.shared, &self.own].contains(&&topic.group);
        let topics: Vec<Topic> = book.open().map(|(topic, _)| topic.clone()).filter(ours).collect();
        for topic in topics {
            book.reconcile(&topic, &BTreeMap::new(), now);
        }
    }

    fn speak(&self, hysteresis: Hysteresis, change: impl FnOnce(&mut Book, Timestamp)) {
        let notices = self.stamps.speak(&self.shared, hysteresis, change);
        match notices {
            Ok(notices) => notices.iter().for_each(|notice| self.post(notice)),
            Err(error) => eprintln!("backstop: alerts: {error}"),
        }
    }

    fn post(&self, notice: &Notice) {
        if let Some(Err(error)) = self.courier.as_ref().map(|courier| courier.post(notice)) {
            eprintln!("backstop: alerts: {error}");
        }
    }
}

/// What the failure of a process means to people. A provider's hiccup is news only when it does not end.
fn condition(class: Class, failures: u32) -> Option<Condition> {
    match class {
        Class::BillingExhausted => Some(Condition::AccountOutOfMoney),
        Class::QuotaExhausted => Some(Condition::KeyQuotaExhausted),
        Class::AuthError => Some(Condition::KeyDisabled),
        Class::ConfigurationError | Class::ModelError => Some(Condition::MisconfiguredRoute),
        Class::Unknown => Some(Condition::UnknownFailures),
        Class::TransientRequest
        | Class::RateLimit
        | Class::Overloaded
        | Class::ServerError
        | Class::Timeout
        | Class::NetworkError => (failures >= LASTING).then_some(Condition::CircuitOpen),
        Class::RequestError | Class::ContextOverflow | Class::LocalFault => {
            (failures >= LASTING).then_some(Condition::CrashLoop)
        }
    }
}

/// Whether the condition is the account's and not the seat's.
fn is_shared(condition: Condition) -> bool {
    [Condition::AccountOutOfMoney, Condition::KeyQuotaExhausted, Condition::KeyDisabled].contains(&condition)
}

const HYSTERESIS: Hysteresis = Hysteresis {
    repeat: Duration::from_secs(3_600),
    clear: Duration::from_secs(120),
    gather: Duration::ZERO,
};
const TICK: Duration = Duration::from_secs(15);
const CALL_LIMIT: Duration = Duration::from_secs(10);
/// How long the end of the supervisor waits for its last alert.
const LAST_WORDS: Duration = Duration::from_secs(10);
/// Failures in a row that are no hiccup any more.
const LASTING: u32 = 3;
