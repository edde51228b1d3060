//! Official client programs, unmodified, in front of the real gateway: three of four keys fail, each in its own way,
//! and no caller notices.
//!
//! `tests/clients/setup` installs the programs; without them these tests say that they were skipped. Each case has a
//! provider of its own, so that each meets four untried keys: one that is limited, one that is unknown, one whose
//! answer breaks off before its content, and a good one. The libraries' own retries are off.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    process::Stdio,
};

use backstop_faultd::{Faultd, How, Point, Reply, Script, key};
use tokio::process::Command;

use crate::served::Served;

/// A program, and the cases in it: each is named like its provider.
struct Program {
    file: &'static str,
    runtime: Runtime,
    format: &'static str,
    cases: &'static [&'static str],
}

enum Runtime {
    Python,
    Node,
}

#[tokio::test(flavor = "multi_thread")]
async fn sdks_notice_nothing_while_three_of_four_keys_fail() {
    let programs: Vec<_> = PROGRAMS.iter().filter(|program| program.runtime.is_installed()).collect();
    if programs.len() < PROGRAMS.len() {
        eprintln!("SKIPPED: some client libraries are not installed (run tests/clients/setup)");
    }
    let cases =
        || programs.iter().flat_map(|program| program.cases.iter().map(|case| (*case, program.format)));
    let upstream = Faultd::start(script(cases().map(|(case, _)| case))).await.unwrap();
    let mut gateway = Served::start(&config(&upstream, 4, cases())).await;

    for program in &programs {
        program.run(&gateway).await;
    }
    let first = asked(&upstream, cases().map(|(case, _)| case));
    gateway.kill_and_restart().await;
    for program in &programs {
        program.run(&gateway).await;
    }
    let second = asked(&upstream, cases().map(|(case, _)| case));

    for ((case, before), (_, after)) in first.iter().zip(&second) {
        assert_eq!(before[..3], [1, 1, 1], "{case}: each bad key is asked once");
        assert_eq!(
            after[..3],
            [1, 1, 1],
            "{case}: after kill -9 and a restart each bad key is still left alone"
        );
        assert!(before[3] >= 1 && after[3] > before[3], "{case}: the good key answers: {before:?} {after:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sdks_with_retries_stop_at_once_where_nothing_can_be_done() {
    if !Runtime::Python.is_installed() || !Runtime::Node.is_installed() {
        eprintln!("SKIPPED: some client libraries are not installed (run tests/clients/setup)");
        return;
    }
    let cases =
        || FAILURES.iter().flat_map(|program| program.cases.iter().map(|case| (*case, format_of(case))));
    let upstream = Faultd::start(hopeless(cases().map(|(case, _)| case))).await.unwrap();
    let gateway = Served::start(&config(&upstream, 1, cases())).await;

    for program in &FAILURES {
        program.run(&gateway).await;
    }

    for (case, [calls, ..]) in asked(&upstream, cases().map(|(case, _)| case)) {
        let expected = if case.starts_with("overflow") { FAILURES.len() } else { 1 };
        assert_eq!(
            calls, expected,
            "{case}: a key that rests or is dead is asked once, whoever comes and retries"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_notice_nothing_while_three_of_four_keys_fail() {
    let programs = installed().join("agents/node_modules/.bin");
    if !programs.join("codex").exists() || !programs.join("claude").exists() {
        eprintln!("SKIPPED: no agents are installed (run CLIENTS_AGENTS=1 tests/clients/setup)");
        return;
    }
    let cases = [("claude-code", "anthropic-messages"), ("codex", "openai-responses")];
    let upstream = Faultd::start(script(cases.iter().map(|(case, _)| *case))).await.unwrap();
    let gateway = Served::start(&config(&upstream, 4, cases.into_iter())).await;
    let home = gateway.folder().join("home");
    std::fs::create_dir_all(home.join(".codex")).unwrap();
    std::fs::write(home.join(".codex/config.toml"), codex_config(&gateway)).unwrap();

    let mut claude = agent(&programs.join("claude"), &home);
    claude
        .args(["-p", "Say hello.", "--model", "some-model"])
        .env("ANTHROPIC_BASE_URL", format!("{}/proxy/claude-code", gateway.url()))
        .env("ANTHROPIC_AUTH_TOKEN", gateway.client_key())
        .env("CLAUDE_CODE_MAX_RETRIES", "0")
        .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
        .env("DISABLE_AUTOUPDATER", "1");
    let mut codex = agent(&programs.join("codex"), &home);
    codex
        .args(["exec", "--skip-git-repo-check", "Say hello."])
        .env("CODEX_HOME", home.join(".codex"))
        .env("BACKSTOP_KEY", gateway.client_key());

    for command in [&mut claude, &mut codex] {
        let (output, success) = outcome(command).await;
        assert!(success && output.contains("piece 4"), "{output}\n{}", gateway.stderr());
    }
    for (case, calls) in asked(&upstream, cases.iter().map(|(case, _)| *case)) {
        assert_eq!(calls[..3], [1, 1, 1], "{case}: each bad key is asked once");
    }
}

impl Program {
    async fn run(&self, gateway: &Served) {
        let mut command = Command::new(self.runtime.interpreter());
        command
            .arg(sources().join(self.file))
            .env("BACKSTOP_URL", gateway.url())
            .env("BACKSTOP_KEY", gateway.client_key())
            .env("BACKSTOP_CLIENTS", installed())
            .env("PYTHONDONTWRITEBYTECODE", "1");
        let (output, success) = outcome(&mut command).await;
        eprintln!("{}:\n{output}", self.file);
        assert!(success, "{} saw a failure:\n{output}\n{}", self.file, gateway.stderr());
        for case in self.cases {
            assert!(output.contains(&format!("ok {case}:")), "{} left {case} out:\n{output}", self.file);
        }
    }
}

impl Runtime {
    fn is_installed(&self) -> bool {
        let stamp = match self {
            Self::Python => "python.stamp",
            Self::Node => "node.stamp",
        };
        installed().join(stamp).exists()
    }

    fn interpreter(&self) -> PathBuf {
        match self {
            Self::Python => installed().join("python/bin/python"),
            Self::Node => "node".into(),
        }
    }
}

/// What the four keys of each case do.
fn script<'a>(cases: impl Iterator<Item = &'a str>) -> Script {
    cases.fold(Script::new(), |script, case| {
        let broken = format!("{case}-3");
        script
            .on(key(format!("{case}-1")), Reply::status(429).header("retry-after", "3600"))
            .on(key(format!("{case}-2")), Reply::status(401))
            .on(key(broken.clone()).streaming(), Reply::answer().cut(Point::Content(0), How::Close))
            .on(key(broken), Reply::answer().cut(Point::Bytes(10), How::Reset))
    })
}

/// What the only key of each case does.
fn hopeless<'a>(cases: impl Iterator<Item = &'a str>) -> Script {
    let overflow =
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.";
    let too_long = "prompt is too long: 210000 tokens > 200000 maximum";
    cases.fold(Script::new(), |script, case| {
        let reply = match case {
            "limited-chat" | "limited-messages" => Reply::status(429).header("retry-after", "3600"),
            "dead-chat" | "dead-messages" => Reply::status(401),
            "overflow-chat" => Reply::error(400, "context_length_exceeded", overflow),
            "overflow-messages" => Reply::error(400, "invalid_request_error", too_long),
            _ => Reply::answer().cut(Point::Content(2), How::Reset),
        };
        script.on(key(format!("{case}-1")), reply)
    })
}

fn format_of(case: &str) -> &'static str {
    if case.ends_with("messages") { "anthropic-messages" } else { "openai-chat" }
}

/// A provider for each case, with so many keys.
fn config<'a>(upstream: &Faultd, keys: usize, cases: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut config = String::from("[settings]\nfault_backoff_s = 300\n");
    for (case, format) in cases {
        let (version, rules) = match format {
            "anthropic-messages" => ("", "anthropic"),
            "gemini" => ("/v1beta", "gemini"),
            _ => ("/v1", "openai"),
        };
        let base_url = format!("{}{version}", upstream.base_url());
        let provider = format!(
            "\n[[provider]]\nid = \"{case}\"\nformat = \"{format}\"\nbase_url = \"{base_url}\"\nrules = \"{rules}\"\n"
        );
        config.push_str(&provider);
        for number in 1..=keys {
            write!(config, "  [[provider.key]]\n  label = \"key {number}\"\n  value = \"{case}-{number}\"\n")
                .unwrap();
        }
    }
    config
}

/// How often each of the four keys of each case was asked.
fn asked<'a>(upstream: &Faultd, cases: impl Iterator<Item = &'a str>) -> Vec<(&'a str, [usize; 4])> {
    cases
        .map(|case| (case, [1, 2, 3, 4].map(|number| upstream.calls_with(&format!("{case}-{number}")).len())))
        .collect()
}

fn agent(program: &Path, home: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(home).env("HOME", home);
    command
}

fn codex_config(gateway: &Served) -> String {
    format!(
        "model = \"some-model\"\nmodel_provider = \"backstop\"\n\n[model_providers.backstop]\nname = \"backstop\"\n\
         base_url = \"{}/proxy/codex/v1\"\nenv_key = \"BACKSTOP_KEY\"\nwire_api = \"responses\"\n\
         request_max_retries = 0\nstream_max_retries = 0\n",
        gateway.url()
    )
}

/// Everything that a command says, and whether it succeeds.
async fn outcome(command: &mut Command) -> (String, bool) {
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await.unwrap();
    let text = [output.stdout, output.stderr].concat();
    (String::from_utf8_lossy(&text).into_owned(), output.status.success())
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/clients")
}

/// Where `tests/clients/setup` puts what it installs.
fn installed() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("../clients")
}

const PROGRAMS: [Program; 5] = [
    Program {
        file: "python_openai.py",
        runtime: Runtime::Python,
        format: "openai-chat",
        cases: &[
            "python-chat",
            "python-chat-stream",
            "python-completions",
            "python-responses",
            "python-responses-stream",
            "python-embeddings",
        ],
    },
    Program {
        file: "python_anthropic.py",
        runtime: Runtime::Python,
        format: "anthropic-messages",
        cases: &["python-messages", "python-messages-stream", "python-messages-count"],
    },
    Program {
        file: "python_gemini.py",
        runtime: Runtime::Python,
        format: "gemini",
        cases: &["raw-gemini", "raw-gemini-sse", "raw-gemini-array", "sdk-gemini", "sdk-gemini-stream"],
    },
    Program {
        file: "node_openai.cjs",
        runtime: Runtime::Node,
        format: "openai-chat",
        cases: &["node-chat", "node-chat-stream", "node-responses", "node-responses-stream"],
    },
    Program {
        file: "node_anthropic.cjs",
        runtime: Runtime::Node,
        format: "anthropic-messages",
        cases: &["node-messages", "node-messages-stream"],
    },
];

const FAILURES: [Program; 2] = [
    Program {
        file: "python_failures.py",
        runtime: Runtime::Python,
        format: "",
        cases: &[
            "limited-chat",
            "limited-messages",
            "dead-chat",
            "dead-messages",
            "overflow-chat",
            "overflow-messages",
            "python-cut-chat",
            "python-cut-responses",
            "python-cut-messages",
        ],
    },
    Program {
        file: "node_failures.cjs",
        runtime: Runtime::Node,
        format: "",
        cases: &["node-cut-chat", "node-cut-responses", "node-cut-messages"],
    },
];
