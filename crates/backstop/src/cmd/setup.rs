//! The configuration of a gateway with everything that stands beside it: the environment and the user's rules.

use std::{
    fs,
    path::{Path, PathBuf},
};

use backstop_alerts::{Channel, ChannelConfig, Source};
use backstop_gateway::config::{Config, ConfigError, Environment};
use backstop_triage::{Catalog, rules::RuleError};
use jiff::tz::TimeZone;

use super::own_rules;

/// What a gateway starts from.
pub(crate) struct Setup {
    pub(crate) config: Config,
    pub(crate) catalog: Catalog,
    /// The folder of the user's own rule packs, whether or not it is there.
    pub(crate) rules: Option<PathBuf>,
    /// The user's own rule packs that were found: file names and texts.
    pub(crate) packs: Vec<(String, String)>,
}

/// Why a set-up cannot work. Every message says where and what to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SetupError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Rules(#[from] RuleError),
}

impl Setup {
    /// Reads the configuration that is named, else the usual one, else the environment; and the rule packs in the
    /// folder `rules` beside it.
    pub(crate) fn load(named: Option<&Path>) -> anyhow::Result<Self> {
        let environment = Environment::of_process();
        let file = named.map(Path::to_owned).or_else(|| environment.config_file());
        let rules = file.as_deref().and_then(own_rules::beside);
        let (catalog, packs) = own_rules::load(rules.as_deref()).map_err(SetupError::from)?;
        let config = Config::load(named, &environment, &catalog).map_err(SetupError::from)?;
        check_alerts(&config, &environment).map_err(SetupError::from)?;
        Ok(Self { config, catalog, rules, packs })
    }
}

/// Lets the deliverer of alerts look at what only it understands.
fn check_alerts(config: &Config, environment: &Environment) -> Result<(), ConfigError> {
    let file =
        config.file.as_deref().map_or_else(|| "environment".to_owned(), |file| file.display().to_string());
    let lookup = |source: Source<'_>| match source {
        Source::Environment(name) => environment.var(name).map(str::to_owned),
        Source::File(path) => fs::read_to_string(path).ok(),
    };
    for alert in &config.alerts {
        let fix = "`backstop check --example` shows a channel of each kind";
        let wrong = |what: String| {
            let mut error = ConfigError::of_file(&file, what, fix);
            error.problems.iter_mut().for_each(|problem| problem.line = alert.line);
            error
        };
        let channel: ChannelConfig = alert
            .fields
            .clone()
            .try_into()
            .map_err(|error: toml::de::Error| wrong(error.message().to_owned()))?;
        Channel::new(&channel, &lookup, &TimeZone::system()).map_err(|error| wrong(error.to_string()))?;
    }
    Ok(())
}
