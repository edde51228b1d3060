//! `backstop keys`: see, add, test, order and switch keys of a running gateway.

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Result, bail};
use serde_json::{Value, json};

use super::api::{Api, Connect, items, secret_text, table, text};

/// Shows and changes the keys of a provider. Keys are read from stdin, a file or a variable, never from an argument.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  backstop keys add house < keys.txt                 # one key a line, with or without a label before it
  backstop keys add house --label mine --env MY_KEY
  backstop keys test house
  backstop keys list house --state disabled
  backstop keys errors house 3                       # why it failed")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    connect: Connect,
}

#[derive(clap::Subcommand)]
enum What {
    /// Shows the keys of a provider in their order.
    List {
        /// The provider.
        provider: String,
        /// Only keys in this state: active, resting, disabled …
        #[arg(long)]
        state: Option<String>,
    },
    /// Adds keys: one per line, with or without a label before it.
    #[command(visible_alias = "import")]
    Add {
        /// The provider.
        provider: String,
        /// What to call the key, if there is one.
        #[arg(long)]
        label: Option<String>,
        /// The account that the keys share.
        #[arg(long)]
        account: Option<String>,
        /// A file with the keys.
        #[arg(long, value_name = "FILE", conflicts_with = "env")]
        file: Option<PathBuf>,
        /// An environment variable with the key.
        #[arg(long, value_name = "NAME")]
        env: Option<String>,
    },
    /// Tests keys with a list of models and the smallest generation; all of the provider's if none is named.
    Test {
        /// The provider.
        provider: String,
        /// The keys, by id.
        keys: Vec<u64>,
    },
    /// Puts keys back into service, whatever was wrong.
    Enable(Chosen),
    /// Takes keys out of service.
    Disable(Chosen),
    /// Pauses keys until they are resumed, or for a time.
    Pause {
        #[command(flatten)]
        some: Chosen,
        /// For how long, in seconds.
        #[arg(long, value_name = "SECONDS")]
        for_s: Option<u32>,
    },
    /// Ends a pause.
    Resume(Chosen),
    /// Forgets rests and errors in a row.
    Reset(Chosen),
    /// Puts keys first, in this order.
    Reorder(Chosen),
    /// Changes the label of a key.
    Label {
        /// The provider.
        provider: String,
        /// The key, by id.
        key: u64,
        /// The new label.
        label: String,
    },
    /// Shows the last fifty errors of a key.
    Errors {
        /// The provider.
        provider: String,
        /// The key, by id.
        key: u64,
    },
    /// Removes keys.
    Rm(Chosen),
}

/// Some keys of a provider.
#[derive(clap::Args)]
struct Chosen {
    /// The provider.
    provider: String,
    /// The keys, by id.
    #[arg(required = true)]
    keys: Vec<u64>,
    /// Does it although no usable key is left.
    #[arg(long)]
    confirm: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let api = args.connect.open()?;
    match &args.what {
        What::List { provider, state } => list(&api, provider, state.as_deref())?,
        What::Add { provider, label, account, file, env } => {
            let pasted = secret_text(file.as_ref(), env.as_deref())?;
            add(&api, provider, &pasted, (label.as_deref(), account.as_deref()))?;
        }
        What::Test { provider, keys } => return test(&api, provider, keys),
        What::Enable(some) => act(&api, some, "enable", None)?,
        What::Disable(some) => act(&api, some, "disable", None)?,
        What::Pause { some, for_s } => act(&api, some, "pause", *for_s)?,
        What::Resume(some) => act(&api, some, "resume", None)?,
        What::Reset(some) => act(&api, some, "reset", None)?,
        What::Reorder(some) => {
            api.post(&format!("/providers/{}/keys/reorder", some.provider), &json!({ "ids": some.keys }))?;
            list(&api, &some.provider, None)?;
        }
        What::Label { provider, key, label } => {
            api.patch(&format!("/providers/{provider}/keys/{key}"), &json!({ "label": label }))?;
            list(&api, provider, None)?;
        }
        What::Errors { provider, key } => {
            let errors = api.get(&format!("/providers/{provider}/keys/{key}/errors"))?;
            api.show(&errors, error_table)?;
        }
        What::Rm(some) => {
            let path = format!("/providers/{}/keys/bulk-delete", some.provider);
            let results = api.post(&path, &json!({ "ids": some.keys }))?;
            api.show(&results, result_lines)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn list(api: &Api, provider: &str, state: Option<&str>) -> Result<()> {
    let state = state.map(|state| format!("&state={state}")).unwrap_or_default();
    let page = api.get(&format!("/providers/{provider}/keys?limit=1000{state}"))?;
    api.show(&page["items"], |keys| {
        let row = |key: &Value| {
            let why = &key["why"];
            let why = if why.is_null() {
                String::new()
            } else {
                format!("{} ({})", text(why, "class"), text(why, "reason"))
            };
            let calls = format!("{}/{}", text(key, "succeeded"), text(key, "failed"));
            let words = ["id", "label", "hint", "state", "until"].map(|field| text(key, field));
            words.into_iter().chain([calls, why]).collect()
        };
        let rows: Vec<Vec<String>> = items(keys).map(row).collect();
        table(&["ID", "LABEL", "KEY", "STATE", "UNTIL", "OK/FAILED", "WHY"], &rows)
    })
}

fn add(
    api: &Api,
    provider: &str,
    pasted: &str,
    (label, account): (Option<&str>, Option<&str>),
) -> Result<()> {
    let results = match label {
        Some(label) => {
            let mut lines = pasted.lines().map(str::trim).filter(|line| !line.is_empty());
            let (Some(key), None) = (lines.next(), lines.next()) else {
                bail!("--label goes with exactly one key; leave it out to add several");
            };
            let body = json!({ "key": key, "label": label, "account": account });
            json!([api.post(&format!("/providers/{provider}/keys"), &body)?])
        }
        None => {
            let body = json!({ "text": pasted, "account": account });
            api.post(&format!("/providers/{provider}/keys/bulk"), &body)?
        }
    };
    api.show(&results, result_lines)
}

fn test(api: &Api, provider: &str, keys: &[u64]) -> Result<ExitCode> {
    let named = !keys.is_empty();
    let all = if named { Value::Null } else { api.get(&format!("/providers/{provider}/keys?limit=1000"))? };
    let all: Vec<u64> = items(&all["items"]).filter_map(|key| key["id"].as_u64()).collect();
    let keys = if named { keys } else { &all };
    let mut all_valid = true;
    for (done, key) in (1..).zip(keys) {
        let report = api.post(&format!("/providers/{provider}/keys/{key}/test"), &Value::Null)?;
        all_valid &= report["valid"] == true;
        api.show(&report, |report| format!("{done}/{} {}", keys.len(), report_line(report)))?;
    }
    Ok(if all_valid { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn act(api: &Api, some: &Chosen, action: &str, for_s: Option<u32>) -> Result<()> {
    let path = format!("/providers/{}/keys/bulk-action", some.provider);
    let body = json!({ "ids": some.keys, "action": action, "for_s": for_s, "confirm": some.confirm });
    let results = api.post(&path, &body)?;
    api.show(&results, result_lines)
}

fn result_lines(results: &Value) -> String {
    let line = |result: &Value| {
        let hint = text(result, "hint");
        let hint = if hint.is_empty() { hint } else { format!(" {hint}") };
        format!("key {}{hint}: {}\n", text(result, "id"), text(result, "result"))
    };
    items(results).map(line).collect()
}

/// A connection test in one line.
pub(crate) fn report_line(report: &Value) -> String {
    let word = match report["valid"].as_bool() {
        Some(true) => "valid",
        Some(false) => "invalid",
        None => "unknown",
    };
    let said =
        ["error", "warning"].map(|field| text(report, field)).into_iter().find(|said| !said.is_empty());
    let said = said.map(|said| format!(": {said}")).unwrap_or_default();
    let disabled = if report["disabled"] == true { ", taken out of service" } else { "" };
    format!("{} {word} in {} ms{disabled}{said}", text(report, "label"), text(report, "latency_ms"))
}

fn error_table(errors: &Value) -> String {
    let fields = ["at", "status", "class", "reason", "action", "basis", "message"];
    let row = |error: &Value| fields.map(|field| text(error, field)).to_vec();
    let rows: Vec<Vec<String>> = items(errors).map(row).collect();
    table(&["AT", "STATUS", "CLASS", "REASON", "ACTION", "RULE", "MESSAGE"], &rows)
}
