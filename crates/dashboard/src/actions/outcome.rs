//! What a connection test says of a key, from two answers: to a free list and to the smallest generation.
//!
//! The verdict on an answer decides; what is not decided by it follows this table:
//!
//! | the generation was answered by | the key is | and is disabled |
//! |---|---|---|
//! | content | valid | |
//! | a refusal that proves the credential dead | invalid | yes |
//! | a bare refusal (401, 403) | invalid; valid if the list, which needs the key too, was given | only if the list was refused as well |
//! | no money | invalid: recharge | yes, unless only this request was too large or a cap was reached |
//! | a full window, a throttle | valid, with a warning | |
//! | a model that is not there or not for this key | valid, with a warning | |
//! | a refused request (400, moderation) | valid | |
//! | an outage, an overload, a broken or silent connection, a wrong set-up | unknown; valid if the list was given | |

use backstop_triage::{Class, KeyAction, Scope, Treatment, Verdict};

/// How one of the two calls ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Seen {
    /// It was not made, because the provider has no such thing or nothing to make it with.
    NotAsked,
    /// It was answered well. Says whether that took a valid key.
    Good {
        /// Whether a wrong key would have been refused.
        proves_key: bool,
    },
    /// It failed.
    Failed {
        /// What the failure is.
        verdict: Box<Verdict>,
        /// The upstream's status, if there was one.
        status: Option<u16>,
        /// The upstream's words, redacted.
        message: String,
    },
}

/// What the test found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Whether the provider accepts the key; none when that could not be found out.
    pub valid: Option<bool>,
    /// Whether the key is proved to be of no use.
    pub disable: bool,
    /// What to know although the key is valid.
    pub warning: Option<String>,
    /// What went wrong.
    pub error: Option<String>,
}

/// What the two answers say together.
pub fn judge(list: &Seen, generation: &Seen) -> Outcome {
    let decisive = match generation {
        Seen::Good { .. } => return Outcome::valid(None),
        Seen::NotAsked => list,
        Seen::Failed { .. } => generation,
    };
    let (verdict, status, message) = match decisive {
        Seen::NotAsked => return Outcome::undecided("there is no model to ask; name one".to_owned()),
        Seen::Good { proves_key: true } => return Outcome::valid(None),
        Seen::Good { proves_key: false } => {
            return Outcome::undecided(
                "the list of models needs no key and there is no model to ask".to_owned(),
            );
        }
        Seen::Failed { verdict, status, message } => (verdict, *status, message),
    };
    let said = words(verdict, status, message);
    if is_refusal(verdict, status) {
        return refused(verdict, status, list, said);
    }
    let listed = *list == Seen::Good { proves_key: true };
    match verdict.class {
        Class::BillingExhausted => out_of_money(verdict, status, said),
        Class::QuotaExhausted | Class::RateLimit | Class::ModelError => Outcome::valid(Some(said)),
        Class::RequestError | Class::ContextOverflow | Class::TransientRequest => Outcome::valid(None),
        Class::Unknown if matches!(status, Some(400..=499)) => Outcome::valid(Some(said)),
        Class::AuthError
        | Class::Overloaded
        | Class::ServerError
        | Class::Timeout
        | Class::NetworkError
        | Class::ConfigurationError
        | Class::LocalFault
        | Class::Unknown => {
            if listed {
                Outcome::valid(Some(said))
            } else {
                Outcome::undecided(said)
            }
        }
    }
}

/// Whether a failure refuses the credential; a bare 401 or 403 does, whatever else is not said.
fn is_refusal(verdict: &Verdict, status: Option<u16>) -> bool {
    verdict.class == Class::AuthError
        || (verdict.class == Class::Unknown && matches!(status, Some(401 | 403)))
}

impl Outcome {
    fn valid(warning: Option<String>) -> Self {
        Self { valid: Some(true), disable: false, warning, error: None }
    }

    fn invalid(error: String, disable: bool) -> Self {
        Self { valid: Some(false), disable, warning: None, error: Some(error) }
    }

    fn undecided(error: String) -> Self {
        Self { valid: None, disable: false, warning: None, error: Some(error) }
    }
}

fn refused(verdict: &Verdict, status: Option<u16>, list: &Seen, said: String) -> Outcome {
    let bare = verdict.class == Class::Unknown;
    let action =
        if bare { KeyAction::Quarantine } else { Treatment::of(verdict, status).penalty.key_action() };
    match (action, list) {
        (KeyAction::Disable, _) => Outcome::invalid(said, true),
        (_, Seen::Good { proves_key: true }) => {
            Outcome::valid(Some(format!("the key is accepted, but may not generate: {said}")))
        }
        (KeyAction::Quarantine, Seen::Failed { verdict, status, .. }) if is_refusal(verdict, *status) => {
            Outcome::invalid(said, true)
        }
        (KeyAction::Quarantine | KeyAction::Rest | KeyAction::None, _) => Outcome::invalid(said, false),
    }
}

fn out_of_money(verdict: &Verdict, status: Option<u16>, said: String) -> Outcome {
    if matches!(verdict.scope, Scope::Request | Scope::Model) {
        return Outcome::valid(Some(said));
    }
    let disable = match Treatment::of(verdict, status).penalty.key_action() {
        KeyAction::Disable | KeyAction::Quarantine => true,
        KeyAction::Rest | KeyAction::None => false,
    };
    Outcome::invalid(format!("recharge required: {said}"), disable)
}

fn words(verdict: &Verdict, status: Option<u16>, message: &str) -> String {
    let status = status.map(|status| format!(" {status}")).unwrap_or_default();
    let message = if message.is_empty() { String::new() } else { format!(": {message}") };
    format!("{}{status} ({}){message}", verdict.class, verdict.reason)
}
