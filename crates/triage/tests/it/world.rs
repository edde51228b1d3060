//! A small world for cascades: a virtual clock, a pool, and an upstream that answers by script.

use std::{fmt::Write as _, sync::Arc, time::Duration};

use backstop_triage::{
    AccountId, Basis, Class, HealSource, Heals, KeyId, ModelId, ProviderId, RuleId, Scope, Settings,
    SignedDuration, Timestamp, Verdict, Window,
    cascade::{Action, Attempt, Call, Cascade, End, Leg, Limits, Outcome, Progress, Tried, TriedResult},
    pool::{KeySpec, Pool, Probes, ProviderSpec},
};

pub(crate) const START: Timestamp = Timestamp::constant(1_800_000_000, 0);

/// What the upstream does with one attempt.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    Answer,
    Fail { verdict: Verdict, progress: Progress, status: Option<u16>, took: Duration },
    Leave,
}

impl Reply {
    pub(crate) fn progress(mut self, to: Progress) -> Self {
        if let Self::Fail { progress, .. } = &mut self {
            *progress = to;
        }
        self
    }

    pub(crate) fn status(mut self, to: u16) -> Self {
        if let Self::Fail { status, .. } = &mut self {
            *status = Some(to);
        }
        self
    }

    pub(crate) fn took(mut self, seconds: u64) -> Self {
        if let Self::Fail { took, .. } = &mut self {
            *took = Duration::from_secs(seconds);
        }
        self
    }

    fn verdict(&mut self, change: impl FnOnce(&mut Verdict)) {
        if let Self::Fail { verdict, .. } = self {
            change(verdict);
        }
    }

    /// The failure states a machine-readable wait.
    pub(crate) fn stated(mut self, seconds: u64) -> Self {
        self.verdict(|verdict| {
            verdict.heals = Some(Heals {
                after: Some(Duration::from_secs(seconds)),
                at: None,
                trusted: true,
                source: HealSource::Header,
            });
        });
        self
    }

    /// The failure states a wait in prose.
    pub(crate) fn said(mut self, seconds: u64) -> Self {
        self = self.stated(seconds);
        self.verdict(|verdict| {
            let heals = verdict.heals.as_mut().expect("just stated");
            heals.trusted = false;
            heals.source = HealSource::Text;
        });
        self
    }

    pub(crate) fn window(mut self, window: Window) -> Self {
        self.verdict(|verdict| verdict.window = Some(window));
        self
    }

    /// The failure proves that the key is gone for good.
    pub(crate) fn proven(mut self) -> Self {
        self.verdict(|verdict| verdict.disable_key = true);
        self
    }

    pub(crate) fn reason(mut self, word: &str) -> Self {
        self.verdict(|verdict| verdict.reason = word.into());
        self
    }

    /// Nothing but the status says what it is.
    pub(crate) fn by_status(mut self) -> Self {
        self.verdict(|verdict| verdict.basis = Basis::Status);
        self
    }
}

/// A complete error answer of a class and scope, with the class's usual status.
pub(crate) fn fail(class: Class, scope: Scope) -> Reply {
    let status = match class {
        Class::RequestError | Class::ContextOverflow | Class::TransientRequest => Some(400),
        Class::ModelError => Some(404),
        Class::AuthError => Some(401),
        Class::BillingExhausted => Some(402),
        Class::QuotaExhausted | Class::RateLimit => Some(429),
        Class::Overloaded => Some(529),
        Class::ServerError => Some(500),
        Class::Timeout | Class::NetworkError => None,
        Class::ConfigurationError => Some(403),
        Class::LocalFault => None,
        Class::Unknown => Some(418),
    };
    let progress = match class {
        Class::Timeout => Progress::MaybeAccepted,
        Class::NetworkError => Progress::NotSent,
        _ => Progress::Rejected,
    };
    let basis = if class == Class::Unknown { Basis::Nothing } else { Basis::Rule(RuleId::from("test/rule")) };
    let verdict = Verdict::new(class, scope, class.as_str(), basis);
    Reply::Fail { verdict, progress, status, took: Duration::ZERO }
}

pub(crate) struct World {
    pub(crate) pool: Pool,
    pub(crate) now: Timestamp,
    requests: u64,
    pub(crate) log: Vec<(Timestamp, Attempt)>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self { pool: Pool::new(1), now: START, requests: 0, log: Vec::new() }
    }

    /// A world with one provider `p` of keys 1 to `keys`.
    pub(crate) fn with_keys(keys: u64) -> Self {
        Self::with(keys, Settings::default())
    }

    pub(crate) fn with(keys: u64, settings: Settings) -> Self {
        let mut world = Self::new();
        world.provider("p", 1..=keys, settings);
        world
    }

    pub(crate) fn provider(&mut self, id: &str, keys: impl IntoIterator<Item = u64>, settings: Settings) {
        let keys = keys.into_iter().map(|id| key_spec(id, None)).collect();
        self.configure(id, keys, settings, Probes::default());
    }

    pub(crate) fn configure(&mut self, id: &str, keys: Vec<KeySpec>, settings: Settings, probes: Probes) {
        let spec = ProviderSpec {
            id: ProviderId::from(id),
            keys,
            settings: Arc::new(settings),
            probes,
            answer_timeout: None,
        };
        self.pool.set_provider(spec, self.now);
    }

    pub(crate) fn pass(&mut self, seconds: u64) {
        self.now = later(self.now, seconds);
    }

    pub(crate) fn limits(&self) -> Limits {
        Limits::streaming(later(self.now, 600))
    }

    /// A request to model `m` of provider `p`.
    pub(crate) fn ask(&mut self, upstream: impl FnMut(&Attempt) -> Reply) -> String {
        let limits = self.limits();
        self.ask_legs(vec![leg("p", &["m"])], limits, upstream)
    }

    pub(crate) fn stateful(&mut self, upstream: impl FnMut(&Attempt) -> Reply) -> String {
        let limits = Limits { call: Call::Stateful, ..self.limits() };
        self.ask_legs(vec![leg("p", &["m"])], limits, upstream)
    }

    /// Drives a request to its end on the virtual clock and writes its trail down.
    pub(crate) fn ask_legs(
        &mut self,
        legs: Vec<Leg>,
        limits: Limits,
        mut upstream: impl FnMut(&Attempt) -> Reply,
    ) -> String {
        let mut cascade = self.request(legs, limits);
        let began = self.now;
        let end = loop {
            match cascade.next(&mut self.pool, self.now) {
                Action::Attempt(attempt) => {
                    self.log.push((self.now, attempt.clone()));
                    let outcome = match upstream(&attempt) {
                        Reply::Answer => Outcome::Completed,
                        Reply::Leave => Outcome::Abandoned,
                        Reply::Fail { verdict, progress, status, took } => {
                            self.now = later_by(self.now, took);
                            Outcome::Failed { verdict, progress, status }
                        }
                    };
                    cascade.report(outcome, &mut self.pool, self.now);
                }
                Action::Wait { until, .. } => self.now = until.max(self.now),
                Action::Finish(end) => break end,
            }
        };
        render(cascade.trail(), &end, began, self.now)
    }

    pub(crate) fn request(&mut self, legs: Vec<Leg>, limits: Limits) -> Cascade {
        self.requests += 1;
        Cascade::new(legs, limits, self.requests)
    }

    /// Every key of provider `p` on a line: state, until when, why and by which source.
    pub(crate) fn keys(&self) -> String {
        self.keys_of("p")
    }

    pub(crate) fn keys_of(&self, provider: &str) -> String {
        let mut text = String::new();
        for key in self.pool.snapshot(&ProviderId::from(provider), self.now) {
            let _ = write!(text, "{} {}", key.id, key.state);
            if let Some(until) = key.until {
                let _ = write!(text, " for {}", span(self.now, until));
            }
            if let Some(why) = key.why {
                let _ = write!(text, " ({}, {})", why.class, source(why.source));
            }
            for rest in key.models {
                let until = rest.until.map_or_else(|| "being tried".into(), |until| span(self.now, until));
                let _ = write!(text, "; not {} for {until}", rest.model);
            }
            text.push('\n');
        }
        text
    }

    pub(crate) fn calls(&self) -> usize {
        self.log.len()
    }
}

pub(crate) fn key_spec(id: u64, account: Option<&str>) -> KeySpec {
    KeySpec { id: KeyId(id), label: format!("key {id}"), account: account.map(AccountId::from) }
}

pub(crate) fn leg(provider: &str, models: &[&str]) -> Leg {
    Leg {
        provider: ProviderId::from(provider),
        models: models.iter().map(|model| ModelId::from(*model)).collect(),
        context_too_small: false,
    }
}

pub(crate) fn later(now: Timestamp, seconds: u64) -> Timestamp {
    later_by(now, Duration::from_secs(seconds))
}

pub(crate) fn later_by(now: Timestamp, wait: Duration) -> Timestamp {
    now + SignedDuration::try_from(wait).expect("a short wait")
}

fn render(trail: &[Tried], end: &End, began: Timestamp, now: Timestamp) -> String {
    let mut text = String::new();
    for tried in trail {
        let result = match &tried.result {
            TriedResult::Pending => "pending".to_owned(),
            TriedResult::Answered => "answered".to_owned(),
            TriedResult::Abandoned => "abandoned".to_owned(),
            TriedResult::Failed { verdict, .. } => verdict.class.to_string(),
        };
        let _ = writeln!(
            text,
            "{:>6} {} {}/{} {}: {result}",
            span(began, tried.began),
            tried.provider,
            tried.key,
            tried.model,
            tried.step.as_str(),
        );
    }
    let _ = match end {
        End::Answered => writeln!(text, "answered"),
        End::Return => writeln!(text, "the upstream's answer goes back"),
        End::Abandoned => writeln!(text, "abandoned"),
        End::Error(error) => {
            let retry = if error.should_retry { "retry" } else { "no retry" };
            let at = error.retry_at.map(|at| format!(" after {}", span(now, at))).unwrap_or_default();
            writeln!(text, "{:?} ({}), {retry}{at}", error.kind, error.class)
        }
    };
    text
}

/// A span of time in the largest unit that does it justice.
pub(crate) fn span(from: Timestamp, to: Timestamp) -> String {
    let seconds = to.duration_since(from).as_secs_f64();
    match seconds {
        s if s < 100.0 => format!("{s:.1}s"),
        s if s < 7200.0 => format!("{:.1}min", s / 60.0),
        s if s < 172_800.0 => format!("{:.1}h", s / 3600.0),
        s => format!("{:.1}d", s / 86_400.0),
    }
}

fn source(source: backstop_triage::pool::RestSource) -> String {
    format!("{source:?}").to_lowercase()
}
