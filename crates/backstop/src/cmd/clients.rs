//! `backstop clients`: who may use the gateway, and how much.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use anyhow::{Context as _, Result, bail};
use backstop_triage::Timestamp;
use jiff::Span;
use serde_json::{Value, json};

use super::api::{Api, Connect, items, table, text};

/// Shows, makes, limits and revokes client keys: what programs show to the gateway in place of a provider's key.
///
/// A client key is shown once, when it is made; the gateway keeps only its hash.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  KEY=$(backstop clients add laptop)                       # the key alone is on standard output
  backstop clients add ci --provider house --rpm 60 --usd-per-month 20 --expires 90d
  backstop clients limits ci --rpm 120
  backstop clients revoke ci")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    connect: Connect,
}

#[derive(clap::Subcommand)]
enum What {
    /// Shows the client keys that are not revoked.
    List,
    /// Makes a client key and shows it, this once.
    Add {
        /// What to call it: the program or person that gets it.
        name: String,
        #[command(flatten)]
        limits: Allowance,
    },
    /// Changes what a client key may do; what is not named stays.
    Limits {
        /// The client key, by name or id.
        client: String,
        /// Takes away all limits before the named ones are set.
        #[arg(long)]
        unlimited: bool,
        #[command(flatten)]
        limits: Allowance,
    },
    /// Revokes a client key for good.
    Revoke {
        /// The client key, by name or id.
        client: String,
    },
}

/// What a client key may do.
#[derive(clap::Args)]
struct Allowance {
    /// A provider or combo that it may ask; may be repeated.
    #[arg(long = "provider", value_name = "ID")]
    providers: Vec<String>,
    /// A model that it may ask; may be repeated.
    #[arg(long = "model", value_name = "MODEL")]
    models: Vec<String>,
    /// An operation that it may use: generate, count_tokens, embeddings, models, files …; may be repeated.
    #[arg(long = "route", value_name = "OPERATION")]
    routes: Vec<String>,
    /// Requests a minute.
    #[arg(long, value_name = "NUMBER")]
    rpm: Option<u32>,
    /// Tokens a minute.
    #[arg(long, value_name = "NUMBER")]
    tpm: Option<u64>,
    /// Dollars a calendar month.
    #[arg(long, value_name = "DOLLARS")]
    usd_per_month: Option<f64>,
    /// When it ends: a date, a moment, or a time from now such as 90d or 12h.
    #[arg(long, value_name = "WHEN", value_parser = moment)]
    expires: Option<Timestamp>,
    /// Keeps its requests and answers with the log, sealed.
    #[arg(long)]
    keep_bodies: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let api = args.connect.open()?;
    match &args.what {
        What::List => api.show(&api.get("/clients")?, listed)?,
        What::Add { name, limits } => {
            let made = make(&api, name, limits)?;
            api.show(&made, |made| text(made, "key"))?;
            eprintln!(
                "client key {name} is made and shown this once; `backstop connect CLIENT` says where it goes"
            );
        }
        What::Limits { client, unlimited, limits } => {
            let before = find(&api, client)?;
            let mut wanted = if *unlimited { json!({}) } else { before["limits"].clone() };
            limits.put_into(&mut wanted);
            let body = json!({ "limits": wanted, "expires_at": limits.expires });
            let changed = api.patch(&format!("/clients/{}", before["id"]), &body)?;
            api.show(&json!([changed]), listed)?;
        }
        What::Revoke { client } => {
            let found = find(&api, client)?;
            api.delete(&format!("/clients/{}", found["id"]))?;
            writeln!(io::stdout(), "client key {} is revoked", text(&found, "name"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes an unlimited client key; the answer carries it.
pub(crate) fn make_unlimited(api: &Api, name: &str) -> Result<Value> {
    api.post("/clients", &json!({ "name": name }))
}

fn make(api: &Api, name: &str, limits: &Allowance) -> Result<Value> {
    let mut wanted = json!({});
    limits.put_into(&mut wanted);
    api.post("/clients", &json!({ "name": name, "limits": wanted, "expires_at": limits.expires }))
}

/// The client key of a name or an id; a name that several have is refused.
fn find(api: &Api, client: &str) -> Result<Value> {
    let all = api.get("/clients")?;
    let named = |known: &&Value| known["name"] == *client || text(known, "id") == client;
    let found: Vec<&Value> = items(&all).filter(named).collect();
    match found.as_slice() {
        [one] => Ok((*one).clone()),
        [] => bail!("there is no client key {client}; `backstop clients list` shows them"),
        several => {
            let ids: Vec<String> = several.iter().map(|client| client["id"].to_string()).collect();
            bail!("several client keys are called {client}; name one by its id: {}", ids.join(", "))
        }
    }
}

impl Allowance {
    fn put_into(&self, wanted: &mut Value) {
        for (field, list) in
            [("providers", &self.providers), ("models", &self.models), ("routes", &self.routes)]
        {
            if !list.is_empty() {
                wanted[field] = json!(list);
            }
        }
        if let Some(rpm) = self.rpm {
            wanted["requests_per_minute"] = json!(rpm);
        }
        if let Some(tpm) = self.tpm {
            wanted["tokens_per_minute"] = json!(tpm);
        }
        if let Some(dollars) = self.usd_per_month {
            wanted["spend_micros"] = json!(micros(dollars));
        }
        if self.keep_bodies {
            wanted["keep_bodies"] = json!(true);
        }
    }
}

/// Dollars as millionths; what is below nothing is nothing.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to what fits first")]
fn micros(dollars: f64) -> u64 {
    (dollars * 1e6).round().clamp(0.0, 1e15) as u64
}

fn listed(clients: &Value) -> String {
    let row = |client: &Value| {
        let words = ["id", "name", "origin", "prefix"].map(|field| text(client, field));
        let ends = text(client, "expires_at");
        words.into_iter().chain([allowed(&client["limits"]), ends]).collect()
    };
    let rows: Vec<Vec<String>> = items(clients).map(row).collect();
    table(&["ID", "NAME", "FROM", "BEGINS", "LIMITS", "ENDS"], &rows)
}

/// The limits of a client key in a few words.
pub(crate) fn allowed(limits: &Value) -> String {
    let mut words = Vec::new();
    for (field, name) in [("providers", "only"), ("models", "models"), ("routes", "routes")] {
        let list: Vec<&str> = items(&limits[field]).filter_map(Value::as_str).collect();
        if !list.is_empty() {
            words.push(format!("{name} {}", list.join(",")));
        }
    }
    for (field, unit) in [("requests_per_minute", "requests/min"), ("tokens_per_minute", "tokens/min")] {
        if let Some(number) = limits[field].as_u64() {
            words.push(format!("{number} {unit}"));
        }
    }
    if let Some(micros) = limits["spend_micros"].as_u64() {
        words.push(format!("${}.{:02}/month", micros / 1_000_000, micros % 1_000_000 / 10_000));
    }
    if limits["keep_bodies"] == true {
        words.push("keeps bodies".to_owned());
    }
    words.join("; ")
}

/// A date, a moment, or a time from now.
fn moment(text: &str) -> Result<Timestamp> {
    if let Ok(at) = text.parse() {
        return Ok(at);
    }
    if let Ok(at) = format!("{text}T00:00:00Z").parse() {
        return Ok(at);
    }
    let amount = text.trim_end_matches(['d', 'h']).parse::<i64>();
    let amount = amount.ok().filter(|amount| *amount > 0).context(WHEN)?;
    let span: Span = match text.as_bytes().last() {
        Some(b'd') => {
            amount.checked_mul(24).context(WHEN).and_then(|hours| Ok(Span::new().try_hours(hours)?))?
        }
        Some(b'h') => Span::new().try_hours(amount)?,
        Some(_) | None => bail!(WHEN),
    };
    Ok(Timestamp::now().checked_add(span)?)
}

const WHEN: &str = "say a date (2027-12-31), a moment (2027-12-31T00:00:00Z), or a time from now (90d, 12h)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_a_date_a_moment_or_a_time_from_now() {
        assert_eq!(moment("2027-12-31").unwrap().to_string(), "2027-12-31T00:00:00Z");
        assert_eq!(moment("2027-12-31T12:00:00+01:00").unwrap().to_string(), "2027-12-31T11:00:00Z");
        assert!(moment("90d").unwrap() > moment("12h").unwrap());
        for wrong in ["soon", "", "d", "-3d", "3w", "99999999999999999d"] {
            assert!(moment(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn dollars_become_millionths() {
        assert_eq!([0.0, 0.5, 20.0, -1.0, f64::NAN].map(micros), [0, 500_000, 20_000_000, 0, 0]);
    }
}
