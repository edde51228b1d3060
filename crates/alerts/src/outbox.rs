//! What is still to be delivered, one file a notice and channel.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use backstop_triage::{
    Timestamp,
    alert::{Notice, NoticeKind},
};
use serde::{Deserialize, Serialize};

/// The outbox of one channel.
#[derive(Debug)]
pub(crate) struct Outbox {
    folder: PathBuf,
}

/// A notice on its way.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Parcel {
    pub(crate) notice: Notice,
    pub(crate) attempts: u32,
    pub(crate) not_before: Timestamp,
}

impl Outbox {
    pub(crate) fn open(folder: &Path, channel: &str) -> io::Result<Self> {
        use std::os::unix::fs::DirBuilderExt as _;
        let folder = folder.join(channel);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        Ok(Self { folder })
    }

    /// Adds a parcel. A recovery whose alert still waits for the end of quiet hours takes it back: nobody
    /// needs to hear of either.
    pub(crate) fn add(&self, parcel: &Parcel) -> io::Result<()> {
        if parcel.notice.kind == NoticeKind::Recovered {
            let waiting: Vec<_> = self
                .list()
                .into_iter()
                .filter(|(_, other)| other.notice.topic() == parcel.notice.topic())
                .collect();
            let unheard = waiting.iter().any(|(_, other)| {
                other.notice.kind == NoticeKind::Raised
                    && other.attempts == 0
                    && other.not_before > parcel.notice.at
            });
            if unheard {
                return waiting.iter().try_for_each(|(path, _)| fs::remove_file(path));
            }
        }
        let name =
            format!("{:015}-{:08x}.json", parcel.notice.at.as_millisecond(), checksum(&parcel.notice.id));
        self.write(&self.folder.join(name), parcel)?;
        self.forget_oldest()
    }

    /// Every parcel, oldest first; damaged files are removed.
    pub(crate) fn list(&self) -> Vec<(PathBuf, Parcel)> {
        let mut parcels = Vec::new();
        for path in self.files() {
            match fs::read(&path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()) {
                Some(parcel) => parcels.push((path, parcel)),
                None => {
                    let _ = fs::remove_file(&path);
                }
            }
        }
        parcels
    }

    pub(crate) fn len(&self) -> usize {
        self.files().len()
    }

    /// Replaces a parcel in one step.
    pub(crate) fn write(&self, path: &Path, parcel: &Parcel) -> io::Result<()> {
        let fresh = path.with_extension("new");
        let mut file = fs::File::create(&fresh)?;
        file.write_all(&serde_json::to_vec(parcel)?)?;
        file.sync_all()?;
        fs::rename(&fresh, path)
    }

    fn files(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(&self.folder) else { return Vec::new() };
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let mut files: Vec<PathBuf> =
            paths.filter(|path| path.extension().is_some_and(|extension| extension == "json")).collect();
        files.sort();
        files
    }

    fn forget_oldest(&self) -> io::Result<()> {
        let files = self.files();
        let surplus = files.len().saturating_sub(PARCELS_KEPT);
        if surplus > 0 {
            tracing::warn!(folder = %self.folder.display(), surplus, "the alert outbox is full; the oldest are dropped");
        }
        files.iter().take(surplus).try_for_each(fs::remove_file)
    }
}

/// Tells notices of the same millisecond apart; the same notice gets the same name.
fn checksum(id: &str) -> u32 {
    id.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

const PARCELS_KEPT: usize = 500;
