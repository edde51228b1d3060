//! What the world is like, and what a call would meet in it.

use std::time::Duration;

use backstop_triage::{
    Basis, Class, HealSource, Heals, RuleId, Scope, SignedDuration, Timestamp, Verdict, Window,
    cascade::Progress, ladder::Chance,
};

pub(crate) const START: Timestamp = Timestamp::constant(1_800_000_000, 0);
const HOUR: u64 = 3600;

/// A world to be.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) keys: u64,
    pub(crate) rate: f64,
    pub(crate) seconds: u64,
    pub(crate) seed: u64,
    /// Nothing works at all.
    pub(crate) outage: Option<Outage>,
}

impl Scenario {
    pub(crate) fn new(keys: u64, rate: f64, hours: u64, seed: u64) -> Self {
        Self { keys, rate, seconds: hours * HOUR, seed, outage: None }
    }

    /// Nothing works for `minutes`.
    pub(crate) fn outage(outage: Outage, keys: u64, rate: f64, minutes: u64) -> Self {
        Self { keys, rate, seconds: minutes * 60, seed: 1, outage: Some(outage) }
    }

    pub(crate) fn end(&self) -> Timestamp {
        at(START, self.seconds)
    }
}

/// The ways in which nothing works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outage {
    Refused,
    Fault,
    Overloaded,
    ModelOverloaded,
    Silence,
    BareRefusal,
    Unknown,
    UnknownRedirect,
}

impl Outage {
    pub(crate) const ALL: [Self; 8] = [
        Self::Refused,
        Self::Fault,
        Self::Overloaded,
        Self::ModelOverloaded,
        Self::Silence,
        Self::BareRefusal,
        Self::Unknown,
        Self::UnknownRedirect,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Refused => "connection refused",
            Self::Fault => "500",
            Self::Overloaded => "503, the provider",
            Self::ModelOverloaded => "529, the model",
            Self::Silence => "no answer in 120 s",
            Self::BareRefusal => "401 without a reason, every key",
            Self::Unknown => "a 4xx nobody knows",
            Self::UnknownRedirect => "a 302 nobody knows",
        }
    }

    fn bad(self) -> Bad {
        let bad = |class, scope, status| Bad::new(Resource::Provider, class, scope).status(status);
        match self {
            Self::Refused => bad(Class::NetworkError, Scope::Network, None).progress(Progress::NotSent),
            Self::Fault => bad(Class::ServerError, Scope::Provider, Some(500)),
            Self::Overloaded => bad(Class::Overloaded, Scope::Provider, Some(503)),
            Self::ModelOverloaded => bad(Class::Overloaded, Scope::Model, Some(529)),
            Self::Silence => {
                bad(Class::Timeout, Scope::Provider, None).takes(120).progress(Progress::MaybeAccepted)
            }
            Self::BareRefusal => bad(Class::AuthError, Scope::Key, Some(401)),
            Self::Unknown => bad(Class::Unknown, Scope::Request, Some(418)),
            Self::UnknownRedirect => bad(Class::Unknown, Scope::Request, Some(302)),
        }
    }
}

/// Whose episode it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Resource {
    Request,
    Key(u64),
    Model(usize),
    Provider,
}

/// What a call meets in an episode.
#[derive(Clone, Debug)]
pub(crate) struct Bad {
    pub(crate) resource: Resource,
    pub(crate) class: Class,
    scope: Scope,
    pub(crate) status: Option<u16>,
    pub(crate) progress: Progress,
    /// When it is over; `None`: never.
    pub(crate) end: Option<Timestamp>,
    /// Whether the failure says so: its end, or that it has none.
    pub(crate) stated: bool,
    window: Option<Window>,
    pub(crate) takes: Duration,
}

impl Bad {
    fn new(resource: Resource, class: Class, scope: Scope) -> Self {
        Self {
            resource,
            class,
            scope,
            status: None,
            progress: Progress::Rejected,
            end: None,
            stated: false,
            window: None,
            takes: Duration::from_millis(150),
        }
    }

    fn status(self, status: Option<u16>) -> Self {
        Self { status, ..self }
    }

    fn progress(self, progress: Progress) -> Self {
        Self { progress, ..self }
    }

    fn takes(self, seconds: u64) -> Self {
        Self { takes: Duration::from_secs(seconds), ..self }
    }

    fn until(self, end: Timestamp, stated: bool) -> Self {
        Self { end: Some(end), stated, ..self }
    }

    /// What the engine would say of it at `now`.
    pub(crate) fn verdict(&self, now: Timestamp) -> Verdict {
        let basis = if self.class == Class::Unknown {
            Basis::Nothing
        } else {
            Basis::Rule(RuleId::from("world/rule"))
        };
        let mut verdict = Verdict::new(self.class, self.scope, self.class.as_str(), basis);
        verdict.window = self.window;
        verdict.disable_key = self.stated && self.end.is_none();
        if let (Some(end), true) = (self.end, self.stated) {
            let after = Duration::try_from(end.duration_since(now)).unwrap_or(Duration::ZERO);
            // Providers round up to whole seconds.
            let after = Duration::from_secs(after.as_secs() + 1);
            verdict.heals =
                Some(Heals { after: Some(after), at: None, trusted: true, source: HealSource::Header });
        }
        verdict
    }
}

/// The world as it is.
#[derive(Debug)]
pub(crate) struct Truth {
    scenario: Scenario,
    chance: Chance,
    keys: Vec<Key>,
    outages: Vec<(Timestamp, Timestamp, Bad)>,
    bursts: Vec<(Timestamp, Timestamp)>,
    retired_at: Timestamp,
}

#[derive(Debug)]
struct Key {
    lost_at: Option<(Timestamp, Class)>,
    spell: Option<(Timestamp, Timestamp)>,
    phase: u64,
    per_window: u64,
    window: (u64, u64),
    per_minute: u64,
    minute: (u64, u64),
    states_times: bool,
    refuses_with_403: bool,
}

impl Truth {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let chance = Chance::new(scenario.seed);
        let seconds = scenario.seconds;
        let moment = |about: u64| at(START, (chance.about(about).fraction() * seconds as f64) as u64);
        let days = seconds as f64 / 86_400.0;
        let outages = (0..(0.5 * days).round() as u64)
            .map(|n| {
                let begins = moment(1000 + n);
                let lasts = 60 + (chance.about(2000 + n).fraction() * 240.0) as u64;
                let bad = match n % 3 {
                    0 => Outage::Fault.bad(),
                    1 => Outage::Refused.bad(),
                    _ => Outage::Silence.bad().takes(10),
                };
                (begins, at(begins, lasts), bad.until(at(begins, lasts), false))
            })
            .collect();
        let bursts = (0..(6.0 * days).ceil() as u64)
            .map(|n| {
                let begins = moment(3000 + n);
                (begins, at(begins, 10 + (chance.about(4000 + n).fraction() * 20.0) as u64))
            })
            .collect();
        let retired_at = at(START, seconds * 6 / 10);
        let keys = (0..scenario.keys).map(|id| Key::new(id, scenario, chance.about(10_000 + id))).collect();
        Self { scenario: scenario.clone(), chance, keys, outages, bursts, retired_at }
    }

    /// What a call would meet; `None`: it would be answered.
    pub(crate) fn meets(&self, request: u64, key: u64, model: usize, now: Timestamp) -> Option<Bad> {
        if let Some(outage) = self.scenario.outage {
            return Some(outage.bad());
        }
        if let Some((_, _, bad)) = self.outages.iter().find(|(begins, ends, _)| *begins <= now && now < *ends)
        {
            return Some(bad.clone());
        }
        self.keys[key as usize]
            .meets(key, now)
            .or_else(|| self.model_meets(model, now))
            .or_else(|| self.request_meets(request, key))
    }

    /// Answers a call and counts it against the key's limits.
    pub(crate) fn call(
        &mut self,
        request: u64,
        key: u64,
        model: usize,
        now: Timestamp,
    ) -> Result<Duration, Bad> {
        if let Some(bad) = self.meets(request, key, model, now) {
            return Err(bad);
        }
        self.keys[key as usize].count(now);
        Ok(Duration::from_millis(800 + (self.chance.about(request).about(7).fraction() * 1200.0) as u64))
    }

    /// Whether the request itself is wrong, so that nobody can answer it.
    pub(crate) fn is_wrong(&self, request: u64) -> bool {
        self.chance.about(request).about(1).fraction() < 0.005
    }

    fn model_meets(&self, model: usize, now: Timestamp) -> Option<Bad> {
        if model > 0 {
            return None;
        }
        if now >= self.retired_at {
            return Some(Bad::new(Resource::Model(0), Class::ModelError, Scope::Model).status(Some(404)));
        }
        self.bursts.iter().find(|(begins, ends)| *begins <= now && now < *ends)?;
        let second = now.as_second();
        let overloaded = self.chance.about(second.unsigned_abs()).about(5).fraction() < 0.6;
        let ends = Timestamp::new(second + 1, 0).unwrap_or(now);
        overloaded.then(|| {
            Bad::new(Resource::Model(0), Class::Overloaded, Scope::Model).status(Some(529)).until(ends, false)
        })
    }

    fn request_meets(&self, request: u64, key: u64) -> Option<Bad> {
        if self.is_wrong(request) {
            return Some(Bad::new(Resource::Request, Class::RequestError, Scope::Request).status(Some(400)));
        }
        let odd = self.chance.about(request).about(key).about(2).fraction();
        let bad = Bad::new(Resource::Request, Class::Unknown, Scope::Request);
        match odd {
            odd if odd < 0.000_02 => Some(bad.status(Some(418))),
            odd if odd < 0.000_022 => Some(bad.status(Some(302))),
            _ => None,
        }
    }
}

impl Key {
    fn new(id: u64, scenario: &Scenario, chance: Chance) -> Self {
        let throw = |about: u64| chance.about(about).fraction();
        let seconds = scenario.seconds as f64;
        let moment = |about: u64| at(START, (throw(about) * seconds) as u64);
        // A single key that dies would only show that everything is lost from then on, for the oracle too.
        let mortal = scenario.keys > 1 && id > 0;
        let lost_at = match throw(1) {
            fate if mortal && fate < 0.03 => Some((moment(2), Class::AuthError)),
            fate if mortal && fate < 0.06 => Some((moment(2), Class::BillingExhausted)),
            _ => None,
        };
        let spell = (mortal && throw(3) < 0.05).then(|| {
            let begins = moment(4);
            (begins, at(begins, 300 + (throw(5) * 3000.0) as u64))
        });
        let share = scenario.rate / scenario.keys as f64;
        Self {
            lost_at,
            spell,
            phase: (throw(6) * (5 * HOUR) as f64) as u64,
            per_window: ((share * (5 * HOUR) as f64) * (1.5 + throw(7))) as u64 + 1,
            window: (0, 0),
            per_minute: ((share * 60.0 * (2.5 + 3.0 * throw(8))) as u64).max(60),
            minute: (0, 0),
            states_times: throw(9) < 0.8,
            refuses_with_403: throw(10) < 0.1,
        }
    }

    fn meets(&self, id: u64, now: Timestamp) -> Option<Bad> {
        let bad = |class, status| Bad::new(Resource::Key(id), class, Scope::Key).status(Some(status));
        if let Some((_, class)) = self.lost_at.filter(|(since, _)| *since <= now) {
            let status = if class == Class::AuthError { 401 } else { 402 };
            return Some(Bad { stated: true, ..bad(class, status) });
        }
        if let Some((_, ends)) = self.spell.filter(|(begins, ends)| *begins <= now && now < *ends) {
            return Some(bad(Class::ServerError, 500).until(ends, false));
        }
        let (window, ends) = self.window_of(now);
        if self.window.0 == window && self.window.1 >= self.per_window {
            let status = if self.refuses_with_403 { 403 } else { 429 };
            let bad = Bad { window: Some(Window::FiveHours), ..bad(Class::QuotaExhausted, status) };
            return Some(bad.until(ends, self.states_times));
        }
        let (minute, ends) = minute_of(now);
        if self.minute.0 == minute && self.minute.1 >= self.per_minute {
            return Some(bad(Class::RateLimit, 429).until(ends, self.states_times));
        }
        None
    }

    fn count(&mut self, now: Timestamp) {
        let (window, _) = self.window_of(now);
        let (minute, _) = minute_of(now);
        self.window = (window, if self.window.0 == window { self.window.1 + 1 } else { 1 });
        self.minute = (minute, if self.minute.0 == minute { self.minute.1 + 1 } else { 1 });
    }

    fn window_of(&self, now: Timestamp) -> (u64, Timestamp) {
        let since = elapsed(now) + self.phase;
        let window = since / (5 * HOUR) + 1;
        (window, at(START, window * 5 * HOUR - self.phase))
    }
}

fn minute_of(now: Timestamp) -> (u64, Timestamp) {
    let minute = elapsed(now) / 60 + 1;
    (minute, at(START, minute * 60))
}

fn elapsed(now: Timestamp) -> u64 {
    now.duration_since(START).as_secs().unsigned_abs()
}

pub(crate) fn at(from: Timestamp, seconds: u64) -> Timestamp {
    from + SignedDuration::from_secs(seconds.cast_signed())
}
