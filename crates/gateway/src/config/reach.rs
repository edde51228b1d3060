//! How a provider is reached: address, shape, credentials, and what every call carries.

use std::collections::BTreeMap;

use backstop_dialect::{AuthStyle, Dialect};
use backstop_store::Secret;
use backstop_triage::{
    Preset,
    preset::{Auth, Format},
};
use http::{HeaderName, HeaderValue};

use super::{AuthMode, BaseUrl, Proxy, section::Section};

pub(super) fn base_url(section: &Section<'_, '_>, preset: Option<&Preset>) -> Option<BaseUrl> {
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

pub(super) fn format(section: &Section<'_, '_>, preset: Option<&Preset>) -> Option<Dialect> {
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

pub(super) fn auth(section: &Section<'_, '_>, preset: Option<&Preset>) -> AuthMode {
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

pub(super) fn key_header(
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

pub(super) fn headers(section: &Section<'_, '_>, preset: Option<&Preset>) -> Vec<(HeaderName, HeaderValue)> {
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

pub(super) fn header(name: &str, value: &str) -> Option<(HeaderName, HeaderValue)> {
    let mut value = HeaderValue::from_str(value).ok()?;
    value.set_sensitive(true);
    Some((name.parse().ok()?, value))
}

pub(super) fn query(section: &Section<'_, '_>, preset: Option<&Preset>) -> Vec<(String, String)> {
    let usual = preset.iter().flat_map(|preset| preset.query.clone());
    let own = section.pairs("query").into_iter().map(|(name, value)| (name, value.value));
    let merged: BTreeMap<String, String> = usual.chain(own).collect();
    merged.into_iter().map(|(name, value)| (encoded(&name), encoded(&value))).collect()
}

pub(super) fn encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

pub(super) fn proxy(section: &Section<'_, '_>) -> Option<Proxy> {
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

pub(super) fn dialect(format: Format) -> Dialect {
    match format {
        Format::OpenaiChat => Dialect::OpenAiChat,
        Format::OpenaiResponses => Dialect::OpenAiResponses,
        Format::AnthropicMessages => Dialect::AnthropicMessages,
        Format::Gemini => Dialect::Gemini,
    }
}

pub(super) fn style(preset: &Preset) -> AuthStyle {
    match &preset.auth {
        Auth::Bearer | Auth::None => AuthStyle::Bearer,
        Auth::XApiKey => AuthStyle::XApiKey,
        Auth::XGoogApiKey => AuthStyle::XGoogApiKey,
        Auth::Header(name) => name.parse().map_or(AuthStyle::Bearer, AuthStyle::Header),
    }
}

/// Ways to log in that need more than a key.
const NOT_BUILT: [&str; 5] = ["sigv4", "oauth", "oauth2", "service-account", "request-signing"];
/// Headers that belong to the connection.
const OURS: [&str; 7] =
    ["host", "content-length", "transfer-encoding", "connection", "te", "upgrade", "accept-encoding"];
