//! States and classes in words, icons and hues: green serves, amber serves with trouble, blue is back by itself, red
//! needs a person, grey is off by choice. A dashed outline is still to be decided.

use std::borrow::Borrow;

use askama::filters::Safe;
use backstop_store::keys::KeyTest;
use backstop_triage::{Class, Fault};

use super::times::took;
use crate::{actions::keys::KeyView, assets};

/// A badge: never a hue alone, always icon and word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Badge<'a> {
    tone: &'static str,
    icon: &'static str,
    word: &'a str,
}

impl<'a> Badge<'a> {
    pub(crate) const fn new(tone: &'static str, icon: &'static str, word: &'a str) -> Self {
        Self { tone, icon, word }
    }

    /// The badge as markup. Words are ours, so nothing in it has to be escaped.
    pub(crate) fn html(&self) -> Safe<String> {
        let Self { tone, icon, word } = self;
        let sprite = assets::ICONS.path();
        Safe(format!(
            "<span class=\"badge {tone}\"><svg class=\"i\" aria-hidden=\"true\"><use href=\"{sprite}#{icon}\"/></svg>{word}</span>"
        ))
    }

    /// The icon and hue alone, in a square.
    pub(crate) fn glyph(&self) -> Safe<String> {
        let (tone, icon, sprite) = (self.tone.trim_end_matches(" line"), self.icon, assets::ICONS.path());
        Safe(format!(
            "<span class=\"glyph {tone}\"><svg class=\"i\" aria-hidden=\"true\"><use href=\"{sprite}#{icon}\"/></svg></span>"
        ))
    }
}

/// The badge of a class; its name stays as it is in logs and in the API.
pub(crate) fn class_badge(class: impl Borrow<Class>) -> Safe<String> {
    let class = *class.borrow();
    let (tone, icon) = class_look(class);
    let sprite = assets::ICONS.path();
    Safe(format!(
        "<span class=\"badge cls {tone}\"><svg class=\"i\" aria-hidden=\"true\"><use href=\"{sprite}#{icon}\"/></svg>{class}</span>"
    ))
}

/// The hue and icon of a class.
pub(crate) fn class_look(class: Class) -> (&'static str, &'static str) {
    match class {
        Class::QuotaExhausted | Class::RateLimit => ("rest", "clock"),
        Class::ServerError | Class::NetworkError | Class::LocalFault => ("warn", "warn"),
        Class::Overloaded => ("warn", "bolt"),
        Class::Timeout | Class::TransientRequest => ("warn", "wait"),
        Class::AuthError => ("bad", "keyoff"),
        Class::BillingExhausted => ("bad", "wallet"),
        Class::ConfigurationError => ("bad", "settings"),
        Class::RequestError | Class::ContextOverflow | Class::ModelError => ("off", "x"),
        Class::Unknown => ("off line", "unknown"),
    }
}

/// What a class means, as a sentence.
pub(crate) fn class_words(class: Class) -> &'static str {
    match class {
        Class::QuotaExhausted => "A usage window is full",
        Class::RateLimit => "Asked too often",
        Class::ServerError => "The provider failed",
        Class::NetworkError => "The connection failed",
        Class::LocalFault => "This machine is at fault",
        Class::Overloaded => "The provider has no capacity",
        Class::Timeout => "No answer in time",
        Class::TransientRequest => "A passing fault of this one request",
        Class::AuthError => "The credential is refused",
        Class::BillingExhausted => "There is no money left",
        Class::ConfigurationError => "The set-up is wrong",
        Class::RequestError => "The request itself is refused",
        Class::ContextOverflow => "The request is too long for the model",
        Class::ModelError => "The model is not available",
        Class::Unknown => "No rule knows this failure",
    }
}

/// How a connection failed, as a sentence.
pub(crate) fn fault_words(fault: Fault) -> &'static str {
    match fault {
        Fault::ConnectRefused => "Nothing listens there",
        Fault::Dns => "The name does not resolve",
        Fault::Tls => "The TLS handshake failed",
        Fault::ConnectionReset => "Reset, or closed without an answer",
        Fault::BrokenPipe => "Closed while sending",
        Fault::ConnectTimeout => "No connection in time",
        Fault::ReadTimeout => "No answer in time",
        Fault::IdleTimeout => "The stream fell silent",
        Fault::IncompleteBody => "The body broke off",
    }
}

/// The state of a key.
pub(crate) fn key_badge(key: &KeyView) -> Badge<'static> {
    match key.state.as_str() {
        "active" if key.last_used.is_none() && key.test.is_none() => {
            Badge::new("off line", "dashed", "Untested")
        }
        "active" => Badge::new("ok", "check", "Active"),
        "unstable" => Badge::new("warn", "wave", "Unstable"),
        "resting" => Badge::new("rest", "clock", "Resting"),
        "half_open" => Badge::new("rest line", "probe", "Probing"),
        "quarantined" => Badge::new("warn line", "shield", "Quarantined"),
        "paused" => Badge::new("off", "pause", "Paused"),
        "locked" => Badge::new("bad line", "lock", "Locked"),
        _ => match why_word(key, "class") {
            "auth_error" => Badge::new("bad", "keyoff", "Disabled: auth"),
            "billing_exhausted" => Badge::new("bad", "wallet", "Disabled: billing"),
            "" => Badge::new("off", "keyoff", "Disabled by hand"),
            _ => Badge::new("bad", "keyoff", "Disabled"),
        },
    }
}

/// A word of the reason for a key's state; empty if there is none.
pub(crate) fn why_word<'a>(key: &'a KeyView, field: &str) -> &'a str {
    if key.why.as_ref().is_some_and(|why| why["source"] == "hand") {
        return if field == "source" { "hand" } else { "" };
    }
    key.why.as_ref().and_then(|why| why[field].as_str()).unwrap_or("")
}

/// What is wrong with a key, as a phrase: "5-hour window full", "Rate limit", "401, invalid key".
pub(crate) fn why_phrase(key: &KeyView) -> String {
    let Some(why) = &key.why else { return String::new() };
    let reason = why_word(key, "reason").replace('_', " ");
    let class = Class::parse(why_word(key, "class"));
    let status = why["status"].as_u64().map(|status| format!("{status}, ")).unwrap_or_default();
    match (class, why["window"].as_str()) {
        (Some(Class::QuotaExhausted), Some(window)) => format!("{} full", window_words(window)),
        (Some(Class::RateLimit), _) => "Rate limit reached".to_owned(),
        (Some(class), _) if reason.is_empty() || reason == class.as_str() => class_words(class).to_owned(),
        (Some(class), _) => format!("{}: {status}{reason}", class_words(class)),
        (None, _) => reason,
    }
}

/// The name of a usage window.
pub(crate) fn window_words(window: &str) -> &'static str {
    match window {
        "minute" => "Minute",
        "5h" => "5-hour window",
        "daily" => "Daily window",
        "weekly" => "Weekly window",
        "monthly" => "Monthly window",
        _ => "Window",
    }
}

/// Where the end of a rest was read.
pub(crate) fn source_words(source: &str) -> &'static str {
    match source {
        "snapshot" => "quota snapshot",
        "header" => "answer header",
        "nested_header" => "header in the body",
        "field" => "error field",
        "text" => "the provider’s text",
        "probe" => "usage endpoint",
        "monthly_cycle" => "monthly cycle",
        "setting" => "default, no time was given",
        "verdict" => "the failure itself",
        "account" => "a key of the same account",
        "test" => "a test",
        "hand" => "set by hand",
        _ => "not known",
    }
}

/// How the last test of a key ended.
pub(crate) fn test_badge(test: &KeyTest) -> Safe<String> {
    let latency = took(test.latency_ms);
    let status = test.status.map(|status| status.to_string());
    let (tone, icon, word) = match (test.valid, &test.warning) {
        (Some(true), None) if test.latency_ms < 1000 => ("ok", "tick", latency),
        (Some(true), None) if test.latency_ms < 3000 => ("warn", "wait", latency),
        (Some(true), None) => ("bad", "wait", latency),
        (Some(true), Some(_)) => ("warn", "warn", status.unwrap_or(latency)),
        (Some(false), _) => {
            ("bad", "x", status.map_or_else(|| "Refused".to_owned(), |status| format!("Refused, {status}")))
        }
        (None, _) => (
            "off line",
            "unknown",
            status.map_or_else(|| "No answer".to_owned(), |status| format!("Open, {status}")),
        ),
    };
    Badge::new(tone, icon, &word).html()
}

/// What a setting's enum values are called: `on-error` as "On error".
pub(crate) fn sentence(word: &str) -> String {
    let text = word.replace(['-', '_'], " ");
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
