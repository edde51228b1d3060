//! `backstop settings`: the settings of a running gateway.

use std::process::ExitCode;

use anyhow::Result;
use serde_json::{Map, Value};

use super::{
    api::{Connect, items, table, text},
    providers::value_of,
};

/// Shows and changes settings. They act at once.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  backstop settings list
  backstop settings set patience_s 5
  backstop settings reset patience_s")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    connect: Connect,
}

#[derive(clap::Subcommand)]
enum What {
    /// Shows every setting with its value and default.
    List,
    /// Sets a setting.
    Set {
        /// Its name.
        name: String,
        /// Its value.
        value: String,
    },
    /// Puts a setting back to its default.
    Reset {
        /// Its name.
        name: String,
    },
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let api = args.connect.open()?;
    let change = |name: &String, value: Value| {
        api.patch("/settings", &Value::Object(Map::from_iter([(name.clone(), value)])))
    };
    let settings = match &args.what {
        What::List => api.get("/settings")?,
        What::Set { name, value } => change(name, value_of(value))?,
        What::Reset { name } => change(name, Value::Null)?,
    };
    api.show(&settings, |settings| {
        let row = |setting: &Value| {
            let mark = if setting["changed"] == true { "*" } else { "" };
            vec![text(setting, "name"), text(setting, "value"), text(setting, "default"), mark.to_owned()]
        };
        table(&["NAME", "VALUE", "DEFAULT", "SET"], &items(settings).map(row).collect::<Vec<_>>())
    })?;
    Ok(ExitCode::SUCCESS)
}
