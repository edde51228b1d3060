//! The loop: rest, start, wait, judge, rest.

use std::time::Duration;

use backstop_triage::{
    Class, Evidence, Timestamp, Verdict,
    respawn::{self, Decision, Jitter},
};
use rustix::process::{Pid, Signal};

use crate::{
    SupervisorError,
    account::{Account, Leave},
    child::{Program, Run, Stopped},
    evidence::{verdict_of_end, verdict_of_spawn_failure},
    seats::{ChildMark, HeldSeat, SeatName, Seats},
    signals::Signals,
    terminal::Keyboard,
};

/// What a supervisor is asked to do.
#[derive(Clone, Debug)]
pub struct Job {
    /// The seat.
    pub name: SeatName,
    /// What runs on it.
    pub program: Program,
    /// The rule pack, for the record.
    pub provider: Option<String>,
    /// The account that it shares.
    pub account: Option<String>,
    /// When to start again.
    pub policy: Policy,
    /// A run at least this long is healthy.
    pub healthy_after: Duration,
    /// Whether seats are spread.
    pub jitter: Jitter,
}

/// When to start again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// After failures only.
    OnFailure,
    /// After an exit with 0 too.
    Always,
    /// Never: one run, or none while the seat rests.
    Once,
}

/// What happens, for the log and the alerts.
#[derive(Clone, Debug)]
pub enum Event {
    /// A process was started.
    Started {
        /// Its id.
        pid: i32,
    },
    /// A process of an earlier supervisor was still there and has been ended.
    EndedOrphan {
        /// Its id.
        pid: i32,
    },
    /// A process failed; this is what follows.
    Failed {
        /// What was decided.
        decision: Decision,
        /// Why.
        verdict: Verdict,
    },
    /// The seat rests from an earlier failure, of its own or of its account.
    Rests {
        /// Until when.
        until: Timestamp,
        /// The account, if it is the account's rest.
        account: Option<String>,
        /// The class of that failure.
        class: Option<Class>,
    },
    /// Another seat of the account tries first.
    OtherTries {
        /// The account.
        account: String,
    },
    /// The process exited with 0 or has run long enough, after failures of its own or of its account.
    Healthy,
}

/// How supervising ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The process is done.
    Done,
    /// `Policy::Once`: it failed, or the seat rests, with this class.
    Failed(Class),
    /// A signal ended us.
    Signal(i32),
}

/// A supervisor at work.
pub struct Watch<'a> {
    job: &'a Job,
    held: HeldSeat,
    account: Option<Account>,
    classify: &'a dyn Fn(&Evidence) -> Verdict,
    observe: &'a mut dyn FnMut(Event),
    clock: fn() -> Timestamp,
}

impl<'a> Watch<'a> {
    /// Takes the seat. `classify` gives the verdict on what a process said; `observe` hears what happens.
    pub fn new(
        seats: &Seats,
        job: &'a Job,
        classify: &'a dyn Fn(&Evidence) -> Verdict,
        observe: &'a mut dyn FnMut(Event),
    ) -> Result<Self, SupervisorError> {
        let mut held = seats.take(&job.name)?;
        held.record.program = job.program.program.to_string_lossy().into_owned();
        held.record.provider.clone_from(&job.provider);
        held.record.account.clone_from(&job.account);
        let account = job.account.as_deref().map(|account| Account::open(seats, account));
        Ok(Self { job, held, account, classify, observe, clock: Timestamp::now })
    }

    /// Supervises until the process is done or a signal comes.
    pub async fn run(mut self, signals: &mut Signals) -> Result<Finish, SupervisorError> {
        self.end_orphan().await?;
        let mut keyboard = None;
        loop {
            if let Some(finish) = self.rest(signals).await? {
                return Ok(finish);
            }
            if keyboard.is_none() && self.job.program.terminal == crate::Terminal::AsOurs {
                keyboard = Keyboard::open();
            }
            if let Some(finish) = self.run_once(signals, &mut keyboard).await? {
                return Ok(finish);
            }
            if self.job.policy == Policy::Always && self.held.record.seat.failures == 0 {
                tokio::select! {
                    signal = signals.end() => return Ok(Finish::Signal(signal.as_raw())),
                    () = tokio::time::sleep(respawn::BASE) => {}
                }
            }
        }
    }

    /// Waits until seat and account allow a start.
    async fn rest(&mut self, signals: &mut Signals) -> Result<Option<Finish>, SupervisorError> {
        let mut told = false;
        loop {
            let now = (self.clock)();
            let Some((wait, class, event)) = self.hindrance(now)? else { return Ok(None) };
            if !std::mem::replace(&mut told, true) {
                (self.observe)(event);
            }
            if self.job.policy == Policy::Once {
                return Ok(Some(Finish::Failed(class)));
            }
            tokio::select! {
                signal = signals.end() => return Ok(Some(Finish::Signal(signal.as_raw()))),
                // The wall clock may be set meanwhile, and the account may recover: look again soon.
                () = tokio::time::sleep(wait.min(LOOK_AGAIN)) => {}
            }
        }
    }

    /// What forbids a start at the moment: how long at least, over what, and what to tell.
    fn hindrance(&mut self, now: Timestamp) -> Result<Option<(Duration, Class, Event)>, SupervisorError> {
        let seat = &self.held.record.seat;
        if let Some(wait) = seat.waits(now) {
            let class = seat.last.as_ref().map(|last| last.class);
            let until = seat.until.unwrap_or(now);
            let event = Event::Rests { until, account: None, class };
            return Ok(Some((wait, class.unwrap_or(Class::Unknown), event)));
        }
        let Some(account) = &mut self.account else { return Ok(None) };
        let leave = account.ask(now)?;
        let class = account.class();
        let name = account.name().to_owned();
        match leave {
            Leave::Granted => Ok(None),
            Leave::Rests(until) => {
                let wait = Duration::try_from(until.duration_since(now)).unwrap_or_default();
                let event = Event::Rests { until, account: Some(name), class };
                Ok(Some((wait, class.unwrap_or(Class::QuotaExhausted), event)))
            }
            Leave::OtherTries => {
                let class = class.unwrap_or(Class::QuotaExhausted);
                Ok(Some((LOOK_AT_OTHERS, class, Event::OtherTries { account: name })))
            }
        }
    }

    async fn run_once(
        &mut self,
        signals: &mut Signals,
        keyboard: &mut Option<Keyboard>,
    ) -> Result<Option<Finish>, SupervisorError> {
        let run = match Run::start(&self.job.program) {
            Ok(run) => run,
            Err(error) => return self.failed(&verdict_of_spawn_failure(&error)),
        };
        let record = &mut self.held.record;
        record.child = ChildMark::of(run.pid());
        record.started = Some((self.clock)());
        record.runs += 1;
        self.held.keep()?;
        (self.observe)(Event::Started { pid: run.pid() });

        let job = self.job;
        let mut trouble = Ok(());
        let ended = {
            let mut healthy = || trouble = self.recover();
            run.wait(&job.program, signals, keyboard, (job.healthy_after, &mut healthy)).await
        };
        trouble?;
        self.held.record.child = None;
        let ended = match ended {
            Ok(ended) => ended,
            Err(error) => return self.failed(&verdict_of_spawn_failure(&error)),
        };
        match ended.stopped {
            Some(Stopped::Asked(signal)) => {
                self.held.keep()?;
                return Ok(Some(Finish::Signal(signal)));
            }
            Some(Stopped::TimeLimit) | None => {}
        }
        if ended.exit_code == Some(0) && ended.stopped.is_none() {
            self.recover()?;
            return Ok((self.job.policy != Policy::Always).then_some(Finish::Done));
        }
        self.failed(&verdict_of_end(&ended, self.classify))
    }

    /// Takes in a failure: on disk before anything else.
    fn failed(&mut self, verdict: &Verdict) -> Result<Option<Finish>, SupervisorError> {
        let now = (self.clock)();
        let record = &mut self.held.record;
        record.child = None;
        let decision = record.seat.fail(self.job.name.as_str(), verdict, self.job.jitter, now);
        record.remember(&decision, now);
        self.held.keep()?;
        if let Some(account) = &mut self.account {
            if respawn::rests_account(verdict) {
                account.fail(&decision, verdict.scope, now)?;
            } else {
                account.step_back();
            }
        }
        (self.observe)(Event::Failed { decision, verdict: verdict.clone() });
        Ok((self.job.policy == Policy::Once).then_some(Finish::Failed(verdict.class)))
    }

    fn recover(&mut self) -> Result<(), SupervisorError> {
        let had_failed = self.held.record.seat.failures > 0;
        self.held.record.seat.recover();
        self.held.keep()?;
        let lifted = self.account.as_mut().map_or(Ok(false), Account::recover)?;
        if had_failed || lifted {
            (self.observe)(Event::Healthy);
        }
        Ok(())
    }

    /// A supervisor that was killed left its process behind: two of them on one seat would be wrong.
    async fn end_orphan(&mut self) -> Result<(), SupervisorError> {
        let Some(mark) = self.held.record.child.take() else { return Ok(()) };
        let Some(group) = Pid::from_raw(mark.pid).filter(|_| mark.lives()) else { return Ok(()) };
        (self.observe)(Event::EndedOrphan { pid: mark.pid });
        let _ = rustix::process::kill_process_group(group, Signal::TERM);
        let patience = tokio::time::Instant::now() + self.job.program.grace;
        while mark.lives() && tokio::time::Instant::now() < patience {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        if mark.lives() {
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
        self.held.keep()
    }
}

/// How often a resting seat looks at clock and account.
const LOOK_AGAIN: Duration = Duration::from_secs(15);
/// How often it looks whether another seat's try has ended.
const LOOK_AT_OTHERS: Duration = Duration::from_secs(1);
