use backstop_store::{
    KeySource, Secret, Store, StoreError,
    keys::{Added, KeyEdit, NewKey, Origin},
};
use backstop_triage::{KeyId, ProviderId};

use crate::open;

fn key(label: &str, secret: &str) -> NewKey {
    NewKey { label: label.into(), account: None, secret: Secret::new(secret) }
}

fn provider() -> ProviderId {
    ProviderId::from("alpha")
}

fn labels(store: &Store) -> Vec<String> {
    store.keys(&provider()).expect("readable").into_iter().map(|row| row.label).collect()
}

#[test]
fn added_keys_keep_their_secret_and_their_order_over_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder);
    let added = store.add_keys(&provider(), vec![key("a", "sk-secret-a"), key("b", "sk-secret-b")]);
    assert_eq!(added.wait().expect("added"), [Added::Added(KeyId(1)), Added::Added(KeyId(2))]);
    store.reorder_keys(&provider(), vec![KeyId(2)]).wait().expect("moved");
    drop(store);
    let store = open(&folder);
    assert_eq!(labels(&store), ["b", "a"]);
    let secrets = store.key_secrets(&provider()).expect("readable");
    assert_eq!(secrets[&KeyId(1)].as_ref().expect("opens").expose(), "sk-secret-a");
    assert_eq!(secrets[&KeyId(2)].as_ref().expect("opens").expose(), "sk-secret-b");
}

#[test]
fn a_secret_that_is_there_already_is_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder);
    let keys = vec![key("a", "sk-one"), key("b", "sk-two"), key("again", " sk-one\n")];
    let added = store.add_keys(&provider(), keys).wait().expect("added");
    assert_eq!(added[2], Added::Duplicate(KeyId(1)));
    let elsewhere =
        store.add_keys(&ProviderId::from("beta"), vec![key("a", "sk-one")]).wait().expect("added");
    assert_eq!(elsewhere, [Added::Added(KeyId(3))]);
}

#[test]
fn keys_of_the_file_keep_their_id_with_their_secret() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder);
    let first = vec![key("a", "sk-one"), key("b", "sk-two")];
    assert_eq!(store.provision_keys(&provider(), first).wait().expect("known"), [KeyId(1), KeyId(2)]);
    let turned = vec![key("renamed", "sk-two"), key("b", "sk-three")];
    assert_eq!(store.provision_keys(&provider(), turned).wait().expect("known"), [KeyId(2), KeyId(3)]);
    assert_eq!(labels(&store), ["renamed", "b"]);
    let back = vec![key("a", "sk-one")];
    assert_eq!(store.provision_keys(&provider(), back).wait().expect("known"), [KeyId(1)]);
    let rows = store.keys(&provider()).expect("readable");
    assert_eq!((rows.len(), rows[0].origin), (1, Origin::File));
    assert!(store.key_secrets(&provider()).expect("readable").is_empty());
}

#[test]
fn an_id_is_never_given_twice() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder);
    let _added = store.add_keys(&provider(), vec![key("a", "sk-one")]).wait().expect("added");
    assert_eq!(store.remove_keys(vec![KeyId(1), KeyId(99)]).wait().expect("removed"), [KeyId(1)]);
    let again = store.add_keys(&provider(), vec![key("a", "sk-one")]).wait().expect("added");
    assert_eq!(again, [Added::Added(KeyId(2))]);
}

#[test]
fn an_edit_on_an_old_version_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder);
    let _added = store.add_keys(&provider(), vec![key("a", "sk-one")]).wait().expect("added");
    let edit = |label: &str| KeyEdit { label: Some(label.into()), account: None, version: Some(1) };
    assert_eq!(store.edit_key(KeyId(1), edit("b")).wait().expect("edited"), 2);
    let refused = store.edit_key(KeyId(1), edit("c")).wait();
    assert!(matches!(refused, Err(StoreError::Changed { current: 2, .. })));
    assert_eq!(labels(&store), ["b"]);
}

#[test]
fn a_damaged_secret_locks_its_key_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder);
    let keys = vec![key("a", "sk-one"), key("b", "sk-two"), key("c", "sk-three")];
    let _added = store.add_keys(&provider(), keys).wait().expect("added");
    drop(store);
    let database = rusqlite::Connection::open(folder.path().join("backstop.db")).expect("opens");
    let swap = "UPDATE api_key SET sealed = (SELECT sealed FROM api_key WHERE id = 3) WHERE id = 1";
    database.execute(swap, []).expect("swapped");
    drop(database);
    let secrets = open(&folder).key_secrets(&provider()).expect("readable");
    assert!(matches!(secrets[&KeyId(1)], Err(StoreError::Locked(_))));
    assert_eq!(secrets[&KeyId(2)].as_ref().expect("opens").expose(), "sk-two");
}

#[test]
fn without_its_key_file_the_store_opens_and_its_secrets_are_locked() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder);
    let _added = store.add_keys(&provider(), vec![key("a", "sk-one")]).wait().expect("added");
    drop(store);
    let file = folder.path().join("master.key");
    let kept = std::fs::read(&file).expect("a key file");
    std::fs::remove_file(&file).expect("removed");
    let store = open(&folder);
    let locked = store.stats().locked.expect("locked");
    assert!(locked.contains("master.key: it is missing; restore it from a backup"), "{locked}");
    assert!(!file.exists(), "a new key file would hide the loss of the old one");
    assert!(matches!(
        store.key_secrets(&provider()).expect("readable")[&KeyId(1)],
        Err(StoreError::Locked(_))
    ));
    let refused = store.add_keys(&provider(), vec![key("b", "sk-two")]).wait();
    assert!(matches!(refused, Err(StoreError::Locked(_))));
    assert_eq!(store.provision_keys(&provider(), vec![key("f", "sk-f")]).wait().expect("known").len(), 1);
    drop(store);
    std::fs::write(&file, kept).expect("restored");
    assert_eq!(open(&folder).stats().locked, None);
}

#[test]
fn rekeying_changes_the_key_file_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder);
    let _added = store.add_keys(&provider(), vec![key("a", "sk-one")]).wait().expect("added");
    let file = folder.path().join("master.key");
    let old = std::fs::read(&file).expect("a key file");
    store.rekey(&KeySource::Folder).wait().expect("rekeyed");
    assert_ne!(std::fs::read(&file).expect("a key file"), old);
    drop(store);
    let store = open(&folder);
    assert_eq!(
        store.key_secrets(&provider()).expect("readable")[&KeyId(1)].as_ref().expect("opens").expose(),
        "sk-one"
    );
    drop(store);
    std::fs::write(&file, old).expect("the old key again");
    assert!(open(&folder).stats().locked.is_some());
}

#[test]
fn the_key_in_force_is_no_new_key_by_whatever_path_it_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let store = Store::open(&data).expect("opens");
    let _added = store.add_keys(&provider(), vec![key("a", "sk-one")]).wait().expect("added");
    let (own, link) = (data.join("master.key"), folder.path().join("link"));
    std::os::unix::fs::symlink(&own, &link).expect("linked");
    let around = data.join("../data/./master.key");
    for file in [own.clone(), link, around] {
        for source in [KeySource::File(file.clone()), KeySource::Passphrase(file)] {
            assert!(matches!(store.rekey(&source).wait(), Err(StoreError::KeyInForce)), "{source:?}");
        }
    }
    drop(store);
    let store = Store::open(&data).expect("opens");
    assert_eq!(store.stats().locked, None);
    assert!(store.key_secrets(&provider()).expect("readable")[&KeyId(1)].is_ok());
}

#[test]
fn a_new_key_that_cannot_be_read_again_leaves_the_old_one_in_force() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let store = Store::open(&data).expect("opens");
    let _added = store.add_keys(&provider(), vec![key("a", "sk-one")]).wait().expect("added");
    // What a shell gives for the output of a command, which another reader would get otherwise.
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("runs").success());
    let writer = std::thread::spawn({
        let pipe = pipe.clone();
        move || std::fs::write(pipe, "ab".repeat(32)).expect("written")
    });
    let rekeyed = store.rekey(&KeySource::File(pipe.clone()));
    writer.join().expect("written");
    std::fs::write(&pipe, "cd".repeat(32)).expect("written");
    let Err(StoreError::Locked(reason)) = rekeyed.wait() else { panic!("it was taken") };
    assert!(reason.contains("does not open what it sealed"), "{reason}");
    drop(store);
    let store = Store::open(&data).expect("opens");
    assert_eq!(store.stats().locked, None);
    drop(store);
    let of_pipe = folder.path().join("key");
    std::fs::write(&of_pipe, "ab".repeat(32)).expect("written");
    let store = Store::open_with(&data, &KeySource::File(of_pipe)).expect("opens");
    assert!(store.stats().locked.is_some(), "a key that was refused opens nothing");
}

#[test]
fn the_key_can_come_from_elsewhere() {
    let folder = tempfile::tempdir().expect("a folder");
    let credential = folder.path().join("credential");
    std::fs::write(&credential, "ab".repeat(32)).expect("written");
    let data = folder.path().join("data");
    let source = KeySource::File(credential.clone());
    let store = Store::open_with(&data, &source).expect("opens");
    assert_eq!(store.stats().locked, None);
    assert!(!data.join("master.key").exists());
    drop(store);
    std::fs::write(&credential, "no key").expect("written");
    let locked = Store::open_with(&data, &source).expect("opens").stats().locked.expect("locked");
    assert!(locked.contains("it is not 64 hexadecimal digits"), "{locked}");
    let error = Store::open_with(&folder.path().join("new"), &source).expect_err("nothing to lose yet");
    assert!(error.is_permanent());
}

#[test]
fn a_vault_moves_between_key_file_credential_and_passphrase() {
    let folder = tempfile::tempdir().expect("a folder");
    let written = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        path
    };
    let passphrase = KeySource::Passphrase(written("phrase", "four words in a row\n"));
    let wrong = KeySource::Passphrase(written("wrong", "four words in a queue\n"));
    let credential = KeySource::File(written("credential", &"cd".repeat(32)));
    let short = KeySource::Passphrase(written("short", "short\n"));
    let data = folder.path().join("data");
    let open = |source: &KeySource| Store::open_with(&data, source).expect("opens");
    let secret = |store: &Store| {
        let mut secrets = store.key_secrets(&provider()).expect("readable");
        secrets.remove(&KeyId(1)).expect("known").map(|secret| secret.expose().to_owned()).ok()
    };
    let store = open(&KeySource::Folder);
    let _added = store.add_keys(&provider(), vec![key("a", "sk-one")]).wait().expect("added");
    assert!(matches!(store.rekey(&short).wait(), Err(StoreError::Locked(_))));
    let mut before = KeySource::Folder;
    drop(store);
    for source in [passphrase, credential, KeySource::Folder] {
        let store = open(&before);
        store.rekey(&source).wait().expect("rekeyed");
        assert_eq!(secret(&store).as_deref(), Some("sk-one"), "a running store goes on");
        drop(store);
        assert_eq!(data.join("master.key").exists(), source == KeySource::Folder);
        assert_eq!(secret(&open(&before)), None, "{before:?} opens nothing any more");
        assert_eq!(secret(&open(&wrong)), None);
        assert_eq!(secret(&open(&source)).as_deref(), Some("sk-one"), "{source:?}");
        before = source;
    }
}

#[test]
fn ten_thousand_keys_are_listed_and_moved_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder);
    let keys = (0..10_000).map(|number| key(&number.to_string(), &format!("sk-{number}"))).collect();
    assert_eq!(store.add_keys(&provider(), keys).wait().expect("added").len(), 10_000);
    let order: Vec<KeyId> =
        store.keys(&provider()).expect("readable").iter().rev().map(|row| row.id).collect();
    store.reorder_keys(&provider(), order.clone()).wait().expect("moved");
    let found: Vec<KeyId> = store.keys(&provider()).expect("readable").iter().map(|row| row.id).collect();
    assert_eq!(found, order);
    assert_eq!(store.remove_keys(order).wait().expect("removed").len(), 10_000);
}
