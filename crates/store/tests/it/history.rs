use std::time::Duration;

use backstop_store::{
    Retention, Store, StoreError,
    key_errors::KeyError,
    requests::{Bodies, Outcome, RequestFilter},
    traffic::Range,
    unknown::{UnknownFailure, UnknownState},
};
use backstop_triage::{Class, KeyId, Scope, Timestamp};

use crate::{at, open, request, until};

fn ids(store: &Store, filter: &RequestFilter) -> Vec<String> {
    let page = store.requests(filter, None, 100).expect("readable");
    page.items.into_iter().map(|row| row.id).collect()
}

fn written(store: &Store, count: usize) {
    until("the requests are written", || ids(store, &RequestFilter::default()).len() == count);
}

#[test]
fn a_request_comes_back_with_its_attempts() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder);
    store.record_request(request("r1", 0));
    written(&store, 1);
    assert_eq!(store.request("r1").expect("readable"), Some(request("r1", 0)));
    assert_eq!(store.request("r2").expect("readable"), None);
}

#[test]
fn pages_follow_each_other_without_gap_or_repeat() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder);
    for number in 0..25 {
        store.record_request(request(&format!("r{number}"), number));
    }
    written(&store, 25);
    let mut cursor = None;
    let mut seen = Vec::new();
    loop {
        let page = store.requests(&RequestFilter::default(), cursor.as_deref(), 10).expect("readable");
        seen.extend(page.items.into_iter().map(|row| row.id));
        store.record_request(request("late", 99));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    let expected: Vec<String> = (0..25).rev().map(|number| format!("r{number}")).collect();
    assert_eq!(seen, expected);
    let wrong = store.requests(&RequestFilter::default(), Some("x'; DROP TABLE request"), 10);
    assert!(matches!(wrong, Err(StoreError::BadCursor)));
}

#[test]
fn filters_narrow_the_log() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder);
    store.record_request(request("plain", 0));
    let mut failed = request("odd_%", 10);
    failed.outcome = Outcome::Failed;
    failed.provider = "beta".into();
    failed.model = Some("100%_done".into());
    failed.attempts.truncate(1);
    failed.attempts[0].key = KeyId(9);
    store.record_request(failed);
    written(&store, 2);
    let only = |filter: RequestFilter| ids(&store, &filter);
    let text = |text: &str| RequestFilter { text: Some(text.into()), ..RequestFilter::default() };
    assert_eq!(only(RequestFilter { outcome: Some(Outcome::Failed), ..Default::default() }), ["odd_%"]);
    assert_eq!(
        only(RequestFilter { provider: Some("alpha".into()), ..Default::default() }),
        ["odd_%", "plain"]
    );
    assert_eq!(only(RequestFilter { key: Some(KeyId(2)), ..Default::default() }), ["plain"]);
    assert_eq!(only(RequestFilter { model: Some("%_".into()), ..Default::default() }), ["odd_%"]);
    assert_eq!(only(RequestFilter { since: Some(at(5)), ..Default::default() }), ["odd_%"]);
    assert_eq!(only(RequestFilter { until: Some(at(5)), ..Default::default() }), ["plain"]);
    assert_eq!(only(RequestFilter { class: Some(Class::RateLimit), ..Default::default() }).len(), 2);
    assert_eq!(only(RequestFilter { class: Some(Class::Timeout), ..Default::default() }).len(), 0);
    assert_eq!(only(text("_%")), ["odd_%"]);
    assert_eq!(only(text("too many")).len(), 2);
    assert_eq!(only(text("%")), ["odd_%"]);
}

#[test]
fn history_is_dropped_and_counted_but_its_sums_are_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder);
    let burst = 40_000;
    for number in 0..burst {
        store.record_request(request(&number.to_string(), 0));
    }
    let rows = store.traffic(Range::All, at(0)).expect("readable");
    until("everything is written", || store.stats().waiting_requests == 0);
    assert!(store.stats().dropped_requests < burst);
    assert_eq!(rows.iter().map(|row| row.traffic.requests).sum::<u64>(), burst);
    let again = store.traffic(Range::All, at(0)).expect("readable");
    assert_eq!(again.iter().map(|row| row.traffic.masked).sum::<u64>(), burst);
    let key = store.key_traffic(KeyId(1)).expect("readable");
    assert_eq!((key.succeeded, key.failed), (0, burst));
    let strip = store.key_strip(KeyId(2), at(0)).expect("readable");
    assert_eq!(strip[47].succeeded, burst);
}

#[test]
fn ranges_leave_older_slots_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder);
    for day in [0, 2, 20] {
        store.record_request(request(&day.to_string(), -day * 86_400));
    }
    let count = |range| store.traffic(range, at(0)).expect("readable").len();
    assert_eq!((count(Range::Day), count(Range::Week), count(Range::All)), (1, 2, 3));
    store.close();
    assert_eq!((count(Range::Day), count(Range::Week), count(Range::All)), (1, 2, 3));
}

#[test]
fn the_last_fifty_errors_of_a_key_are_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder);
    let error = |key: u64, number: i64| KeyError {
        key: KeyId(key),
        at: at(number),
        request: Some(format!("r{number}")),
        model: None,
        status: Some(429),
        class: Class::RateLimit,
        scope: Scope::Key,
        reason: "requests_per_minute".into(),
        basis: "status".into(),
        action: "rest".into(),
        message: "é".repeat(400),
        evidence: r#"{"status":429}"#.into(),
    };
    for number in 0..130 {
        store.record_error(error(1, number));
    }
    store.record_error(error(2, 0));
    until("the errors are written", || !store.key_errors(KeyId(2)).expect("readable").is_empty());
    let errors = store.key_errors(KeyId(1)).expect("readable");
    assert_eq!(errors.len(), 50);
    assert_eq!(errors[0].at, at(129));
    assert_eq!(errors[49].at, at(80));
    assert_eq!(errors[0].message.len(), 512);
    assert_eq!(serde_json::to_value(&errors[0]).expect("JSON")["evidence"]["status"], 429);
    let newest = store.newest_key_errors(2).expect("readable");
    assert_eq!(newest.iter().map(|error| error.key.0).collect::<Vec<_>>(), [2, 1]);
}

#[test]
fn unknown_failures_are_counted_by_shape() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder);
    let failure = |text: &str, second: i64| UnknownFailure {
        provider: "alpha".into(),
        kind: "http".into(),
        status: Some(418),
        text: text.into(),
        evidence: format!("{{\"body\":\"{text}\"}}"),
        at: at(second),
    };
    for number in 0..10 {
        store.record_unknown(failure(&format!("kettle {number} is cold"), number));
    }
    store.record_unknown(failure("something else", 0));
    until("both are written", || {
        let rows = store.unknown_failures().expect("readable");
        rows.iter().map(|row| row.count).sum::<u64>() == 11
    });
    let rows = store.unknown_failures().expect("readable");
    assert_eq!(rows.len(), 2);
    assert_eq!((rows[0].text.as_str(), rows[0].count), ("kettle 9 is cold", 10));
    assert_eq!((rows[0].first_at, rows[0].last_at), (at(0), at(9)));
    store.settle_unknown(&rows[0].shape, UnknownState::Ruled).wait().expect("settled");
    store.record_unknown(failure("kettle 99 is cold", 50));
    until("it opens again", || {
        let row = store.unknown_failure(&rows[0].shape).expect("readable").expect("there");
        row.state == UnknownState::Open && row.count == 11
    });
    let missing = store.settle_unknown("0000", UnknownState::Dismissed).wait();
    assert!(matches!(missing, Err(StoreError::NotFound("unknown failure"))));
}

#[test]
fn bodies_are_kept_sealed_and_opened_for_their_request_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder);
    let mut row = request("r1", 0);
    row.bodies = Some(Bodies::new(b"the prompt".to_vec(), b"the answer".to_vec()));
    store.record_request(row);
    written(&store, 1);
    let bodies = store.bodies("r1").expect("readable").expect("kept");
    assert_eq!(
        (bodies.request.as_slice(), bodies.answer.as_slice()),
        (&b"the prompt"[..], &b"the answer"[..])
    );
    assert_eq!(format!("{bodies:?}"), "***");
    assert_eq!(store.bodies("r2").expect("readable"), None);
}

#[test]
fn what_is_older_than_the_retention_goes_in_pieces() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder);
    let now = Timestamp::now();
    for number in 0..700 {
        let mut row = request(&number.to_string(), 0);
        let age = if number < 690 { 30 * 86_400 } else { 0 };
        row.at = Timestamp::from_second(now.as_second() - age).expect("in range");
        store.record_request(row);
    }
    until("everything is written", || store.stats().waiting_requests == 0);
    store.set_retention(Retention { requests: Some(Duration::from_secs(86_400)), ..Retention::default() });
    let mut pieces = 1;
    while store.clean_up().wait().expect("cleaned") {
        pieces += 1;
    }
    assert_eq!(pieces, 4);
    assert_eq!(ids(&store, &RequestFilter::default()).len(), 10);
    assert_eq!(store.request("3").expect("readable"), None);
}

#[test]
fn requests_of_a_clock_that_ran_ahead_keep_no_older_ones() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder);
    let now = Timestamp::now();
    for number in 0..500 {
        let mut row = request(&number.to_string(), 0);
        let ahead = if number < 300 { 365 * 86_400 } else { -30 * 86_400 };
        row.at = Timestamp::from_second(now.as_second() + ahead).expect("in range");
        store.record_request(row);
    }
    until("everything is written", || store.stats().waiting_requests == 0);
    while store.clean_up().wait().expect("cleaned") {}
    assert_eq!(ids(&store, &RequestFilter::default()), Vec::<String>::new());
}

#[test]
fn clearing_the_log_keeps_the_sums() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder);
    for number in 0..30 {
        store.record_request(request(&number.to_string(), 0));
    }
    written(&store, 30);
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    assert_eq!(runtime.block_on(store.clear_requests()).expect("cleared"), 30);
    written(&store, 0);
    let rows = store.traffic(Range::All, at(0)).expect("readable");
    assert_eq!(rows.iter().map(|row| row.traffic.requests).sum::<u64>(), 30);
}
