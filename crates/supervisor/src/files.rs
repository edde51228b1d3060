//! Small JSON files that survive a kill at any moment, and locks that die with their holder.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::Path,
};

use serde::{Serialize, de::DeserializeOwned};

use crate::SupervisorError;

/// Reads a file; a missing or damaged one counts as empty, so that a half-written file of an older crash
/// never keeps a seat from starting.
pub(crate) fn read<T: DeserializeOwned + Default>(path: &Path) -> T {
    let Ok(text) = fs::read_to_string(path) else { return T::default() };
    serde_json::from_str(&text).unwrap_or_else(|error| {
        tracing::warn!(file = %path.display(), %error, "state file is damaged; starting afresh");
        T::default()
    })
}

/// Changes a file that several supervisors share: reads it, lets `change` work on it, replaces it, all under a
/// lock beside it.
pub(crate) fn update<T, R>(path: &Path, change: impl FnOnce(&mut T) -> R) -> Result<R, SupervisorError>
where
    T: Serialize + DeserializeOwned + Default + PartialEq + Clone,
{
    if let Some(parent) = path.parent() {
        folder(parent)?;
    }
    let _guard = Lock::take(&path.with_extension("guard"))?;
    let before: T = read(path);
    let mut after = before.clone();
    let result = change(&mut after);
    if after != before {
        replace(path, &after)?;
    }
    Ok(result)
}

/// Replaces a file in one step: the old or the new content is there, never a mixture.
pub(crate) fn replace<T: Serialize>(path: &Path, value: &T) -> Result<(), SupervisorError> {
    let failed = |source| SupervisorError::State { path: path.to_owned(), source };
    let text = serde_json::to_vec(value).map_err(|error| failed(io::Error::other(error)))?;
    let fresh = path.with_extension("json.new");
    let write = || {
        let mut file = private(&fresh)?;
        file.set_len(0)?;
        file.write_all(&text)?;
        file.sync_all()?;
        fs::rename(&fresh, path)?;
        path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
    };
    write().map_err(failed)
}

/// Makes a folder that only its owner can look into.
pub(crate) fn folder(path: &Path) -> Result<(), SupervisorError> {
    use std::os::unix::fs::DirBuilderExt as _;
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|source| SupervisorError::State { path: path.to_owned(), source })
}

/// A lock that the kernel releases when its holder dies, however it dies.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock, or says `None` if somebody else has it.
    pub(crate) fn try_take(path: &Path) -> Result<Option<Self>, SupervisorError> {
        let failed = |source| SupervisorError::State { path: path.to_owned(), source };
        let file = private(path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            Err(fs::TryLockError::Error(source)) => Err(failed(source)),
        }
    }

    /// Takes the lock, waiting for others; they hold it for the time of one file write.
    pub(crate) fn take(path: &Path) -> Result<Self, SupervisorError> {
        let take = || {
            let file = private(path)?;
            file.lock()?;
            Ok(Self { _file: file })
        };
        take().map_err(|source| SupervisorError::State { path: path.to_owned(), source })
    }
}

fn private(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)
}
