//! The configuration file and the data folder: who may read them, and whether they can be used.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::Path,
};

use backstop_store::SCHEMA;
use rusqlite::{Connection, OpenFlags};

use super::Finding;

/// Whether others on this machine can read the configuration.
pub(super) fn configuration_file(file: &Path) -> Option<Finding> {
    let mode = fs::metadata(file).ok()?.permissions().mode();
    let text = fs::read_to_string(file).unwrap_or_default();
    // A value that is not all taken from the environment may be a key.
    let has_values =
        text.lines().map(str::trim).any(|line| line.starts_with("value") && !line.contains("${"));
    (has_values && mode & 0o077 != 0).then(|| {
        let said = format!("{} holds keys, and others on this machine can read it", file.display());
        Finding::warn("configuration", said, format!("chmod 600 {}", file.display()))
    })
}

/// The data folder with what lies in it.
pub(super) fn data_folder(folder: &Path) -> Vec<Finding> {
    let shown = folder.display();
    let Ok(metadata) = fs::metadata(folder) else {
        let parent = folder.ancestors().find(|ancestor| ancestor.exists());
        let can_be_made = parent.is_some_and(is_writable);
        let said = format!("{shown} is not there yet");
        return vec![if can_be_made {
            Finding::ok("data folder", format!("{said}; the first start makes it"))
        } else {
            Finding::fail("data folder", said, "make it for this user, or name another with --data-dir")
        }];
    };
    let mut findings = Vec::new();
    let user = rustix::process::geteuid().as_raw();
    if !metadata.is_dir() {
        findings.push(Finding::fail(
            "data folder",
            format!("{shown} is no folder"),
            "name another with --data-dir",
        ));
    } else if metadata.uid() != user && user != 0 {
        let said = format!("{shown} belongs to another user");
        findings.push(Finding::fail("data folder", said, format!("chown -R \"$USER\" {shown}")));
    } else if !is_writable(folder) {
        findings.push(Finding::fail(
            "data folder",
            format!("{shown} cannot be written"),
            format!("chmod 700 {shown}"),
        ));
    } else if metadata.permissions().mode() & 0o077 != 0 {
        let said = format!("others on this machine can look into {shown}");
        findings.push(Finding::warn(
            "data folder",
            said,
            format!("chmod 700 {shown}; the next start does it too"),
        ));
    } else {
        findings.push(Finding::ok("data folder", format!("{shown} is this user's alone")));
    }
    findings.extend(SECRET_FILES.iter().filter_map(|(name, what)| secret_file(&folder.join(name), what)));
    findings.extend(database(&folder.join("backstop.db")));
    findings
}

/// A file that holds a secret, if it is there.
fn secret_file(file: &Path, what: &str) -> Option<Finding> {
    let mode = fs::metadata(file).ok()?.permissions().mode() & 0o777;
    let shown = file.display();
    Some(if mode & 0o077 != 0 {
        let said = format!("others on this machine can read {shown} (mode {mode:o})");
        Finding::fail(what, said, format!("chmod 600 {shown}"))
    } else if fs::read(file).is_err() {
        Finding::fail(what, format!("{shown} cannot be read"), format!("chown \"$USER\" {shown}"))
    } else {
        Finding::ok(what, format!("{shown} is this user's alone"))
    })
}

/// The database: whether it can be read, and whether this program is new enough for it.
fn database(file: &Path) -> Option<Finding> {
    if !file.exists() {
        return None;
    }
    let shown = file.display();
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let version = Connection::open_with_flags(file, flags).and_then(|connection| {
        connection.query_row("SELECT version FROM schema_version", [], |row| row.get::<_, u32>(0))
    });
    Some(match version {
        Ok(found) if found > SCHEMA => Finding::fail(
            "database",
            format!("{shown} has schema {found}, and this program knows {SCHEMA}"),
            "install the newer version again, or restore the backup from before it",
        ),
        Ok(found) if found < SCHEMA => Finding::ok(
            "database",
            format!("{shown} has schema {found}; the next start brings it to {SCHEMA}"),
        ),
        Ok(found) => Finding::ok("database", format!("{shown} has schema {found}")),
        Err(error) => Finding::fail(
            "database",
            format!("{shown} cannot be read: {error}"),
            "check its permissions and the disk; a damaged one is set aside at the next start, and health with it",
        ),
    })
}

/// Whether this user can write into a folder.
fn is_writable(folder: &Path) -> bool {
    rustix::fs::access(folder, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK).is_ok()
}

const SECRET_FILES: [(&str, &str); 2] = [("master.key", "key file"), ("admin.token", "admin token")];
