//! `backstop fallbacks`: where a request goes when its provider cannot answer.

use std::process::ExitCode;

use anyhow::Result;
use serde_json::{Value, json};

use super::api::{Api, Connect, items, table, text};

/// Shows and sets the fallback chains of providers.
///
/// A step is PROVIDER, which asks for the model that was asked for, or PROVIDER/MODEL. Steps are tried in order.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  backstop fallbacks list
  backstop fallbacks set first second/team/large house
  backstop fallbacks rm first")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    connect: Connect,
}

#[derive(clap::Subcommand)]
enum What {
    /// Shows the chains.
    List,
    /// Sets the chain of a provider, in order.
    Set {
        /// The provider that is left.
        provider: String,
        /// PROVIDER or PROVIDER/MODEL.
        #[arg(required = true, value_name = "STEP")]
        steps: Vec<String>,
    },
    /// Removes the chain of a provider.
    Rm {
        /// The provider.
        provider: String,
    },
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let api = args.connect.open()?;
    match &args.what {
        What::List => {}
        What::Set { provider, steps } => set(&api, provider, steps)?,
        What::Rm { provider } => set(&api, provider, &[])?,
    }
    api.show(&api.get("/fallbacks")?, |chains| {
        let row = |chain: &Value| {
            let steps: Vec<String> = items(&chain["legs"]).map(step).collect();
            let origin = if chain["from_file"] == true { "file" } else { "added" };
            vec![text(chain, "provider"), origin.to_owned(), steps.join(", then ")]
        };
        let rows: Vec<Vec<String>> = items(chains).map(row).collect();
        table(&["PROVIDER", "FROM", "FALLS BACK TO"], &rows)
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Sets the chain of a provider; none clears it.
pub(crate) fn set(api: &Api, provider: &str, steps: &[String]) -> Result<()> {
    api.put(&format!("/providers/{provider}/fallbacks"), &legs(steps)).map(drop)
}

/// The chain that people wrote, as the API takes it.
pub(crate) fn legs(steps: &[String]) -> Value {
    let leg = |step: &String| match step.split_once('/') {
        Some((provider, model)) => json!({ "provider": provider, "model": model }),
        None => json!({ "provider": step }),
    };
    json!({ "legs": steps.iter().map(leg).collect::<Vec<_>>() })
}

/// A step of a chain as people write it.
pub(crate) fn step(leg: &Value) -> String {
    match leg["model"].as_str() {
        Some(model) => format!("{}/{model}", text(leg, "provider")),
        None => text(leg, "provider"),
    }
}
