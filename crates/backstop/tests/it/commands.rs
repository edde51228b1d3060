//! Commands that need no gateway, and what every command owes its reader.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::{Command, Output},
};

use expect_test::expect;
use tempfile::TempDir;

fn backstop(home: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_backstop"))
        .args(arguments)
        .env_clear()
        .env("HOME", home)
        .env("BACKSTOP_URL", "http://127.0.0.1:1")
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The commands below a command, by its help.
fn below(home: &Path, path: &[&str]) -> Vec<String> {
    let help = text(&backstop(home, &[path, &["--help"]].concat()).stdout);
    let commands =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names = commands.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_commands_of_the_interface_are_there_and_each_says_what_it_does() {
    let home = TempDir::new().unwrap();
    let commands = below(home.path(), &[]);
    let named = [
        "demo",
        "serve",
        "classify",
        "context",
        "run",
        "status",
        "reload",
        "connect",
        "providers",
        "keys",
        "models",
        "fallbacks",
        "combos",
        "settings",
        "logs",
        "alerts",
        "rules",
        "check",
        "doctor",
        "service",
        "export",
        "import",
        "completions",
        "man",
        "clients",
    ];
    let missing: Vec<&str> =
        named.into_iter().filter(|name| !commands.iter().any(|known| known == name)).collect();
    assert!(missing.is_empty(), "{missing:?} of {commands:?}");
    for command in &commands {
        let help = text(&backstop(home.path(), &[command, "--help"]).stdout);
        assert!(
            help.lines().next().is_some_and(|line| line.ends_with('.') || line.len() > 20),
            "{command}: {help}"
        );
        for inner in below(home.path(), &[command]) {
            let help = backstop(home.path(), &[command, &inner, "--help"]);
            assert!(help.status.success() && help.stdout.len() > 40, "{command} {inner}");
        }
    }
}

#[test]
fn without_a_gateway_a_command_says_what_to_do() {
    let home = TempDir::new().unwrap();
    let asked = backstop(home.path(), &["keys", "list", "house"]);
    assert_eq!(asked.status.code(), Some(1));
    let told = text(&asked.stderr).replace(&home.path().display().to_string(), "~");
    expect![[r#"
        backstop: cannot read the admin token in ~/.local/share/backstop/admin.token, which the first `backstop serve` makes; name the gateway's data folder with --data-dir, or set BACKSTOP_ADMIN_TOKEN: No such file or directory (os error 2)
    "#]].assert_eq(&told);
    assert_eq!(backstop(home.path(), &["status", "--check"]).status.code(), Some(1));
    assert_eq!(backstop(home.path(), &["keys", "lsit"]).status.code(), Some(2));
}

#[test]
fn completions_and_manual_pages_cover_every_command() {
    let home = TempDir::new().unwrap();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = text(&backstop(home.path(), &["completions", shell]).stdout);
        assert!(script.contains("fallbacks") && script.contains("doctor"), "{shell}");
    }
    let folder = home.path().join("man");
    assert!(backstop(home.path(), &["man", &folder.display().to_string()]).status.success());
    let pages: BTreeSet<String> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    for command in below(home.path(), &[]) {
        assert!(pages.contains(&format!("backstop-{command}.1")), "{command}: {pages:?}");
    }
    let first = text(&backstop(home.path(), &["man"]).stdout);
    assert!(first.contains(".SH SYNOPSIS"), "{first}");
}

#[test]
fn the_unit_of_a_user_is_hardened_and_systemd_reads_every_unit() {
    let home = TempDir::new().unwrap();
    let program = env!("CARGO_BIN_EXE_backstop");
    let unit =
        text(&backstop(home.path(), &["service", "install", "--print"]).stdout).replace(program, "backstop");
    if cfg!(target_os = "linux") {
        expect![[r#"
            [Unit]
            Description=Backstop, a gateway for LLM APIs
            # The gateway rests by itself; a crash loop of its own is slowed down, not given up.
            StartLimitIntervalSec=0

            [Service]
            ExecStart=backstop serve
            ExecReload=/bin/kill -HUP $MAINPID
            Restart=on-failure
            RestartSec=5
            RestartSteps=6
            RestartMaxDelaySec=300
            # 78: the configuration is wrong, and starting again will not cure that.
            RestartPreventExitStatus=78
            TimeoutStopSec=45
            KillMode=mixed

            NoNewPrivileges=yes
            LockPersonality=yes
            RestrictRealtime=yes
            RestrictSUIDSGID=yes
            RestrictNamespaces=yes
            RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
            SystemCallArchitectures=native
            SystemCallFilter=@system-service
            SystemCallFilter=~@privileged
            SystemCallErrorNumber=EPERM
            UMask=0077
            LimitNOFILE=65536

            [Install]
            WantedBy=default.target
        "#]]
        .assert_eq(&unit);
    }
    for (name, which) in [
        ("backstop.service", "systemd"),
        ("backstop-system.service", "system"),
        ("backstop-run@.service", "run"),
    ] {
        let file = home.path().join(name);
        fs::write(&file, backstop(home.path(), &["service", "print", which]).stdout).unwrap();
        let Ok(read) = Command::new("systemd-analyze").arg("verify").arg(&file).output() else {
            eprintln!("SKIPPED: systemd is not here");
            return;
        };
        let told = text(&read.stderr);
        // Keys of systemd 254, which older ones leave out.
        let is_newer =
            |line: &&str| ["'RestartSteps'", "'RestartMaxDelaySec'"].iter().any(|key| line.contains(key));
        let ours: Vec<&str> = told.lines().filter(|line| line.contains(name) && !is_newer(line)).collect();
        assert!(ours.is_empty(), "{ours:#?}");
    }
}

#[test]
fn a_doctor_names_what_is_wrong_and_its_cure() {
    let home = TempDir::new().unwrap();
    let data = home.path().join(".local/share/backstop");
    fs::create_dir_all(&data).unwrap();
    fs::write(data.join("admin.token"), "bsa_x").unwrap();
    fs::write(data.join("backstop.db"), "this is no database").unwrap();
    let config = home.path().join("backstop.toml");
    fs::write(&config, "[server]\nlisen = 1\n").unwrap();
    let looked = backstop(home.path(), &["doctor", "--config", &config.display().to_string()]);
    assert_eq!(looked.status.code(), Some(1));
    let told = text(&looked.stdout).replace(&home.path().display().to_string(), "~");
    let steady: String = told
        .lines()
        .filter(|line| {
            !["disk:", "open files:", "certificates:", "clock:"]
                .iter()
                .any(|what| line.get(6..).is_some_and(|said| said.starts_with(what)))
        })
        .filter(|line| !line.contains("looked at"))
        .map(|line| format!("{line}\n"))
        .collect();
    expect![[r#"
        fail  configuration: ~/backstop.toml:2: unknown setting `lisen` in [server]   fix: did you mean `listen`?
              -> `backstop check` tells every mistake with its line and its fix
        warn  data folder: others on this machine can look into ~/.local/share/backstop
              -> chmod 700 ~/.local/share/backstop; the next start does it too
        fail  admin token: others on this machine can read ~/.local/share/backstop/admin.token (mode 644)
              -> chmod 600 ~/.local/share/backstop/admin.token
        fail  database: ~/.local/share/backstop/backstop.db cannot be read: file is not a database
              -> check its permissions and the disk; a damaged one is set aside at the next start, and health with it
        warn  gateway: no gateway answers at http://127.0.0.1:1: cannot reach 127.0.0.1:1: Connection refused (os error 111)
              -> start it: `backstop serve`, or `backstop service install`

    "#]].assert_eq(&steady);
    let json = backstop(home.path(), &["doctor", "--json"]);
    let findings: Vec<serde_json::Value> = serde_json::from_slice(&json.stdout).unwrap();
    assert!(findings.iter().any(|finding| finding["level"] == "fail" && finding["cure"].is_string()));
}

#[test]
fn a_snippet_is_printed_alone_and_a_task_for_an_agent_says_everything() {
    let home = TempDir::new().unwrap();
    let snippet = backstop(home.path(), &["connect", "codex", "--model", "house/small"]);
    expect![[r#"
        model = "house/small"
        model_provider = "backstop"

        [model_providers.backstop]
        name = "Backstop"
        base_url = "http://127.0.0.1:1/v1"
        env_key = "BACKSTOP_KEY"
        wire_api = "responses"
    "#]]
    .assert_eq(&text(&snippet.stdout));
    let task =
        text(&backstop(home.path(), &["connect", "claude-code", "--provider", "house", "--prompt"]).stdout);
    expect![[r#"
        Set up Claude Code on this machine so that it uses the LLM gateway Backstop.

        The gateway speaks the client's own API at http://127.0.0.1:1/proxy/house. It is not a provider: it holds the providers' keys, rests, rotates and replaces them, and answers with the provider's own answers. The key below is a client key of the gateway; keep it out of version control and out of your answers.

        Merge this into ~/.claude/settings.json, keeping everything that is there already:

        ```json
        {
          "env": {
            "ANTHROPIC_BASE_URL": "http://127.0.0.1:1/proxy/house",
            "ANTHROPIC_AUTH_TOKEN": "CLIENT-KEY",
            "CLAUDE_CODE_ENABLE_GATEWAY_MODEL_DISCOVERY": "1"
          }
        }
        ```

        Or for one session: ANTHROPIC_BASE_URL=http://127.0.0.1:1/proxy/house ANTHROPIC_AUTH_TOKEN=CLIENT-KEY claude

        Then make one small request with Claude Code and tell me the answer. If it fails, read the error's message: the gateway says there what is wrong and what to do. `backstop status` and `backstop logs` on the gateway's machine tell more.
    "#]].assert_eq(&task);
    let unknown = backstop(home.path(), &["connect", "emacs"]);
    assert!(text(&unknown.stderr).contains("known are claude-code, codex"), "{}", text(&unknown.stderr));
}
