//! `backstop context`: how many tokens a model takes, and how we know.

use std::{
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use backstop_context::{Direct, Subject, Windows};
use backstop_dialect::Dialect;
use backstop_gateway::config::Provider;
use backstop_http::HttpClient;
use backstop_triage::{
    Timestamp,
    context::{Directory, Endpoint, Resolution},
    preset::{Auth, Format, Preset},
};
use http::{HeaderName, HeaderValue};
use serde_json::json;

use super::setup::Setup;

/// Says how many tokens a model takes.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  backstop context glm-5.2 --explain
  backstop context house/small --offline --json")]
pub(crate) struct Args {
    /// The model, as its provider names it; or PROVIDER/MODEL.
    model: String,
    /// The configuration; default: ~/.config/backstop/backstop.toml, if it is there.
    #[arg(long, value_name = "FILE", env = "BACKSTOP_CONFIG")]
    config: Option<PathBuf>,
    /// The provider: one of the configuration, or a preset.
    #[arg(long, value_name = "ID")]
    provider: Option<String>,
    /// The endpoint's base URL, where it is not the preset's.
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// The endpoint's format.
    #[arg(long, value_enum, default_value_t = Shape::OpenaiChat)]
    format: Shape,
    /// Shows every step and what it said.
    #[arg(long)]
    explain: bool,
    /// Asks nobody over the network.
    #[arg(long)]
    offline: bool,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
    /// Where learned windows are kept.
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
}

/// The formats, as arguments.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Shape {
    OpenaiChat,
    OpenaiResponses,
    AnthropicMessages,
    Gemini,
}

impl Shape {
    fn format(self) -> Format {
        match self {
            Self::OpenaiChat => Format::OpenaiChat,
            Self::OpenaiResponses => Format::OpenaiResponses,
            Self::AnthropicMessages => Format::AnthropicMessages,
            Self::Gemini => Format::Gemini,
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let setup = Setup::load(args.config.as_deref())?;
    let (target, model) = args.target(&setup)?;
    let endpoint = Endpoint { base_url: &target.base_url, format: target.format };
    let default = target.default.unwrap_or(setup.config.settings.default_context);
    let subject = Subject { model, endpoint, fixed: target.fixed, default };
    let data_dir = args.data_dir.as_ref().unwrap_or(&setup.config.server.data_dir);
    let file = data_dir.join("windows.json");
    let windows = Windows::open(data_dir.is_dir().then_some(file.as_path()));
    let now = Timestamp::now();
    let nobody = target.base_url.is_empty() || target.base_url.contains('{');
    let resolution = if args.offline || nobody {
        windows.known(&subject, now)
    } else {
        let headers: Vec<(&str, String)> =
            target.headers.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        let asker = Direct { http: HttpClient::new(Duration::from_secs(5)), headers: &headers };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(windows.ask(&subject, &asker, now))
    };
    windows.save();
    print(args, &resolution, &target.base_url, model)?;
    Ok(ExitCode::SUCCESS)
}

/// Whom to ask, and with what.
struct Target {
    base_url: String,
    format: Format,
    headers: Vec<(String, String)>,
    fixed: Option<u64>,
    /// The window when nobody knows, where the provider has one of its own.
    default: Option<u64>,
}

impl Args {
    /// Where the model is served: a provider of the configuration, else a preset, else the given address. In
    /// `PROVIDER/MODEL` the first part names the provider, if there is one of that name.
    fn target<'a>(&'a self, setup: &Setup) -> Result<(Target, &'a str)> {
        let (named, model) = match (&self.provider, self.model.split_once('/')) {
            (Some(provider), _) => (Some(provider.as_str()), self.model.as_str()),
            (None, Some((first, rest))) if self.base_url.is_none() => (Some(first), rest),
            (None, _) => (None, self.model.as_str()),
        };
        let found = named.and_then(|id| {
            let provider = setup.config.providers.iter().find(|provider| provider.id.as_str() == id);
            provider
                .map(|provider| of_provider(provider, model))
                .or_else(|| setup.catalog.preset(id).map(of_preset))
        });
        let (mut target, model) = match found {
            Some(target) => (target, model),
            None if self.provider.is_some() => {
                bail!(
                    "neither the configuration nor the presets have a provider {:?}",
                    named.unwrap_or_default()
                )
            }
            None => (
                Target {
                    base_url: String::new(),
                    format: self.format.format(),
                    headers: Vec::new(),
                    fixed: None,
                    default: None,
                },
                self.model.as_str(),
            ),
        };
        if let Some(base_url) = &self.base_url {
            target.base_url.clone_from(base_url);
        }
        Ok((target, model))
    }
}

fn of_provider(provider: &Provider, model: &str) -> Target {
    let credential =
        provider.keys.first().and_then(|key| provider.key_header.header(key.secret.expose()).ok()?);
    let readable = |(name, value): (&HeaderName, &HeaderValue)| {
        Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
    };
    let own = provider.headers.iter().map(|(name, value)| (name, value));
    let headers =
        own.chain(credential.iter().map(|(name, value)| (name, value))).filter_map(readable).collect();
    Target {
        base_url: provider.base_url.to_string(),
        format: shape(provider.format),
        headers,
        fixed: provider.context.get(model).copied(),
        default: Some(provider.settings.default_context),
    }
}

/// A preset with the key of its usual environment variables.
fn of_preset(preset: &Preset) -> Target {
    let key = preset.env.iter().find_map(|name| std::env::var(name).ok().filter(|key| !key.is_empty()));
    let credential = key.and_then(|key| match &preset.auth {
        Auth::Bearer => Some(("authorization".to_owned(), format!("Bearer {key}"))),
        Auth::XApiKey => Some(("x-api-key".to_owned(), key)),
        Auth::XGoogApiKey => Some(("x-goog-api-key".to_owned(), key)),
        Auth::Header(name) => Some((name.clone(), key)),
        Auth::None => None,
    });
    let headers =
        preset.headers.iter().map(|(name, value)| (name.clone(), value.clone())).chain(credential).collect();
    Target { base_url: preset.base_url.clone(), format: preset.format, headers, fixed: None, default: None }
}

fn shape(dialect: Dialect) -> Format {
    match dialect {
        Dialect::OpenAiChat => Format::OpenaiChat,
        Dialect::OpenAiResponses => Format::OpenaiResponses,
        Dialect::AnthropicMessages => Format::AnthropicMessages,
        Dialect::Gemini => Format::Gemini,
    }
}

fn print(args: &Args, resolution: &Resolution, place: &str, model: &str) -> Result<()> {
    let entry = Directory::embedded().find(place, model);
    if args.json {
        let mut object = serde_json::to_value(resolution).context("a resolution is plain data")?;
        object["model"] = json!(model);
        object["price"] = json!(entry.and_then(|entry| entry.price));
        if !args.explain
            && let Some(fields) = object.as_object_mut()
        {
            fields.remove("steps");
        }
        writeln!(io::stdout(), "{object}")?;
        return Ok(());
    }
    if args.explain {
        write!(io::stdout(), "{resolution}")?;
        return Ok(());
    }
    let output =
        resolution.max_output.map(|limit| format!(", at most {limit} of them out")).unwrap_or_default();
    writeln!(io::stdout(), "{} tokens{output} ({})", resolution.context, resolution.source.as_str())?;
    Ok(())
}
