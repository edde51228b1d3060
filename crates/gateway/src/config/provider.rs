//! `[[provider]]`: how one provider is reached, with which keys, and where to go when it fails.
//!
//! A preset gives what the file leaves out; global settings lie under the provider's own.

use std::{collections::BTreeMap, ops::Range, path::PathBuf, sync::Arc};

use backstop_dialect::{AuthStyle, Dialect};
use backstop_store::Secret;
use backstop_triage::{
    ModelId, Preset, ProviderId, Settings,
    preset::{Auth, Format},
};
use http::{HeaderName, HeaderValue};

use super::{
    BaseUrl, Environment, Key, key,
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

fn dialect(format: Format) -> Dialect {
    match format {
        Format::OpenaiChat => Dialect::OpenAiChat,
        Format::OpenaiResponses => Dialect::OpenAiResponses,
        Format::AnthropicMessages => Dialect::AnthropicMessages,
        Format::Gemini => Dialect::Gemini,
    }
}

fn style(preset: &Preset) -> AuthStyle {
    match &preset.auth {
        Auth::Bearer | Auth::None => AuthStyle::Bearer,
        Auth::XApiKey => AuthStyle::XApiKey,
        Auth::XGoogApiKey => AuthStyle::XGoogApiKey,
        Auth::Header(name) => name.parse().map_or(AuthStyle::Bearer, AuthStyle::Header),
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

fn base_url(section: &Section<'_, '_>, preset: Option<&Preset>) -> Option<BaseUrl> {
    let own = section.text("base_url");
    if own.is_none() && !section.has("base_url") && !section.has("preset") {
        let fix = "add `base_url = \"https://…\"` and `format`, or choose a `preset`";
        section.report(section.at(), "[[provider]] has neither `base_url` nor `preset`", fix);
    }
    let Some(own) = own else {
        return base_url_of(section, preset?);
    };
    let url = BaseUrl::parse(&own.value);
    match &url {
        Err(reason) => {
            let fix =
                "write it as the provider's documentation does, for example \"https://api.example.com/v1\"";
            section.report(&own.at, format!("`base_url` cannot be used: {reason}"), fix);
        }
        Ok(url) if !url.tls && !url.is_loopback() && section.flag("allow_private") != Some(true) => {
            let what = format!("`base_url` would send keys and prompts to {} without encryption", url.host);
            section.report(
                &own.at,
                what,
                "use https://, or set `allow_private = true` for a host in your own network",
            );
        }
        Ok(_) => {}
    }
    url.ok()
}

fn base_url_of(section: &Section<'_, '_>, preset: &Preset) -> Option<BaseUrl> {
    if let Some(name) = preset.placeholders().next() {
        let what = format!("preset \"{}\" needs `base_url`: its own has a part for your `{name}`", preset.id);
        section.report(
            section.at(),
            what,
            format!("add `base_url = \"{}\"` with {{{name}}} filled in", preset.base_url),
        );
        return None;
    }
    BaseUrl::parse(&preset.base_url).ok()
}

fn format(section: &Section<'_, '_>, preset: Option<&Preset>) -> Option<Dialect> {
    let words = Dialect::ALL.map(|dialect| (dialect.as_str(), dialect));
    if let Some(own) = section.choice("format", &words) {
        return Some(own.value);
    }
    let format = preset.map(|preset| dialect(preset.format));
    if format.is_none() && !section.has("format") && !section.has("preset") {
        let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        section.report(section.at(), "[[provider]] needs `format`", format!("one of {}", all.join(", ")));
    }
    format
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

fn auth(section: &Section<'_, '_>, preset: Option<&Preset>) -> AuthMode {
    let usual = if preset.is_some_and(Preset::is_keyless) { AuthMode::None } else { AuthMode::Managed };
    let Some(word) = section.text("auth") else {
        return if section.has("key") { AuthMode::Managed } else { usual };
    };
    let modes =
        [("managed", AuthMode::Managed), ("none", AuthMode::None), ("pass-through", AuthMode::PassThrough)];
    if NOT_BUILT.contains(&word.value.to_ascii_lowercase().as_str()) {
        let what = format!(
            "`auth = \"{}\"` needs request signing or token refresh, which is not built yet",
            word.value
        );
        section.report(
            &word.at,
            what,
            "reach the provider through a relay that takes plain keys, and configure the relay",
        );
        return AuthMode::None;
    }
    section.choice("auth", &modes).map_or(AuthMode::Managed, |choice| choice.value)
}

fn key_header(
    section: &Section<'_, '_>,
    preset: Option<&Preset>,
    format: Option<Dialect>,
) -> Option<AuthStyle> {
    if let Some(own) = section.text("key_header") {
        let style = own.value.parse::<AuthStyle>();
        if let Err(reason) = &style {
            let fix = "one of \"bearer\", \"x-api-key\", \"x-goog-api-key\", \"header:NAME\", \"query:NAME\"";
            section.report(&own.at, format!("`key_header` cannot be \"{}\": {reason}", own.value), fix);
        }
        return style.ok();
    }
    preset.map(style).or_else(|| format.map(AuthStyle::of))
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

fn headers(section: &Section<'_, '_>, preset: Option<&Preset>) -> Vec<(HeaderName, HeaderValue)> {
    let usual =
        preset.iter().flat_map(|preset| &preset.headers).filter_map(|(name, value)| header(name, value));
    let mut headers: BTreeMap<String, (HeaderName, HeaderValue)> =
        usual.map(|pair| (pair.0.as_str().to_owned(), pair)).collect();
    for (name, value) in section.pairs("headers") {
        match header(&name, &value.value) {
            Some(pair) if OURS.contains(&pair.0.as_str()) => {
                let what = format!("the header `{name}` cannot be set");
                section.report(&value.at, what, "remove it: the connection itself decides it");
            }
            Some(pair) => drop(headers.insert(pair.0.as_str().to_owned(), pair)),
            None => section.report(&value.at, format!("`{name}` is no header"), "check its name and value"),
        }
    }
    headers.into_values().collect()
}

fn header(name: &str, value: &str) -> Option<(HeaderName, HeaderValue)> {
    let mut value = HeaderValue::from_str(value).ok()?;
    value.set_sensitive(true);
    Some((name.parse().ok()?, value))
}

fn query(section: &Section<'_, '_>, preset: Option<&Preset>) -> Vec<(String, String)> {
    let usual = preset.iter().flat_map(|preset| preset.query.clone());
    let own = section.pairs("query").into_iter().map(|(name, value)| (name, value.value));
    let merged: BTreeMap<String, String> = usual.chain(own).collect();
    merged.into_iter().map(|(name, value)| (encoded(&name), encoded(&value))).collect()
}

fn encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
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

fn proxy(section: &Section<'_, '_>) -> Option<Proxy> {
    let text = section.text("proxy")?;
    let uri = text.value.parse::<http::Uri>().ok();
    let parsed = uri.filter(|uri| uri.scheme_str() == Some("http")).and_then(|uri| {
        let authority = uri.authority()?.clone();
        let credentials =
            authority.as_str().rsplit_once('@').map(|(credentials, _)| Secret::new(credentials));
        Some(Proxy {
            host: authority.host().trim_matches(['[', ']']).to_owned(),
            port: authority.port_u16().unwrap_or(3128),
            credentials,
        })
    });
    if parsed.is_none() {
        section.report(&text.at, "`proxy` is no HTTP proxy", "write it as \"http://host:port\"");
    }
    parsed
}

/// The rule pack of a provider that names none.
const GENERIC_RULES: &str = "generic";
/// Ways to log in that need more than a key.
const NOT_BUILT: [&str; 7] =
    ["sigv4", "aws", "oauth", "oauth2", "service-account", "google-service-account", "vertex"];
/// Headers that belong to the connection.
const OURS: [&str; 7] =
    ["host", "content-length", "transfer-encoding", "connection", "te", "upgrade", "accept-encoding"];
