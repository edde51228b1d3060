//! The data folder: who may enter it, who holds it, what lies where.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use zeroize::Zeroizing;

use crate::OpenError;

/// Where the key that seals secrets comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// `master.key` in the data folder, made on first use.
    Folder,
    /// A file that somebody else provides, such as a systemd credential; never made here.
    File(PathBuf),
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

    /// Reads the key that seals secrets; makes it if it lies in the folder and `may_make`.
    pub(crate) fn key(&self, source: &KeySource, may_make: bool) -> Result<Option<KeyBytes>, OpenError> {
        let (path, may_make) = match source {
            KeySource::Folder => (self.path.join("master.key"), may_make),
            KeySource::File(path) => (path.clone(), false),
        };
        let fault = |detail: String| OpenError::KeyFile { path: path.clone(), detail };
        match read_key(&path) {
            Ok(text) => {
                parse_key(&text).map(Some).ok_or_else(|| fault("it is not 64 hexadecimal digits".into()))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound && may_make => {
                let key: KeyBytes = Zeroizing::new(rand::random());
                write_key(&path, &key).map_err(|error| fault(error.to_string()))?;
                Ok(Some(key))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(fault(error.to_string())),
        }
    }

    /// Puts a new key in the place of the folder's own.
    pub(crate) fn replace_key(&self, key: &KeyBytes) -> io::Result<()> {
        write_key(&self.path.join("master.key"), key)
    }
}

/// 256 bits that seal.
pub(crate) type KeyBytes = Zeroizing<[u8; 32]>;

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

fn read_key(path: &Path) -> io::Result<Zeroizing<String>> {
    let mut text = Zeroizing::new(String::new());
    File::open(path)?.take(1024).read_to_string(&mut text)?;
    Ok(text)
}

fn parse_key(text: &str) -> Option<KeyBytes> {
    let digits = text.trim().as_bytes();
    if digits.len() != 64 {
        return None;
    }
    let mut key = Zeroizing::new([0; 32]);
    for (byte, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
        let nibble = |digit: u8| char::from(digit).to_digit(16);
        *byte = u8::try_from(nibble(pair[0])? * 16 + nibble(pair[1])?).ok()?;
    }
    Some(key)
}

/// Writes beside, syncs, and renames, so that a crash leaves the old key or the new one and never half of one.
fn write_key(path: &Path, key: &KeyBytes) -> io::Result<()> {
    let text = Zeroizing::new(key.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    let beside = path.with_extension("key.new");
    let mut file = private().create(true).write(true).truncate(true).open(&beside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

const DATABASE: &str = "backstop.db";
