//! Whether the files that a gateway runs on have changed: the configuration and the user's rule packs.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use super::own_rules::is_pack;

/// The files as they were last looked at.
pub(crate) struct Seen {
    config: Option<PathBuf>,
    rules: Option<PathBuf>,
    files: BTreeMap<PathBuf, State>,
}

/// What tells one content of a file from another: when it was written, and its length.
type State = (SystemTime, u64);

impl Seen {
    /// The files as they are at this moment.
    pub(crate) fn of(config: Option<&Path>, rules: Option<&Path>) -> Self {
        let (config, rules) = (config.map(Path::to_owned), rules.map(Path::to_owned));
        let mut seen = Self { config, rules, files: BTreeMap::new() };
        seen.files = seen.look();
        seen
    }

    /// Whether a file has changed, come or gone since the last look. One that is empty has not: somebody is
    /// writing it; nor has a configuration that is gone.
    pub(crate) fn changed(&mut self) -> bool {
        let mut found = self.look();
        found.retain(|file, (_, length)| *length > 0 || self.files.contains_key(file));
        for (file, before) in &self.files {
            let empty = found.get(file).is_some_and(|(_, length)| *length == 0);
            let lost = !found.contains_key(file) && self.config.as_ref() == Some(file);
            if empty || lost {
                found.insert(file.clone(), *before);
            }
        }
        let changed = found != self.files;
        self.files = found;
        changed
    }

    fn look(&self) -> BTreeMap<PathBuf, State> {
        let entries = self.rules.as_ref().and_then(|folder| fs::read_dir(folder).ok());
        let packs = entries
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| entry.file_name().to_str().is_some_and(is_pack).then(|| entry.path()));
        self.config
            .clone()
            .into_iter()
            .chain(packs)
            .filter_map(|file| state(&file).map(|state| (file, state)))
            .collect()
    }
}

fn state(file: &Path) -> Option<State> {
    let metadata = fs::metadata(file).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}
