//! `backstop rekey`: another key for the sealed provider keys.

use std::{
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::{Context as _, Result, bail};
use backstop_store::{KeySource, Store};

use super::setup::Setup;

/// Makes a new key for the provider keys that lie sealed in the data folder, or moves to another kind of key.
///
/// The old key opens nothing any more, also where it is known: in a backup, on another disk. The gateway has to be
/// stopped for the moment that this takes.
#[derive(clap::Args)]
#[command(after_help = "A new key file in the data folder:
  backstop rekey
A passphrase, which the configuration then names by [server] passphrase_file:
  backstop rekey --passphrase-file ~/.config/backstop/passphrase
Back to a key file in the data folder:
  backstop rekey --data-folder")]
pub(crate) struct Args {
    /// The configuration; default: ~/.config/backstop/backstop.toml, if it is there.
    #[arg(long, value_name = "FILE", env = "BACKSTOP_CONFIG")]
    config: Option<PathBuf>,
    /// The data folder, in place of the configuration's.
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
    /// A file with the new key: 64 hexadecimal digits.
    #[arg(long, value_name = "FILE", group = "to")]
    key_file: Option<PathBuf>,
    /// A file with the new passphrase, of at least twelve characters.
    #[arg(long, value_name = "FILE", group = "to")]
    passphrase_file: Option<PathBuf>,
    /// A new key file in the data folder; what is done without any of these, where the key lies there already.
    #[arg(long, group = "to")]
    data_folder: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let server = Setup::load(args.config.as_deref())?.config.server;
    let from = server.key_source;
    let to = match (&args.key_file, &args.passphrase_file) {
        (Some(file), _) => KeySource::File(file.clone()),
        (None, Some(file)) => KeySource::Passphrase(file.clone()),
        (None, None) if args.data_folder || from == KeySource::Folder => KeySource::Folder,
        (None, None) => bail!(
            "the key comes from outside the data folder: write a new one into another file and name it by --key-file or --passphrase-file"
        ),
    };
    if to == from && to != KeySource::Folder {
        bail!("this is the key in force; write the new one into another file and name that");
    }
    let store = Store::open_with(args.data_dir.as_ref().unwrap_or(&server.data_dir), &from)?;
    if let Some(reason) = store.stats().locked {
        bail!("the sealed keys cannot be opened, so they cannot get a new key: {reason}");
    }
    store.rekey(&to).wait().context("the old key stays in force")?;
    store.close();
    let mut out = io::stdout().lock();
    match to {
        KeySource::Folder if from == KeySource::Folder => {
            writeln!(out, "done; the data folder has a new key file")?
        }
        KeySource::Folder => writeln!(
            out,
            "done; the data folder has a key file: remove key_file and passphrase_file from [server]"
        )?,
        KeySource::File(file) => {
            writeln!(out, "done; name the key before the next start: [server] key_file = {file:?}")?
        }
        KeySource::Passphrase(file) => writeln!(
            out,
            "done; name the passphrase before the next start: [server] passphrase_file = {file:?}"
        )?,
    }
    Ok(ExitCode::SUCCESS)
}
