//! `backstop status`: what is wrong now.

use std::process::ExitCode;

use anyhow::Result;
use serde_json::Value;

use super::api::{Connect, items, text};

/// Says what is wrong now; exits with 1 if no provider can be asked.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  backstop status
  backstop status --check    # needs no token: is the gateway ready? For health checks of containers")]
pub(crate) struct Args {
    /// Only asks whether the gateway is ready, without a token, and says nothing if it is.
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    connect: Connect,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if args.check {
        args.connect.ready()?;
        return Ok(ExitCode::SUCCESS);
    }
    let api = args.connect.open()?;
    let status = api.get("/status")?;
    api.show(&status, plain)?;
    Ok(if status["state"] == "down" { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn plain(status: &Value) -> String {
    let usable = text(status, "usable_providers");
    let mut lines = format!(
        "{}: {usable} of {} providers can be asked\n",
        text(status, "state"),
        text(status, "providers")
    );
    for trouble in items(&status["troubles"]) {
        lines.push_str(&format!(
            "  {:8}  {}: {}\n",
            text(trouble, "severity"),
            text(trouble, "subject"),
            text(trouble, "text")
        ));
    }
    if status["unknown_failures"] != 0 {
        lines.push_str(&format!(
            "  {} kinds of failure that no rule knows\n",
            text(status, "unknown_failures")
        ));
    }
    lines
}
