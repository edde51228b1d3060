//! The command line over the admin API of a running gateway.

use backstop_faultd::{Client, Faultd, Reply, Script, key};
use expect_test::{Expect, expect};

use crate::served::Served;

async fn prints(served: &Served, arguments: &[&str], stdin: &str, expected: &Expect) {
    let (text, _) = served.run(arguments, stdin).await;
    expected.assert_eq(&without_times(&text));
}

/// Latencies and moments differ from run to run.
fn without_times(text: &str) -> String {
    let words = text.split_inclusive(char::is_whitespace).collect::<Vec<_>>();
    let mut out = String::new();
    for (index, word) in words.iter().enumerate() {
        let is_latency = words.get(index + 1).is_some_and(|next| next.starts_with("ms"));
        let is_number = word.trim().bytes().all(|byte| byte.is_ascii_digit());
        out.push_str(if is_latency && is_number { "N " } else { word });
    }
    out
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newcomer_adds_tests_breaks_and_mends_a_provider() {
    let dead = r#"{"error":{"message":"Incorrect API key provided: sk-dead-0123456789abcdef","type":"invalid_request_error","code":"invalid_api_key"}}"#;
    let script = Script::new().on(key("sk-dead-0123456789abcdef"), Reply::json(401, dead));
    let upstream = Faultd::start(script).await.unwrap();
    let served = Served::start("").await;
    add_house(&served, &upstream, &["--rules", "openai"]).await;
    prints(
        &served,
        &["models", "set", "house", "small"],
        "",
        &expect![[r#"
        small
    "#]],
    )
    .await;
    let keys =
        "dead sk-dead-0123456789abcdef\ngood sk-good-0123456789abcdef\ntwice sk-good-0123456789abcdef\n";
    prints(
        &served,
        &["keys", "add", "house"],
        keys,
        &expect![[r#"
        key 1 sk-d…cdef: added
        key 2 sk-g…cdef: added
        key 2 sk-g…cdef: duplicate
    "#]],
    )
    .await;
    let (_, code) = served.run(&["keys", "test", "house"], "").await;
    assert_eq!(code, 1, "one key is dead");
    prints(
        &served,
        &["keys", "test", "house"],
        "",
        &expect![[r#"
        1/2 dead invalid in N ms: auth_error 401 (invalid_key): Incorrect API key provided: ***
        2/2 good valid in N ms
    "#]],
    )
    .await;
    prints(
        &served,
        &["keys", "list", "house"],
        "",
        &expect![[r#"
        ID  LABEL  KEY        STATE     UNTIL  OK/FAILED  WHY
        1   dead   sk-d…cdef  disabled         0/0        auth_error (invalid_key)
        2   good   sk-g…cdef  active           0/0
    "#]],
    )
    .await;
    prints(&served, &["status"], "", &expect![[r#"
        degraded: 1 of 1 providers can be asked
          warning   provider/house/keys/1: key dead is out of service (auth_error, invalid_key); replace it, or test and enable it
    "#]]).await;
    breaks_and_mends(&served).await;
    let canary = "sk-dead-0123456789abcdef";
    assert!(!served.stderr().contains(canary));
    prints(
        &served,
        &["settings", "set", "patience_s", "soon"],
        "",
        &expect![[r#"
        backstop: `patience_s` is a number, such as 0
    "#]],
    )
    .await;
    let (settings, _) = served.run(&["settings", "set", "patience_s", "3"], "").await;
    assert!(settings.contains("patience_s"), "{settings}");
    logged(&served, 2).await;
}

/// Takes the last good key away and gives it back, asking as a client in between.
async fn breaks_and_mends(served: &Served) {
    assert_eq!(asked(served).await, 200);
    prints(
        served,
        &["keys", "disable", "house", "2"],
        "",
        &expect![[r#"
        backstop: no usable key would be left; send `confirm: true` to do it all the same
    "#]],
    )
    .await;
    prints(
        served,
        &["keys", "disable", "house", "2", "--confirm"],
        "",
        &expect![[r#"
        key 2: done
    "#]],
    )
    .await;
    assert_ne!(asked(served).await, 200);
    prints(
        served,
        &["keys", "enable", "house", "2"],
        "",
        &expect![[r#"
        key 2: done
    "#]],
    )
    .await;
    assert_eq!(asked(served).await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_added_at_run_time_survives_a_kill() {
    let upstream = Faultd::start(Script::new()).await.unwrap();
    let mut served = Served::start("").await;
    add_house(&served, &upstream, &[]).await;
    assert_eq!(served.run(&["keys", "add", "house"], "sk-good-0123456789abcdef").await.1, 0);
    assert_eq!(asked(&served).await, 200);
    served.kill_and_restart().await;
    assert_eq!(asked(&served).await, 200);
    prints(
        &served,
        &["status"],
        "",
        &expect![[r#"
        ok: 1 of 1 providers can be asked
    "#]],
    )
    .await;
}

/// Adds the scripted provider under the name `house`.
async fn add_house(served: &Served, upstream: &Faultd, more: &[&str]) {
    let base = upstream.base_url();
    let add = ["providers", "add", "house", "--format", "openai-chat", "--base-url", &base];
    let (added, code) = served.run(&[&add, more].concat(), "").await;
    assert_eq!(code, 0, "{added}");
}

/// Waits until so many requests that succeeded stand in the log.
async fn logged(served: &Served, count: usize) {
    for _ in 0..100 {
        let (log, _) = served.run(&["logs", "--outcome", "succeeded"], "").await;
        if log.lines().count() == count + 1 {
            return;
        }
    }
    panic!("the log never shows {count} requests");
}

/// Asks the gateway as a client; the status.
async fn asked(served: &Served) -> u16 {
    let url = served.url();
    let address = url.trim_start_matches("http://").to_owned();
    let body = r#"{"model":"house/small","messages":[{"role":"user","content":"hello"}]}"#;
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        served.client_key(),
        body.len(),
    );
    Client::new(address.parse().unwrap()).ask(request.as_bytes()).await.unwrap().0.status
}
