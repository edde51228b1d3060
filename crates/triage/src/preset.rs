//! Presets: what must be known of a provider to call it. One file each, `presets/*.toml`; `docs/rules.md`
//! describes the fields.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::rules::RuleError;

/// How to reach one product of one provider.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    /// The preset's id: the file's name.
    pub id: String,
    /// The name that people know.
    pub name: String,
    /// The API's shape: `openai-chat`, `openai-responses`, `anthropic-messages` or `gemini`.
    pub format: String,
    /// The base URL as the provider's own documentation gives it.
    pub base_url: String,
    /// How a key travels: `bearer`, `x-api-key`, `x-goog-api-key`, `header:NAME` or `none`.
    #[serde(default = "bearer")]
    pub auth: String,
    /// The rule pack.
    pub rules: String,
    /// Environment variables that usually hold a key.
    #[serde(default)]
    pub env: Vec<String>,
    /// Headers that every call needs.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Query parameters that every call needs.
    #[serde(default)]
    pub query: BTreeMap<String, String>,
    /// Models to begin with, best first.
    #[serde(default)]
    pub models: Vec<String>,
    /// Where a person gets a key.
    #[serde(default)]
    pub keys_url: Option<String>,
    /// A `GET` that lists models: a path below `base_url` or a whole URL.
    #[serde(default)]
    pub models_path: Option<String>,
    /// A free `GET` that only a valid key passes: a path below `base_url` or a whole URL.
    #[serde(default)]
    pub test_path: Option<String>,
    /// A `GET` that tells usage windows or the balance.
    #[serde(default)]
    pub quota: Option<QuotaProbe>,
    /// A model that a smallest generation can be tested with.
    #[serde(default)]
    pub test_model: Option<String>,
    /// What a person should know before choosing it.
    #[serde(default)]
    pub note: Option<String>,
}

impl Preset {
    /// Reads a preset. `file` is its file name, which must be its id with `.toml`.
    pub fn parse(file: &str, toml: &str) -> Result<Self, RuleError> {
        let wrong = |line, problem: String, fix: &str| RuleError {
            file: file.to_owned(),
            line,
            problem,
            fix: fix.to_owned(),
        };
        let preset: Self = toml::from_str(toml).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let line = 1 + toml.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count();
            wrong(line, error.message().replace('\n', " "), "see docs/rules.md for the fields of a preset")
        })?;
        if file.strip_suffix(".toml") != Some(&preset.id) {
            let problem = format!("id is {:?} but the file is {file:?}", preset.id);
            return Err(wrong(1, problem, "make them the same"));
        }
        if !FORMATS.contains(&preset.format.as_str()) {
            let problem = format!("unknown format {:?}", preset.format);
            return Err(wrong(1, problem, "use openai-chat, openai-responses, anthropic-messages or gemini"));
        }
        Ok(preset)
    }
}

/// Where usage windows or a balance can be read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuotaProbe {
    /// A path below `base_url` or a whole URL.
    pub path: String,
    /// How its answer is read.
    pub reader: String,
    /// How the key travels there, if otherwise than usual.
    #[serde(default)]
    pub auth: Option<String>,
}

fn bearer() -> String {
    "bearer".to_owned()
}

const FORMATS: [&str; 4] = ["openai-chat", "openai-responses", "anthropic-messages", "gemini"];
