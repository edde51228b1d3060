//! Speaks to a running gateway's admin API.

use std::{
    fs,
    io::{self, IsTerminal as _, Read as _, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use backstop_http::{HttpClient, Method};
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

use super::places;

/// Which gateway to speak to.
#[derive(clap::Args)]
pub(crate) struct Connect {
    /// The address of the gateway; default: where the configuration lets it listen, http://127.0.0.1:3030 at first.
    #[arg(long, global = true, env = "BACKSTOP_URL")]
    url: Option<String>,
    /// The data folder, where the admin token lies; BACKSTOP_ADMIN_TOKEN is used first.
    #[arg(long, global = true, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
    /// Prints JSON.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// The admin API of a running gateway.
pub(crate) struct Api {
    url: String,
    token: String,
    http: HttpClient,
    runtime: Runtime,
    pub(crate) json: bool,
}

impl Connect {
    /// The address of the gateway, without a slash at its end.
    pub(crate) fn url(&self) -> String {
        let url = self.url.clone().unwrap_or_else(places::url);
        url.trim_end_matches('/').to_owned()
    }

    /// The data folder of the gateway.
    pub(crate) fn data_dir(&self, config: Option<&Path>) -> Result<PathBuf> {
        places::data_dir(self.data_dir.as_deref(), config)
    }

    /// Asks whether the gateway is ready; needs no token.
    pub(crate) fn ready(&self) -> Result<()> {
        ready(&self.url())
    }

    /// Finds the token; nothing is sent yet.
    pub(crate) fn open(&self) -> Result<Api> {
        let token = match std::env::var("BACKSTOP_ADMIN_TOKEN") {
            Ok(token) if !token.trim().is_empty() => token.trim().to_owned(),
            Ok(_) | Err(_) => {
                let file = backstop_dashboard::token_file(&self.data_dir(None)?);
                let text = fs::read_to_string(&file).with_context(|| {
                    format!(
                        "cannot read the admin token in {}, which the first `backstop serve` makes; name the gateway's \
                         data folder with --data-dir, or set BACKSTOP_ADMIN_TOKEN",
                        file.display()
                    )
                })?;
                text.trim().to_owned()
            }
        };
        Ok(Api {
            url: self.url(),
            token,
            http: HttpClient::new(Duration::from_secs(120)),
            runtime: Builder::new_current_thread().enable_all().build()?,
            json: self.json,
        })
    }
}

impl Api {
    pub(crate) fn get(&self, path: &str) -> Result<Value> {
        self.send(Method::GET, path, None)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Result<Value> {
        self.send(Method::POST, path, Some(body))
    }

    pub(crate) fn put(&self, path: &str, body: &Value) -> Result<Value> {
        self.send(Method::PUT, path, Some(body))
    }

    pub(crate) fn patch(&self, path: &str, body: &Value) -> Result<Value> {
        self.send(Method::PATCH, path, Some(body))
    }

    pub(crate) fn delete(&self, path: &str) -> Result<Value> {
        self.send(Method::DELETE, path, None)
    }

    /// Prints a value as JSON if that is wanted, else by `plain`.
    pub(crate) fn show(&self, value: &Value, plain: impl FnOnce(&Value) -> String) -> Result<()> {
        let mut out = io::stdout().lock();
        if self.json {
            serde_json::to_writer_pretty(&mut out, value)?
        } else {
            out.write_all(plain(value).trim_end().as_bytes())?
        }
        writeln!(out)?;
        Ok(())
    }

    fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value> {
        let url = format!("{}/api{path}", self.url);
        let headers = [("authorization", format!("Bearer {}", self.token))];
        let body = body.map(Value::to_string).unwrap_or_default();
        let reply = self.runtime.block_on(self.http.send(method, &url, &headers, body.into()));
        let reply = reply.with_context(|| {
            format!(
                "no gateway answers at {}; start it with `backstop serve`, or name it with --url",
                self.url
            )
        })?;
        let value: Value = serde_json::from_slice(&reply.body).unwrap_or(Value::Null);
        if (200..300).contains(&reply.status) {
            return Ok(value);
        }
        match value["detail"].as_str() {
            Some(detail) => bail!("{detail}"),
            None => bail!("the gateway answered {} to {path}", reply.status),
        }
    }
}

/// Asks whether a gateway is ready at an address; needs no token.
pub(crate) fn ready(url: &str) -> Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let http = HttpClient::new(Duration::from_secs(5));
    let reply = runtime.block_on(http.send(Method::GET, &format!("{url}/readyz"), &[], Vec::new().into()));
    let reply = reply.with_context(|| format!("no gateway answers at {url}"))?;
    if reply.status != 200 {
        bail!("the gateway at {url} is not ready: it answers {}", reply.status);
    }
    Ok(())
}

/// A table with aligned columns.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([head[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded = cells.zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    let mut text = line(&mut head.iter().copied());
    for row in rows {
        text.push_str(&line(&mut row.iter().map(String::as_str)));
    }
    text
}

/// A field as people read it; nothing for what is not there.
pub(crate) fn text(value: &Value, field: &str) -> String {
    match &value[field] {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The items of a list.
pub(crate) fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Text that may be secret: from a file, an environment variable, or standard input; never from an argument.
pub(crate) fn secret_text(file: Option<&PathBuf>, variable: Option<&str>) -> Result<String> {
    if let Some(file) = file {
        return fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()));
    }
    if let Some(name) = variable {
        return std::env::var(name).with_context(|| format!("the environment has no {name}"));
    }
    if io::stdin().is_terminal() {
        eprintln!("paste it here, then press Enter and Ctrl-D:");
    }
    let mut text = String::new();
    io::stdin().read_to_string(&mut text).context("standard input cannot be read")?;
    Ok(text)
}
