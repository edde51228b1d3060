//! The last thing that log lines, panics and errors pass: whatever is a known secret, or is shaped like one, is masked.
//!
//! Secrets have types that print `***`, and what providers say is redacted where it is read. This catches what those
//! miss: a dependency that logs a header at trace level, a panic whose message holds a value. What is known is learnt
//! again whenever the configuration is read.

use std::{
    io::{self, Write},
    panic::PanicHookInfo,
    sync::{Arc, LazyLock},
};

use aho_corasick::AhoCorasick;
use arc_swap::ArcSwap;
use backstop_gateway::config::Config;
use backstop_store::{Store, configuration::Kind};
use backstop_triage::{ProviderId, redact::mask_shapes};
use tracing_subscriber::fmt::MakeWriter;

/// The secrets that are known to this process. Clones share them.
#[derive(Clone)]
pub(crate) struct Redaction(Arc<ArcSwap<Known>>);

#[derive(Default)]
struct Known(Option<AhoCorasick>);

/// What the whole process masks with.
static PROCESS: LazyLock<Redaction> = LazyLock::new(|| Redaction(Arc::default()));

impl Redaction {
    /// The one of the process.
    pub(crate) fn of_process() -> Self {
        PROCESS.clone()
    }

    /// Learns every secret of the configuration and of the store.
    pub(crate) fn learn(&self, config: &Config, store: &Store) {
        let mut secrets = Vec::new();
        for provider in &config.providers {
            secrets.extend(provider.keys.iter().map(|key| key.secret.expose().to_owned()));
        }
        secrets.extend(config.clients.iter().map(|client| client.secret.expose().to_owned()));
        for alert in &config.alerts {
            secrets.extend(alert_secrets(&alert.fields));
        }
        let added = store.objects(Kind::Provider).unwrap_or_default().into_iter();
        let added = added.map(|object| ProviderId::from(object.id.as_str()));
        for provider in config.providers.iter().map(|provider| provider.id.clone()).chain(added) {
            let sealed = store.key_secrets(&provider).unwrap_or_default();
            secrets.extend(sealed.into_values().flatten().map(|secret| secret.expose().to_owned()));
        }
        self.know(secrets);
    }

    fn know(&self, mut secrets: Vec<String>) {
        secrets.retain(|secret| secret.len() >= SHORTEST);
        secrets.sort();
        secrets.dedup();
        // More patterns than an automaton can hold are not worth a start that fails.
        let automaton = if secrets.is_empty() { None } else { AhoCorasick::new(&secrets).ok() };
        self.0.store(Arc::new(Known(automaton)));
    }

    /// The same text without secrets.
    pub(crate) fn text(&self, text: &str) -> String {
        let known = self.0.load();
        match &known.0 {
            Some(known) if known.is_match(text) => {
                let stars = vec![MASK; known.patterns_len()];
                mask_shapes(&known.replace_all(text, &stars)).into_owned()
            }
            Some(_) | None => mask_shapes(text).into_owned(),
        }
    }
}

/// The writer of a log line.
pub(crate) struct Masked(Redaction);

impl Write for Masked {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = self.0.text(&String::from_utf8_lossy(line));
        io::stderr().lock().write_all(text.as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

impl MakeWriter<'_> for Redaction {
    type Writer = Masked;

    fn make_writer(&self) -> Masked {
        Masked(self.clone())
    }
}

/// Has panics told in the log, without secrets.
pub(crate) fn tell_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let thread = std::thread::current();
        let text = words_of(panic, &Redaction::of_process());
        tracing::error!(place, thread = thread.name(), "a panic, which is a mistake of ours: {text}");
    }));
}

fn words_of(panic: &PanicHookInfo<'_>, redaction: &Redaction) -> String {
    redaction.text(panic.payload_as_str().unwrap_or("no words"))
}

/// The values of a channel that are secrets, or name where one lies.
fn alert_secrets(fields: &toml::Table) -> Vec<String> {
    let text = |name: &str| fields.get(name).and_then(toml::Value::as_str);
    let own = ["secret", "url"].into_iter().filter_map(text).map(str::to_owned);
    let of_variables =
        ["secret_env", "url_env"].into_iter().filter_map(|name| std::env::var(text(name)?).ok());
    let of_file = text("secret_file").and_then(|path| std::fs::read_to_string(path).ok());
    own.chain(of_variables).chain(of_file.map(|text| text.trim().to_owned())).collect()
}

const MASK: &str = "***";
/// Stand-ins such as `x` or `none`, which local servers are given as keys, are words and no secrets.
const SHORTEST: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_secrets_and_their_shapes_are_masked_and_words_are_not() {
        let redaction = Redaction(Arc::default());
        redaction.know(vec!["plain-words-are-a-key".into(), "none".into()]);
        expect_test::expect![[r#"{"key":"free tier","said":"*** and sk-p***, none of it"}"#]]
            .assert_eq(&redaction.text(
            r#"{"key":"free tier","said":"plain-words-are-a-key and sk-proj-abcdef0123456789, none of it"}"#,
        ));
    }

    #[test]
    fn a_panic_gives_no_secret_away() {
        let redaction = Redaction(Arc::default());
        redaction.know(vec!["plain-words-are-a-key".into()]);
        let (sender, told) = std::sync::mpsc::channel();
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| drop(sender.send(words_of(panic, &redaction)))));
        let ended = std::panic::catch_unwind(|| panic!("no header of {}", "plain-words-are-a-key"));
        std::panic::set_hook(before);
        assert!(ended.is_err());
        assert_eq!(told.recv().as_deref(), Ok("no header of ***"));
    }
}
