//! Where configuration and data lie when nobody says otherwise.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// The data directory: the given one, else `$XDG_DATA_HOME/backstop`, else `~/.local/share/backstop`.
pub(crate) fn data_dir(given: Option<&Path>) -> Result<PathBuf> {
    match given {
        Some(folder) => Ok(folder.to_owned()),
        None => Ok(home_folder("XDG_DATA_HOME", ".local/share")?.join("backstop")),
    }
}

/// The configuration file: the given one, which must exist, else the usual one if it exists.
pub(crate) fn config_file(given: Option<&Path>) -> Result<Option<PathBuf>> {
    if let Some(file) = given {
        return Ok(Some(file.to_owned()));
    }
    let usual = home_folder("XDG_CONFIG_HOME", ".config")?.join("backstop/backstop.toml");
    Ok(usual.exists().then_some(usual))
}

/// A folder of the XDG convention.
pub(crate) fn home_folder(variable: &str, below_home: &str) -> Result<PathBuf> {
    if let Some(folder) = std::env::var_os(variable).map(PathBuf::from).filter(|folder| folder.is_absolute())
    {
        return Ok(folder);
    }
    let home =
        std::env::var_os("HOME").context("HOME is not set; name the folder with --data-dir or --config")?;
    Ok(PathBuf::from(home).join(below_home))
}
