//! `backstop reload`: the running gateway reads its configuration again.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use anyhow::Result;
use serde_json::{Value, json};

use super::api::Connect;

/// Lets the running gateway read its configuration again.
///
/// A file that changes is read again by itself within two seconds; this does it at once and says whether the file was
/// right. A wrong one changes nothing. Nothing that is under way is interrupted.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    connect: Connect,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let api = args.connect.open()?;
    api.post("/reload", &Value::Null)?;
    let told = if api.json {
        json!({ "reloaded": true }).to_string()
    } else {
        "the configuration was read again".to_owned()
    };
    writeln!(io::stdout(), "{told}")?;
    Ok(ExitCode::SUCCESS)
}
