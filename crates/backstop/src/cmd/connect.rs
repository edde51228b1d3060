//! `backstop connect`: what makes a client program use the gateway.

use std::{
    io::{self, Write as _},
    iter,
    process::ExitCode,
};

use anyhow::{Result, bail};
use backstop_dashboard::connect::{self, Client, Place, Ready};
use backstop_dialect::Dialect;
use backstop_triage::{Catalog, preset::Preset};
use serde_json::{Value, json};

use super::{
    api::{Api, Connect, items, table, text},
    clients,
};

/// Prints what makes a client program use the gateway: the snippet, and where it belongs.
///
/// The address, the provider and a model are taken from the running gateway, if it can be asked; what is not known
/// stays a word in capitals, as does the client key unless --new-key makes one. Nothing is written.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  backstop connect                                   # which clients are known
  backstop connect claude-code --provider house --new-key laptop
  backstop connect codex --model house/small
  backstop connect opencode --prompt | pbcopy        # a task for an AI agent that does it")]
pub(crate) struct Args {
    /// The client; without one, those that are known.
    client: Option<String>,
    /// The provider, or combo, to go through.
    #[arg(long, value_name = "ID")]
    provider: Option<String>,
    /// The model to ask for.
    #[arg(long)]
    model: Option<String>,
    /// Makes a client key of this name and puts it in.
    #[arg(long, value_name = "NAME")]
    new_key: Option<String>,
    /// Prints a task for an AI agent in place of the snippet alone.
    #[arg(long)]
    prompt: bool,
    #[command(flatten)]
    connect: Connect,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let Some(id) = &args.client else { return list(args.connect.json) };
    let Some(client) = connect::client(id) else {
        let known: Vec<&str> = connect::clients().iter().map(|client| client.id.as_str()).collect();
        bail!("{id} is not known; known are {}; `environment` fits most others", known.join(", "));
    };
    let api = args.connect.open();
    let key = match (&args.new_key, &api) {
        (Some(name), Ok(api)) => text(&clients::make_unlimited(api, name)?, "key"),
        (Some(_), Err(_)) => return api.map(|_| ExitCode::FAILURE),
        (None, _) if client.is_shell() => "$BACKSTOP_KEY".to_owned(),
        (None, _) => "CLIENT-KEY".to_owned(),
    };
    let offered = api.ok().and_then(|api| offered(&api, client, args).ok()).unwrap_or_default();
    let through =
        args.provider.as_deref().or_else(|| offered.provider.as_deref().filter(|_| client.needs_provider()));
    let model = match (&args.model, &offered.provider, &offered.model) {
        (Some(model), _, _) => Some(model.clone()),
        (None, Some(provider), Some(model)) if through.is_none() => Some(format!("{provider}/{model}")),
        (None, _, model) => model.clone(),
    };
    let url = args.connect.url();
    let ready = client.ready(&Place { url: &url, key: &key, provider: through, model: model.as_deref() });
    tell(args, &ready)?;
    Ok(ExitCode::SUCCESS)
}

fn tell(args: &Args, ready: &Ready) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if args.connect.json {
        return writeln!(out, "{:#}", json!({ "ready": ready, "prompt": ready.prompt() }));
    }
    if args.prompt {
        return out.write_all(ready.prompt().as_bytes());
    }
    out.write_all(ready.snippet.as_bytes())?;
    out.flush()?;
    // The snippet alone is on standard output, so that it can go into a file.
    if let Some(file) = &ready.file {
        eprintln!("\nThis belongs into {file}.");
    }
    if let Some(note) = &ready.note {
        eprintln!("{note}");
    }
    if args.new_key.is_none() {
        eprintln!("The key: `backstop clients add NAME` makes one, or let --new-key NAME put it in here.");
    }
    Ok(())
}

fn list(as_json: bool) -> Result<ExitCode> {
    let mut out = io::stdout().lock();
    if as_json {
        let clients: Vec<Value> =
            connect::clients().iter().map(|client| json!({ "id": client.id, "name": client.name })).collect();
        writeln!(out, "{:#}", Value::Array(clients))?;
    } else {
        let row = |client: &Client| {
            vec![client.id.clone(), client.name.clone(), client.file.clone().unwrap_or_default()]
        };
        let rows: Vec<Vec<String>> = connect::clients().iter().map(row).collect();
        write!(out, "{}", table(&["CLIENT", "NAME", "ITS FILE"], &rows))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A provider that speaks the client's dialect, and a model of it.
#[derive(Default)]
struct Offered {
    provider: Option<String>,
    model: Option<String>,
}

fn offered(api: &Api, client: &Client, args: &Args) -> Result<Offered> {
    let catalog = Catalog::embedded();
    let providers = api.get("/providers")?;
    let fits = |provider: &&Value| match &args.provider {
        Some(wanted) => provider["id"] == **wanted,
        None => speaks(provider, client, catalog.preset(&text(provider, "preset"))),
    };
    let usable = |provider: &&Value| provider["usable_keys"] != 0 || provider["auth"] != "managed";
    let fitting: Vec<&Value> = items(&providers).filter(fits).collect();
    let chosen = fitting.iter().find(|provider| usable(provider)).or_else(|| fitting.first());
    let model = |provider: &&Value| Some(provider["models"].get(0)?.as_str()?.to_owned());
    Ok(Offered { provider: chosen.map(|provider| text(provider, "id")), model: chosen.and_then(model) })
}

/// Whether a provider passes the client's dialect on.
fn speaks(provider: &Value, client: &Client, preset: Option<&Preset>) -> bool {
    let Some(wanted) = client.dialect() else { return false };
    let also = preset.map(|preset| preset.also.as_slice()).unwrap_or_default();
    let names =
        iter::once(text(provider, "format")).chain(also.iter().map(|format| format.as_str().to_owned()));
    let mut spoken =
        names.filter_map(|name| Dialect::ALL.into_iter().find(|dialect| dialect.as_str() == name));
    spoken.any(|dialect| dialect.passes(wanted))
}
