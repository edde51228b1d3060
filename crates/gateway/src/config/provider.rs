//! `[[provider]]`: how one provider is reached, with which keys, and where to go when it fails.
//!
//! A preset gives what the file leaves out; global settings lie under the provider's own.

use std::{collections::BTreeMap, ops::Range, path::PathBuf, sync::Arc};

use backstop_dialect::{AuthStyle, Dialect};
use backstop_store::Secret;
use backstop_triage::{ModelId, Preset, ProviderId, Settings};
use http::{HeaderName, HeaderValue};

use super::{
    BaseUrl, Environment, Key, key,
    reach::{auth, base_url, dialect, encoded, format, header, headers, key_header, proxy, query, style},
    section::{Located, Section, nearest},
    tunables::Tunables,
};
use backstop_triage::Catalog;

/// One provider, resolved.
#[derive(Clone, Debug)]
pub struct Provider {
    /// Its id in paths, logs and models.
    pub id: ProviderId,
    /// The API shape that it speaks.
    pub format: Dialect,
    /// Further shapes under the same base URL.
    pub also: Vec<Dialect>,
    /// Where its API lies.
    pub base_url: BaseUrl,
    /// The rule pack that reads its failures.
    pub rules: ProviderId,
    /// The preset that it was made from.
    pub preset: Option<String>,
    /// Whose credential travels upstream.
    pub auth: AuthMode,
    /// How a key travels.
    pub key_header: AuthStyle,
    /// Its models, in order of fallback.
    pub models: Vec<ModelId>,
    /// Its keys, in order of priority.
    pub keys: Vec<Key>,
    /// Where to go when it cannot answer, in order.
    pub fallbacks: Vec<Fallback>,
    /// Its settings, with the global ones laid under.
    pub settings: Arc<Settings>,
    /// Whether `timeout_ms` was set for this provider, so that it bounds answers that are no streams too.
    pub timeout_is_own: bool,
    /// Headers that every call carries.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Query parameters that every call carries, percent-encoded.
    pub query: Vec<(String, String)>,
    /// Context lengths in tokens.
    pub context: BTreeMap<ModelId, u64>,
    /// The HTTP proxy to go through.
    pub proxy: Option<Proxy>,
    /// A file with certificates that are trusted beside the system's.
    pub ca_file: Option<PathBuf>,
    /// Whether it may be reached without TLS, and at link-local addresses.
    pub allow_private: bool,
    /// Whether it was read from the configuration file, and so is read-only elsewhere.
    pub from_file: bool,
}

/// Whose credential travels upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthMode {
    /// One of the provider's keys.
    Managed,
    /// None.
    None,
    /// The client's own.
    PassThrough,
}

/// An HTTP proxy between us and a provider.
#[derive(Clone, Debug)]
pub struct Proxy {
    /// Its host.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The credentials from its URL, as `user:password`.
    pub credentials: Option<Secret>,
}

/// One step of a provider's fallback chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fallback {
    /// The provider.
    pub provider: ProviderId,
    /// The model there; the requested one if none is named.
    pub model: Option<ModelId>,
    /// Where it stands in the file.
    pub(super) at: Range<usize>,
}

impl Fallback {
    /// A step that stands in no file.
    pub fn new(provider: ProviderId, model: Option<ModelId>) -> Self {
        Self { provider, model, at: 0..0 }
    }
}

/// Reads one `[[provider]]`. `None` if too little of it can be used; the reasons are reported.
pub(super) fn read(section: &Section<'_, '_>, global: &Tunables, catalog: &Catalog) -> Option<Provider> {
    let source = section.source;
    let id = section.required_text("id", "\"my-provider\"").filter(|id| well_named(section, id));
    let preset = preset(section, catalog);
    let base_url = base_url(section, preset);
    let format = format(section, preset);
    let rules = rules(section, preset, catalog);
    let auth = auth(section, preset);
    let key_header = key_header(section, preset, format);
    let keys = section.sections("key");
    let keys: Vec<Key> = keys.iter().enumerate().flat_map(|(index, key)| key::read(key, index + 1)).collect();
    check_keys(section, auth, &keys);
    let models = models(section, preset);
    let fallbacks = section.sections("fallback").iter().filter_map(fallback).collect();
    let settings = Arc::new(global.overlaid(section).settings());
    let timeout_is_own = section.has("timeout_ms");
    let headers = headers(section, preset);
    let query = query(section, preset);
    let context = context(section);
    let proxy = proxy(section);
    let ca_file = section.text("ca_file").map(|file| source.environment.path(&file.value, &source.folder));
    let allow_private = section.flag("allow_private").unwrap_or(false);
    section.finish();
    Some(Provider {
        id: ProviderId::from(id?.value),
        format: format?,
        also: preset.iter().flat_map(|preset| &preset.also).map(|format| dialect(*format)).collect(),
        base_url: base_url?,
        rules,
        preset: preset.map(|preset| preset.id.clone()),
        auth,
        key_header: key_header?,
        models,
        keys,
        fallbacks,
        settings,
        timeout_is_own,
        headers,
        query,
        context,
        proxy,
        ca_file,
        allow_private,
        from_file: true,
    })
}

/// The providers whose usual environment variables are set.
pub(super) fn from_environment(
    environment: &Environment,
    settings: &Arc<Settings>,
    catalog: &Catalog,
) -> Vec<Provider> {
    let provider = |preset: &Preset| {
        let keys = preset.env.iter().flat_map(|name| environment.keys(name));
        let keys: Vec<Key> =
            keys.map(|(label, key)| Key { label, secret: Secret::new(&key), account: None }).collect();
        if keys.is_empty() { None } else { of_preset(preset, keys, settings) }
    };
    catalog.presets().iter().filter_map(provider).collect()
}

fn of_preset(preset: &Preset, keys: Vec<Key>, settings: &Arc<Settings>) -> Option<Provider> {
    Some(Provider {
        id: ProviderId::from(preset.id.as_str()),
        format: dialect(preset.format),
        also: preset.also.iter().map(|format| dialect(*format)).collect(),
        base_url: BaseUrl::parse(&preset.base_url).ok()?,
        rules: preset.rules.clone(),
        preset: Some(preset.id.clone()),
        auth: if preset.is_keyless() { AuthMode::None } else { AuthMode::Managed },
        key_header: style(preset),
        models: preset.default_models.iter().map(|model| ModelId::from(model.as_str())).collect(),
        keys,
        fallbacks: Vec::new(),
        settings: Arc::clone(settings),
        timeout_is_own: false,
        headers: preset.headers.iter().filter_map(|(name, value)| header(name, value)).collect(),
        query: preset.query.iter().map(|(name, value)| (encoded(name), encoded(value))).collect(),
        context: BTreeMap::new(),
        proxy: None,
        ca_file: None,
        allow_private: false,
        from_file: false,
    })
}

impl Provider {
    /// Whether requests of a dialect can be passed on to it.
    pub fn passes(&self, dialect: Dialect) -> bool {
        self.format.passes(dialect) || self.also.iter().any(|also| also.passes(dialect))
    }
}

fn well_named(section: &Section<'_, '_>, id: &Located<String>) -> bool {
    let letters = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    let fine =
        id.value.chars().all(letters) && id.value.starts_with(|letter: char| letter.is_ascii_alphanumeric());
    if !fine {
        let fix = "use letters, digits, `-`, `_` and `.`, beginning with a letter or digit";
        section.report(&id.at, format!("`id` cannot be \"{}\": it stands in paths", id.value), fix);
    }
    fine
}

fn preset<'c>(section: &Section<'_, '_>, catalog: &'c Catalog) -> Option<&'c Preset> {
    let name = section.text("preset")?;
    let preset = catalog.preset(&name.value);
    if preset.is_none() {
        let known = catalog.presets().iter().map(|preset| preset.id.as_str());
        let fix = nearest(&name.value, known).map_or_else(
            || "leave `preset` out and set `format` and `base_url`".to_owned(),
            |near| format!("did you mean \"{near}\"? Or leave it out and set `format` and `base_url`"),
        );
        section.report(&name.at, format!("there is no preset \"{}\"", name.value), fix);
    }
    preset
}

fn rules(section: &Section<'_, '_>, preset: Option<&Preset>, catalog: &Catalog) -> ProviderId {
    let Some(own) = section.text("rules") else {
        return preset.map_or_else(|| ProviderId::from(GENERIC_RULES), |preset| preset.rules.clone());
    };
    let known: Vec<&str> = catalog.packs().iter().map(|pack| pack.id.as_str()).collect();
    if !known.contains(&own.value.as_str()) {
        let fix = nearest(&own.value, known.iter().copied()).map_or_else(
            || "`backstop rules list` shows them; leave it out for the generic rules".to_owned(),
            |near| format!("did you mean \"{near}\"? `backstop rules list` shows them all"),
        );
        section.report(&own.at, format!("there is no rule pack \"{}\"", own.value), fix);
    }
    ProviderId::from(own.value)
}

fn check_keys(section: &Section<'_, '_>, auth: AuthMode, keys: &[Key]) {
    let mut labels = std::collections::BTreeSet::new();
    let mut secrets = BTreeMap::new();
    for key in keys {
        if !labels.insert(key.label.as_str()) {
            section.report(
                section.at(),
                format!("two keys are called \"{}\"", key.label),
                "give each key its own `label`",
            );
        }
        if let Some(other) = secrets.insert(key.secret.expose(), key.label.as_str()) {
            let what = format!("the keys \"{other}\" and \"{}\" are the same", key.label);
            section.report(section.at(), what, "remove one: the same key twice only doubles its failures");
        }
    }
    if auth != AuthMode::Managed && !keys.is_empty() {
        let what = "[[provider]] has keys, but `auth` says that none of them is used";
        section.report(section.at(), what, "remove the keys, or set `auth = \"managed\"`");
    }
}

fn models(section: &Section<'_, '_>, preset: Option<&Preset>) -> Vec<ModelId> {
    let own = section.texts("models");
    if section.has("models") {
        return own.into_iter().map(|model| ModelId::from(model.value)).collect();
    }
    let usual = preset.iter().flat_map(|preset| &preset.default_models);
    usual.map(|model| ModelId::from(model.as_str())).collect()
}

fn fallback(section: &Section<'_, '_>) -> Option<Fallback> {
    let provider = section.required_text("provider", "\"other-provider\"");
    let model = section.text("model").map(|model| ModelId::from(model.value));
    section.finish();
    let provider = provider?;
    Some(Fallback { provider: ProviderId::from(provider.value), model, at: provider.at })
}

fn context(section: &Section<'_, '_>) -> BTreeMap<ModelId, u64> {
    let length = |(model, located): (String, Located<&toml::de::DeValue<'_>>)| {
        let tokens =
            located.value.as_integer().and_then(|number| number.as_str().replace('_', "").parse().ok());
        if tokens.is_none() {
            section.report(
                &located.at,
                format!("the context length of {model} is no number"),
                "write tokens, as in 131072",
            );
        }
        Some((ModelId::from(model), tokens?))
    };
    section.entries("context").into_iter().filter_map(length).collect()
}

/// The rule pack of a provider that names none.
const GENERIC_RULES: &str = "generic";
