//! The data folder: who may enter it, who holds it, what lies where.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use zeroize::Zeroizing;

use crate::{OpenError, Secret, hex};

/// Where the key that seals secrets comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// `master.key` in the data folder, made on first use.
    Folder,
    /// A file with 64 hexadecimal digits that somebody else provides, such as a systemd credential; never made here.
    File(PathBuf),
    /// A file with a passphrase, which a key is derived from; never made here.
    Passphrase(PathBuf),
}

/// What opens the vault.
pub(crate) enum Opener {
    /// The key itself.
    Key(KeyBytes),
    /// What the key is derived from, with a salt that lies beside what it opens.
    Passphrase(Secret),
}

/// The data folder, held against other processes as long as a clone lives.
#[derive(Clone)]
pub(crate) struct Folder {
    path: Arc<Path>,
    _lock: Arc<File>,
}

impl Folder {
    /// Makes the folder if needed, keeps others out of it, and takes the lock.
    pub(crate) fn prepare(path: &Path) -> Result<Self, OpenError> {
        let fault = |source| OpenError::Folder { path: path.to_owned(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(fault)?;
        let metadata = fs::metadata(path).map_err(fault)?;
        if metadata.permissions().mode() & 0o077 != 0 {
            fs::set_permissions(path, fs::Permissions::from_mode(0o700)).map_err(fault)?;
        }
        let lock = private().create(true).write(true).open(path.join("lock")).map_err(fault)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(OpenError::InUse { path: path.to_owned() }),
            Err(TryLockError::Error(source)) => return Err(fault(source)),
        }
        Ok(Self { path: Arc::from(path), _lock: Arc::new(lock) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.path.join(DATABASE)
    }

    /// Makes sure that the database file is only its owner's, before the database makes it otherwise.
    pub(crate) fn touch_database(&self) -> io::Result<()> {
        private().create(true).append(true).open(self.database()).map(drop)
    }

    /// What tells one database file from another at the same path.
    pub(crate) fn database_identity(&self) -> Option<(u64, u64)> {
        let metadata = fs::metadata(self.database()).ok()?;
        Some((metadata.dev(), metadata.ino()))
    }

    /// Moves a damaged database aside, with what belongs to it; returns where it lies.
    pub(crate) fn set_aside(&self) -> io::Result<PathBuf> {
        let stamp = jiff::Timestamp::now().as_millisecond();
        let aside = self.path.join(format!("{DATABASE}.damaged-{stamp}"));
        for suffix in ["", "-wal", "-shm"] {
            let from = self.path.join(format!("{DATABASE}{suffix}"));
            let to = PathBuf::from(format!("{}{suffix}", aside.display()));
            match fs::rename(&from, &to) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(aside)
    }

    /// The opening error for a failure of the database.
    pub(crate) fn fault(&self, source: rusqlite::Error) -> OpenError {
        OpenError::Database { path: self.database(), source }
    }

    /// Reads what opens the vault.
    pub(crate) fn opener(&self, source: &KeySource) -> Result<Opener, OpenError> {
        let path = self.key_file(source);
        let fault = |detail: String| OpenError::KeyFile { path: path.clone(), detail };
        if *source == KeySource::Folder {
            keep_private(&path);
        }
        let text = read_key(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => fault("it is missing".into()),
            _ => fault(error.to_string()),
        })?;
        match source {
            KeySource::Folder | KeySource::File(_) => hex::read(text.trim())
                .map(Opener::Key)
                .ok_or_else(|| fault("it is not 64 hexadecimal digits".into())),
            KeySource::Passphrase(_) => {
                let passphrase = Secret::new(&text);
                if passphrase.expose().chars().count() < SHORTEST_PASSPHRASE {
                    let detail = format!("a passphrase has at least {SHORTEST_PASSPHRASE} characters");
                    return Err(fault(detail));
                }
                Ok(Opener::Passphrase(passphrase))
            }
        }
    }

    /// Makes the folder's own key, in the place of one that may be there.
    pub(crate) fn make_key(&self) -> Result<Opener, OpenError> {
        let path = self.key_file(&KeySource::Folder);
        let fault = |error: io::Error| OpenError::KeyFile { path: path.clone(), detail: error.to_string() };
        self.write_new_key().and_then(|_| self.place_new_key()).map_err(fault)?;
        self.opener(&KeySource::Folder)
    }

    /// Makes a key beside the folder's own, on the disk when this returns; where it lies.
    pub(crate) fn write_new_key(&self) -> io::Result<PathBuf> {
        let beside = self.path.join(NEW_KEY);
        let key: KeyBytes = Zeroizing::new(rand::random());
        let text = hex::write(&key);
        let mut file = private().create(true).write(true).truncate(true).open(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        Ok(beside)
    }

    /// Puts the new key in the place of the folder's own; a crash leaves the old one or the new one.
    pub(crate) fn place_new_key(&self) -> io::Result<()> {
        fs::rename(self.path.join(NEW_KEY), self.key_file(&KeySource::Folder))?;
        File::open(&self.path)?.sync_all()
    }

    /// Whether a file is the one with the folder's own key, by whatever path.
    pub(crate) fn is_own_key(&self, file: &Path) -> bool {
        let identity = |path: &Path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
        let own = identity(&self.key_file(&KeySource::Folder));
        own.is_some() && own == identity(file)
    }

    /// Removes the folder's own key, if there is one.
    pub(crate) fn remove_key(&self) -> io::Result<()> {
        match fs::remove_file(self.key_file(&KeySource::Folder)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Whether the folder has a key of its own.
    pub(crate) fn has_key(&self) -> bool {
        self.key_file(&KeySource::Folder).exists()
    }

    fn key_file(&self, source: &KeySource) -> PathBuf {
        match source {
            KeySource::Folder => self.path.join("master.key"),
            KeySource::File(path) | KeySource::Passphrase(path) => path.clone(),
        }
    }
}

/// 256 bits that seal.
pub(crate) type KeyBytes = Zeroizing<[u8; 32]>;

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

/// A key file that others may read, such as one from a backup, becomes its owner's alone.
fn keep_private(path: &Path) {
    let Ok(metadata) = fs::metadata(path) else { return };
    if metadata.permissions().mode() & 0o077 != 0
        && let Err(error) = fs::set_permissions(path, fs::Permissions::from_mode(0o600))
    {
        tracing::warn!(%error, path = %path.display(), "others may read the key file");
    }
}

fn read_key(path: &Path) -> io::Result<Zeroizing<String>> {
    let mut text = Zeroizing::new(String::new());
    File::open(path)?.take(1024).read_to_string(&mut text)?;
    Ok(text)
}

const SHORTEST_PASSPHRASE: usize = 12;
const NEW_KEY: &str = "master.key.new";
const DATABASE: &str = "backstop.db";
