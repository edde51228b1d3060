//! Models of a provider: see, set, order, and fetch from the provider.

use std::time::Duration;

use backstop_store::configuration::ModelRow;
use backstop_triage::{ModelId, Timestamp};
use http::Method;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::{
    actions::{providers::refuse_file, testing::models_path},
    app::{Actor, App},
    live::{Configured, Credential, Question, Target},
    problem::{Answer, Problem},
};

/// What a provider offers.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Offer {
    /// The models that it lists.
    pub models: Vec<String>,
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
    let rows = models.iter().map(|model| ModelRow { id: ModelId::from(model.trim()), spec: "{}".to_owned() });
    app.live.store().set_models(&configured.id, rows.collect()).await?;
    app.changed(actor, "models.set", provider, &format!("{} models", models.len())).await?;
    Ok(app.provider(provider)?.models.iter().map(ToString::to_string).collect())
}

/// Asks a provider which models it has; an answer of the last five minutes is used again unless `force`.
pub async fn fetch(app: &App, provider: &str, force: bool) -> Answer<Offer> {
    let configured = app.provider(provider)?;
    let now = app.live.now();
    if !force && let Some((fetched_at, models)) = app.models.find(&configured.id, now) {
        return Ok(Offer { models, fetched_at, cached: true });
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
    let models = names(&reply.body);
    if models.is_empty() {
        return Err(Problem::conflict("no_list", format!("{provider} sent no list of models; type them in")));
    }
    app.models.keep(&configured.id, now, models.clone());
    Ok(Offer { models, fetched_at: now, cached: false })
}

fn list_url(app: &App, provider: &Configured) -> String {
    let catalog = app.live.catalog();
    let preset = provider.preset.as_deref().and_then(|id| catalog.preset(id));
    let endpoint = preset.and_then(|preset| preset.models.as_ref());
    endpoint.map_or_else(|| models_path(provider.format).to_owned(), |endpoint| endpoint.url.clone())
}

/// The names in any of the usual lists: `data[].id`, `models[].name`, a bare list.
fn names(body: &[u8]) -> Vec<String> {
    let Ok(document) = serde_json::from_slice::<Value>(body) else { return Vec::new() };
    let list = ["/data", "/models", ""].iter().find_map(|place| document.pointer(place)?.as_array());
    let name = |entry: &Value| {
        let own = entry
            .as_str()
            .or_else(|| ["id", "name", "model"].iter().find_map(|field| entry.get(field)?.as_str()));
        own.map(|name| name.strip_prefix("models/").unwrap_or(name).to_owned())
    };
    let mut names: Vec<String> = list.into_iter().flatten().filter_map(name).collect();
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_usual_list_is_read() {
        assert_eq!(names(br#"{"data": [{"id": "b"}, {"id": "a"}]}"#), ["a", "b"]);
        assert_eq!(names(br#"{"models": [{"name": "models/x"}]}"#), ["x"]);
        assert_eq!(names(br#"["m"]"#), ["m"]);
        assert!(names(b"<html>").is_empty());
    }
}
