use expect_test::expect;
use proptest::prelude::*;

use super::*;

#[test]
fn one_crash_loop_is_one_alert_with_hourly_reminders_and_one_recovery() {
    let mut bell = Bell::new();
    let loops = Topic::new(Condition::CrashLoop, "seat/writer");
    // The watchdog looks every five minutes, for a day less an hour, and finds the same loop each time.
    for tick in 0..276 {
        bell.at(tick * 300).book.raise(&loops, "seat/writer", "exit 1, seven times in a row", at(tick * 300));
        bell.poll();
    }
    bell.at(276 * 300).book.settle(&loops, "seat/writer", at(276 * 300));
    bell.run_until(278 * 300);
    assert_eq!(bell.count(NoticeKind::Raised), 1);
    assert_eq!(bell.count(NoticeKind::Reminder), 22);
    assert_eq!(bell.count(NoticeKind::Recovered), 1);
    let last = bell.said.last().unwrap();
    assert_eq!(last.severity, Severity::Info);
    expect!["seat/writer: recovered from crash loop after 23 h"].assert_eq(&last.title());
}

#[test]
fn an_outage_that_takes_forty_keys_is_one_alert_with_a_count() {
    let mut bell = Bell::new();
    let disabled = Topic::new(Condition::KeyDisabled, "zai");
    let down = Topic::new(Condition::ProviderDown, "zai");
    for key in 0..40 {
        bell.book.raise(&disabled, &format!("key #{key:02}"), "the provider refuses the credential", at(0));
    }
    bell.book.raise(&down, "zai", "all 40 keys are out", at(1));
    bell.run_until(7200 - 60);
    let texts: Vec<String> =
        bell.said.iter().map(|notice| format!("{}\n{}", notice.title(), notice.body())).collect();
    expect![[r#"
        zai: no usable key
        all 40 keys are out
        key disabled: 40
        zai: still no usable key after 60 min
        all 40 keys are out
        key disabled: 40"#]]
    .assert_eq(&texts.join("\n"));
}

#[test]
fn keys_that_stay_out_after_their_provider_is_back_get_their_own_alert() {
    let mut bell = Bell::new();
    let disabled = Topic::new(Condition::KeyDisabled, "zai");
    let down = Topic::new(Condition::ProviderDown, "zai");
    for key in 0..12 {
        bell.book.raise(&disabled, &format!("key #{key:02}"), "refused", at(0));
    }
    bell.book.raise(&down, "zai", "all keys are out", at(0));
    bell.run_until(60);
    bell.book.settle(&disabled, "key #03", at(60));
    bell.book.settle(&down, "zai", at(60));
    bell.run_until(600);
    let titles: Vec<String> = bell.said.iter().map(Notice::title).collect();
    expect![[r#"
        zai: no usable key
        zai: recovered from no usable key after 3 min
        zai: key disabled (11)"#]]
    .assert_eq(&titles.join("\n"));
    expect![[r#"
        refused
        key #00, key #01, key #02, key #04, key #05, key #06, key #07, key #08, key #09, key #10 and 1 more"#]]
    .assert_eq(&bell.said[2].body());
}

#[test]
fn flapping_at_every_period_is_quiet() {
    for period in 1..=600 {
        let mut bell = Bell::new();
        let open = Topic::new(Condition::CircuitOpen, "groq");
        for flip in 0..20 {
            bell.run_until(flip * 2 * period);
            bell.book.raise(&open, "groq", "five requests left", at(flip * 2 * period));
            bell.run_until((flip * 2 + 1) * period);
            bell.book.settle(&open, "groq", at((flip * 2 + 1) * period));
        }
        bell.run_until(40 * period + 200);
        let expected = if period < 120 { 1 } else { 20 };
        assert_eq!(bell.count(NoticeKind::Raised), expected, "period {period}");
        assert_eq!(bell.count(NoticeKind::Recovered), expected, "period {period}");
        bell.check();
    }
}

#[test]
fn a_blip_shorter_than_the_gathering_is_still_said_once_and_taken_back_once() {
    let mut bell = Bell::new();
    let failing = Topic::new(Condition::StoreFailing, "store");
    bell.book.raise(&failing, "store", "disk full", at(0));
    bell.book.settle(&failing, "store", at(1));
    bell.run_until(500);
    assert_eq!((bell.count(NoticeKind::Raised), bell.count(NoticeKind::Recovered)), (1, 1));
}

#[test]
fn a_sleeping_machine_that_wakes_after_the_end_says_both_in_order() {
    let mut bell = Bell::new();
    let low = Topic::new(Condition::DiskLow, "disk");
    bell.book.raise(&low, "/", "3 % free", at(0));
    bell.book.settle(&low, "/", at(1));
    bell.at(9_000).poll();
    bell.poll();
    let kinds: Vec<NoticeKind> = bell.said.iter().map(|notice| notice.kind).collect();
    assert_eq!(kinds, [NoticeKind::Raised, NoticeKind::Recovered]);
}

#[test]
fn an_acknowledged_alert_sends_no_reminders_but_still_recovers() {
    let mut bell = Bell::new();
    let money = Topic::new(Condition::AccountOutOfMoney, "openrouter");
    bell.book.raise(&money, "main", "balance 0", at(0));
    bell.run_until(10);
    assert!(bell.book.acknowledge(&money));
    bell.run_until(20_000);
    bell.book.settle(&money, "main", at(20_000));
    bell.run_until(20_200);
    assert_eq!(bell.count(NoticeKind::Reminder), 0);
    assert_eq!(bell.count(NoticeKind::Recovered), 1);
    assert!(!bell.book.acknowledge(&money));
}

#[test]
fn members_that_vanished_while_we_were_away_count_as_settled() {
    let mut bell = Bell::new();
    let full = Topic::new(Condition::KeyQuotaExhausted, "kimi");
    bell.book.raise(&full, "a", "weekly window", at(0));
    bell.book.raise(&full, "b", "weekly window", at(0));
    bell.run_until(10);
    bell.restart();
    bell.book.reconcile(&full, &BTreeMap::from([("b".to_owned(), "weekly window".to_owned())]), at(20));
    bell.run_until(900);
    assert_eq!(bell.count(NoticeKind::Recovered), 0);
    bell.book.reconcile(&full, &BTreeMap::new(), at(900));
    bell.run_until(1_100);
    assert_eq!((bell.count(NoticeKind::Raised), bell.count(NoticeKind::Recovered)), (1, 1));
}

#[test]
fn every_topic_reads_its_own_text_form() {
    for condition in Condition::ALL {
        let topic = Topic::new(condition, "seat/a-b");
        assert_eq!(Topic::parse(&topic.to_string()), Some(topic));
    }
    assert_eq!(Topic::parse("nonsense/x"), None);
}

#[test]
fn two_instances_over_one_store_announce_once_between_them() {
    let mut store = BTreeMap::new();
    let mut instances = [Book::new(Hysteresis::default()), Book::new(Hysteresis::default())];
    let down = Topic::new(Condition::ProviderDown, "zai");
    let mut said = Vec::new();
    for second in 0..8_000 {
        for (index, book) in instances.iter_mut().enumerate() {
            // The second instance notices everything two seconds later.
            if second == 10 + 2 * index as i64 {
                book.raise(&down, "zai", "out", at(second));
            }
            if second == 7_500 + 2 * index as i64 {
                book.settle(&down, "zai", at(second));
            }
            for notice in book.poll(at(second)) {
                let claim = notice.claim.clone().unwrap();
                if win(&mut store, book, &claim) {
                    said.push(notice);
                } else {
                    book.adopt(&claim.topic, store.get(&claim.topic).cloned(), at(second));
                }
            }
        }
    }
    let kinds: Vec<NoticeKind> = said.iter().map(|notice| notice.kind).collect();
    use NoticeKind::{Raised, Recovered, Reminder};
    assert_eq!(kinds, [Raised, Reminder, Reminder, Recovered]);
}

fn win(store: &mut BTreeMap<Topic, Episode>, book: &Book, claim: &Claim) -> bool {
    if store.get(&claim.topic).map(|stamp| stamp.revision) != claim.previous {
        return false;
    }
    match book.episodes.get(&claim.topic) {
        Some(stamp) if claim.next.is_some() => {
            store.insert(claim.topic.clone(), stamp.clone());
        }
        _ => {
            store.remove(&claim.topic);
        }
    }
    true
}

#[derive(Clone, Debug)]
enum Step {
    Raise(usize, u8),
    Settle(usize, u8),
    Acknowledge(usize),
    Wait(i64),
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0..TOPICS.len(), 0_u8..4).prop_map(|(topic, member)| Step::Raise(topic, member)),
        3 => (0..TOPICS.len(), 0_u8..4).prop_map(|(topic, member)| Step::Settle(topic, member)),
        1 => (0..TOPICS.len()).prop_map(Step::Acknowledge),
        4 => prop_oneof![0_i64..10, 0_i64..300, 0_i64..9_000].prop_map(Step::Wait),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 0..60)
}

proptest! {
    #[test]
    fn any_history_keeps_the_promises(steps in steps()) {
        let mut bell = Bell::new();
        for step in steps {
            let now = at(bell.second);
            match step {
                Step::Raise(topic, member) => bell.book.raise(&topic_of(topic), &member.to_string(), "d", now),
                Step::Settle(topic, member) => bell.book.settle(&topic_of(topic), &member.to_string(), now),
                Step::Acknowledge(topic) => { bell.book.acknowledge(&topic_of(topic)); }
                Step::Wait(seconds) => bell.run_until(bell.second + seconds),
                Step::Restart => bell.restart(),
            }
        }
        for topic in 0..TOPICS.len() {
            for member in 0..4 {
                bell.book.settle(&topic_of(topic), &member.to_string(), at(bell.second));
            }
        }
        bell.run_until(bell.second + 500);
        bell.check();
        prop_assert!(bell.book.open().next().is_none(), "all is quiet, but an episode stays open");
        for topic in 0..TOPICS.len() {
            let topic = topic_of(topic);
            let of = |kind| bell.said.iter().filter(|notice| notice.topic() == topic && notice.kind == kind).count();
            prop_assert_eq!(of(NoticeKind::Raised), of(NoticeKind::Recovered));
        }
    }

    #[test]
    fn a_restart_changes_nothing_that_is_said(steps in steps()) {
        let run = |restarts: bool| {
            let mut bell = Bell::new();
            for step in &steps {
                let now = at(bell.second);
                match step {
                    Step::Raise(topic, member) => bell.book.raise(&topic_of(*topic), &member.to_string(), "d", now),
                    Step::Settle(topic, member) => bell.book.settle(&topic_of(*topic), &member.to_string(), now),
                    Step::Acknowledge(topic) => { bell.book.acknowledge(&topic_of(*topic)); }
                    Step::Wait(seconds) => bell.run_until(bell.second + seconds),
                    Step::Restart if restarts => bell.restart(),
                    Step::Restart => {}
                }
            }
            bell.said
        };
        prop_assert_eq!(run(true), run(false));
    }
}

/// A book that is polled when it says it is due, with its stamps kept as a store would.
struct Bell {
    book: Book,
    stamps: BTreeMap<String, String>,
    said: Vec<Notice>,
    second: i64,
}

impl Bell {
    fn new() -> Self {
        Self { book: Book::new(Hysteresis::default()), stamps: BTreeMap::new(), said: Vec::new(), second: 0 }
    }

    fn at(&mut self, second: i64) -> &mut Self {
        self.second = second;
        self
    }

    fn poll(&mut self) {
        self.said.extend(self.book.poll(at(self.second)));
        self.write();
    }

    fn run_until(&mut self, second: i64) {
        while let Some(due) = self.book.next_due().filter(|due| *due <= at(second)) {
            self.second = self.second.max(due.as_second() - at(0).as_second());
            self.poll();
        }
        self.second = second;
    }

    fn restart(&mut self) {
        self.write();
        self.book = Book::new(Hysteresis::default());
        for (topic, episode) in &self.stamps {
            self.book.restore(Topic::parse(topic).unwrap(), serde_json::from_str(episode).unwrap());
        }
    }

    fn write(&mut self) {
        while let Some((topic, episode)) = self.book.poll_change() {
            match episode {
                Some(episode) => {
                    self.stamps.insert(topic.to_string(), serde_json::to_string(&episode).unwrap());
                }
                None => {
                    self.stamps.remove(&topic.to_string());
                }
            }
        }
    }

    fn count(&self, kind: NoticeKind) -> usize {
        self.said.iter().filter(|notice| notice.kind == kind).count()
    }

    /// Down, reminders, up, and nothing else; reminders are spaced; ids are unique.
    fn check(&self) {
        let mut last: BTreeMap<Topic, &Notice> = BTreeMap::new();
        let mut ids = BTreeSet::new();
        for notice in &self.said {
            assert!(ids.insert(&notice.id), "{} twice", notice.id);
            let before = last.insert(notice.topic(), notice);
            let was_on = before.is_some_and(|before| before.kind != NoticeKind::Recovered);
            match notice.kind {
                NoticeKind::Raised => assert!(!was_on, "{} while on", notice.id),
                NoticeKind::Reminder => {
                    let spacing = notice.at.duration_since(before.unwrap().at).as_secs();
                    assert!(was_on && spacing >= 3_600, "{} after {spacing} s", notice.id);
                }
                NoticeKind::Recovered => assert!(was_on, "up without down: {}", notice.id),
            }
        }
    }
}

const TOPICS: [(Condition, &str); 5] = [
    (Condition::ProviderDown, "zai"),
    (Condition::KeyDisabled, "zai"),
    (Condition::MassRefusal, "zai"),
    (Condition::KeyDisabled, "groq"),
    (Condition::StoreFailing, "store"),
];

fn topic_of(index: usize) -> Topic {
    let (condition, group) = TOPICS[index];
    Topic::new(condition, group)
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}
