//! When a supervised process starts again.
//!
//! A *seat* is the place that a process holds: its name outlives the process and the supervisor. Each failure
//! of the process is read into a [`Verdict`], and the class decides how long the seat rests. Only a fault that
//! is positively local and transient is tried again at once; whatever nobody recognises rests as long as the
//! worst of the recognised ones, because silence and new wordings are mostly an outage of the provider.
//!
//! ```text
//!            fail: n + 1, rest by class                until is over
//!  healthy ------------------------------> resting ------------------> on trial
//!     ^                                       ^                           |
//!     |        exit 0, or a long run          |          fail             |
//!     +---------------------------------------+---------------------------+
//! ```
//!
//! The state is plain data and is kept on disk by the supervisor, so that a service manager that revives the
//! supervisor finds the same circuit.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{Class, Scope, Timestamp, Verdict, treatment::REST_CEILING};

/// What a seat remembers between runs of its process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Seat {
    /// Failures since the last healthy run.
    #[serde(rename = "n")]
    pub failures: u32,
    /// The latest failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Failure>,
    /// When the process may start again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// How long that rest was meant to be, in seconds: a clock that jumps back cannot make it longer.
    #[serde(default)]
    pub rest_s: u64,
}

impl Seat {
    /// Takes in a failure and says when the process starts again.
    pub fn fail(&mut self, name: &str, verdict: &Verdict, jitter: Jitter, now: Timestamp) -> Decision {
        self.failures = self.failures.saturating_add(1);
        let bare = delay(verdict.class, self.failures, verdict.stated_wait(now));
        let rest = match jitter {
            Jitter::PerSeat => bare + offset(name, bare),
            Jitter::Off => bare,
        };
        self.last = Some(Failure {
            class: verdict.class,
            scope: verdict.scope,
            reason: verdict.reason.as_str().to_owned(),
            rule: verdict.basis.to_string(),
            at: now,
        });
        self.rest(rest, now);
        self.decision(name, now).expect("a seat that has failed has a decision")
    }

    /// Rests the seat for at least this long from `now` on; an earlier, longer rest stays.
    pub fn rest(&mut self, rest: Duration, now: Timestamp) {
        let until = now.saturating_add(rest).unwrap_or(Timestamp::MAX);
        if self.until.is_none_or(|earlier| earlier < until) || self.waits(now).is_none() {
            self.until = Some(until);
            self.rest_s = rest.as_secs().max(1);
        }
    }

    /// Forgets all failures: the process exited with 0 or ran long enough.
    pub fn recover(&mut self) {
        *self = Self::default();
    }

    /// How long the seat still rests; `None` when the process may start.
    pub fn waits(&self, now: Timestamp) -> Option<Duration> {
        let left = Duration::try_from(self.until?.duration_since(now)).ok()?;
        let left = left.min(Duration::from_secs(self.rest_s.saturating_add(1)));
        (!left.is_zero()).then_some(left)
    }

    /// Whether the seat counts as broken.
    pub fn circuit(&self) -> Circuit {
        self.last.as_ref().map_or(Circuit::Closed, |failure| circuit(failure.class, self.failures))
    }

    /// What was decided at the latest failure; `None` for a healthy seat.
    pub fn decision(&self, name: &str, now: Timestamp) -> Option<Decision> {
        let last = self.last.as_ref()?;
        Some(Decision {
            seat: name.to_owned(),
            class: last.class,
            reason: last.reason.clone(),
            rule: last.rule.clone(),
            failures: self.failures,
            delay_s: self.waits(now).map_or(0, |wait| wait.as_secs_f64().round() as u64),
            circuit: self.circuit(),
            until: self.until.unwrap_or(now),
        })
    }
}

/// A failure of a seat, as it is remembered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// What kind of failure it was.
    pub class: Class,
    /// Whom it hit.
    pub scope: Scope,
    /// What exactly happened, in one word.
    pub reason: String,
    /// What the verdict stood on.
    pub rule: String,
    /// When it happened.
    pub at: Timestamp,
}

/// One decision of the schedule; prints as the log line of the supervisor.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Decision {
    /// The seat's name.
    pub seat: String,
    /// The class of the failure.
    pub class: Class,
    /// What exactly happened, in one word.
    pub reason: String,
    /// What the verdict stood on.
    pub rule: String,
    /// Failures since the last healthy run.
    #[serde(rename = "n")]
    pub failures: u32,
    /// The rest in seconds.
    pub delay_s: u64,
    /// Whether the seat counts as broken.
    pub circuit: Circuit,
    /// When the process may start again.
    pub until: Timestamp,
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "seat={} class={} reason={} rule={} n={} delay_s={} circuit={} until={:.0}",
            self.seat,
            self.class,
            self.reason,
            self.rule,
            self.failures,
            self.delay_s,
            self.circuit.as_str(),
            self.until
        )
    }
}

/// Whether a seat counts as broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Circuit {
    /// In order, or a hiccup.
    Closed,
    /// Broken: somebody may want to know.
    Open,
}

impl Circuit {
    /// The public name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
        }
    }
}

/// Whether seats are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jitter {
    /// Each seat adds its own stable offset of up to a fifth.
    PerSeat,
    /// None, for tests.
    Off,
}

/// The schedule: the rest after the n-th failure in a row, without jitter. `stated` is the wait that the
/// failure itself names.
pub fn delay(class: Class, n: u32, stated: Option<Duration>) -> Duration {
    let stated = stated.map(|wait| wait.min(REST_CEILING));
    match class {
        Class::LocalFault if n < LOCAL_CIRCUIT => doubled(BASE, n),
        Class::LocalFault => doubled(LONG_BASE, n - LOCAL_CIRCUIT + 1),
        Class::RateLimit
        | Class::Overloaded
        | Class::ServerError
        | Class::Timeout
        | Class::NetworkError
        | Class::TransientRequest => doubled(LONG_BASE, n).max(stated.unwrap_or_default()),
        Class::QuotaExhausted => stated.map_or(CEILING, |wait| wait.max(LONG_BASE)),
        Class::AuthError
        | Class::BillingExhausted
        | Class::ConfigurationError
        | Class::ModelError
        | Class::RequestError
        | Class::ContextOverflow
        | Class::Unknown => CEILING,
    }
}

/// Whether the n-th failure in a row opens the circuit.
pub fn circuit(class: Class, n: u32) -> Circuit {
    if class == Class::LocalFault && n < LOCAL_CIRCUIT { Circuit::Closed } else { Circuit::Open }
}

/// A seat's own offset on top of a rest: 0 to 20 % by its name, of at most the ceiling, so that a fleet that
/// waits for the same reset does not probe in step and still starts soon after it.
pub fn offset(name: &str, rest: Duration) -> Duration {
    let ten_thousandths = fnv1a(name.as_bytes()) % (OFFSET_STEPS + 1);
    rest.min(CEILING) * ten_thousandths / 10_000
}

/// Whether a failure of one seat rests every seat of the same account: its money or its window is gone.
pub fn rests_account(verdict: &Verdict) -> bool {
    matches!(verdict.class, Class::QuotaExhausted | Class::BillingExhausted)
        && !matches!(verdict.scope, Scope::Request | Scope::Model)
}

/// The exit code that tells a service manager the class, by the names of `sysexits.h`.
pub const fn exit_code(class: Class) -> u8 {
    match class {
        Class::RateLimit
        | Class::QuotaExhausted
        | Class::Overloaded
        | Class::ServerError
        | Class::Timeout
        | Class::NetworkError
        | Class::TransientRequest
        | Class::LocalFault => EX_TEMPFAIL,
        Class::AuthError | Class::BillingExhausted => EX_NOPERM,
        Class::ConfigurationError | Class::ModelError => EX_CONFIG,
        Class::RequestError | Class::ContextOverflow => EX_DATAERR,
        Class::Unknown => EX_UNAVAILABLE,
    }
}

fn doubled(base: Duration, n: u32) -> Duration {
    base.saturating_mul(1 << n.saturating_sub(1).min(10)).min(CEILING)
}

/// 32-bit FNV-1a: stable over versions and machines, which the standard hasher does not promise.
pub fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// The first rest after a local fault, and the pause of `--policy always` after an exit with 0.
pub const BASE: Duration = Duration::from_secs(5);
/// The longest rest without a stated time.
pub const CEILING: Duration = Duration::from_secs(900);
/// A run at least this long counts as healthy.
pub const HEALTHY_AFTER: Duration = Duration::from_secs(60);
/// The first rest after a fault on the provider's side.
const LONG_BASE: Duration = Duration::from_secs(60);
/// Local faults in a row that open the circuit.
const LOCAL_CIRCUIT: u32 = 3;
/// The largest offset of a seat, in ten-thousandths of its rest.
const OFFSET_STEPS: u32 = 2_000;

/// Come back later.
pub const EX_TEMPFAIL: u8 = 75;
/// Credentials or money.
pub const EX_NOPERM: u8 = 77;
/// The set-up or the model.
pub const EX_CONFIG: u8 = 78;
/// The request itself.
pub const EX_DATAERR: u8 = 65;
/// Nobody knows.
pub const EX_UNAVAILABLE: u8 = 69;

#[cfg(test)]
mod tests;
