//! `backstop completions` and `backstop man`: what the shell and the manual need, made from the commands themselves.

use std::{
    fs,
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::{Context as _, Result};
use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;

/// Prints the completions for a shell.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  backstop completions bash > ~/.local/share/bash-completion/completions/backstop
  backstop completions zsh > ~/.zfunc/_backstop
  backstop completions fish > ~/.config/fish/completions/backstop.fish")]
pub(crate) struct Completions {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the manual page, or writes the pages of all commands into a folder.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  backstop man | man -l -
  backstop man ~/.local/share/man/man1")]
pub(crate) struct Manual {
    /// The folder.
    #[arg(value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

pub(crate) fn completions(args: &Completions, mut command: Command) -> Result<ExitCode> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut command, "backstop", &mut text);
    io::stdout().write_all(&text)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn manual(args: &Manual, command: Command) -> Result<ExitCode> {
    let Some(folder) = &args.folder else {
        let mut page = Vec::new();
        Man::new(command).render(&mut page)?;
        io::stdout().write_all(&page)?;
        return Ok(ExitCode::SUCCESS);
    };
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    clap_mangen::generate_to(command, folder)
        .with_context(|| format!("cannot write into {}", folder.display()))?;
    writeln!(io::stdout(), "the pages are in {}", folder.display())?;
    Ok(ExitCode::SUCCESS)
}
