//! `backstop export`: the whole set-up as a document.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use super::{
    api::{Api, Connect, text},
    passphrase::Passphrase,
};
use crate::transfer::{
    document::{Document, Provider},
    gather::gather,
};

/// Writes everything that was set up at run time into a document, which `backstop import` reads.
///
/// Providers, models, fallbacks, combos, settings, rule packs, names and limits of client keys. What the configuration
/// file defines is in that file. Secrets, and the headers, query and proxy of providers, are in it only with --with-secrets, sealed by a passphrase of at least twelve
/// characters (argon2id, XChaCha20-Poly1305); of client keys only the hash is known, which is enough for them to go on
/// working elsewhere.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  backstop export > setup.toml
  backstop export --with-secrets --passphrase-file phrase.txt --output backup.toml
  backstop export --json | jq .provider")]
pub(crate) struct Args {
    /// Puts keys, what else of providers may hold credentials, and the hashes of client keys into it, sealed.
    #[arg(long)]
    with_secrets: bool,
    #[command(flatten)]
    passphrase: Passphrase,
    /// The file to write, readable by nobody else; default: standard output.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    connect: Connect,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let api = args.connect.open()?;
    let mut document = gather(&api)?;
    if args.with_secrets || args.passphrase.is_named() {
        seal(&api, &args.passphrase, &mut document)?;
    }
    tell_what_is_left_out(&document);
    let mut text = if args.connect.json {
        serde_json::to_string_pretty(&document)?
    } else {
        toml::to_string(&document).context("the set-up cannot be written as TOML; try --json")?
    };
    if !text.ends_with('\n') {
        text.push('\n');
    }
    match &args.output {
        Some(file) => write(file, &text).with_context(|| format!("cannot write {}", file.display()))?,
        None => io::stdout().write_all(text.as_bytes())?,
    }
    if !document.from_file.is_empty() {
        let names = document.from_file.join(", ");
        eprintln!("the configuration file or the environment defines {names}: take that along too");
    }
    Ok(ExitCode::SUCCESS)
}

fn tell_what_is_left_out(document: &Document) {
    if document.sealed.is_some() {
        return;
    }
    let holds = |provider: &&Provider| !provider.secret_fields.is_empty();
    for provider in document.provider.iter().filter(holds) {
        let (id, fields) = (&provider.id, provider.secret_fields.join(", "));
        eprintln!(
            "left out of {id}, for they may hold credentials: {fields}; --with-secrets takes them along"
        );
    }
}

fn seal(api: &Api, passphrase: &Passphrase, document: &mut Document) -> Result<()> {
    let passphrase = passphrase.read()?;
    let sealed: Value = api.post("/secrets/export", &json!({ "passphrase": passphrase.expose() }))?;
    if sealed["locked"] != 0 {
        eprintln!("{} keys cannot be opened and are not in it", text(&sealed, "locked"));
    }
    let sealed = serde_json::from_value(sealed["sealed"].clone());
    document.sealed = Some(sealed.context("the gateway is of another version than this program")?);
    Ok(())
}

/// Writes a file that nobody else can read, whole or not at all; what is no plain file, such as a pipe, is written into.
fn write(file: &Path, text: &str) -> io::Result<()> {
    let file = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    if fs::metadata(&file).is_ok_and(|metadata| !metadata.is_file()) {
        return OpenOptions::new().write(true).open(&file)?.write_all(text.as_bytes());
    }
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut written = NamedTempFile::new_in(folder.unwrap_or_else(|| Path::new(".")))?;
    written.write_all(text.as_bytes())?;
    written.as_file().sync_all()?;
    written.persist(&file).map(drop).map_err(|failed| failed.error)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_file_that_others_could_read_is_not_written_into() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("setup.toml");
        fs::write(&file, "a longer text from before").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        let mut before = fs::File::open(&file).unwrap();
        write(&file, "secret").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "secret");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(io::read_to_string(&mut before).unwrap(), "a longer text from before");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        write(Path::new("/dev/null"), "secret").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }
}
