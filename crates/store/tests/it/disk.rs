//! Disks that fill up, turn read-only or lose the file: nobody is failed by it, and it heals by itself.

use std::{
    fs::OpenOptions,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::Command,
};

use backstop_store::{Store, requests::RequestFilter};

use crate::{open, request, until};

/// A small file system of its own; none without the right to mount.
struct SmallDisk(PathBuf, #[expect(dead_code, reason = "keeps the mount point")] tempfile::TempDir);

impl SmallDisk {
    #[expect(clippy::print_stdout, reason = "a skipped test says so")]
    fn mount(options: &str) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().to_owned();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(&path).output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(Self(path, folder));
        }
        println!("skipped: mounting a tmpfs needs root");
        None
    }

    fn remount(&self, options: &str) {
        let options = format!("remount,{options}");
        let output = Command::new("mount").args(["-o", &options]).arg(&self.0).output().expect("mount runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _best_effort = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

fn fill(store: &Store) -> Vec<(String, String)> {
    let mut expected = Vec::new();
    for number in 0..10_000 {
        let change = (format!("key/{number:05}"), "x".repeat(1000));
        expected.push(change.clone());
        drop(store.save_health(vec![change]));
        store.record_request(request(&number.to_string(), 0));
        if number % 50 == 0 {
            drop(store.settings());
        }
        if store.stats().failing.is_some() && number > 100 {
            break;
        }
    }
    expected
}

#[test]
fn a_full_disk_costs_nothing_but_history_and_heals() {
    let Some(disk) = SmallDisk::mount("size=256k") else { return };
    let store = Store::open(&disk.0).expect("the store fits");
    let mut expected = fill(&store);
    until("the disk is full", || store.stats().failing.is_some());
    let waiting = store.save_health(vec![("key/last".into(), "resting".into())]);
    expected.push(("key/last".into(), "resting".into()));
    assert_eq!(store.load_health(), expected);
    let refused = store.set_settings(vec![("patience_s".into(), Some("9".repeat(4000)))]).wait();
    assert!(refused.is_err());
    disk.remount("size=64m");
    assert!(waiting.wait());
    until("the store works again", || store.stats().failing.is_none());
    store.set_settings(vec![("patience_s".into(), Some("9".into()))]).wait().expect("it works again");
    drop(store);
    let store = Store::open(&disk.0).expect("opens again");
    assert_eq!(store.load_health(), expected);
}

#[test]
fn a_read_only_disk_is_an_error_that_says_what_to_do() {
    let Some(disk) = SmallDisk::mount("size=16m") else { return };
    let store = Store::open(&disk.0).expect("the store opens");
    assert!(store.save_health(vec![("key/1".into(), "active".into())]).wait());
    drop(store);
    disk.remount("ro");
    let error = Store::open(&disk.0).expect_err("it cannot be written");
    assert!(error.to_string().contains("choose another with --data-dir"), "{error}");
    disk.remount("rw");
    let store = Store::open(&disk.0).expect("opens again");
    assert_eq!(store.load_health(), [("key/1".to_owned(), "active".to_owned())]);
}

#[test]
fn a_deleted_file_is_put_back_with_all_its_rows() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder);
    store.set_settings(vec![("patience_s".into(), Some("5".into()))]).wait().expect("set");
    assert!(store.save_health(vec![("key/1".into(), "active".into())]).wait());
    for suffix in ["", "-wal", "-shm"] {
        std::fs::remove_file(folder.path().join(format!("backstop.db{suffix}"))).expect("removed");
    }
    assert!(store.save_health(vec![("key/2".into(), "resting".into())]).wait());
    until("the file is put back", || store.stats().salvages == 1);
    assert!(store.save_health(vec![("key/3".into(), "disabled".into())]).wait());
    assert_eq!(store.settings().expect("readable").len(), 1);
    drop(store);
    let store = open(&folder);
    assert_eq!(store.load_health().len(), 3);
    assert_eq!(store.settings().expect("readable").len(), 1);
}

#[test]
fn a_file_that_is_no_database_is_set_aside_at_the_start() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(
        folder.path().join("backstop.db"),
        "no database at all, and long enough to be one".repeat(99),
    )
    .expect("written");
    let store = open(&folder);
    assert!(store.save_health(vec![("key/1".into(), "active".into())]).wait());
    let aside = std::fs::read_dir(folder.path()).expect("a folder").filter_map(Result::ok);
    assert!(aside.map(|entry| entry.file_name()).any(|name| name.to_string_lossy().contains("damaged")));
}

#[test]
fn a_file_damaged_while_closed_keeps_what_can_be_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder);
    for number in 0..3000 {
        store.record_request(request(&number.to_string(), 0));
    }
    store.set_settings(vec![("patience_s".into(), Some("5".into()))]).wait().expect("set");
    assert!(store.save_health(vec![("key/1".into(), "disabled".into())]).wait());
    until("everything is written", || store.stats().waiting_requests == 0);
    drop(store);
    damage_from(&folder.path().join("backstop.db"), 300_000);
    let store = open(&folder);
    assert_eq!(store.load_health(), [("key/1".to_owned(), "disabled".to_owned())]);
    for number in 0..3000 {
        store.record_request(request(&format!("new {number}"), 0));
        if number % 500 == 0 {
            drop(store.requests(&RequestFilter::default(), None, 500));
        }
        drop(store.save_health(vec![("key/2".into(), number.to_string())]));
    }
    assert!(store.save_health(vec![("key/2".into(), "last".into())]).wait());
    until("everything is written", || store.stats().waiting_requests == 0);
    assert!(store.stats().salvages >= 1, "the damage was noticed");
    drop(store);
    let store = open(&folder);
    assert_eq!(store.load_health().len(), 2);
    assert_eq!(store.settings().expect("readable").len(), 1);
    assert!(store.request("new 2999").expect("readable").is_some());
}

fn damage_from(path: &Path, begin: u64) {
    let file = OpenOptions::new().write(true).open(path).expect("opens");
    let length = file.metadata().expect("there").len();
    assert!(length > begin + 8192, "the file is large enough to be damaged: {length}");
    for offset in (begin..length).step_by(4096) {
        file.write_all_at(&[0xA5; 512], offset).expect("written");
    }
}
