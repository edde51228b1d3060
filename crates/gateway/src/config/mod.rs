//! The configuration: `backstop.toml` read into what the gateway runs on.
//!
//! Reading is a function of a text, an [`Environment`] and the [`Catalog`] of presets. Tables are read field by field
//! (`section`); what nobody asks for is an unknown field. The result is resolved: defaults filled in, presets and
//! global settings laid under each provider, variables replaced, files read. All mistakes of a file are reported at
//! once, each with its line and its fix.

mod alert;
mod base_url;
mod environment;
mod key;
mod problem;
mod provider;
mod reach;
mod routes;
mod section;
mod server;
mod source;
mod tunables;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use backstop_triage::Settings;
use toml::de::DeTable;

pub(crate) use self::section::nearest;
pub use self::{
    alert::Alert,
    base_url::BaseUrl,
    environment::{Environment, ExpandError},
    key::Key,
    problem::{ConfigError, Problem},
    provider::{AuthMode, Fallback, Provider, Proxy},
    routes::{Alias, Client, Combo, Member, SHORTEST_CLIENT_KEY},
    server::{Otlp, Server},
};
use self::{section::Section, source::Source};
use backstop_triage::Catalog;

/// A resolved configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// The file it came from; `None` when the environment alone was read.
    pub file: Option<PathBuf>,
    /// Whether there was nothing in it.
    pub is_blank: bool,
    /// How the gateway listens and what it bounds.
    pub server: Server,
    /// The settings that hold where a provider has none of its own.
    pub settings: Arc<Settings>,
    /// The providers, in order of the file.
    pub providers: Vec<Provider>,
    /// Virtual providers.
    pub combos: Vec<Combo>,
    /// Short names of models, as (provider or combo, model).
    pub aliases: BTreeMap<String, Alias>,
    /// Provisioned client keys.
    pub clients: Vec<Client>,
    /// Where alerts go.
    pub alerts: Vec<Alert>,
    /// What works but will surprise.
    pub warnings: Vec<Problem>,
}

impl Config {
    /// Reads the file that was named, else the one in the usual place, else what the environment offers.
    pub fn load(
        named: Option<&Path>,
        environment: &Environment,
        catalog: &Catalog,
    ) -> Result<Self, ConfigError> {
        if let Some(path) = named {
            return Self::read_file(path, environment, catalog);
        }
        match environment.config_file().filter(|path| path.exists()) {
            Some(path) => Self::read_file(&path, environment, catalog),
            None => Self::parse("", Path::new(""), environment, catalog)
                .map(|config| Self { file: None, ..config }),
        }
    }

    /// Reads a text as the file at `path`.
    pub fn parse(
        text: &str,
        path: &Path,
        environment: &Environment,
        catalog: &Catalog,
    ) -> Result<Self, ConfigError> {
        let file =
            if path.as_os_str().is_empty() { "environment".to_owned() } else { path.display().to_string() };
        let folder = path.parent().unwrap_or_else(|| Path::new(""));
        let source = Source::new(text, folder, environment);
        let document = DeTable::parse(text).map_err(|error| syntax(&file, text, &error))?;
        let config = read(&Section::root(&source, &document), path, catalog);
        let (problems, warnings) = source.into_findings();
        if problems.is_empty() {
            Ok(Self { warnings, is_blank: text.trim().is_empty(), ..config })
        } else {
            Err(ConfigError { file, problems })
        }
    }

    /// The annotated example: every table and every setting.
    pub const EXAMPLE: &str = include_str!("example.toml");

    fn read_file(path: &Path, environment: &Environment, catalog: &Catalog) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            let fix = "check the path given by --config, and that this user may read it";
            ConfigError::of_file(&path.display().to_string(), format!("cannot be read: {error}"), fix)
        })?;
        Self::parse(&text, path, environment, catalog)
    }
}

fn read(root: &Section<'_, '_>, path: &Path, catalog: &Catalog) -> Config {
    let server = server::read(root);
    let tunables = tunables::global(root);
    let settings = Arc::new(tunables.settings());
    let mut providers: Vec<Provider> = root
        .sections("provider")
        .into_iter()
        .filter_map(|section| provider::read(&section, &tunables, catalog))
        .collect();
    if providers.is_empty() && !root.has("provider") {
        providers = provider::from_environment(root.source.environment, &settings, catalog);
    }
    let combos = routes::combos(root);
    let aliases = routes::aliases(root);
    routes::check(root, &mut providers, &combos, &aliases);
    let clients = routes::clients(root);
    let alerts = alert::read(root);
    root.finish();
    let file = Some(path.to_owned()).filter(|path| !path.as_os_str().is_empty());
    Config {
        file,
        is_blank: false,
        server,
        settings,
        providers,
        combos,
        aliases,
        clients,
        alerts,
        warnings: Vec::new(),
    }
}

fn syntax(file: &str, text: &str, error: &toml::de::Error) -> ConfigError {
    let at = error.span().map_or(0, |span| span.start);
    let line = 1 + text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count();
    let what = format!("this is no TOML: {}", error.message().replace('\n', ", "));
    let fix = "see `backstop check --example` for a complete file".to_owned();
    ConfigError { file: file.to_owned(), problems: vec![Problem { line, what, fix }] }
}

/// Remembers names and reports those that come twice.
#[derive(Default)]
struct Unique(BTreeSet<String>);

impl Unique {
    fn check(&mut self, section: &Section<'_, '_>, what: &str, name: &section::Located<String>) {
        if !self.0.insert(name.value.clone()) {
            section.report(
                &name.at,
                format!("{what} \"{}\" comes twice", name.value),
                "give each its own name",
            );
        }
    }
}

#[cfg(test)]
mod tests;
