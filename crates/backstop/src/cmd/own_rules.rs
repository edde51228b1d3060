//! The user's own rule packs: the folder `rules` beside the configuration.
//!
//! Every command that reads failures takes them from here, so that all of them come to the same verdict.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use backstop_gateway::config::Environment;
use backstop_triage::{Catalog, rules::RuleError};

/// The name and the text of a file.
pub(crate) type Pack = (String, String);

/// Where the packs of one's own lie.
#[derive(clap::Args)]
pub(crate) struct OwnRules {
    /// The folder of your own rule packs; default: `rules` beside the configuration ($BACKSTOP_CONFIG, else
    /// ~/.config/backstop/backstop.toml).
    #[arg(long, value_name = "DIR", global = true)]
    rules: Option<PathBuf>,
}

impl OwnRules {
    /// The packs: file names and texts. A folder that was named must be there.
    pub(crate) fn read(&self) -> Result<Vec<Pack>> {
        Ok(self.folder()?.as_deref().map(read).transpose()?.unwrap_or_default())
    }

    /// The embedded packs behind one's own.
    pub(crate) fn catalog(&self) -> Result<Catalog> {
        Ok(load(self.folder()?.as_deref())?.0)
    }

    fn folder(&self) -> Result<Option<PathBuf>> {
        if let Some(folder) = &self.rules {
            fs::read_dir(folder).with_context(|| format!("cannot read --rules {}", folder.display()))?;
            return Ok(Some(folder.clone()));
        }
        let environment = Environment::of_process();
        let config = environment.var("BACKSTOP_CONFIG").map(PathBuf::from);
        Ok(config.or_else(|| environment.config_file()).as_deref().and_then(beside))
    }
}

/// The folder of the rule packs that belong to a configuration file.
pub(crate) fn beside(config: &Path) -> Option<PathBuf> {
    Some(config.parent()?.join("rules"))
}

/// The embedded packs behind those of a folder, and the latter. A folder that is not there has none.
pub(crate) fn load(folder: Option<&Path>) -> Result<(Catalog, Vec<Pack>), RuleError> {
    let packs = folder.map(read).transpose()?.unwrap_or_default();
    if packs.is_empty() {
        return Ok((Catalog::embedded(), packs));
    }
    let catalog = Catalog::with_user_packs(&packs).map_err(|mut error| {
        let file = folder.map(|folder| folder.join(&error.file));
        error.file = file.map_or(error.file, |file| file.display().to_string());
        error
    })?;
    Ok((catalog, packs))
}

fn read(folder: &Path) -> Result<Vec<Pack>, RuleError> {
    let unreadable = |file: &Path, error: &io::Error| RuleError {
        file: file.display().to_string(),
        line: 1,
        problem: format!("cannot be read: {error}"),
        fix: "make it a readable text in UTF-8, or take it out of the folder".to_owned(),
    };
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(folder, &error)),
    };
    let mut packs = Vec::new();
    for entry in entries.flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        if is_pack(&name) {
            let text = fs::read_to_string(entry.path()).map_err(|error| unreadable(&entry.path(), &error))?;
            packs.push((name, text));
        }
    }
    packs.sort();
    Ok(packs)
}

/// Whether a file of the folder is a pack; an editor's hidden and backup files are none.
pub(crate) fn is_pack(name: &str) -> bool {
    name.ends_with(".toml") && !name.starts_with('.')
}
