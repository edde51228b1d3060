//! `backstop classify` and `backstop rules` as a shell sees them, and the curl wrapper of the docs.

use std::{
    io::Write as _,
    path::Path,
    process::{Command, Output, Stdio},
};

use backstop_faultd::{Faultd, Reply, Script, key};
use expect_test::{Expect, expect};

fn backstop(arguments: &[&str], stdin: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_backstop"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn prints(arguments: &[&str], stdin: &str, code: i32, expected: &Expect) {
    let output = backstop(arguments, stdin);
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    expected.assert_eq(&text);
    assert_eq!(output.status.code(), Some(code));
}

#[test]
fn lines_in_lines_out_and_the_run_goes_on_past_bad_ones() {
    let lines = r#"{"id":"a","status":429,"provider":"openai","body":"{\"error\":{\"message\":\"Rate limit reached for gpt-4o on requests per min (RPM): Limit 3, Used 3. Please try again in 20s.\",\"code\":\"rate_limit_exceeded\"}}"}
{"id":2,"status":200,"body":"{\"choices\":[{\"message\":{\"content\":\"Hello\"}}]}"}
not json

{"id":"c","kind":"teapot"}
{"id":"d","transport":"dns","unknown_field":1}
"#;
    prints(
        &["classify"],
        lines,
        65,
        &expect![[r#"
            {"id":"a","class":"rate_limit","scope":"model","reason":"requests_per_minute","window":"minute","retry_after_s":20.0,"reset_at":null,"trusted":false,"rule":"openai/minute-requests","matched":"requests per min","key_action":"rest","next":"next_key","wait_s":20.0}
            {"id":2,"error":"this is a success, not a failure"}
            {"error":"not a failure: expected ident at line 1 column 2"}
            {"id":"c","error":"unknown kind \"teapot\"; use http, stream, transport or process"}
            {"id":"d","class":"network_error","scope":"network","reason":"dns_failure","window":null,"retry_after_s":null,"reset_at":null,"trusted":null,"rule":"transport","matched":"","key_action":"none","next":"next_key","wait_s":null}
        "#]],
    );
}

#[test]
fn the_exit_code_tells_the_class() {
    for (arguments, code) in [
        (&["--status", "503"][..], 75),
        (&["--status", "401"], 77),
        (&["--status", "402", "--body", "{\"error\":\"Insufficient balance\"}"], 77),
        (&["--status", "404", "--body", "{\"error\":\"model not found\"}"], 78),
        (&["--status", "413"], 65),
        (&["--status", "418"], 69),
        (&["--process-exit", "1"], 69),
        (&["--signal", "9"], 75),
    ] {
        let output = backstop(&[&["classify", "--exit-code"], arguments].concat(), "");
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
        assert_eq!(backstop(&[&["classify"], arguments].concat(), "").status.code(), Some(0));
    }
}

#[test]
fn an_explanation_names_the_rule_the_place_and_what_was_tried_without_secrets() {
    prints(
        &[
            "classify",
            "--explain",
            "--provider",
            "groq",
            "--status",
            "401",
            "--body",
            "{\"error\":{\"message\":\"Invalid API Key sk-abcdefgh12345678\",\"code\":\"invalid_api_key\"}}",
        ],
        "",
        0,
        &expect![[r#"
            auth_error · key · invalid_key
              decided by  groq/key-invalid
              because     console.groq.com/docs/errors; observed bodies
              matched     "invalid_api_key" at /error/code
              seen        Http 401, body Json
                layer 0: [invalid_api_key] invalid api key sk-a***
              tried       1 rules
                + groq/key-invalid: matches

        "#]],
    );
}

#[test]
fn wrong_flags_say_what_to_do() {
    prints(
        &["classify", "--transport", "carrier_pigeon"],
        "",
        1,
        &expect![[r#"
            backstop: unknown transport fault "carrier_pigeon"; use one of connect_refused, dns, tls, connection_reset, broken_pipe, connect_timeout, read_timeout, idle_timeout, incomplete_body
        "#]],
    );
}

#[test]
fn the_embedded_packs_are_proven_and_a_draft_is_tried() {
    let lint = backstop(&["rules", "lint"], "");
    assert_eq!(lint.status.code(), Some(0), "{}", String::from_utf8_lossy(&lint.stdout));
    let folder = tempfile::tempdir().unwrap();
    let draft = folder.path().join("ours.toml");
    let toml = "provider = \"ours\"\n\n[[rule]]\nid = \"ours/nap\"\nall = [\"taking a nap\"]\nclass = \"overloaded\"\n\
                reason = \"overloaded\"\nsource = \"seen\"\nexample = '{\"error\":\"the model is taking a nap\"}'\n";
    std::fs::write(&draft, toml).unwrap();
    let draft = draft.to_str().unwrap();
    prints(&["rules", "lint", draft], "", 0, &expect![["1 rules, all proven\n"]]);
    let failure = r#"{"status":500,"provider":"ours","body":"{\"error\":\"Taking a nap\"}"}"#;
    let output = backstop(&["rules", "test", "--json", draft], failure);
    assert!(String::from_utf8_lossy(&output.stdout).contains("\"rule\":\"ours/nap\""));
}

/// The folder of one's own packs counts for every command that reads failures or shows rules.
#[test]
fn packs_of_ones_own_come_first_on_the_command_line() {
    let home = tempfile::tempdir().unwrap();
    let rules = home.path().join("rules");
    std::fs::create_dir(&rules).unwrap();
    let pack = rules.join("ours.toml");
    let toml = "provider = \"ours\"\nshared = 1\n\n[[rule]]\nid = \"ours/nap\"\nall = [\"taking a nap\"]\nclass = \"overloaded\"\n\
                reason = \"napping\"\nsource = \"seen\"\nexample = '{\"error\":\"the model is taking a nap\"}'\n";
    std::fs::write(&pack, toml).unwrap();
    let told = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_backstop"))
            .args(arguments)
            .env("BACKSTOP_CONFIG", home.path().join("backstop.toml"))
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (text + &String::from_utf8_lossy(&output.stderr), output.status.code())
    };
    let nap = ["classify", "--status", "418", "--body", r#"{"error":"The model is taking a nap"}"#];
    assert!(told(&nap).0.contains("\"reason\":\"napping\""), "{}", told(&nap).0);
    let elsewhere = tempfile::tempdir().unwrap();
    let elsewhere = ["--rules", elsewhere.path().to_str().unwrap()];
    assert!(told(&[&nap[..], &elsewhere].concat()).0.contains("\"class\":\"unknown\""));
    let (list, _) = told(&["rules", "list"]);
    assert!(list.contains("(yours)"), "{list}");
    assert!(!told(&[&["rules", "list"], &elsewhere[..]].concat()).0.contains("(yours)"));
    let (list, _) = told(&["rules", "list", "ours"]);
    expect![[r#"
        ours/nap  overloaded          provider  napping
    "#]]
    .assert_eq(&list);
    let (rule, _) = told(&["rules", "show", "ours/nap"]);
    assert!(rule.contains("verdict  overloaded · provider · napping"), "{rule}");
    assert_eq!(told(&["rules", "lint"]).1, Some(0));

    std::fs::write(&pack, toml.replace("overloaded", "overloded")).unwrap();
    for arguments in [&nap[..], &["rules", "list"], &["rules", "lint"]] {
        let (problem, code) = told(arguments);
        assert_eq!(code, Some(1), "{problem}");
        assert!(problem.contains("ours.toml:7: ") && problem.contains("see docs/rules.md"), "{problem}");
    }
    let (problem, code) = told(&[&nap[..], &["--rules", "/nowhere/at/all"]].concat());
    assert_eq!(code, Some(1), "{problem}");
    assert!(problem.contains("cannot read --rules /nowhere/at/all"), "{problem}");
}

/// Where we are must not show in when a provider heals.
#[test]
fn the_zone_of_the_machine_changes_no_time() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../triage/corpus");
    let mut lines = String::new();
    for file in std::fs::read_dir(corpus).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            let text = std::fs::read_to_string(path).unwrap();
            let timed = text.lines().filter(|line| line.contains("reset") || line.contains("again"));
            timed.for_each(|line| lines = format!("{lines}{line}\n"));
        }
    }
    for words in [
        "resets 4am (Europe/Berlin)",
        "resets at midnight",
        "resets 11:30pm",
        "resets Mar 13, 9am",
        "try again at 8:15 PM",
    ] {
        lines = format!("{lines}{{\"status\":429,\"body\":\"Usage limit reached, {words}\"}}\n");
    }
    let told = |zone: &str| {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &lines).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_backstop"))
            .args(["classify", "--now", "2026-03-10T12:00:00Z"])
            .arg(file.path())
            .env("TZ", zone)
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let here = told("UTC");
    assert!(here.lines().filter(|line| line.contains("\"reset_at\":\"")).count() > 20, "{here}");
    for elsewhere in ["Pacific/Kiritimati", "America/New_York"] {
        assert_eq!(told(elsewhere), here, "{elsewhere}");
    }
}

/// One call of the wrapper: its answer, its trail, its exit code.
fn ask(upstream: &Faultd, key: &str) -> (String, String, Option<i32>) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/scripts/ask");
    let output = Command::new("bash")
        .arg(script)
        .args(["-H", "content-type: application/json", "-H", &format!("Authorization: Bearer {key}")])
        .args(["-d", r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#])
        .arg(format!("{}/v1/chat/completions", upstream.base_url()))
        .env("BACKSTOP", env!("CARGO_BIN_EXE_backstop"))
        .env("ASK_SLEEP", "true")
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr), output.status.code())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_curl_wrapper_repeats_what_can_pass_and_stops_at_what_cannot() {
    let limited =
        Reply::json(429, r#"{"error":{"message":"Too many requests","code":"rate_limit_exceeded"}}"#);
    let week = r#"{"error":{"message":"You've reached your weekly usage limit."}}"#;
    let script = Script::new()
        .on(key("busy").nth(1), Reply::empty(503))
        .on(key("throttled").between(1..=2), limited.header("retry-after", "7"))
        .on(key("full"), Reply::json(429, week).header("retry-after", "86400"))
        .on(key("broke"), Reply::json(402, r#"{"error":{"message":"Insufficient balance"}}"#))
        .on(
            key("hidden"),
            Reply::json(200, r#"{"base_resp":{"status_code":9,"status_msg":"invalid api key"}}"#),
        )
        .on(key("strange"), Reply::json(418, r#"{"error":{"message":"The flux capacitor sleeps"}}"#));
    let upstream = Faultd::start(script).await.unwrap();
    let tried = tokio::task::spawn_blocking(move || {
        ["well", "busy", "throttled", "full", "broke", "hidden", "strange"].map(|key| {
            let (answer, trail, code) = ask(&upstream, key);
            let answered = answer.contains("chat.completion");
            let trail = trail.lines().filter(|line| line.starts_with("ask:")).collect::<Vec<_>>().join(" | ");
            format!(
                "{key}: exit {} answered {answered} calls {} · {trail}",
                code.unwrap_or(-1),
                upstream.calls_with(key).len()
            )
        })
    });
    expect![[r#"
        well: exit 0 answered true calls 1 · 
        busy: exit 0 answered true calls 2 · ask: attempt 1: overloaded (overloaded) | ask: waiting 2 s
        throttled: exit 0 answered true calls 3 · ask: attempt 1: rate_limit (rate_limited) | ask: waiting 7 s | ask: attempt 2: rate_limit (rate_limited) | ask: waiting 7 s
        full: exit 75 answered false calls 1 · ask: attempt 1: quota_exhausted (window_full) | ask: come back in 86400 s
        broke: exit 77 answered false calls 1 · ask: attempt 1: billing_exhausted (balance_empty)
        hidden: exit 77 answered false calls 1 · ask: attempt 1: auth_error (invalid_key)
        strange: exit 69 answered false calls 1 · ask: attempt 1: unknown (unrecognized)"#]].assert_eq(&tried.await.unwrap().join("\n"));
}
