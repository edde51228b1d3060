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

use aho_corasick::{AhoCorasick, MatchKind};
use arc_swap::ArcSwap;
use backstop_gateway::config::{Config, Provider};
use backstop_store::{Store, configuration::Kind};
use backstop_triage::{Catalog, ProviderId, redact::mask_shapes};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use percent_encoding::percent_decode_str;
use serde_json::Value;
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
    pub(crate) fn learn(&self, config: &Config, catalog: &Catalog, store: &Store) {
        let mut secrets = Vec::new();
        for provider in &config.providers {
            secrets.extend(call_secrets(provider, catalog));
            secrets.extend(provider.keys.iter().map(|key| key.secret.expose().to_owned()));
        }
        secrets.extend(config.clients.iter().map(|client| client.secret.expose().to_owned()));
        for alert in &config.alerts {
            secrets.extend(alert_secrets(&alert.fields));
        }
        let added = store.objects(Kind::Provider).unwrap_or_default();
        secrets.extend(added.iter().flat_map(|object| definition_secrets(&object.spec)));
        let added = added.into_iter().map(|object| ProviderId::from(object.id.as_str()));
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
        let automaton = if secrets.is_empty() {
            None
        } else {
            // A secret that begins like another one is masked to its end.
            AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&secrets).ok()
        };
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

/// What every call to a provider carries beside a key: headers, parameters, and what opens its proxy. What a preset
/// gives is public.
fn call_secrets(provider: &Provider, catalog: &Catalog) -> Vec<String> {
    let preset = provider.preset.as_deref().and_then(|id| catalog.preset(id));
    let public = |value: &String| {
        preset.is_some_and(|preset| {
            preset.headers.values().chain(preset.query.values()).any(|own| own == value)
        })
    };
    let headers = provider.headers.iter().filter_map(|(_, value)| value.to_str().ok().map(str::to_owned));
    let query = provider.query.iter().map(|(_, value)| decoded(value));
    let mut secrets: Vec<String> =
        headers.chain(query).filter(|value| !public(value)).flat_map(|value| spellings(&value)).collect();
    let proxy = provider.proxy.as_ref().and_then(|proxy| proxy.credentials.as_ref());
    secrets.extend(proxy.into_iter().flat_map(|credentials| proxy_secrets(credentials.expose())));
    secrets
}

/// The same of a provider that was added at run time, as its definition in the store.
fn definition_secrets(definition: &str) -> Vec<String> {
    let definition: Value = serde_json::from_str(definition).unwrap_or_default();
    let values = ["headers", "query"].into_iter().filter_map(|part| definition[part].as_object());
    let values = values.flat_map(|part| part.values()).filter_map(Value::as_str);
    let proxy = definition["proxy"].as_str().and_then(|url| url.split_once("://")?.1.rsplit_once('@'));
    values.flat_map(spellings).chain(proxy.into_iter().flat_map(|(own, _)| proxy_secrets(own))).collect()
}

/// A value as it stands there, in an address, and without the scheme before it.
fn spellings(value: &str) -> Vec<String> {
    let encoded = percent_encoding::utf8_percent_encode(value, percent_encoding::NON_ALPHANUMERIC);
    let scheme = |scheme: &str| ["bearer", "basic", "token"].contains(&scheme.to_ascii_lowercase().as_str());
    let bare = value.split_once(' ').filter(|(word, _)| scheme(word)).map(|(_, rest)| rest.to_owned());
    [value.to_owned(), encoded.to_string()].into_iter().chain(bare).collect()
}

/// `user:password` of a proxy: whole, the password alone, and as they travel.
fn proxy_secrets(credentials: &str) -> Vec<String> {
    let password = credentials.split_once(':').map(|(_, password)| password);
    let texts = [credentials].into_iter().chain(password);
    let travelling = [BASE64_STANDARD.encode(credentials), BASE64_STANDARD.encode(decoded(credentials))];
    texts.flat_map(|text| [text.to_owned(), decoded(text)]).chain(travelling).collect()
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
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
    fn a_secret_that_begins_like_another_is_masked_to_its_end() {
        let redaction = Redaction(Arc::default());
        redaction.know(vec!["correct horse".into(), "correct horse battery staple".into()]);
        assert_eq!(redaction.text("with correct horse battery staple or correct horse"), "with *** or ***");
    }

    #[test]
    fn what_calls_carry_beside_a_key_is_learnt_and_what_a_preset_gives_is_not() {
        let text = r#"
            [[provider]]
            id = "house"
            format = "openai-chat"
            base_url = "https://house.test/v1"
            proxy = "http://user:open%20sesame@proxy.test:3128"
            headers = { x-pass = "Bearer correct-horse" }
            query = { sig = "battery/staple" }
            [[provider]]
            id = "other"
            preset = "anthropic"
        "#;
        let catalog = Catalog::embedded();
        let environment = backstop_gateway::config::Environment::default();
        let config = Config::parse(text, std::path::Path::new("test"), &environment, &catalog).unwrap();
        let mut secrets: Vec<String> =
            config.providers.iter().flat_map(|provider| call_secrets(provider, &catalog)).collect();
        let spec = r#"{"headers":{"x-pass":"of the store"},"proxy":"http://me:known-to-me@proxy.test"}"#;
        secrets.extend(definition_secrets(spec));
        secrets.sort();
        secrets.dedup();
        expect_test::expect![[r#"
            Bearer correct-horse
            Bearer%20correct%2Dhorse
            bWU6a25vd24tdG8tbWU=
            battery%2Fstaple
            battery/staple
            correct-horse
            dXNlcjpvcGVuIHNlc2FtZQ==
            dXNlcjpvcGVuJTIwc2VzYW1l
            known-to-me
            me:known-to-me
            of the store
            of%20the%20store
            open sesame
            open%20sesame
            user:open sesame
            user:open%20sesame"#]]
        .assert_eq(&secrets.join("\n"));
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
