use std::{os::unix::fs::PermissionsExt, time::Duration};

use backstop_store::{
    Secret, StoreError,
    boots::Progress,
    clients::{ClientEdit, ClientLimits, NewClient, token_hash},
    configuration::{Kind, Marks, ModelRow},
    notices::Notice,
    sessions::{IDLE, LONGEST},
};
use backstop_triage::{ModelId, ProviderId, SignedDuration, Timestamp};

use crate::{at, open};

#[test]
fn nobody_else_may_read_the_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("a/b");
    let store = backstop_store::Store::open(&data).expect("opens");
    let mode = |name: &str| std::fs::metadata(data.join(name)).expect("there").permissions().mode() & 0o777;
    assert_eq!(
        (mode(""), mode("master.key"), mode("backstop.db"), mode("lock")),
        (0o700, 0o600, 0o600, 0o600)
    );
    store.save_health(vec![("key/1".into(), "x".into())]).wait();
    assert_eq!(mode("backstop.db-wal"), 0o600);
}

#[test]
fn a_client_key_is_shown_once_and_kept_as_a_hash() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder);
    let new = NewClient { name: "laptop".into(), ..NewClient::default() };
    let (row, secret) = store.create_client(new).wait().expect("made");
    assert!(secret.expose().starts_with("bsk_") && secret.expose().len() == 47);
    assert_eq!(row.hash, token_hash(secret.expose()));
    assert_eq!(store.clients().expect("readable"), std::slice::from_ref(&row));
    let limits = ClientLimits { requests_per_minute: Some(5), ..ClientLimits::default() };
    let edit = ClientEdit { limits: Some(limits.clone()), version: Some(1), ..ClientEdit::default() };
    assert_eq!(store.edit_client(row.id, edit.clone()).wait().expect("edited").limits, limits);
    assert!(matches!(store.edit_client(row.id, edit).wait(), Err(StoreError::Changed { current: 2, .. })));
    store.revoke_client(row.id).wait().expect("revoked");
    assert!(store.clients().expect("readable").is_empty());
    assert!(matches!(store.revoke_client(row.id).wait(), Err(StoreError::NotFound(_))));
}

#[test]
fn client_keys_of_the_file_come_and_go_with_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder);
    let named = |name: &str| NewClient { name: name.into(), ..NewClient::default() };
    let first =
        store.provision_clients(vec![(named("a"), Secret::new("s1")), (named("b"), Secret::new("s2"))]);
    let first = first.wait().expect("known");
    let second = store.provision_clients(vec![(named("b2"), Secret::new("s2"))]).wait().expect("known");
    assert_eq!(second[0].id, first[1].id);
    let names: Vec<String> = store.clients().expect("readable").into_iter().map(|row| row.name).collect();
    assert_eq!(names, ["b2"]);
}

#[test]
fn a_session_ends_when_idle_and_in_any_case_after_a_week() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder);
    let token = store.begin_session("a browser", at(0)).wait().expect("begun");
    let alive = |now: Timestamp| store.session_alive(token.expose(), now).expect("readable");
    let after = |duration: Duration| at(0) + SignedDuration::try_from(duration).expect("short");
    assert!(alive(at(60)));
    assert!(!alive(after(IDLE) + SignedDuration::from_secs(1)));
    assert!(!store.session_alive("something else", at(1)).expect("readable"));
    let mut now = at(0);
    while now <= after(LONGEST) {
        assert!(alive(now));
        store.audit("session", "settings.change", "settings", "patience_s").wait().expect("noted");
        now += SignedDuration::from_hours(11);
    }
    assert!(!alive(now));
    store.end_sessions(None).wait().expect("ended");
    assert!(!alive(at(1)));
    assert_eq!(store.audit_log(None, 5).expect("readable").items.len(), 5);
}

#[test]
fn objects_have_versions_and_go_with_what_belongs_to_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder);
    store.add_object(Kind::Provider, "alpha", "{}").wait().expect("added");
    assert!(matches!(
        store.add_object(Kind::Provider, "alpha", "{}").wait(),
        Err(StoreError::Exists("provider"))
    ));
    assert_eq!(store.edit_object(Kind::Provider, "alpha", "{\"x\":1}", Some(1)).wait().expect("edited"), 2);
    let late = store.edit_object(Kind::Provider, "alpha", "{}", Some(1)).wait();
    assert!(matches!(late, Err(StoreError::Changed { current: 2, .. })));
    let alpha = ProviderId::from("alpha");
    let models =
        |names: [&str; 2]| names.map(|name| ModelRow { id: ModelId::from(name), spec: "{}".into() }).to_vec();
    store.set_models(&alpha, models(["m2", "m1"])).wait().expect("set");
    assert_eq!(store.models(&alpha).expect("readable"), models(["m2", "m1"]));
    assert!(store.set_models(&alpha, models(["m1", "m1"])).wait().is_err());
    assert_eq!(store.models(&alpha).expect("readable"), models(["m2", "m1"]));
    store.set_fallbacks(&alpha, vec![(ProviderId::from("beta"), None)]).wait().expect("set");
    store.mark(&alpha, Marks { paused: true, favorite: false }).wait().expect("marked");
    assert_eq!(store.marks().expect("readable"), [(alpha.clone(), Marks { paused: true, favorite: false })]);
    store.remove_object(Kind::Provider, "alpha").wait().expect("removed");
    assert!(store.models(&alpha).expect("readable").is_empty());
    assert!(store.fallbacks().expect("readable").is_empty());
    assert!(store.marks().expect("readable").is_empty());
}

#[test]
fn settings_and_sealed_values_are_replaced_and_put_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder);
    let change = |value: Option<&str>| vec![("patience_s".to_owned(), value.map(str::to_owned))];
    store.set_settings(change(Some("5"))).wait().expect("set");
    assert_eq!(store.settings().expect("readable"), [("patience_s".to_owned(), "5".to_owned())]);
    store.set_settings(change(None)).wait().expect("set");
    assert!(store.settings().expect("readable").is_empty());
    for value in ["one", "two"] {
        store.set_secret_value("webhook", Secret::new(value)).wait().expect("sealed");
        assert_eq!(store.secret_value("webhook").expect("opens").expect("there").expose(), value);
    }
    assert_eq!(store.secret_value("other").expect("readable"), None);
}

#[test]
fn the_bell_keeps_the_last_hundred() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder);
    for number in 0..105 {
        let notice = Notice {
            at: at(number),
            kind: "key_disabled".into(),
            severity: "critical".into(),
            subject: "provider/alpha/key/1".into(),
            text: number.to_string(),
        };
        store.notify(notice).wait().expect("noted");
    }
    let notices = store.notices().expect("readable");
    assert_eq!((notices.len(), notices[0].text.as_str(), notices[99].text.as_str()), (100, "104", "5"));
    store.read_notices(Some(notices[0].id)).wait().expect("read");
    assert_eq!(
        store.notices().expect("readable").iter().filter(|notice| notice.read_at.is_some()).count(),
        1
    );
    store.remove_notices(None).wait().expect("removed");
    assert!(store.notices().expect("readable").is_empty());
}

#[test]
fn a_message_waits_until_it_is_delivered() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder);
    let messages = vec![("ops".to_owned(), "{}".to_owned()), ("chat".to_owned(), "{}".to_owned())];
    let ids = store.queue_messages(messages, at(0)).wait().expect("queued");
    store.message_failed(ids[0], "connection refused", at(60)).wait().expect("kept");
    store.message_delivered(ids[1]).wait().expect("taken out");
    drop(store);
    let outbox = open(&folder).outbox().expect("readable");
    assert_eq!((outbox.len(), outbox[0].tries, outbox[0].due_at), (1, 1, at(60)));
    assert_eq!(outbox[0].error.as_deref(), Some("connection refused"));
}

#[test]
fn a_run_that_was_killed_is_not_clean() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder);
    let first = store.begin_boot(at(0), Duration::ZERO).wait().expect("noted");
    store.boot_progress(first, Progress::Traffic).wait().expect("noted");
    let second = store.begin_boot(at(5), Duration::from_secs(60)).wait().expect("noted");
    store.boot_progress(second, Progress::Success).wait().expect("noted");
    store.end_boot(second, at(9)).wait().expect("noted");
    let boots = store.boots().expect("readable");
    assert_eq!(boots[0].safe_for, Duration::from_secs(60));
    let facts: Vec<_> = boots.iter().map(|boot| (boot.clean, boot.traffic, boot.success)).collect();
    assert_eq!(facts, [(true, true, true), (false, true, false)]);
}

#[test]
fn a_folder_that_cannot_be_made_is_a_permanent_fault() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    std::fs::write(&file, "").expect("written");
    let error = backstop_store::Store::open(&file.join("data")).expect_err("not a folder");
    assert!(error.is_permanent());
    assert!(error.to_string().contains("--data-dir"), "{error}");
}
