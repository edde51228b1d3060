//! `backstop serve` and `backstop check` as a person meets them.

use std::{
    fs,
    process::{Command, Output},
    time::Duration,
};

use backstop_faultd::{Client, Faultd, Reply, Script, any};
use expect_test::{Expect, expect};
use tempfile::TempDir;

use crate::served::Served;

fn backstop(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let home = TempDir::new().unwrap();
    Command::new(env!("CARGO_BIN_EXE_backstop"))
        .args(arguments)
        .env_clear()
        .env("HOME", home.path())
        .envs(variables.iter().copied())
        .output()
        .unwrap()
}

fn check(output: &[u8], expected: &Expect) {
    expected.assert_eq(&String::from_utf8_lossy(output));
}

fn written(text: &str) -> (TempDir, String) {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("backstop.toml");
    fs::write(&file, text).unwrap();
    let path = file.display().to_string();
    (folder, path)
}

#[test]
fn check_prints_an_example_that_is_right() {
    let example = backstop(&["check", "--example"], &[]);
    assert!(example.status.success());
    let (_folder, file) = written(&String::from_utf8(example.stdout).unwrap());
    let variables = [
        ("ZAI_KEY", "sk-1"),
        ("INHOUSE_KEY", "sk-2"),
        ("BACKSTOP_CLIENT_KEY", "client-key-0123456789"),
        ("BACKSTOP_HOOK_SECRET", "secret"),
    ];
    let checked = backstop(&["check", "--config", &file], &variables);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    let told = String::from_utf8(checked.stdout).unwrap();
    assert!(told.contains("zai: 2 keys, 2 models, openai-chat"), "{told}");
    assert!(!told.contains("sk-1"), "{told}");
}

#[test]
fn check_tells_what_the_environment_comes_to() {
    let told = backstop(&["check"], &[("OPENAI_API_KEY", "sk-a,sk-b")]);
    let text = String::from_utf8(told.stdout).unwrap();
    let without_home: String = text
        .lines()
        .filter(|line| !line.starts_with("data folder"))
        .map(|line| format!("{line}\n"))
        .collect();
    check(
        without_home.as_bytes(),
        &expect![[r#"
            no configuration file; the environment names the providers
            listens on    127.0.0.1:3030
            provider      openai: 2 keys, openai-chat at https://api.openai.com/v1, rules openai
        "#]],
    );
}

#[test]
fn a_wrong_file_is_told_by_line_and_stops_the_start_for_good() {
    let (_folder, file) = written("[server]\nlisen = \"127.0.0.1:1\"\n");
    let checked = backstop(&["check", "--config", &file], &[]);
    assert_eq!(checked.status.code(), Some(1));
    let told = String::from_utf8(checked.stderr).unwrap().replace(&file, "backstop.toml");
    check(
        told.as_bytes(),
        &expect![[r#"
            backstop.toml:2: unknown setting `lisen` in [server]
              fix: did you mean `listen`?
        "#]],
    );
    let served = backstop(&["serve", "--config", &file], &[]);
    assert_eq!(served.status.code(), Some(78), "service managers must not start it again");

    let json = backstop(&["check", "--config", &file, "--json"], &[]);
    assert_eq!(json.status.code(), Some(1));
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((json["ok"].as_bool(), json["problems"][0]["line"].as_u64()), (Some(false), Some(2)));
}

#[test]
fn the_sealed_keys_get_another_key() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data").display().to_string();
    let phrase = folder.path().join("phrase").display().to_string();
    fs::write(&phrase, "four words in a row\n").unwrap();
    let rekey = |more: &[&str], variables: &[(&str, &str)]| {
        let told = backstop(&[&["rekey", "--data-dir", &data], more].concat(), variables);
        let text = [told.stdout, told.stderr].concat();
        let text = String::from_utf8(text).unwrap().replace(&phrase, "PHRASE").replace(&data, "DATA");
        format!("{} {text}", told.status.code().unwrap_or(-1))
    };
    let in_force: &[(&str, &str)] = &[("BACKSTOP_PASSPHRASE_FILE", &phrase)];
    let own = format!("{data}/master.key");
    let told = [
        rekey(&[], &[]),
        rekey(&["--key-file", &own], &[]),
        rekey(&["--passphrase-file", &phrase], &[]),
        rekey(&[], &[]),
        rekey(&[], in_force),
        rekey(&["--passphrase-file", &phrase], in_force),
        rekey(&["--data-folder"], in_force),
        rekey(&[], &[]),
    ];
    check(
        told.concat().as_bytes(),
        &expect![[r#"
        0 done; the data folder has a new key file
        1 backstop: the old key stays in force: this file holds the key in force; write the new one into another file and name that
        0 done; name the passphrase before the next start: [server] passphrase_file = "PHRASE"
        1 backstop: the sealed keys cannot be opened, so they cannot get a new key: cannot use the key file DATA/master.key: it is missing; restore it from a backup, or give it mode 0600 and this user as owner
        1 backstop: the key comes from outside the data folder: write a new one into another file and name it by --key-file or --passphrase-file
        1 backstop: this is the key in force; write the new one into another file and name that
        0 done; the data folder has a key file: remove key_file and passphrase_file from [server]
        0 done; the data folder has a new key file
    "#]],
    );
}

#[test]
fn a_bind_beyond_this_machine_needs_an_admin_password() {
    let data = TempDir::new().unwrap();
    let folder = data.path().display().to_string();
    let file = data.path().join("password");
    let serve = |password: Option<&str>| {
        let file = file.display().to_string();
        let mut arguments = vec!["serve", "--listen", "0.0.0.0:0", "--data-dir", &folder];
        if let Some(password) = password {
            fs::write(&file, password).unwrap();
            arguments.extend(["--admin-password-file", &file]);
        }
        let refused = backstop(&arguments, &[]);
        assert_eq!(refused.status.code(), Some(78), "service managers must not start it again");
        String::from_utf8(refused.stderr).unwrap().replace(&file, "FILE")
    };
    check(
        serve(None).as_bytes(),
        &expect![[r#"
            backstop: listening on 0.0.0.0:0 opens the dashboard to the network, which needs an admin password: write one of at least ten characters into a file and name it by --admin-password-file or [server] admin_password_file, or listen on 127.0.0.1
        "#]],
    );
    check(
        serve(Some("\n")).as_bytes(),
        &expect![[r#"
            backstop: the admin password in FILE is shorter than 10 characters; write a longer one into it
        "#]],
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_file_takes_over_and_a_wrong_one_changes_nothing() {
    let upstream = Faultd::start(Script::new()).await.unwrap();
    let provider = |id: &str| {
        let url = upstream.base_url();
        format!(
            "[[provider]]\nid = \"{id}\"\nformat = \"openai-chat\"\nbase_url = \"{url}\"\n[[provider.key]]\nvalue = \"sk-{id}\"\n"
        )
    };
    let gateway = Served::start(&provider("a")).await;
    let file = gateway.folder().join("backstop.toml");
    let right = fs::read_to_string(&file).unwrap();
    assert_eq!(ask(&gateway, "a").await, 200);
    assert_eq!(ask(&gateway, "b").await, 404);

    fs::write(&file, format!("{right}[[provider]]\nid = 5\n")).unwrap();
    until(|| gateway.stderr().contains("the old one stays in force")).await;
    assert_eq!(ask(&gateway, "a").await, 200);

    fs::write(&file, format!("{right}{}", provider("b"))).unwrap();
    until(|| gateway.stderr().contains("the configuration was read again")).await;
    assert_eq!((ask(&gateway, "a").await, ask(&gateway, "b").await), (200, 200));

    fs::write(&file, " \n").unwrap();
    until(|| gateway.stderr().contains("the file is empty")).await;
    assert_eq!((ask(&gateway, "a").await, ask(&gateway, "b").await), (200, 200));
    let told = gateway.stderr();
    assert!(!told.contains("sk-a") && !told.contains(gateway.client_key()), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_admin_password_comes_with_its_configuration_and_not_with_a_wrong_one() {
    let gateway = Served::start("").await;
    let file = gateway.folder().join("backstop.toml");
    let right = fs::read_to_string(&file).unwrap();
    let password = gateway.folder().join("password");
    fs::write(&password, "correct horse battery").unwrap();
    let named = format!("{right}[server]\nadmin_password_file = {password:?}\n");
    let login = async || {
        let body = r#"{"password":"correct horse battery"}"#;
        gateway.ask(("POST", "/api/auth/login"), &[], Some(body)).await.0
    };

    fs::write(&file, format!("{named}[[provider]]\nid = 5\n")).unwrap();
    let (status, told) = gateway.admin("POST", "/api/reload", None).await;
    assert_eq!(status, 409, "{told}");
    assert!(told.contains("the old one stays in force"), "{told}");
    assert_ne!(login().await, 204);

    fs::write(&file, &named).unwrap();
    assert_eq!(gateway.admin("POST", "/api/reload", None).await.0, 204);
    assert_eq!(login().await, 204);

    fs::write(&password, "short").unwrap();
    let (status, told) = gateway.admin("POST", "/api/reload", None).await;
    assert_eq!(status, 409, "{told}");
    assert!(told.contains("was read again, but the admin password stays as it was"), "{told}");
    assert_eq!(login().await, 204);
}

/// Every change of the folder of rules takes effect while the gateway runs: what comes, what is wrong, what goes.
#[tokio::test(flavor = "multi_thread")]
async fn a_changed_rule_takes_over_and_a_wrong_one_changes_nothing() {
    let napping = Reply::json(418, r#"{"error":{"message":"the model is taking a nap"}}"#);
    let upstream = Faultd::start(Script::new().on(any(), napping)).await.unwrap();
    let url = upstream.base_url();
    let config = format!(
        "[[provider]]\nid = \"a\"\nformat = \"openai-chat\"\nbase_url = \"{url}\"\n[[provider.key]]\nvalue = \"sk-a\"\n"
    );
    let gateway = Served::start(&config).await;
    let verdict = async || {
        let before = verdicts(&gateway).len();
        ask(&gateway, "a").await;
        until(|| verdicts(&gateway).len() > before).await;
        verdicts(&gateway).pop().unwrap_or_default()
    };
    assert_eq!(verdict().await["class"], "unknown");

    let folder = gateway.folder().join("rules");
    fs::create_dir(&folder).unwrap();
    let pack = |reason: &str| {
        format!(
            "provider = \"ours\"\nshared = 1\n\n[[rule]]\nid = \"ours/nap\"\nall = [\"taking a nap\"]\nclass = \"request_error\"\nreason = \"{reason}\"\n"
        )
    };
    fs::write(folder.join("ours.toml"), pack("napping")).unwrap();
    until(|| read_again(&gateway) == 1).await;
    assert_eq!(verdict().await["reason"], "napping");

    fs::write(folder.join("ours.toml"), pack("napping").replace("request_error", "request_errors")).unwrap();
    until(|| gateway.stderr().contains("the old one stays in force")).await;
    let told = gateway.stderr();
    assert!(told.contains("rules/ours.toml:7: ") && told.contains("see docs/rules.md"), "{told}");
    assert_eq!(verdict().await["reason"], "napping");

    fs::write(folder.join("ours.toml"), pack("dreaming")).unwrap();
    until(|| read_again(&gateway) == 2).await;
    assert_eq!(verdict().await["reason"], "dreaming");

    fs::remove_file(folder.join("ours.toml")).unwrap();
    until(|| read_again(&gateway) == 3).await;
    assert_eq!(verdict().await["class"], "unknown");
}

/// What the gateway logged of failed attempts.
#[tokio::test(flavor = "multi_thread")]
async fn a_doctor_knows_the_gateway_at_any_of_its_addresses() {
    let gateway = Served::start("").await;
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (own, foreign) = (gateway.address(), other.local_addr().unwrap());
    let listen = format!("[server]\nlisten = [\"{foreign}\", \"{own}\"]\n");
    let (_folder, file) = written(&listen);
    drop(other);
    let url = gateway.url().replace("127.0.0.1", "localhost");
    let looked = backstop(&["doctor", "--config", &file], &[("BACKSTOP_URL", &url)]);
    let told = String::from_utf8_lossy(&looked.stdout).into_owned();
    assert!(told.contains(&format!("port: the gateway listens on {own}")), "{told}");
}

fn verdicts(gateway: &Served) -> Vec<serde_json::Value> {
    let log = gateway.stderr();
    let lines = log.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    lines.filter(|line| line["reason"].is_string()).collect()
}

/// How often the gateway has read its files again.
fn read_again(gateway: &Served) -> usize {
    gateway.stderr().matches("the configuration was read again").count()
}

/// The status of a chat request to a provider.
async fn ask(gateway: &Served, provider: &str) -> u16 {
    let body = r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#;
    let request = format!(
        "POST /proxy/{provider}/v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        gateway.client_key(),
        body.len()
    );
    let address = gateway.url().trim_start_matches("http://").parse().unwrap();
    Client::new(address).ask(request.as_bytes()).await.unwrap().0.status
}

/// Waits until something is so; the file is looked at every other second.
async fn until(so: impl Fn() -> bool) {
    let waiting = async {
        while !so() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(30), waiting).await.is_ok(), "it never happened");
}
