//! `backstop models`: the models of a provider of a running gateway, and its open circuits.

use std::process::ExitCode;

use anyhow::Result;
use serde_json::{Value, json};

use super::api::{Connect, items, table, text};

/// Shows and changes the models of a provider.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  backstop models fetch house
  backstop models set house large small              # in order of fallback")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    connect: Connect,
}

#[derive(clap::Subcommand)]
enum What {
    /// Shows the models in order of fallback.
    List {
        /// The provider.
        provider: String,
    },
    /// Sets the models, in order of fallback.
    Set {
        /// The provider.
        provider: String,
        /// The models.
        models: Vec<String>,
    },
    /// Asks the provider which models it has.
    Fetch {
        /// The provider.
        provider: String,
        /// Asks although a list of the last five minutes is known.
        #[arg(long)]
        force: bool,
    },
    /// Shows open circuits.
    Circuits {
        /// The provider.
        provider: String,
    },
    /// Closes the circuit of a model, or all of a provider's.
    Reset {
        /// The provider.
        provider: String,
        /// The model.
        model: Option<String>,
    },
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let api = args.connect.open()?;
    match &args.what {
        What::List { provider } => api.show(&api.get(&format!("/providers/{provider}/models"))?, lines)?,
        What::Set { provider, models } => {
            let body = json!({ "models": models });
            api.show(&api.put(&format!("/providers/{provider}/models"), &body)?, lines)?;
        }
        What::Fetch { provider, force } => {
            let path = format!("/providers/{provider}/models/fetch?force={force}");
            api.show(&api.post(&path, &Value::Null)?, lines)?;
        }
        What::Circuits { provider } => {
            api.show(&api.get(&format!("/providers/{provider}/circuits"))?, |circuits| {
                let fields = ["model", "since", "until", "relapses"];
                let rows: Vec<_> = items(circuits)
                    .map(|circuit| fields.map(|field| text(circuit, field)).to_vec())
                    .collect();
                table(&["MODEL", "SINCE", "UNTIL", "RELAPSES"], &rows)
            })?;
        }
        What::Reset { provider, model } => {
            api.post(&format!("/providers/{provider}/circuits/reset"), &json!({ "model": model }))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn lines(value: &Value) -> String {
    items(&value["models"]).filter_map(Value::as_str).map(|model| format!("{model}\n")).collect()
}
