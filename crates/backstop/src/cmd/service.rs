//! `backstop service`: the gateway as a service of this user, and a unit template for agents.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use anyhow::{Context as _, Result, bail};

use super::places;

/// Installs the gateway as a service of this user (systemd or launchd).
#[derive(clap::Args)]
#[command(after_help = "Examples:
  backstop service install
  backstop service install --print               # what would be written
  backstop service print system                  # for the whole machine, shut in
  backstop service logs --follow")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Writes the service file and starts the service.
    Install {
        /// The configuration that the service reads.
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// Writes the file, but starts nothing.
        #[arg(long)]
        no_start: bool,
        /// Prints the file in place of writing it.
        #[arg(long)]
        print: bool,
    },
    /// Stops the service and removes its file.
    Uninstall,
    /// Says whether it runs.
    Status,
    /// Shows what it wrote.
    Logs {
        /// Goes on as it writes.
        #[arg(long, short)]
        follow: bool,
        /// How many lines to begin with.
        #[arg(long, short = 'n', default_value_t = 100)]
        lines: u32,
    },
    /// Prints a service file without installing it.
    Print {
        /// Which one.
        #[arg(value_enum)]
        unit: Unit,
    },
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Unit {
    /// The gateway, for systemd.
    Systemd,
    /// The gateway for the whole machine, for systemd: a user of its own, and shut in as far as it goes.
    System,
    /// The gateway, for launchd.
    Launchd,
    /// Agents under `backstop run`, a template for systemd: backstop-run@SEAT.service.
    Run,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    match &args.what {
        What::Install { config, print: true, .. } => {
            io::stdout().write_all(own_unit(config.as_deref())?.as_bytes())?;
            Ok(ExitCode::SUCCESS)
        }
        What::Install { config, no_start, .. } => install(config.as_deref(), *no_start),
        What::Uninstall => uninstall(),
        What::Status => manager(&STATUS, &["print"], &[]),
        What::Logs { follow, lines } => logs(*follow, *lines),
        What::Print { unit } => {
            let program = program()?;
            write!(
                io::stdout(),
                "{}",
                match unit {
                    Unit::Systemd => systemd_unit(&program, None),
                    Unit::System => system_unit(&program),
                    Unit::Launchd => launchd_plist(&program, None, &places::home_folder("HOME", "")?),
                    Unit::Run => agent_template(&program),
                }
            )?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn install(config: Option<&Path>, no_start: bool) -> Result<ExitCode> {
    let file = service_file()?;
    let text = own_unit(config)?;
    let folder = file.parent().context("a service file lies in a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    writeln!(io::stdout(), "wrote {}", file.display())?;
    if no_start {
        return Ok(ExitCode::SUCCESS);
    }
    if cfg!(target_os = "macos") {
        return call("launchctl", &["load", "-w", &file.display().to_string()]);
    }
    call("systemctl", &["--user", "daemon-reload"])?;
    let started = call("systemctl", &["--user", "enable", "--now", SYSTEMD_NAME])?;
    writeln!(
        io::stdout(),
        "it runs while you are logged in; `loginctl enable-linger` keeps it running after that"
    )?;
    Ok(started)
}

/// The file of this user's service, for the manager of this system.
fn own_unit(config: Option<&Path>) -> Result<String> {
    let config = config.map(fs::canonicalize).transpose().context("the configuration is not there")?;
    let program = program()?;
    Ok(if cfg!(target_os = "macos") {
        launchd_plist(&program, config.as_deref(), &places::home_folder("HOME", "")?)
    } else {
        systemd_unit(&program, config.as_deref())
    })
}

fn uninstall() -> Result<ExitCode> {
    let file = service_file()?;
    if !file.exists() {
        bail!("{} is not there: nothing is installed", file.display());
    }
    if cfg!(target_os = "macos") {
        call("launchctl", &["unload", "-w", &file.display().to_string()])?;
    } else {
        call("systemctl", &["--user", "disable", "--now", SYSTEMD_NAME])?;
    }
    fs::remove_file(&file).with_context(|| format!("cannot remove {}", file.display()))?;
    writeln!(io::stdout(), "removed {}", file.display())?;
    Ok(ExitCode::SUCCESS)
}

fn logs(follow: bool, lines: u32) -> Result<ExitCode> {
    let count = lines.to_string();
    let mut systemd = vec!["--user", "--unit", SYSTEMD_NAME, "--lines", &count, "--no-pager"];
    if follow {
        systemd.push("--follow");
    }
    if cfg!(target_os = "macos") {
        let file = places::home_folder("HOME", "")?.join(LAUNCHD_LOG).display().to_string();
        let mut tail = vec!["-n", &count, &file];
        if follow {
            tail.insert(0, "-F");
        }
        return call("tail", &tail);
    }
    call("journalctl", &systemd)
}

/// Asks the service manager of this system.
fn manager(systemd: &[&str], launchd: &[&str], more: &[&str]) -> Result<ExitCode> {
    let (command, arguments) =
        if cfg!(target_os = "macos") { ("launchctl", launchd) } else { ("systemctl", systemd) };
    call(command, &[arguments, more].concat())
}

fn call(command: &str, arguments: &[&str]) -> Result<ExitCode> {
    let status = Command::new(command).args(arguments).status();
    let status = status.with_context(|| format!("{command} is not here: is this system run by it?"))?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn service_file() -> Result<PathBuf> {
    if cfg!(target_os = "macos") {
        return Ok(places::home_folder("HOME", "")?
            .join("Library/LaunchAgents")
            .join(format!("{LAUNCHD_NAME}.plist")));
    }
    Ok(places::home_folder("XDG_CONFIG_HOME", ".config")?.join("systemd/user").join(SYSTEMD_NAME))
}

fn program() -> Result<String> {
    let program = std::env::current_exe().context("cannot tell where this program lies")?;
    Ok(program.display().to_string())
}

fn systemd_unit(program: &str, config: Option<&Path>) -> String {
    let config = config
        .map(|config| format!(" --config {}", quoted(&config.display().to_string())))
        .unwrap_or_default();
    include_str!("service/backstop.service")
        .replace("@PROGRAM@", &quoted(program))
        .replace("@CONFIG@", &config)
}

fn system_unit(program: &str) -> String {
    include_str!("service/backstop-system.service").replace("@PROGRAM@", &quoted(program))
}

fn agent_template(program: &str) -> String {
    include_str!("service/backstop-run@.service")
        .replace("@PROGRAM@", &quoted(&format!("BACKSTOP={program}")))
}

fn launchd_plist(program: &str, config: Option<&Path>, home: &Path) -> String {
    let text = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let config = config.map(|config| {
        format!(
            "\n\t\t<string>--config</string>\n\t\t<string>{}</string>",
            text(&config.display().to_string())
        )
    });
    include_str!("service/backstop.plist")
        .replace("@PROGRAM@", &text(program))
        .replace("@CONFIG@", &config.unwrap_or_default())
        .replace("@LOG@", &text(&home.join(LAUNCHD_LOG).display().to_string()))
}

/// One word for systemd: quotes, backslashes and its own marks are escaped.
fn quoted(word: &str) -> String {
    let escaped = word.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%").replace('$', "$$");
    if escaped.contains([' ', '\t', '"', '\'']) { format!("\"{escaped}\"") } else { escaped }
}

const STATUS: [&str; 3] = ["--user", "status", SYSTEMD_NAME];
const SYSTEMD_NAME: &str = "backstop.service";
const LAUNCHD_NAME: &str = "dev.backstop.gateway";
const LAUNCHD_LOG: &str = "Library/Logs/backstop.log";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_as_systemd_reads_them() {
        assert_eq!(quoted("/usr/bin/backstop"), "/usr/bin/backstop");
        assert_eq!(quoted("/home/me/100% mine/back\"stop"), "\"/home/me/100%% mine/back\\\"stop\"");
    }

    #[test]
    fn every_mark_of_a_template_is_filled_in() {
        let home = Path::new("/home/me");
        let texts = [
            systemd_unit("/bin/backstop", Some(Path::new("/etc/b.toml"))),
            system_unit("/bin/backstop"),
            agent_template("/bin/backstop"),
            launchd_plist("/bin/backstop", Some(Path::new("/etc/<b>.toml")), home),
        ];
        for text in texts {
            assert!(
                !text.contains("@PROGRAM") && !text.contains("@CONFIG") && !text.contains("@LOG"),
                "{text}"
            );
            assert!(text.contains("/bin/backstop"));
        }
    }
}
