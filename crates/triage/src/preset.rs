//! Provider presets: what a person would otherwise have to look up to use a provider, as data.
//!
//! A preset names the address, the dialect, how the key travels, the rule pack, the endpoints that test a key
//! without cost, and how its usage windows are read ([`crate::probe`]). Presets live in `presets/*.toml`, one
//! file a kind, and are embedded; `docs/rules.md` describes the fields, [`parse`] reads such a file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{ProviderId, embedded::PRESET_FILES, probe::QuotaProbe, rules::RuleError};

/// One provider as people know it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    /// The name in configuration.
    pub id: String,
    /// The name for people.
    pub name: String,
    /// What it costs to use.
    pub kind: PresetKind,
    /// The dialect that it speaks.
    pub format: Format,
    /// Further dialects under the same base URL.
    #[serde(default)]
    pub also: Vec<Format>,
    /// What the provider's documentation calls the base URL. `{name}` is filled in by the configuration.
    pub base_url: String,
    /// How the key travels.
    pub auth: Auth,
    /// Headers that every request carries.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Query parameters that every request carries.
    #[serde(default)]
    pub query: BTreeMap<String, String>,
    /// The rule pack that reads its failures.
    pub rules: ProviderId,
    /// The environment variables that usually hold its key, most usual first.
    #[serde(default)]
    pub env: Vec<String>,
    /// The list of models.
    pub models: Option<Endpoint>,
    /// A free request that only a valid key passes, where the list of models is none.
    pub test: Option<Endpoint>,
    /// The smallest generation.
    #[serde(default)]
    pub generation: Generation,
    /// How usage windows or the balance are read.
    #[serde(default, skip_serializing)]
    pub quota: Vec<QuotaProbe>,
    /// The documentation.
    pub docs: String,
    /// Where a person gets a key.
    pub keys_url: Option<String>,
    /// What a person should know before choosing it.
    pub note: Option<String>,
    /// Models to offer where there is no list.
    #[serde(default)]
    pub default_models: Vec<String>,
}

impl Preset {
    /// The free request whose answer proves the key: the test of its own, or the list of models if that
    /// needs the key.
    pub fn free_test(&self) -> Option<&Endpoint> {
        self.test.as_ref().or_else(|| self.models.as_ref().filter(|models| models.needs_key))
    }

    /// Whether the provider answers without any key.
    pub fn is_keyless(&self) -> bool {
        self.auth == Auth::None || self.kind == PresetKind::Keyless
    }

    /// The names in braces that the configuration has to fill in.
    pub fn placeholders(&self) -> impl Iterator<Item = &str> {
        self.base_url.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| name)
    }
}

/// What a provider costs to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PresetKind {
    /// Answers without a key.
    Keyless,
    /// Has a lasting free tier.
    Free,
    /// Is paid for by use.
    Paid,
    /// Is a subscription with usage windows.
    CodingPlan,
    /// Runs on the user's own machines.
    Local,
}

/// A dialect, by its public name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// Chat completions.
    OpenaiChat,
    /// Responses.
    OpenaiResponses,
    /// Messages.
    AnthropicMessages,
    /// `generateContent`.
    Gemini,
}

impl Format {
    /// The public name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OpenaiChat => "openai-chat",
            Self::OpenaiResponses => "openai-responses",
            Self::AnthropicMessages => "anthropic-messages",
            Self::Gemini => "gemini",
        }
    }
}

/// How a key travels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Auth {
    /// `Authorization: Bearer KEY`.
    Bearer,
    /// `x-api-key: KEY`.
    XApiKey,
    /// `x-goog-api-key: KEY`.
    XGoogApiKey,
    /// Not at all.
    None,
    /// The bare key in a header of this name.
    Header(String),
}

impl From<String> for Auth {
    fn from(name: String) -> Self {
        match name.as_str() {
            "bearer" => Self::Bearer,
            "x-api-key" => Self::XApiKey,
            "x-goog-api-key" => Self::XGoogApiKey,
            "none" => Self::None,
            _ => Self::Header(name),
        }
    }
}

impl From<Auth> for String {
    fn from(auth: Auth) -> Self {
        match auth {
            Auth::Bearer => "bearer".to_owned(),
            Auth::XApiKey => "x-api-key".to_owned(),
            Auth::XGoogApiKey => "x-goog-api-key".to_owned(),
            Auth::None => "none".to_owned(),
            Auth::Header(name) => name,
        }
    }
}

/// A GET endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    /// A path below the base URL (`/models`), one below its origin (`{origin}/api/x`), or a whole URL.
    pub url: String,
    /// Whether it refuses a wrong key.
    #[serde(default = "yes")]
    pub needs_key: bool,
}

impl Endpoint {
    /// The whole URL for a base URL.
    pub fn resolve(&self, base_url: &str) -> String {
        resolve(&self.url, base_url)
    }
}

/// The smallest generation, for a connection test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Generation {
    /// The path below the base URL; by default the dialect's own.
    pub path: Option<String>,
    /// The fewest output tokens it accepts: 1, or 16 where reasoning models need them.
    pub min_tokens: u32,
    /// The parameter that carries them, where it is not the dialect's own.
    pub token_field: Option<String>,
    /// A cheap model to test with, where the user has named none.
    pub model: Option<String>,
}

impl Default for Generation {
    fn default() -> Self {
        Self { path: None, min_tokens: 1, token_field: None, model: None }
    }
}

/// Reads the presets of one file.
pub fn parse(file: &str, text: &str) -> Result<Vec<Preset>, RuleError> {
    let wrong = |line, problem: String, fix: &str| RuleError {
        file: file.to_owned(),
        line,
        problem,
        fix: fix.to_owned(),
    };
    let document: Document = toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_of(text, span.start));
        wrong(line, error.message().replace('\n', " "), "see docs/rules.md for the fields of a preset")
    })?;
    let mut presets: Vec<Preset> = Vec::new();
    for entry in document.preset {
        let line = line_of(text, entry.span().start);
        let preset = entry.into_inner();
        if presets.iter().any(|known| known.id == preset.id) {
            return Err(wrong(
                line,
                format!("the id {:?} is taken", preset.id),
                "give every preset its own id",
            ));
        }
        if let Err((problem, fix)) = check(&preset) {
            return Err(wrong(line, format!("preset {:?}: {problem}", preset.id), fix));
        }
        presets.push(preset);
    }
    Ok(presets)
}

/// Every embedded preset, file by file.
pub fn embedded() -> Result<Vec<Preset>, RuleError> {
    let files: Result<Vec<_>, _> = PRESET_FILES.iter().map(|(file, text)| parse(file, text)).collect();
    Ok(files?.into_iter().flatten().collect())
}

/// Puts an endpoint's URL on a base URL.
pub(crate) fn resolve(url: &str, base_url: &str) -> String {
    let base = base_url.trim_end_matches('/');
    if let Some(path) = url.strip_prefix("{origin}") {
        return format!("{}{path}", origin(base));
    }
    if url.starts_with('/') { format!("{base}{url}") } else { url.to_owned() }
}

fn origin(base_url: &str) -> &str {
    let host = base_url.find("://").map_or(0, |at| at + 3);
    base_url[host..].find('/').map_or(base_url, |slash| &base_url[..host + slash])
}

fn check(preset: &Preset) -> Result<(), (String, &'static str)> {
    let word = |text: &str| {
        text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    };
    if preset.id.is_empty() || !word(&preset.id) {
        return Err(("a wrong id".to_owned(), "use lower-case letters, digits and dashes"));
    }
    let local = preset.kind == PresetKind::Local;
    if !(preset.base_url.starts_with("https://") || local && preset.base_url.starts_with("http://")) {
        let problem = format!("base_url is {:?}", preset.base_url);
        return Err((problem, "begin it with https:// (http:// only for a local server)"));
    }
    if preset.base_url.ends_with('/') {
        return Err(("base_url ends with a slash".to_owned(), "drop the slash"));
    }
    if let Auth::Header(name) = &preset.auth
        && !word(name)
    {
        let problem = format!("unknown auth {name:?}");
        return Err((
            problem,
            "use bearer, x-api-key, x-goog-api-key, none or a header's name in lower case",
        ));
    }
    if preset.models.is_none() && preset.default_models.is_empty() {
        return Err((
            "no list of models".to_owned(),
            "name the endpoint in models, or the models in default_models",
        ));
    }
    preset.quota.iter().try_for_each(QuotaProbe::check)
}

fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

const fn yes() -> bool {
    true
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    preset: Vec<toml::Spanned<Preset>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_embedded_preset_loads_and_there_are_many() {
        let presets = embedded().unwrap();
        assert!(presets.len() >= 100, "{}", presets.len());
        for kind in [
            PresetKind::Keyless,
            PresetKind::Free,
            PresetKind::Paid,
            PresetKind::CodingPlan,
            PresetKind::Local,
        ] {
            assert!(presets.iter().any(|preset| preset.kind == kind), "{kind:?}");
        }
    }

    #[test]
    fn every_base_url_is_one_and_names_a_host() {
        for preset in embedded().unwrap() {
            let rest = preset.base_url.split_once("://").unwrap().1;
            let host = rest.split('/').next().unwrap();
            assert!(host.contains('.') && !host.contains('@'), "{}", preset.base_url);
            assert!(!preset.base_url.contains(['?', '#', ' ']), "{}", preset.base_url);
            assert!(preset.docs.starts_with("https://"), "{}", preset.id);
        }
    }

    #[test]
    fn every_environment_name_belongs_to_one_preset() {
        let mut owners = BTreeMap::new();
        for preset in embedded().unwrap() {
            for name in preset.env {
                let other = owners.insert(name.clone(), preset.id.clone());
                assert_eq!(other, None, "{name} is claimed twice");
            }
        }
    }

    #[test]
    fn endpoints_resolve_below_the_base_its_origin_or_alone() {
        let at = |url: &str| resolve(url, "https://api.example.com/v1");
        assert_eq!(at("/models"), "https://api.example.com/v1/models");
        assert_eq!(at("{origin}/user/balance"), "https://api.example.com/user/balance");
        assert_eq!(at("https://other.example/x"), "https://other.example/x");
    }

    #[test]
    fn a_list_that_anybody_may_read_is_no_test_of_a_key() {
        let presets = embedded().unwrap();
        let preset = |id: &str| presets.iter().find(|preset| preset.id == id).unwrap();
        assert_eq!(preset("openai").free_test().unwrap().url, "/models");
        assert_eq!(preset("openrouter").free_test().unwrap().url, "/key");
        assert_eq!(preset("nvidia").free_test(), None);
    }

    #[test]
    fn a_mistake_is_reported_with_file_and_line() {
        let wrong = "[[preset]]\nid = \"x\"\nname = \"X\"\nkind = \"paid\"\nformat = \"soap\"\n";
        let error = parse("mine.toml", wrong).unwrap_err();
        assert_eq!((error.file.as_str(), error.line), ("mine.toml", 5));
        let unknown = "[[preset]]\nid = \"x\"\ncolour = \"red\"\n";
        assert_eq!(parse("mine.toml", unknown).unwrap_err().line, 3);
    }

    #[test]
    fn an_address_in_the_clear_is_for_local_servers_only() {
        let text = "[[preset]]\nid = \"x\"\nname = \"X\"\nkind = \"paid\"\nformat = \"openai-chat\"\n\
            base_url = \"http://x.example/v1\"\nauth = \"bearer\"\nrules = \"generic\"\n\
            models = { url = \"/models\" }\ndocs = \"https://x.example\"\n";
        let error = parse("mine.toml", text).unwrap_err();
        assert!(error.to_string().contains("https://"), "{error}");
    }
}
