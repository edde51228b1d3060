//! What outlives the process: one state per subject, written through on every transition.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    AccountId, KeyId, ModelId, ProviderId, Timestamp, breaker::BreakerState, pool::Health,
    quota::QuotaSnapshot,
};

/// Whose state it is. Its text form is stable and serves as the store's primary key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// A key.
    Key(ProviderId, KeyId),
    /// A key's use of one model.
    KeyModel(ProviderId, KeyId, ModelId),
    /// A model's breaker.
    Model(ProviderId, ModelId),
    /// A provider's breaker.
    Provider(ProviderId),
    /// An account whose keys stand and fall together.
    Account(ProviderId, AccountId),
}

impl Subject {
    /// The provider that the subject belongs to.
    pub fn provider(&self) -> &ProviderId {
        match self {
            Self::Key(provider, _)
            | Self::KeyModel(provider, _, _)
            | Self::Model(provider, _)
            | Self::Provider(provider)
            | Self::Account(provider, _) => provider,
        }
    }

    /// Reads the text form.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('/').map(unescape);
        let kind = parts.next()?;
        let provider = ProviderId::from(parts.next()?);
        let subject = match kind.as_str() {
            "key" => Self::Key(provider, KeyId(parts.next()?.parse().ok()?)),
            "key-model" => {
                Self::KeyModel(provider, KeyId(parts.next()?.parse().ok()?), ModelId::from(parts.next()?))
            }
            "model" => Self::Model(provider, ModelId::from(parts.next()?)),
            "provider" => Self::Provider(provider),
            "account" => Self::Account(provider, AccountId::from(parts.next()?)),
            _ => return None,
        };
        parts.next().is_none().then_some(subject)
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let provider = escape(self.provider().as_str());
        match self {
            Self::Key(_, key) => write!(f, "key/{provider}/{key}"),
            Self::KeyModel(_, key, model) => {
                write!(f, "key-model/{provider}/{key}/{}", escape(model.as_str()))
            }
            Self::Model(_, model) => write!(f, "model/{provider}/{}", escape(model.as_str())),
            Self::Provider(_) => write!(f, "provider/{provider}"),
            Self::Account(_, account) => write!(f, "account/{provider}/{}", escape(account.as_str())),
        }
    }
}

/// What a restart must not forget of a subject.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SavedState {
    /// Of a key.
    Key(Box<SavedKey>),
    /// Of a key's use of one model, or of an account.
    Health(Health),
    /// Of a breaker.
    Breaker(BreakerState),
}

/// What a restart must not forget of a key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SavedKey {
    /// Its health.
    pub health: Health,
    /// Set while a person has paused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Pause>,
    /// When it last answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_success: Option<Timestamp>,
    /// What is known of its usage windows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<QuotaSnapshot>,
    /// Failures in a row that count against it.
    #[serde(default)]
    pub consecutive_errors: u32,
    /// Free tests in a row that it passed only to be refused again.
    #[serde(default)]
    pub vain_tests: u32,
}

/// A person's pause, laid over every other state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// Since when.
    pub since: Timestamp,
    /// Until when; `None`: until a person resumes it.
    pub until: Option<Timestamp>,
}

/// One transition: acted on already, to be written and shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Whose state changed.
    pub subject: Subject,
    /// The whole new state; the newest per subject wins.
    pub state: SavedState,
    /// What a person should hear of.
    pub notice: Option<Notice>,
}

/// An event that is worth an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Notice {
    /// A key was disabled.
    Disabled,
    /// Three keys fell the same way within a minute and without proof: the provider or our network, not they.
    MassRefusal,
    /// A breaker opened.
    BreakerOpened,
    /// A breaker closed, or a key came back.
    Recovered,
}

/// Makes text safe to stand between slashes.
fn escape(text: &str) -> String {
    text.replace('%', "%25").replace('/', "%2F")
}

fn unescape(text: &str) -> String {
    text.replace("%2F", "/").replace("%25", "%")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_subject_reads_back_from_its_text() {
        let provider = ProviderId::from("a/b%2F");
        let model = ModelId::from("org/model%");
        for subject in [
            Subject::Key(provider.clone(), KeyId(7)),
            Subject::KeyModel(provider.clone(), KeyId(7), model.clone()),
            Subject::Model(provider.clone(), model),
            Subject::Provider(provider.clone()),
            Subject::Account(provider, AccountId::from("team a")),
        ] {
            assert_eq!(Subject::parse(&subject.to_string()), Some(subject));
        }
        assert_eq!(Subject::parse("key/a/x"), None);
        assert_eq!(Subject::parse("provider/a/b"), None);
    }
}
