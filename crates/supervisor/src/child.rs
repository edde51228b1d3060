//! One run of a process: started in a group of its own, its output passed through and its end kept, its
//! whole group gone when the run is over.
//!
//! A process that exits may leave others behind that hold its output open; they are given a moment, then the
//! group is asked to end and at last killed. The group's number stays ours meanwhile, because the process
//! itself is only collected after the group has been told.

use std::{
    ffi::OsString,
    io::{self, IsTerminal as _},
    os::unix::process::ExitStatusExt as _,
    process::Stdio,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    process::Child,
    sync::oneshot,
    task::JoinHandle,
    time::{Instant, sleep_until, timeout},
};

use crate::{
    signals::{Signals, ends},
    tail::Tail,
    terminal::{self, Keyboard, RawMode},
};

/// What to run, and for how long.
#[derive(Clone, Debug)]
pub struct Program {
    /// The program.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// After this long it is stopped.
    pub time_limit: Option<Duration>,
    /// How long it may take to end after it was asked to.
    pub grace: Duration,
    /// Whether it may get a pseudo-terminal.
    pub terminal: Terminal,
}

/// Whether the child gets a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Terminal {
    /// As we have one: each of its streams is a terminal if ours is.
    AsOurs,
    /// Never; pipes only.
    Never,
}

/// How a run ended.
#[derive(Clone, Debug, Default)]
pub struct Ended {
    /// The exit code, if it exited by itself.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Why we stopped it, if we did.
    pub stopped: Option<Stopped>,
    /// The end of its stdout (of all output on a terminal).
    pub stdout: String,
    /// The end of its stderr.
    pub stderr: String,
    /// How long it ran.
    pub lasted: Duration,
}

/// Why we stopped a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// It ran longer than its time limit.
    TimeLimit,
    /// We were asked to end, by this signal.
    Asked(i32),
}

/// A process that runs.
pub(crate) struct Run {
    child: Child,
    group: Pid,
    exited: oneshot::Receiver<()>,
    pumps: Vec<JoinHandle<()>>,
    stdout: Arc<Mutex<Tail>>,
    stderr: Arc<Mutex<Tail>>,
    keys_to: Option<pty_process::OwnedWritePty>,
    raw: Option<RawMode>,
    started: Instant,
}

impl Run {
    /// Starts the program.
    pub(crate) fn start(program: &Program) -> io::Result<Self> {
        let on_terminal = program.terminal == Terminal::AsOurs;
        let person = on_terminal && (io::stdin().is_terminal() || io::stdout().is_terminal());
        let stdout = Arc::new(Mutex::new(Tail::default()));
        let stderr = Arc::new(Mutex::new(Tail::default()));
        let mut pumps = Vec::new();
        let mut keys_to = None;
        let mut child = if person {
            let (child, pty) = start_on_pty(program)?;
            let (reader, writer) = pty.into_split();
            pumps.push(pump(reader, tokio::io::stdout(), &stdout));
            keys_to = Some(writer);
            child
        } else {
            start_on_pipes(program)?
        };
        if let Some(pipe) = child.stdout.take() {
            pumps.push(pump(pipe, tokio::io::stdout(), &stdout));
        }
        if let Some(pipe) = child.stderr.take() {
            pumps.push(pump(pipe, tokio::io::stderr(), &stderr));
        }
        let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let group = group.ok_or_else(|| io::Error::other("the process has no id"))?;
        let raw = keys_to.as_ref().and_then(|_| RawMode::enter());
        let exited = watch_exit(group);
        Ok(Self { child, group, exited, pumps, stdout, stderr, keys_to, raw, started: Instant::now() })
    }

    /// The process id.
    pub(crate) fn pid(&self) -> i32 {
        self.group.as_raw_nonzero().get()
    }

    /// Waits for the end, passing on signals and keys; `healthy` is called once when the process has run for
    /// that long.
    pub(crate) async fn wait(
        mut self,
        program: &Program,
        signals: &mut Signals,
        keyboard: &mut Option<Keyboard>,
        (healthy_after, healthy): (Duration, impl FnOnce()),
    ) -> io::Result<Ended> {
        let mut healthy = Some(healthy);
        let mut stopped = None;
        let mut interrupted = false;
        let mut kill_at: Option<Instant> = None;
        let limit_at = program.time_limit.map(|limit| self.started + limit);
        loop {
            tokio::select! {
                _ = &mut self.exited => break,
                signal = signals.next() => {
                    self.pass_on(signal);
                    let insisted = signal == Signal::INT && std::mem::replace(&mut interrupted, true);
                    if ends(signal) || insisted {
                        stopped.get_or_insert(Stopped::Asked(signal.as_raw()));
                        kill_at.get_or_insert_with(|| Instant::now() + program.grace);
                    }
                }
                keys = keys(keyboard), if self.keys_to.is_some() => self.write_keys(&keys).await,
                () = at(limit_at), if stopped.is_none() => {
                    stopped = Some(Stopped::TimeLimit);
                    kill_at = Some(Instant::now() + program.grace);
                    self.tell_group(Signal::TERM);
                }
                () = at(kill_at) => {
                    self.tell_group(Signal::KILL);
                    kill_at = None;
                }
                () = sleep_until(self.started + healthy_after), if healthy.is_some() => {
                    if let Some(healthy) = healthy.take() {
                        healthy();
                    }
                }
            }
        }
        if interrupted && stopped.is_none() {
            stopped = Some(Stopped::Asked(Signal::INT.as_raw()));
        }
        self.finish(stopped, program.grace).await
    }

    async fn finish(mut self, stopped: Option<Stopped>, grace: Duration) -> io::Result<Ended> {
        let lasted = self.started.elapsed();
        let drained = self.drain(DRAIN).await;
        // The exited process is not yet collected, so that no other group can bear its number.
        self.tell_group(Signal::TERM);
        let status = self.child.wait().await?;
        let kill_at = Instant::now() + grace;
        let mut pause = Duration::from_millis(5);
        while rustix::process::test_kill_process_group(self.group).is_ok() {
            if Instant::now() >= kill_at {
                self.tell_group(Signal::KILL);
                break;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(100));
        }
        if !drained {
            self.drain(LAST_DRAIN).await;
        }
        for pump in &self.pumps {
            pump.abort();
        }
        drop(self.raw.take());
        Ok(Ended {
            exit_code: status.code(),
            signal: status.signal(),
            stopped,
            stdout: self.stdout.lock().text(),
            stderr: self.stderr.lock().text(),
            lasted,
        })
    }

    /// Waits until all output has passed; `false` if somebody still holds it open.
    async fn drain(&mut self, at_most: Duration) -> bool {
        let deadline = Instant::now() + at_most;
        for pump in &mut self.pumps {
            if !pump.is_finished() && tokio::time::timeout_at(deadline, pump).await.is_err() {
                return false;
            }
        }
        true
    }

    fn pass_on(&self, signal: Signal) {
        if signal == Signal::WINCH {
            if let (Some(pty), Some((rows, columns))) = (&self.keys_to, terminal::size()) {
                let _ = pty.resize(pty_process::Size::new(rows, columns));
            }
            return;
        }
        self.tell_group(signal);
    }

    /// A group that is already gone needs no telling.
    fn tell_group(&self, signal: Signal) {
        let _ = rustix::process::kill_process_group(self.group, signal);
    }

    /// A child that does not read its keys must not stop us.
    async fn write_keys(&mut self, keys: &[u8]) {
        if let Some(pty) = &mut self.keys_to {
            let _ = timeout(KEY_PATIENCE, pty.write_all(keys)).await;
        }
    }
}

fn start_on_pipes(program: &Program) -> io::Result<Child> {
    // A background group that reads from a terminal is stopped by the kernel: a silent hang.
    let stdin = if io::stdin().is_terminal() { Stdio::null() } else { Stdio::inherit() };
    tokio::process::Command::new(&program.program)
        .args(&program.arguments)
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
}

fn start_on_pty(program: &Program) -> io::Result<(Child, pty_process::Pty)> {
    let (pty, pts) = pty_process::open().map_err(into_io)?;
    if let Some((rows, columns)) = terminal::size() {
        pty.resize(pty_process::Size::new(rows, columns)).map_err(into_io)?;
    }
    let mut command = pty_process::Command::new(&program.program).args(&program.arguments);
    if !io::stdin().is_terminal() {
        command = command.stdin(Stdio::inherit());
    }
    if !io::stdout().is_terminal() {
        command = command.stdout(Stdio::piped());
    }
    if !(io::stdout().is_terminal() && io::stderr().is_terminal()) {
        command = command.stderr(Stdio::piped());
    }
    Ok((command.spawn(pts).map_err(into_io)?, pty))
}

fn into_io(error: pty_process::Error) -> io::Error {
    match error {
        pty_process::Error::Io(error) => error,
        pty_process::Error::Rustix(errno) => errno.into(),
        other => io::Error::other(other),
    }
}

/// Learns of the exit without collecting the process.
fn watch_exit(pid: Pid) -> oneshot::Receiver<()> {
    let (sender, exited) = oneshot::channel();
    std::thread::spawn(move || {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while rustix::process::waitid(WaitId::Pid(pid), options).is_err_and(|error| error == Errno::INTR) {}
        let _ = sender.send(());
    });
    exited
}

/// Passes a stream through unchanged and keeps its end. When our own output is gone, the child's is still
/// read, so that it does not block.
fn pump(
    mut from: impl AsyncRead + Unpin + Send + 'static,
    mut to: impl AsyncWrite + Unpin + Send + 'static,
    tail: &Arc<Mutex<Tail>>,
) -> JoinHandle<()> {
    let tail = Arc::clone(tail);
    tokio::spawn(async move {
        let mut chunk = vec![0; 16 * 1024];
        let mut open = true;
        // A pseudo-terminal whose other side is gone answers with an error: that is its end of file.
        while let Ok(read @ 1..) = from.read(&mut chunk).await {
            tail.lock().push(&chunk[..read]);
            open = open && to.write_all(&chunk[..read]).await.is_ok() && to.flush().await.is_ok();
        }
    })
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

async fn keys(keyboard: &mut Option<Keyboard>) -> Vec<u8> {
    match keyboard {
        Some(keyboard) => keyboard.next().await,
        None => std::future::pending().await,
    }
}

/// How long output may still flow after the process has exited.
const DRAIN: Duration = Duration::from_secs(1);
/// The same, after its whole group is gone.
const LAST_DRAIN: Duration = Duration::from_millis(200);
const KEY_PATIENCE: Duration = Duration::from_secs(1);
