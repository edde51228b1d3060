//! A set-up moves from one gateway to another: exported with its secrets, shown, taken in, and taken in again.

use std::fs;

use backstop_faultd::{Client, Faultd, Script};
use expect_test::{Expect, expect};
use pty_process::Pty;
use rustix::termios::{LocalModes, tcgetattr};
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::served::Served;

const PHRASE: &str = "correct horse battery\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_set_up_moves_with_its_keys_and_its_clients() {
    let upstream = Faultd::start(Script::new()).await.unwrap();
    let (old, new) = tokio::join!(Served::start(""), Served::start(""));
    let url = upstream.base_url();
    let client = set_up(&old, &url).await;

    let file = old.folder().join("setup.toml").display().to_string();
    let (told, code) = old.run(&["export", "--with-secrets", "--output", &file], PHRASE).await;
    assert_eq!(code, 0, "{told}");
    let exported = fs::read_to_string(&file).unwrap();
    assert!(!exported.contains("sk-one") && !exported.contains("sk-two"), "{exported}");
    let (open, _) = old.run(&["export"], "").await;
    assert!(open.contains("left out of spare") && !open.contains("canary"), "{open}");
    assert!(!exported.contains("canary"), "{exported}");

    told_as(
        &new,
        &["import", &file],
        &expect![[r#"
        + provider house: openai-chat at PROVIDER, 2 models
        + keys of house: one sk-o…cdef, two sk-t…cdef
        + provider spare: openai-chat at PROVIDER
        + fallbacks of house: spare/large
        + combo best: 2 members
        ~ setting patience_s: 0 -> 3
        + client key laptop: bsk_######… goes on working

        6 to add, 1 to change, 0 as they are, 0 that cannot be done. Nothing was changed; --apply does it.
    "#]],
        &url,
    )
    .await;
    told_as(
        &new,
        &["import", &file, "--apply"],
        &expect![[r#"
        + provider house: openai-chat at PROVIDER, 2 models
        + keys of house: one sk-o…cdef, two sk-t…cdef
        + provider spare: openai-chat at PROVIDER
        + fallbacks of house: spare/large
        + combo best: 2 members
        ~ setting patience_s: 0 -> 3
        + client key laptop: bsk_######… goes on working

        6 to add, 1 to change, 0 as they are, 0 that cannot be done. Done.
    "#]],
        &url,
    )
    .await;
    told_as(
        &new,
        &["import", &file, "--apply"],
        &expect![[r#"
        = provider house: as it is
        = keys of house: one sk-o…cdef, two sk-t…cdef there already
        = provider spare: as it is
        = fallbacks of house: as they are
        = combo best: as it is
        = setting patience_s: as it is
        = client key laptop: there already

        0 to add, 0 to change, 7 as they are, 0 that cannot be done. Done.
    "#]],
        &url,
    )
    .await;
    assert_eq!(ask(&new, &client).await, 200, "the client's key goes on working");
    let (keys, _) = new.run(&["keys", "list", "house"], "").await;
    assert!(keys.lines().any(|line| line.contains("two") && line.contains("disabled")), "{keys}");
    let (again, _) = new.run(&["export"], "").await;
    let again = again.split("left out of spare").next().unwrap();
    let plain = |text: &str| text.split("\n[sealed]").next().unwrap().trim().to_owned();
    assert_eq!(plain(again), plain(&exported));
    let (_, spare) = new.admin("GET", "/api/providers/spare", None).await;
    assert_eq!(spare.matches("canary").count(), 3, "{spare}");
    assert!(!new.stderr().contains("sk-one"), "{}", new.stderr());
}

#[tokio::test]
async fn an_interrupted_prompt_leaves_the_terminal_as_it_was() {
    let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = folder.path().join("setup.toml");
    let sealed =
        "[sealed]\nmethod = \"a\"\nmemory_kib = 1\npasses = 1\nsalt = \"\"\nnonce = \"\"\ndata = \"\"\n";
    fs::write(&file, format!("backstop = 1\n{sealed}")).unwrap();
    let (mut pty, pts) = pty_process::open().unwrap();
    let shows = |pty: &Pty| tcgetattr(pty).unwrap().local_modes.contains(LocalModes::ECHO | LocalModes::ISIG);
    let command = pty_process::Command::new(env!("CARGO_BIN_EXE_backstop")).arg("import").arg(&file);
    let mut child = command.spawn(pts).unwrap();
    let mut shown = String::new();
    let mut chunk = [0; 1024];
    while let Ok(read @ 1..) = pty.read(&mut chunk).await {
        let asked = shown.contains("passphrase: ");
        shown.push_str(&String::from_utf8_lossy(&chunk[..read]));
        if !asked && shown.contains("passphrase: ") {
            while shows(&pty) {
                tokio::task::yield_now().await;
            }
            pty.write_all(b"correct horse\x03").await.unwrap();
        }
        if shown.contains("interrupted") {
            break;
        }
    }
    assert_eq!(child.wait().await.unwrap().code(), Some(1), "{shown}");
    assert!(shown.contains("interrupted") && !shown.contains("horse"), "{shown}");
    assert!(shows(&pty));
}

/// Sets a gateway up; a client key of it.
async fn set_up(served: &Served, url: &str) -> String {
    for (arguments, stdin) in [
        (&["providers", "add", "house", "--format", "openai-chat", "--base-url", url] as &[&str], ""),
        (&["providers", "add", "spare", "--format", "openai-chat", "--base-url", url], ""),
        (&["models", "set", "house", "large", "small"], ""),
        (&["keys", "add", "house"], "one sk-one-0123456789abcdef\ntwo sk-two-0123456789abcdef\n"),
        (&["keys", "disable", "house", "2"], ""),
        (&["fallbacks", "set", "house", "spare/large"], ""),
        (&["combos", "set", "best", "top=house/large", "top=spare/large"], ""),
        (&["settings", "set", "patience_s", "3"], ""),
    ] {
        let (told, code) = served.run(arguments, stdin).await;
        assert_eq!(code, 0, "{arguments:?}: {told}");
    }
    let spare = json!({
        "id": "spare", "format": "openai-chat", "base_url": url, "headers": { "x-own": "canary-header" },
        "query": { "own": "canary-query" }, "proxy": "http://me:canary-proxy@127.0.0.1:9",
    });
    let (status, told) = served.admin("PUT", "/api/providers/spare", Some(&spare.to_string())).await;
    assert_eq!(status, 200, "{told}");
    let (made, _) = served.run(&["clients", "add", "laptop", "--provider", "house", "--rpm", "60"], "").await;
    made.lines().find(|line| line.starts_with("bsk_")).unwrap().to_owned()
}

async fn told_as(served: &Served, arguments: &[&str], expected: &Expect, url: &str) {
    let (text, _) = served.run(arguments, PHRASE).await;
    assert!(!text.contains("sk-one-0") && !text.contains("canary"), "{text}");
    let prefix = text.split("client key laptop: bsk_").nth(1).and_then(|rest| rest.split('…').next());
    let text = prefix.map_or_else(|| text.clone(), |prefix| text.replace(prefix, "######"));
    expected.assert_eq(&text.replace(url, "PROVIDER"));
}

/// Asks the combo as the client; the status.
async fn ask(served: &Served, client: &str) -> u16 {
    let url = served.url();
    let address = url.trim_start_matches("http://").to_owned();
    let body = r#"{"model":"house/large","messages":[{"role":"user","content":"hello"}]}"#;
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {client}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len(),
    );
    Client::new(address.parse().unwrap()).ask(request.as_bytes()).await.unwrap().0.status
}
