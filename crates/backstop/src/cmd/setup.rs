//! The configuration of a gateway with everything that stands beside it: the environment and the user's rules.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use backstop_gateway::config::{Config, ConfigError, Environment};
use backstop_triage::{Catalog, rules::RuleError};

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
    #[error(
        "listening on {0} opens the dashboard to the network, which needs an admin password: write one of at least ten characters into a file and name it by --admin-password-file or [server] admin_password_file, or listen on 127.0.0.1"
    )]
    NoPassword(SocketAddr),
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
        Ok(Self { config, catalog, rules, packs })
    }
}
