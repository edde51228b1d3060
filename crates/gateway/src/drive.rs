//! THE loop: ask the cascade for the next step, carry it out, report what became of it.
//!
//! A [`Journey`] is one request on its way. The cascade decides; the pool is locked only while it does, and never over
//! an await. Whatever way a journey ends, its end is reported: one that is dropped half-way, because its client left,
//! reports that from its destructor, and what it held of the upstream is dropped with it.

use std::{collections::VecDeque, pin::pin, sync::Arc};

use backstop_dialect::Usage;
use backstop_store::Ack;
use backstop_triage::{
    Class, Evidence, Fault, KeyId, Kind, ModelId, ProviderId, Scope, Verdict,
    cascade::{Action, Cascade, Leg, Limits, Outcome, Progress, Tried, TriedResult, Wake},
};
use bytes::Bytes;
use http::{HeaderMap, StatusCode};

use crate::{
    arrive::{self, Arrival},
    asked::Asked,
    attempt::Step,
    config::AuthMode,
    observe::{self, Failure, Record},
    plan::{Outlet, OutletKey, Plan},
    settle,
    shared::Shared,
    upstream::Answer,
};

/// One request on its way.
pub(crate) struct Journey {
    pub(crate) shared: Arc<Shared>,
    pub(crate) plan: Arc<Plan>,
    pub(crate) asked: Asked,
    cascade: Cascade,
    /// Whom it was meant for in the first place, and as which model.
    home: Option<(ProviderId, ModelId)>,
    /// Whether an attempt waits for its final report.
    under_way: bool,
    /// The route of the latest attempt.
    pub(crate) route: Option<Route>,
    /// The last error answer, in case it goes back.
    pub(crate) last: Option<Returned>,
    /// The latest write that has not been confirmed.
    ack: Option<Ack>,
    pub(crate) record: Record,
}

/// Where an attempt went.
#[derive(Clone)]
pub(crate) struct Route {
    pub(crate) outlet: Arc<Outlet>,
    pub(crate) key: KeyId,
    pub(crate) held: Arc<OutletKey>,
    pub(crate) model: ModelId,
}

/// An upstream's own answer that goes back as it is.
pub(crate) struct Returned {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) held: VecDeque<Bytes>,
    /// What had not been read yet.
    pub(crate) rest: Option<Answer>,
    pub(crate) route: Route,
}

impl Journey {
    pub(crate) fn new(
        shared: Arc<Shared>,
        plan: Arc<Plan>,
        asked: Asked,
        legs: Vec<Leg>,
        limits: Limits,
    ) -> Box<Self> {
        shared.meters.in_flight.add(1);
        let home = legs.first().map(|leg| {
            (leg.provider.clone(), leg.models.first().cloned().unwrap_or_else(|| ModelId::from("")))
        });
        let cascade = Cascade::new(legs, limits, asked.id.seed());
        let record = Record::new(&asked);
        let (route, last, ack) = (None, None, None);
        Box::new(Self { shared, plan, asked, cascade, home, under_way: false, route, last, ack, record })
    }

    fn next(&mut self) -> Action {
        let shared = Arc::clone(&self.shared);
        let now = shared.clock.now();
        let settled = settle::work(&shared, |pool| self.cascade.next(pool, now));
        let action = settled.result;
        self.await_write(settled.ack);
        self.under_way = matches!(action, Action::Attempt(_));
        if self.under_way {
            shared.boot.traffic(&shared.store);
        }
        action
    }

    /// Tells the cascade what became of the attempt.
    pub(crate) fn report(&mut self, outcome: Outcome) {
        self.under_way = matches!(outcome, Outcome::Committed);
        let shared = Arc::clone(&self.shared);
        let now = shared.clock.now();
        let settled = settle::work(&shared, |pool| self.cascade.report(outcome, pool, now));
        shared.pool_changed.notify_waiters();
        self.await_write(settled.ack);
    }

    /// Has the answer wait for a write.
    pub(crate) fn await_write(&mut self, ack: Option<Ack>) {
        if ack.is_some() {
            self.ack = ack;
        }
    }

    /// Classifies a failure, logs it, and reports it.
    pub(crate) fn failed(&mut self, evidence: &Evidence, progress: Progress, status: Option<u16>) {
        let Some(verdict) = self.verdict(evidence) else { return };
        self.failed_as(verdict, evidence, progress, status);
    }

    /// Reports a failure whose verdict is known.
    pub(crate) fn failed_as(
        &mut self,
        verdict: Verdict,
        evidence: &Evidence,
        progress: Progress,
        status: Option<u16>,
    ) {
        self.overflowed(&verdict, evidence);
        observe::failed(self, &Failure { verdict: &verdict, evidence, progress, status });
        self.report(Outcome::Failed { verdict, progress, status });
    }

    /// The client has seen content.
    pub(crate) fn committed(&mut self) {
        self.record.first_content();
        self.report(Outcome::Committed);
        self.asked.release();
        self.last = None;
    }

    /// The answer has come to its end.
    pub(crate) fn completed(&mut self) {
        self.record.first_content();
        self.record.completed();
        self.fitted();
        self.shared.boot.success(&self.shared.store);
        self.report(Outcome::Completed);
    }

    /// We answered ourselves: the attempt says nothing about anybody.
    pub(crate) fn answered_here(&mut self) {
        self.record.first_content();
        self.record.completed();
        self.report(Outcome::Abandoned);
    }

    /// The answer broke off after the client had seen some of it.
    pub(crate) fn broke_off(&mut self, fault: Fault, detail: &str) {
        let evidence = Evidence { kind: Kind::Transport(fault), ..Evidence::default() };
        self.record.detail(detail);
        self.failed(&evidence, Progress::Committed, None);
        self.record.broke_off();
    }

    pub(crate) fn counted(&mut self, usage: Usage) {
        self.record.usage = usage;
    }

    /// What a failure of the latest attempt is.
    pub(crate) fn verdict(&self, evidence: &Evidence) -> Option<Verdict> {
        let route = self.route.as_ref()?;
        let now = self.shared.clock.now();
        let verdict = self.shared.catalog.load().classify(&route.outlet.config.rules, evidence, now);
        Some(match route.outlet.config.auth {
            AuthMode::Managed => verdict,
            AuthMode::None => Verdict { disable_key: false, ..verdict },
            AuthMode::PassThrough => of_a_strangers_key(verdict),
        })
    }

    /// Whom it was meant for in the first place, and as which model.
    pub(crate) fn home(&self) -> Option<(&Arc<Outlet>, &str)> {
        let (provider, model) = self.home.as_ref()?;
        Some((self.plan.outlet(provider.as_str())?, model.as_str()))
    }

    /// The attempts so far.
    pub(crate) fn trail(&self) -> &[Tried] {
        self.cascade.trail()
    }

    /// Those of them that count: one on a connection that had died while idle does not.
    pub(crate) fn counted_trail(&self) -> impl Iterator<Item = &Tried> {
        self.trail().iter().filter(|tried| counts(tried))
    }

    /// How many of them count.
    pub(crate) fn attempts(&self) -> u32 {
        self.cascade.attempts()
    }

    /// Waits until the transitions that this request caused are written, within the limit of such waits.
    pub(crate) async fn written(&mut self) {
        let ack = self.ack.take();
        settle::written(&self.shared, ack).await;
    }
}

impl Drop for Journey {
    fn drop(&mut self) {
        self.shared.meters.ambiguous.add(u64::from(self.cascade.ambiguous_repeats()));
        if self.under_way {
            self.report(Outcome::Abandoned);
        }
        self.shared.meters.in_flight.subtract(1);
        observe::ended(self);
    }
}

/// Whether an attempt is one: what met a connection that had died while idle asked nobody anything.
pub(crate) fn counts(tried: &Tried) -> bool {
    match &tried.result {
        TriedResult::Failed { progress, .. } => *progress != Progress::StaleConnection,
        TriedResult::Pending | TriedResult::Answered | TriedResult::Abandoned => true,
    }
}

/// Drives a journey to its end.
pub(crate) async fn drive(mut journey: Box<Journey>) -> Arrival {
    let shared = Arc::clone(&journey.shared);
    loop {
        if !journey.asked.can_be_sent() {
            return match journey.cascade.decided() {
                Some(end) => arrive::end(journey, &end).await,
                None => arrive::stuck(journey).await,
            };
        }
        let mut changed = pin!(shared.pool_changed.notified());
        let mut listening = false;
        let action = loop {
            match journey.next() {
                // Asked once more while listening, so that no change is missed in between.
                Action::Wait { wake: Wake::PoolChange, .. } if !listening => {
                    listening = true;
                    changed.as_mut().enable();
                }
                action => break action,
            }
        };
        match action {
            Action::Attempt(attempt) => match journey.attempt(&attempt).await {
                Step::Again => {}
                Step::Whole(whole) => return arrive::whole(journey, whole).await,
                Step::Passing(begun) => return arrive::passing(journey, begun, attempt.idle_timeout).await,
                Step::Stream(opened) => return arrive::stream(journey, opened, attempt.idle_timeout).await,
                Step::Upload(fault) => return arrive::upload_failed(journey, fault),
            },
            Action::Wait { until, wake: Wake::Time } => {
                tokio::time::sleep_until(shared.clock.instant(until)).await
            }
            Action::Wait { until, wake: Wake::PoolChange } => {
                // Whether it was the change or the time, the cascade is asked again.
                let _ = tokio::time::timeout_at(shared.clock.instant(until), changed).await;
            }
            Action::Finish(end) => return arrive::end(journey, &end).await,
        }
    }
}

/// A refusal of the client's own credential is the client's to hear: no key of ours is at fault.
fn of_a_strangers_key(verdict: Verdict) -> Verdict {
    match verdict.class {
        Class::AuthError
        | Class::BillingExhausted
        | Class::QuotaExhausted
        | Class::RateLimit
        | Class::ConfigurationError
        | Class::Unknown => {
            Verdict { class: Class::RequestError, scope: Scope::Request, disable_key: false, ..verdict }
        }
        Class::RequestError
        | Class::ContextOverflow
        | Class::TransientRequest
        | Class::ModelError
        | Class::Overloaded
        | Class::ServerError
        | Class::Timeout
        | Class::NetworkError
        | Class::LocalFault => Verdict { disable_key: false, ..verdict },
    }
}
