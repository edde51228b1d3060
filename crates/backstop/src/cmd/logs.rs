//! `backstop logs`: the request log of a running gateway.

use std::process::ExitCode;

use anyhow::Result;
use serde_json::Value;

use super::api::{Connect, items, table, text};

/// Shows requests, newest first; one request with its attempts if its id is given.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  backstop logs --outcome failed --limit 20
  backstop logs --class rate_limit --provider house
  backstop logs req_0123456789abcdef00000001         # one request with its attempts")]
pub(crate) struct Args {
    /// The id of a request.
    id: Option<String>,
    /// Only requests that asked this provider or were answered by it.
    #[arg(long)]
    provider: Option<String>,
    /// Only requests that ended so: succeeded, failed, timed_out, left.
    #[arg(long)]
    outcome: Option<String>,
    /// Only requests with an attempt that failed so.
    #[arg(long)]
    class: Option<String>,
    /// Only requests whose model contains this.
    #[arg(long)]
    model: Option<String>,
    /// How many.
    #[arg(long, default_value_t = 50)]
    limit: u16,
    #[command(flatten)]
    connect: Connect,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let api = args.connect.open()?;
    if let Some(id) = &args.id {
        api.show(&api.get(&format!("/logs/{}", encoded(id)))?, one)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut path = format!("/logs?limit={}", args.limit);
    let filters = [
        ("provider", &args.provider),
        ("outcome", &args.outcome),
        ("class", &args.class),
        ("model", &args.model),
    ];
    for (name, value) in filters {
        if let Some(value) = value {
            path.push_str(&format!("&{name}={}", encoded(value)));
        }
    }
    let page = api.get(&path)?;
    api.show(&page["items"], |requests| {
        let rows: Vec<Vec<String>> = items(requests).map(row).collect();
        table(&["AT", "ID", "PROVIDER", "MODEL", "OUTCOME", "STATUS", "CLASS", "TRIES", "MS"], &rows)
    })?;
    Ok(ExitCode::SUCCESS)
}

fn row(request: &Value) -> Vec<String> {
    let tries = items(&request["attempts"]).count().to_string();
    let word = |field| text(request, field);
    let front = ["at", "id", "provider", "model", "outcome", "status", "class"].map(word);
    front.into_iter().chain([tries, word("duration_ms")]).collect()
}

fn one(request: &Value) -> String {
    let mut lines = table(
        &["AT", "ID", "PROVIDER", "MODEL", "OUTCOME", "STATUS", "CLASS", "TRIES", "MS"],
        &[row(request)],
    );
    let attempt = |attempt: &Value| {
        let failure = &attempt["failure"];
        let said = ["class", "reason", "basis", "message"].map(|field| text(failure, field));
        let front = ["after_ms", "provider", "model", "key_label", "status", "took_ms"]
            .map(|field| text(attempt, field));
        front.into_iter().chain(said).collect()
    };
    let rows: Vec<Vec<String>> = items(&request["attempts"]).map(attempt).collect();
    lines.push('\n');
    let head = ["AFTER MS", "PROVIDER", "MODEL", "KEY", "STATUS", "MS", "CLASS", "REASON", "RULE", "SAID"];
    lines.push_str(&table(&head, &rows));
    lines
}

fn encoded(text: &str) -> String {
    let safe = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    text.bytes()
        .map(|byte| if safe(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
