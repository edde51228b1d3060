//! What a request that finds no key can hope for.

use std::collections::BTreeMap;

use crate::{
    Class, KeyId, ModelId, Timestamp,
    pool::{
        gate::Phase,
        provider::{Key, Provider},
    },
};

/// The prospects of a provider for one model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outlook {
    /// When the first resting key comes back by itself, and what it rests for.
    pub(crate) back_at: Option<(Timestamp, Class)>,
    /// Whether a key is being tried by others, so that waiting for their outcome may help.
    pub(crate) probing: bool,
    /// Whether a key only lacks a free place.
    pub(crate) busy: bool,
    /// What keeps keys away that do not come back by themselves.
    pub(crate) lasting: Option<Class>,
}

/// Outlooks of models, kept until anything changes: in an outage every request asks, and nothing changes.
#[derive(Debug, Default)]
pub(super) struct OutlookCache {
    known: BTreeMap<ModelId, Outlook>,
}

impl OutlookCache {
    pub(super) fn forget(&mut self) {
        if !self.known.is_empty() {
            self.known.clear();
        }
    }
}

impl Provider {
    /// The prospects for a model. Keys in `excluded` count for coming back, not for being tried or busy.
    pub(super) fn outlook(&mut self, model: &ModelId, excluded: &[KeyId], now: Timestamp) -> Outlook {
        self.tick(now);
        let is_fresh = |outlook: &Outlook| outlook.back_at.is_none_or(|(at, _)| at > now);
        let outlook = match self.outlook.known.get(model).filter(|outlook| is_fresh(outlook)) {
            Some(known) => known.clone(),
            None => {
                let outlook = self.survey(model, &[], now);
                self.outlook.known.insert(model.clone(), outlook.clone());
                outlook
            }
        };
        let depends_on_excluded = !excluded.is_empty() && (outlook.probing || outlook.busy);
        if depends_on_excluded { self.survey(model, excluded, now) } else { outlook }
    }

    pub(super) fn survey(&self, model: &ModelId, excluded: &[KeyId], now: Timestamp) -> Outlook {
        let mut outlook = Outlook::default();
        for key in &self.keys {
            match self.prospect(key, model, now) {
                Prospect::Ready => {}
                Prospect::Never => {}
                Prospect::Lasting(class) => outlook.lasting = outlook.lasting.or(Some(class)),
                Prospect::Back(at, class) => {
                    if outlook.back_at.is_none_or(|(earliest, _)| at < earliest) {
                        outlook.back_at = Some((at, class));
                    }
                }
                Prospect::Probing => outlook.probing |= !excluded.contains(&key.id),
                Prospect::Busy => outlook.busy |= !excluded.contains(&key.id),
            }
        }
        outlook
    }

    fn prospect(&self, key: &Key, model: &ModelId, now: Timestamp) -> Prospect {
        if key.is_paused(now) {
            return Prospect::Never;
        }
        let account = key.account.as_ref().and_then(|account| self.accounts.get(account));
        let used = self.models.get(model).and_then(|model| model.uses.get(&key.id));
        let gates = [Some(&key.gate), account.map(|account| &account.gate), used];
        let mut back: Option<(Timestamp, Class)> = None;
        let mut probing = key.climbed.is_some();
        for gate in gates.into_iter().flatten() {
            if let Some(disabled) = &gate.health.disabled {
                return Prospect::Lasting(disabled.why.class);
            }
            match gate.phase(now) {
                Phase::Resting(until) => {
                    let Some(rest) = gate.health.decisive() else { continue };
                    if !heals_by_itself(rest.why.class) {
                        return Prospect::Lasting(rest.why.class);
                    }
                    if back.is_none_or(|(latest, _)| until > latest) {
                        back = Some((until, rest.why.class));
                    }
                }
                Phase::HalfOpen => probing |= !gate.admits(now),
                Phase::Open | Phase::Disabled => {}
            }
        }
        match back {
            Some((until, class)) => Prospect::Back(until, class),
            None if probing => Prospect::Probing,
            None if key.is_busy(self.settings.max_concurrent) => Prospect::Busy,
            None => Prospect::Ready,
        }
    }
}

enum Prospect {
    Ready,
    Never,
    Lasting(Class),
    Back(Timestamp, Class),
    Probing,
    Busy,
}

/// Whether time alone mends it.
pub(crate) fn heals_by_itself(class: Class) -> bool {
    match class {
        Class::QuotaExhausted
        | Class::RateLimit
        | Class::Overloaded
        | Class::ServerError
        | Class::Timeout
        | Class::NetworkError
        | Class::LocalFault => true,
        Class::RequestError
        | Class::ContextOverflow
        | Class::TransientRequest
        | Class::ModelError
        | Class::AuthError
        | Class::BillingExhausted
        | Class::ConfigurationError
        | Class::Unknown => false,
    }
}
