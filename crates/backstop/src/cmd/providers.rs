//! `backstop providers`: see, add, test, pause and remove providers of a running gateway.

use std::{collections::BTreeMap, process::ExitCode};

use anyhow::{Context as _, Result};
use serde_json::{Map, Value, json};

use super::{
    api::{Api, Connect, items, table, text},
    fallbacks,
    keys::report_line,
};

/// Shows and changes providers.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  backstop providers presets coding                  # what is known by name
  backstop providers add mine --preset PRESET      # `backstop providers presets` lists them
  backstop providers add house --format openai-chat --base-url http://127.0.0.1:8000/v1
  backstop providers test mine")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    connect: Connect,
}

#[derive(clap::Subcommand)]
enum What {
    /// Shows all providers.
    List,
    /// Shows one provider in full.
    Show {
        /// The provider.
        id: String,
    },
    /// Adds a provider.
    Add(New),
    /// Removes a provider with its keys, models and fallbacks.
    Rm {
        /// The provider.
        id: String,
    },
    /// Stops asking a provider until it is resumed.
    Pause {
        /// The provider.
        id: String,
    },
    /// Asks a paused provider again.
    Resume {
        /// The provider.
        id: String,
    },
    /// Tests a provider with its first key.
    Test {
        /// The provider.
        id: String,
        /// The model to ask.
        #[arg(long)]
        model: Option<String>,
    },
    /// Sets where to go when a provider cannot answer: PROVIDER or PROVIDER/MODEL, in order.
    Fallbacks {
        /// The provider.
        id: String,
        /// The steps; none clears the chain.
        legs: Vec<String>,
    },
    /// Shows the providers that are known by name.
    Presets {
        /// Only those whose id or name contains this.
        search: Option<String>,
    },
}

/// A provider to add.
#[derive(clap::Args)]
struct New {
    /// Its id in paths, logs and models; the preset's if none is given.
    id: Option<String>,
    /// The preset that it is made from; see `backstop providers presets`.
    #[arg(long, required_unless_present = "base_url")]
    preset: Option<String>,
    /// The API shape, without a preset.
    #[arg(long)]
    format: Option<String>,
    /// The base URL, as the provider's documentation writes it.
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// The rule pack that reads its failures.
    #[arg(long)]
    rules: Option<String>,
    /// Lets it be reached without TLS in a private network.
    #[arg(long)]
    allow_private: bool,
    /// A setting of its own, NAME=VALUE; may be repeated.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    settings: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let api = args.connect.open()?;
    match &args.what {
        What::List => api.show(&api.get("/providers")?, provider_table)?,
        What::Show { id } => api.show(&api.get(&format!("/providers/{id}"))?, fields)?,
        What::Add(new) => api.show(&api.post("/providers", &definition(new)?)?, fields)?,
        What::Rm { id } => drop(api.delete(&format!("/providers/{id}"))?),
        What::Pause { id } => mark(&api, id, true)?,
        What::Resume { id } => mark(&api, id, false)?,
        What::Test { id, model } => {
            let report = api.post(&format!("/providers/{id}/test"), &json!({ "model": model }))?;
            api.show(&report, report_line)?;
            return Ok(if report["valid"] == true { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        What::Fallbacks { id, legs } => fallbacks::set(&api, id, legs)?,
        What::Presets { search } => presets(&api, search.as_deref())?,
    }
    Ok(ExitCode::SUCCESS)
}

fn definition(new: &New) -> Result<Value> {
    let id = new.id.as_ref().or(new.preset.as_ref()).context("name the provider")?;
    let mut settings = Map::new();
    for pair in &new.settings {
        let (name, value) =
            pair.split_once('=').with_context(|| format!("--set {pair} is not NAME=VALUE"))?;
        settings.insert(name.to_owned(), value_of(value));
    }
    let mut definition = json!({ "id": id, "allow_private": new.allow_private, "settings": settings });
    let given: BTreeMap<&str, &Option<String>> = BTreeMap::from([
        ("preset", &new.preset),
        ("format", &new.format),
        ("base_url", &new.base_url),
        ("rules", &new.rules),
    ]);
    for (name, value) in given {
        if let Some(value) = value {
            definition[name] = json!(value);
        }
    }
    Ok(definition)
}

fn mark(api: &Api, id: &str, paused: bool) -> Result<()> {
    api.show(&api.patch(&format!("/providers/{id}"), &json!({ "paused": paused }))?, fields)
}

fn presets(api: &Api, search: Option<&str>) -> Result<()> {
    let search = search.unwrap_or("").to_lowercase();
    let all = api.get("/presets")?;
    let fits = |preset: &&Value| {
        format!("{} {}", text(preset, "id"), text(preset, "name")).to_lowercase().contains(&search)
    };
    let found: Vec<Value> = items(&all).filter(fits).cloned().collect();
    api.show(&Value::Array(found), |found| {
        let fields = ["id", "name", "kind", "format", "base_url"];
        let rows: Vec<_> =
            items(found).map(|preset| fields.map(|field| text(preset, field)).to_vec()).collect();
        table(&["ID", "NAME", "COST", "FORMAT", "BASE URL"], &rows)
    })
}

fn provider_table(providers: &Value) -> String {
    let row = |provider: &Value| {
        let keys: u64 =
            provider["keys"].as_object().into_iter().flatten().filter_map(|(_, count)| count.as_u64()).sum();
        let state = if provider["paused"] == true { "paused" } else { "" };
        let usable = format!("{}/{keys}", text(provider, "usable_keys"));
        let words = ["id", "origin", "format", "base_url"].map(|field| text(provider, field));
        words.into_iter().chain([usable, state.to_owned(), text(provider, "back_at")]).collect()
    };
    let rows: Vec<Vec<String>> = items(providers).map(row).collect();
    table(&["ID", "FROM", "FORMAT", "BASE URL", "USABLE KEYS", "STATE", "BACK AT"], &rows)
}

/// An object as lines of name and value, without what is empty.
pub(crate) fn fields(value: &Value) -> String {
    let rows = value.as_object().into_iter().flatten();
    let rows = rows
        .filter(|(_, value)| !value.is_null())
        .map(|(name, _)| format!("{name:20}  {}\n", text(value, name)));
    rows.collect()
}

/// A value as people type it: JSON where it is, else a word.
pub(crate) fn value_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}
