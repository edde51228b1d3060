//! `backstop context`: how many tokens a model takes, and how we know.

use std::{
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use backstop_context::{Subject, Windows};
use backstop_http::HttpClient;
use backstop_triage::{
    Catalog, Timestamp,
    context::{DEFAULT_CONTEXT, Directory, Endpoint, Resolution},
    preset::{Auth, Format, Preset},
};
use serde_json::json;

use super::places;

/// Says how many tokens a model takes.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The model, as its provider names it; or PROVIDER/MODEL.
    model: String,
    /// The provider: a preset.
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
    let catalog = Catalog::embedded();
    let (preset, model) = args.who(&catalog)?;
    let format = preset.map_or_else(|| args.format.format(), |preset| preset.format);
    let base_url = args.base_url.as_deref().or_else(|| preset.map(|preset| preset.base_url.as_str()));
    let place = base_url.unwrap_or_default();
    let subject = Subject {
        model,
        endpoint: Endpoint { base_url: place, format },
        fixed: None,
        default: DEFAULT_CONTEXT,
    };
    let data_dir = places::data_dir(args.data_dir.as_deref())?;
    let file = data_dir.join("windows.json");
    let windows =
        Windows::open(data_dir.is_dir().then_some(file.as_path()), HttpClient::new(Duration::from_secs(5))?);
    let now = Timestamp::now();
    let resolution = if args.offline || base_url.is_none() || place.contains('{') {
        windows.known(&subject, now)
    } else {
        let headers = preset.map(credential).unwrap_or_default();
        let headers: Vec<(&str, String)> =
            headers.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(windows.ask(&subject, &headers, now))
    };
    print(args, &resolution, place, model)?;
    Ok(ExitCode::SUCCESS)
}

impl Args {
    /// The preset and the model; `PROVIDER/MODEL` names both if the first part is a preset.
    fn who<'a>(&'a self, catalog: &'a Catalog) -> Result<(Option<&'a Preset>, &'a str)> {
        if let Some(id) = &self.provider {
            let Some(preset) = catalog.preset(id) else { bail!("no preset is called {id:?}") };
            return Ok((Some(preset), &self.model));
        }
        if self.base_url.is_none()
            && let Some((id, model)) = self.model.split_once('/')
            && let Some(preset) = catalog.preset(id)
        {
            return Ok((Some(preset), model));
        }
        Ok((None, &self.model))
    }
}

/// The preset's credential from the usual environment variables.
fn credential(preset: &Preset) -> Vec<(String, String)> {
    let mut headers: Vec<_> =
        preset.headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    let key = preset.env.iter().find_map(|name| std::env::var(name).ok().filter(|key| !key.is_empty()));
    let Some(key) = key else { return headers };
    headers.extend(match &preset.auth {
        Auth::Bearer => Some(("authorization".to_owned(), format!("Bearer {key}"))),
        Auth::XApiKey => Some(("x-api-key".to_owned(), key)),
        Auth::XGoogApiKey => Some(("x-goog-api-key".to_owned(), key)),
        Auth::Header(name) => Some((name.clone(), key)),
        Auth::None => None,
    });
    headers
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
