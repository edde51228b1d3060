//! `backstop run` with real processes: small shell scripts that fail in the ways of agents.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use expect_test::expect;
use serde_json::Value;

#[test]
fn an_empty_balance_under_a_service_manager_is_one_call_and_one_alert() {
    let world = World::new();
    world.alerts_to("alerts");
    let script = world.script(
        "echo call >> calls; echo '{\"error\":{\"message\":\"This request requires more credits, or fewer max_tokens. You requested up to 65535 tokens, but your balance is 0. Add more credits\",\"code\":402}}' >&2; exit 1",
    );
    for _ in 0..12 {
        let ended = world.run(&["--once", "--name", "agent"], &script);
        assert_eq!(ended.status.code(), Some(77), "{}", text(&ended.stderr));
    }
    assert_eq!(world.lines("calls"), 1);
    assert_eq!(world.lines("alerts"), 1);
}

#[test]
fn an_outage_in_unknown_words_rests_long_opens_the_circuit_and_is_logged_as_unknown() {
    let world = World::new();
    let script = world.script("echo 'The flux capacitor is taking a nap today' >&2; exit 1");
    let ended = world.run(&["--once", "--name", "agent", "--no-jitter", "--json"], &script);
    assert_eq!(ended.status.code(), Some(69));
    let decision = decision(&ended);
    assert_eq!(decision["class"], "unknown");
    assert_eq!((decision["delay_s"].as_u64(), decision["circuit"].as_str()), (Some(900), Some("open")));
}

#[test]
fn a_session_limit_on_stdout_rests_all_nine_seats_of_the_account_until_four_in_its_zone() {
    let world = World::new();
    let script = world.script(
        "echo call >> calls; echo \"You've hit your session limit · resets 4am (America/Los_Angeles)\"; exit 1",
    );
    for seat in 0..9 {
        let name = format!("seat-{seat}");
        let ended =
            world.run(&["--once", "--name", &name, "--account", "main", "--no-jitter", "--json"], &script);
        assert_eq!(ended.status.code(), Some(75), "{}", text(&ended.stderr));
        if seat == 0 {
            let until: jiff::Timestamp = decision(&ended)["until"].as_str().unwrap().parse().unwrap();
            let there = until.in_tz("America/Los_Angeles").unwrap();
            assert_eq!((there.hour(), there.minute()), (4, 0));
        }
    }
    assert_eq!(world.lines("calls"), 1);
}

#[test]
fn a_crash_loop_climbs_the_ladder_opens_the_circuit_at_the_third_and_is_one_alert() {
    let world = World::new();
    world.alerts_to("alerts");
    let script = world.script("kill -SEGV $$");
    let mut told = Vec::new();
    for _ in 0..8 {
        let ended = world.run(&["--once", "--name", "agent", "--no-jitter", "--json"], &script);
        assert_eq!(ended.status.code(), Some(75), "{}", text(&ended.stderr));
        let decision = decision(&ended);
        told.push(format!("{} {} {}", decision["class"], decision["delay_s"], decision["circuit"]));
        // The rest is over.
        let mut seat = world.seat("agent");
        seat["until"] = Value::from("2026-01-01T00:00:00Z");
        fs::write(world.path("data/seats/agent.json"), seat.to_string()).unwrap();
    }
    expect![[r#"
        "local_fault" 5 "closed"
        "local_fault" 10 "closed"
        "local_fault" 60 "open"
        "local_fault" 120 "open"
        "local_fault" 240 "open"
        "local_fault" 480 "open"
        "local_fault" 900 "open"
        "local_fault" 900 "open""#]]
    .assert_eq(&told.join("\n"));
    assert_eq!(world.lines("alerts"), 1);
    assert_eq!(world.seat("agent")["failed"]["local_fault"], 8);
}

#[test]
fn a_silent_hang_is_stopped_at_the_time_limit_and_is_a_timeout_not_a_crash() {
    let world = World::new();
    let script = world.script("sleep 300");
    let ended = world.run(&["--once", "--name", "agent", "--time-limit", "1", "--json"], &script);
    assert_eq!(ended.status.code(), Some(75));
    assert_eq!(decision(&ended)["class"], "timeout");
    assert_eq!(decision(&ended)["reason"], "time_limit");
}

#[test]
fn a_process_that_ignores_the_request_to_end_is_killed_with_its_whole_group() {
    let world = World::new();
    let script = world.script(
        "trap '' TERM; (trap '' TERM; echo $$ > shell; sleep 300 & echo $! > inner; wait) & wait; wait",
    );
    let started = Instant::now();
    let ended = world.run(&["--once", "--name", "agent", "--time-limit", "1", "--grace", "1"], &script);
    assert_eq!(ended.status.code(), Some(75));
    assert!(started.elapsed() < Duration::from_secs(60));
    assert!(world.gone("inner"), "the grandchild lives");
}

#[test]
fn an_orphaned_grandchild_that_holds_the_output_open_delays_nobody() {
    let world = World::new();
    let script = world.script("sleep 300 & echo $! > inner; echo 'Error: out of credits' >&2; exit 1");
    let started = Instant::now();
    let ended = world.run(&["--once", "--name", "agent"], &script);
    assert_eq!(ended.status.code(), Some(77), "{}", text(&ended.stderr));
    assert!(started.elapsed() < Duration::from_secs(60));
    assert!(world.gone("inner"), "the grandchild lives");
}

#[test]
fn a_flood_of_output_passes_through_in_bounded_memory_and_its_end_is_read() {
    let world = World::new();
    let script = world
        .script("head -c 60000000 /dev/zero | tr '\\0' 'x'; echo; echo 'Credit balance is too low'; exit 1");
    let mut child =
        world.command(&["--once", "--name", "agent"], &script).stdout(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let mut stdout = child.stdout.take().unwrap();
    let mut passed = 0;
    let mut peak = 0;
    let mut chunk = vec![0; 1 << 20];
    loop {
        let read = stdout.read(&mut chunk).unwrap();
        if read == 0 {
            break;
        }
        passed += read;
        peak = peak.max(peak_memory_kib(pid).unwrap_or(0));
    }
    assert_eq!(child.wait().unwrap().code(), Some(77));
    assert_eq!(passed, 60_000_000 + "\nCredit balance is too low\n".len());
    assert!(peak < 100_000, "{peak} KiB for a flood of 60 MB");
}

#[test]
fn a_missing_command_is_a_matter_of_set_up() {
    let world = World::new();
    let ended = world.run(&["--once", "--name", "agent", "--json"], Path::new("/no/such/agent"));
    assert_eq!(ended.status.code(), Some(78));
    assert_eq!(decision(&ended)["reason"], "cli_not_found");
}

#[test]
fn a_killed_supervisor_that_is_revived_finds_its_circuit() {
    let world = World::new();
    let script = world.script("echo call >> calls; echo 'something nobody has ever said' >&2; exit 1");
    let mut first = world.command(&["--name", "agent"], &script).stderr(Stdio::piped()).spawn().unwrap();
    let line = BufReader::new(first.stderr.take().unwrap()).lines().next().unwrap().unwrap_or_default();
    // The script's own words come first; either way the decision is on disk before it is printed.
    assert!(!line.is_empty());
    world.until(|| world.seat("agent")["n"] == 1);
    first.kill().unwrap();
    first.wait().unwrap();
    let ended = world.run(&["--once", "--name", "agent"], &script);
    assert_eq!(ended.status.code(), Some(69), "{}", text(&ended.stderr));
    assert_eq!(world.lines("calls"), 1);
    assert_eq!(world.seat("agent")["n"], 1);
}

#[test]
fn a_process_left_behind_by_a_killed_supervisor_is_ended_before_the_next_one_starts() {
    let world = World::new();
    let script = world.script("echo $$ >> pids; exec sleep 300");
    let mut first = world.command(&["--name", "agent"], &script).spawn().unwrap();
    world.until(|| world.lines("pids") == 1 && world.seat("agent")["child"].is_object());
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(!world.gone("pids"));
    let mut second = world.command(&["--name", "agent"], &script).spawn().unwrap();
    world.until(|| world.lines("pids") == 2);
    let first_pid = fs::read_to_string(world.path("pids")).unwrap().lines().next().unwrap().to_owned();
    assert!(!alive(&first_pid));
    terminate(&second);
    assert_eq!(second.wait().unwrap().code(), Some(143));
    assert!(world.gone("pids"));
}

#[test]
fn a_request_to_end_reaches_the_process_and_is_no_failure() {
    let world = World::new();
    let script =
        world.script("trap 'echo bye > said; exit 7' TERM; echo up > up; while :; do sleep 0.05; done");
    let mut child = world.command(&["--name", "agent"], &script).spawn().unwrap();
    world.until(|| world.path("up").exists());
    terminate(&child);
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert_eq!(fs::read_to_string(world.path("said")).unwrap(), "bye\n");
    assert_eq!(world.seat("agent")["n"], 0);
}

#[test]
fn both_streams_pass_through_unchanged() {
    let world = World::new();
    let script = world.script("printf 'a\\000\\377\\033[31mb\\r\\n'; printf 'no newline' >&2; cat");
    let mut child = world
        .command(&["--once", "--name", "agent"], &script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"typed").unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(0));
    assert_eq!(ended.stdout, b"a\0\xff\x1b[31mb\r\ntyped");
    assert_eq!(ended.stderr, b"no newline");
}

#[tokio::test]
async fn on_a_terminal_the_process_gets_one_too_with_our_size_and_our_keys() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let world = World::new();
    let script = world.script(
        "test -t 0 && test -t 1 && test -t 2 && echo all terminals; stty size; read word; echo \"got $word\"",
    );
    let (mut pty, pts) = pty_process::open().unwrap();
    pty.resize(pty_process::Size::new(33, 101)).unwrap();
    let data = world.path("data").display().to_string();
    let command = pty_process::Command::new(env!("CARGO_BIN_EXE_backstop"))
        .args(["run", "--once", "--name", "agent", "--data-dir", &data, "--"])
        .arg(&script)
        .env("XDG_CONFIG_HOME", world.path("config"));
    let mut child = command.spawn(pts).unwrap();
    let mut shown = String::new();
    let mut chunk = [0; 1024];
    while let Ok(read @ 1..) = pty.read(&mut chunk).await {
        let before = shown.contains("33 101");
        shown.push_str(&String::from_utf8_lossy(&chunk[..read]));
        if !before && shown.contains("33 101") {
            pty.write_all(b"hello\r").await.unwrap();
        }
    }
    assert_eq!(child.wait().await.unwrap().code(), Some(0), "{shown}");
    assert!(shown.contains("all terminals") && shown.contains("got hello"), "{shown}");
}

#[test]
fn one_seat_has_one_supervisor_and_the_list_shows_it() {
    let world = World::new();
    let script = world.script("echo up > up; exec sleep 300");
    let mut first = world.command(&["--name", "agent", "--account", "main"], &script).spawn().unwrap();
    world.until(|| world.path("up").exists() && world.seat("agent")["child"].is_object());
    let second = world.run(&["--once", "--name", "agent"], &script);
    assert_eq!(second.status.code(), Some(1));
    expect![[r#"
        backstop: seat agent is already supervised; choose another --name, or stop the other supervisor
    "#]]
    .assert_eq(&text(&second.stderr));
    let listed = world.backstop(&["run", "--list", "--json"]);
    let line: Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(
        (&line["name"], &line["phase"], &line["account"]),
        (&"agent".into(), &"running".into(), &"main".into())
    );
    terminate(&first);
    first.wait().unwrap();
    let listed = text(&world.backstop(&["run", "--list"]).stdout);
    assert!(listed.contains("agent  stopped"), "{listed}");
}

#[test]
fn a_healthy_run_clears_the_seat_and_takes_the_alert_back() {
    let world = World::new();
    world.alerts_to("alerts");
    let broken = world.script("echo 'nonsense nobody knows' >&2; exit 1");
    world.run(&["--once", "--name", "agent"], &broken);
    assert_eq!(world.lines("alerts"), 1);
    // A person lifts the rest by removing the seat's file.
    fs::remove_file(world.path("data/seats/agent.json")).unwrap();
    let well = world.script("exit 0");
    let ended = world.run(&["--once", "--name", "agent"], &well);
    assert_eq!(ended.status.code(), Some(0));
    let said = fs::read_to_string(world.path("alerts")).unwrap();
    assert_eq!(said, "raised unknown_failures\nrecovered unknown_failures\n");
}

#[test]
fn a_run_that_lasts_counts_as_healthy_so_that_its_later_failure_is_the_first() {
    let world = World::new();
    let script = world.script("sleep 1.5; kill -9 $$");
    for _ in 0..2 {
        let ended = world.run(&["--once", "--name", "agent", "--healthy-after", "1", "--json"], &script);
        assert_eq!(decision(&ended)["class"], "local_fault");
        assert_eq!(decision(&ended)["n"], 1);
        // The rest of five seconds is over before the next try.
        world.until(|| {
            let listed: Value =
                serde_json::from_slice(&world.backstop(&["run", "--list", "--json"]).stdout).unwrap();
            let until: jiff::Timestamp = listed["until"].as_str().unwrap().parse().unwrap();
            until < jiff::Timestamp::now()
        });
    }
}

#[test]
fn policy_always_starts_again_after_a_good_end_and_on_failure_does_not() {
    let world = World::new();
    let script = world.script("echo run >> runs");
    let ended = world.run(&["--name", "agent"], &script);
    assert_eq!((ended.status.code(), world.lines("runs")), (Some(0), 1));
    let mut child = world.command(&["--name", "agent", "--policy", "always"], &script).spawn().unwrap();
    world.until(|| world.lines("runs") == 3);
    terminate(&child);
    assert_eq!(child.wait().unwrap().code(), Some(143));
}

#[test]
fn the_systemd_template_runs_a_seat_and_heeds_its_exit_status() {
    let world = World::new();
    let unit = text(&world.bare().args(["service", "print", "run"]).output().unwrap().stdout);
    assert!(unit.contains("RestartPreventExitStatus=77 78"));
    // What systemd hands to the shell: its own escapes undone, the instance filled in.
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/bin/sh -c '")).unwrap();
    let shell = line.trim_end_matches('\'').replace("$$", "$").replace("%i", "writer");
    let script = world.script("printf '%s|' \"$@\" > said; echo 'Invalid API key provided' >&2; exit 1");
    let status = Command::new("/bin/sh")
        .arg("-c")
        .arg(shell)
        .env("BACKSTOP", env!("CARGO_BIN_EXE_backstop"))
        .env("COMMAND", format!("{} -p \"go on; with 'it'\" last", script.display()))
        .env("FLAGS", format!("--once --data-dir {}", world.path("data").display()))
        .env("WORKDIR", world.folder.path())
        .env("XDG_CONFIG_HOME", world.path("config"))
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(77));
    assert_eq!(fs::read_to_string(world.path("said")).unwrap(), "-p|go on; with 'it'|last|");
    assert_eq!(world.seat("writer")["n"], 1);
}

#[test]
fn a_window_is_told_with_every_step_and_the_configuration_comes_first() {
    let world = World::new();
    fs::write(
        world.path("backstop.toml"),
        "[[provider]]\nid = \"mine\"\npreset = \"zai\"\ncontext = { \"glm-4.7\" = 90000 }\n\n[[provider.key]]\nvalue = \"k\"\n",
    )
    .unwrap();
    let config = world.path("backstop.toml").display().to_string();
    let context = |arguments: &[&str]| {
        let arguments = [&["context", "--offline", "--config", &config], arguments].concat();
        let ended = world.backstop(&arguments);
        text(&ended.stdout) + &text(&ended.stderr)
    };
    expect![[r#"
        90000 tokens (override)
        200000 tokens, at most 131072 of them out (directory)
        200000 tokens, at most 131072 of them out (directory)
        32768 tokens (name)
        backstop: neither the configuration nor the presets have a provider "nobody"
        step            context    output     age_s   limit_s  detail
        override              -         -         -         -  none set
        cache                 -         -         -         -  nothing remembered
        endpoint              -         -         -         3  not asked
        local_server          -         -         -         2  not asked
        provider_api          -         -         -         5  not asked
        public_list           -         -         -         5  not asked
        name                  -         -         -         -  no size in the name
        directory        200000    131072         -         -  row zai/glm-4.6, another source says 204800  <-- used
        default          128000         -         -         -  the setting default_context
    "#]].assert_eq(
        &[
            context(&["mine/glm-4.7"]),
            context(&["glm-4.6", "--provider", "mine"]),
            context(&["zai/glm-4.6"]),
            context(&["nobody/some-model-32k"]),
            context(&["glm-4.6", "--provider", "nobody"]),
            context(&["glm-4.6", "--provider", "mine", "--explain"]),
        ]
        .concat(),
    );
}

#[test]
fn alerts_are_listed_tested_and_acknowledged() {
    let world = World::new();
    world.alerts_to("alerts");
    let script = world.script("echo 'Invalid API key provided' >&2; exit 1");
    world.run(&["--once", "--name", "agent"], &script);
    let listed = text(&world.backstop(&["alerts", "list"]).stdout);
    assert!(listed.starts_with("critical  key_disabled/seat/agent  since "), "{listed}");
    let seen = world.backstop(&["alerts", "ack", "key_disabled/seat/agent"]);
    expect![[r#"
        key_disabled/seat/agent: no more reminders until it is over
    "#]]
    .assert_eq(&text(&seen.stdout));
    let tested = world.backstop(&[
        "alerts",
        "test",
        "note",
        "--config",
        &world.path("backstop.toml").display().to_string(),
    ]);
    expect![[r#"
        note: delivered: exit status: 0
    "#]]
    .assert_eq(&text(&tested.stdout));
    let unknown = world.backstop(&[
        "alerts",
        "test",
        "pager",
        "--config",
        &world.path("backstop.toml").display().to_string(),
    ]);
    expect![[r#"
        backstop: no such channel; the configuration has: note
    "#]]
    .assert_eq(&text(&unknown.stderr));
}

/// A folder with scripts, data and configuration of its own.
struct World {
    folder: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes an executable script that works in the folder.
    fn script(&self, body: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.path(&format!("script-{:08x}.sh", backstop_triage::respawn::fnv1a(body.as_bytes())));
        fs::write(&path, format!("#!/bin/sh\ncd {}\n{body}\n", self.folder.path().display())).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// A channel that writes one line an alert.
    fn alerts_to(&self, file: &str) {
        let program = self.script(&format!("echo $BACKSTOP_ALERT_KIND $BACKSTOP_ALERT_CONDITION >> {file}"));
        let table = format!(
            "[[alert]]\nchannel = \"command\"\nname = \"note\"\ncommand = [\"{}\"]\n",
            program.display()
        );
        fs::write(self.path("backstop.toml"), table).unwrap();
    }

    fn command(&self, arguments: &[&str], program: &Path) -> Command {
        let mut command = self.bare();
        command.arg("run").args(arguments).arg("--data-dir").arg(self.path("data"));
        if self.path("backstop.toml").exists() {
            command.arg("--config").arg(self.path("backstop.toml"));
        }
        command.arg("--").arg(program).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str], program: &Path) -> Output {
        self.command(arguments, program).stdout(Stdio::piped()).stderr(Stdio::piped()).output().unwrap()
    }

    fn backstop(&self, arguments: &[&str]) -> Output {
        self.bare().args(arguments).arg("--data-dir").arg(self.path("data")).output().unwrap()
    }

    fn bare(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_backstop"));
        command.env("XDG_CONFIG_HOME", self.path("config")).env("HOME", self.folder.path());
        command
    }

    fn lines(&self, file: &str) -> usize {
        fs::read_to_string(self.path(file)).map_or(0, |text| text.lines().count())
    }

    fn seat(&self, name: &str) -> Value {
        let text = fs::read(self.path(&format!("data/seats/{name}.json"))).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// Whether the process whose id is the last line of a file has ended.
    fn gone(&self, file: &str) -> bool {
        let text = fs::read_to_string(self.path(file)).unwrap();
        !alive(text.lines().last().unwrap())
    }

    fn until(&self, mut reached: impl FnMut() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !reached() {
            assert!(Instant::now() < deadline, "never reached");
            let _ = Command::new("sleep").arg("0.02").status();
        }
    }
}

/// Whether a process runs; one that nobody has collected yet does not.
fn alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

fn terminate(child: &Child) {
    let status = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(status.success());
}

fn peak_memory_kib(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.trim().trim_end_matches(" kB").parse().ok()
}

fn decision(ended: &Output) -> Value {
    let lines = text(&ended.stderr);
    let line = lines
        .lines()
        .find(|line| line.starts_with("{\"circuit\""))
        .unwrap_or_else(|| panic!("no decision: {lines}"));
    serde_json::from_str(line).unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
