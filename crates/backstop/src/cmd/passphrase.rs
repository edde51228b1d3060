//! A passphrase from a file, a variable or a terminal that does not show it; never from an argument.

use std::{
    io::{self, BufRead as _, IsTerminal as _},
    path::PathBuf,
};

use anyhow::{Context as _, Result, bail};
use backstop_store::Secret;
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

use super::api::secret_text;

/// Where the passphrase is.
#[derive(clap::Args)]
pub(crate) struct Passphrase {
    /// A file with the passphrase.
    #[arg(long, value_name = "FILE", conflicts_with = "passphrase_env")]
    passphrase_file: Option<PathBuf>,
    /// An environment variable with the passphrase.
    #[arg(long, value_name = "NAME")]
    passphrase_env: Option<String>,
}

impl Passphrase {
    /// Whether one is named.
    pub(crate) fn is_named(&self) -> bool {
        self.passphrase_file.is_some() || self.passphrase_env.is_some()
    }

    /// The passphrase; without a name for it, a line of standard input.
    pub(crate) fn read(&self) -> Result<Secret> {
        let text = if self.is_named() {
            secret_text(self.passphrase_file.as_ref(), self.passphrase_env.as_deref())?
        } else {
            typed()?
        };
        let secret = Secret::new(&text);
        if secret.expose().is_empty() {
            bail!("the passphrase is empty");
        }
        Ok(secret)
    }
}

/// A line that is typed, without showing it.
fn typed() -> Result<String> {
    let stdin = io::stdin();
    let mut line = String::new();
    if !stdin.is_terminal() {
        stdin.lock().read_line(&mut line).context("standard input cannot be read")?;
        return Ok(line);
    }
    eprint!("passphrase: ");
    let before = tcgetattr(&stdin)?;
    let mut silent = before.clone();
    silent.local_modes.remove(LocalModes::ECHO);
    tcsetattr(&stdin, OptionalActions::Flush, &silent)?;
    let read = stdin.lock().read_line(&mut line);
    tcsetattr(&stdin, OptionalActions::Flush, &before)?;
    eprintln!();
    read.context("the terminal cannot be read")?;
    Ok(line)
}
