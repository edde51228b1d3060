//! Models of a provider: see, set, order, and fetch from the provider.

use std::{collections::BTreeMap, time::Duration};

use backstop_store::configuration::ModelRow;
use backstop_triage::{ModelId, Timestamp};
use http::Method;
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::{
    actions::{providers::refuse_file, testing::models_path},
    app::{Actor, App, value_of},
    live::{Configured, Credential, Question, Target},
    models_cache::Listed,
    problem::{Answer, Problem},
};

/// What a provider offers.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Offer {
    /// The models that it lists.
    pub models: Vec<String>,
    /// Those among them that cost nothing, where the list tells prices.
    pub free: Vec<String>,
    /// When the list was fetched.
    #[schema(value_type = String)]
    pub fetched_at: Timestamp,
    /// Whether it was fetched earlier, within five minutes.
    pub cached: bool,
}

/// Sets the list of models of a provider, in order of fallback.
pub async fn set(app: &App, actor: &Actor, provider: &str, models: Vec<String>) -> Answer<Vec<String>> {
    let configured = refuse_file(app, provider)?;
    if models.iter().any(|model| model.trim().is_empty()) {
        return Err(Problem::invalid_field("models", "a model needs a name"));
    }
    let prices = prices(app, &configured).await?;
    let rows = models.iter().map(|model| {
        let free = prices.get(model.trim()).copied();
        let free = free.or_else(|| app.models.is_free(&configured.id, model.trim()));
        let spec = free.map_or_else(|| "{}".to_owned(), |free| json!({ "free": free }).to_string());
        ModelRow { id: ModelId::from(model.trim()), spec }
    });
    app.live.store().set_models(&configured.id, rows.collect()).await?;
    app.changed(actor, "models.set", provider, &format!("{} models", models.len())).await?;
    Ok(app.provider(provider)?.models.iter().map(ToString::to_string).collect())
}

/// Asks a provider which models it has; an answer of the last five minutes is used again unless `force`.
pub async fn fetch(app: &App, provider: &str, force: bool) -> Answer<Offer> {
    let configured = app.provider(provider)?;
    let now = app.live.now();
    if !force && let Some((fetched_at, models)) = app.models.find(&configured.id, now) {
        return Ok(offer(models, fetched_at, true));
    }
    let id = configured.id.clone();
    let first = app.read(move |store| Ok(store.keys(&id)?.first().map(|row| row.id))).await?;
    let question = Question {
        target: Target::Configured(configured.id.clone()),
        key: first.map_or(Credential::Nothing, Credential::Key),
        method: Method::GET,
        url: list_url(app, &configured),
        body: None,
        timeout: Duration::from_secs(15),
    };
    let reply = app.live.ask(question).await.map_err(|unanswered| {
        let fault = unanswered.fault.as_str();
        Problem::conflict(
            "unreachable",
            format!("{provider} did not answer ({fault}): {}", unanswered.detail),
        )
    })?;
    if !(200..300).contains(&reply.status) {
        let detail =
            format!("{provider} answered {} to the request for its models; test its keys", reply.status);
        return Err(Problem::conflict("refused", detail));
    }
    let models = listed(&reply.body);
    if models.is_empty() {
        return Err(Problem::conflict("no_list", format!("{provider} sent no list of models; type them in")));
    }
    app.models.keep(&configured.id, now, models.clone());
    Ok(offer(models, now, false))
}

/// Which of a provider's listed models are known to cost nothing, or something.
pub(crate) async fn prices(app: &App, provider: &Configured) -> Answer<BTreeMap<String, bool>> {
    let id = provider.id.clone();
    let rows = app.read(move |store| store.models(&id)).await?;
    let price = |row: ModelRow| Some((row.id.to_string(), value_of(&row.spec)["free"].as_bool()?));
    let mut prices: BTreeMap<String, bool> = rows.into_iter().filter_map(price).collect();
    for model in &provider.models {
        if let Some(free) = app.models.is_free(&provider.id, model.as_str()) {
            prices.insert(model.to_string(), free);
        }
    }
    Ok(prices)
}

fn offer(listed: Vec<Listed>, fetched_at: Timestamp, cached: bool) -> Offer {
    let free =
        listed.iter().filter(|model| model.free == Some(true)).map(|model| model.name.clone()).collect();
    Offer { models: listed.into_iter().map(|model| model.name).collect(), free, fetched_at, cached }
}

fn list_url(app: &App, provider: &Configured) -> String {
    let catalog = app.live.catalog();
    let preset = provider.preset.as_deref().and_then(|id| catalog.preset(id));
    let endpoint = preset.and_then(|preset| preset.models.as_ref());
    endpoint.map_or_else(|| models_path(provider.format).to_owned(), |endpoint| endpoint.url.clone())
}

/// The models in any of the usual lists: `data[].id`, `models[].name`, a bare list. Some lists tell prices too.
fn listed(body: &[u8]) -> Vec<Listed> {
    let Ok(document) = serde_json::from_slice::<Value>(body) else { return Vec::new() };
    let list = ["/data", "/models", ""].iter().find_map(|place| document.pointer(place)?.as_array());
    let model = |entry: &Value| {
        let own = entry
            .as_str()
            .or_else(|| ["id", "name", "model"].iter().find_map(|field| entry.get(field)?.as_str()));
        let name = own.map(|name| name.strip_prefix("models/").unwrap_or(name).to_owned())?;
        Some(Listed { name, free: entry.get("pricing").and_then(is_free) })
    };
    let mut models: Vec<Listed> = list.into_iter().flatten().filter_map(model).collect();
    models.sort();
    models.dedup_by(|next, kept| next.name == kept.name);
    models
}

/// Prices are numbers, or numbers in quotes.
fn is_free(pricing: &Value) -> Option<bool> {
    let price = |field: &Value| field.as_f64().or_else(|| field.as_str()?.parse().ok());
    let prices: Vec<f64> = ["prompt", "completion", "input", "output"]
        .iter()
        .filter_map(|name| price(pricing.get(name)?))
        .collect();
    (!prices.is_empty()).then(|| prices.iter().all(|price| *price == 0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_usual_list_is_read() {
        let names = |body: &[u8]| listed(body).into_iter().map(|model| model.name).collect::<Vec<_>>();
        assert_eq!(names(br#"{"data": [{"id": "b"}, {"id": "a"}]}"#), ["a", "b"]);
        assert_eq!(names(br#"{"models": [{"name": "models/x"}]}"#), ["x"]);
        assert_eq!(names(br#"["m"]"#), ["m"]);
        assert!(names(b"<html>").is_empty());
    }

    #[test]
    fn a_list_with_prices_says_what_is_free() {
        let body = br#"{"data": [{"id": "a", "pricing": {"prompt": "0", "completion": "0"}}, {"id": "b", "pricing": {"prompt": "0.1"}}, {"id": "c"}]}"#;
        let free: Vec<_> = listed(body).into_iter().map(|model| model.free).collect();
        assert_eq!(free, [Some(true), Some(false), None]);
    }
}
