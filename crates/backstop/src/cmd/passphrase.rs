//! A passphrase from a file, a variable or a terminal that does not show it; never from an argument.

use std::{
    io::{self, BufRead, IsTerminal as _},
    path::PathBuf,
};

use anyhow::{Context as _, Result, anyhow, bail};
use backstop_store::Secret;
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, tcgetattr, tcsetattr};

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
    // Ctrl-C ends the line and not the program, which would leave the terminal without echo.
    silent.local_modes.remove(LocalModes::ECHO | LocalModes::ISIG);
    silent.special_codes[SpecialCodeIndex::VEOL] = CTRL_C;
    tcsetattr(&stdin, OptionalActions::Flush, &silent)?;
    let read = typed_line(&mut stdin.lock());
    tcsetattr(&stdin, OptionalActions::Flush, &before)?;
    eprintln!();
    read
}

/// The bytes up to the end of a line.
fn typed_line(terminal: &mut impl BufRead) -> Result<String> {
    let mut line = Vec::new();
    loop {
        let bytes = terminal.fill_buf().context("the terminal cannot be read")?;
        if bytes.contains(&CTRL_C) {
            bail!("interrupted; nothing was changed");
        }
        let length = bytes.len();
        line.extend_from_slice(bytes);
        terminal.consume(length);
        if length == 0 || line.ends_with(b"\n") {
            return String::from_utf8(line).map_err(|_| anyhow!("the passphrase is no UTF-8"));
        }
    }
}

const CTRL_C: u8 = 3;
