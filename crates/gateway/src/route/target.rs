//! Whom a request means: the providers that may serve it, in order, and the model that each is asked for.

use std::{sync::Arc, time::Duration};

use backstop_dialect::{Dialect, Operation, Problem, Route, split_model};
use backstop_triage::{ModelId, cascade::Leg};

use super::Refusal;
use crate::{
    asked::{Asked, Body},
    config::{Combo, Fallback},
    plan::{Outlet, Plan},
};

/// The legs of a request.
pub(crate) struct Target {
    pub(crate) legs: Vec<Leg>,
    /// The model of the first leg, if one was named.
    pub(crate) model: Option<String>,
    /// Time to the first content.
    pub(crate) deadline: Duration,
    /// How long a stream may be silent.
    pub(crate) keepalive: Duration,
}

impl Target {
    /// The provider or combo that the path names.
    pub(super) fn named(plan: &Plan, name: &str, asked: &mut Asked) -> Result<Self, Refusal> {
        name.clone_into(&mut asked.provider);
        if let Some(outlet) = plan.outlet(name) {
            let model = asked.model.clone();
            return Ok(Self::of_outlet(plan, outlet, model.as_deref(), asked));
        }
        if let Some(combo) = plan.combo(name) {
            let model = asked.model.clone().ok_or_else(no_model)?;
            return Self::of_combo(plan, combo, &model, asked);
        }
        let near = plan.near(name);
        Err(Problem::ModelNotFound { model: name.to_owned(), near }.into())
    }

    /// Whom the model of a unified request names.
    pub(super) fn unified(
        plan: &Plan,
        known: Option<&Route<'_>>,
        asked: &mut Asked,
    ) -> Result<Self, Refusal> {
        if known.is_none() {
            return Err(Problem::PathNotFound.into());
        }
        if matches!(asked.body, Body::Upload(_)) || !is_unified(asked.operation) {
            let what =
                "this path without a provider; send it to /proxy/{provider}/… with the same path behind"
                    .to_owned();
            return Err(Problem::NotSupported { what }.into());
        }
        let name = asked.model.clone().ok_or_else(no_model)?;
        let alias = plan.alias(&name);
        let (provider, model) = match alias {
            Some(alias) => (Some(alias.provider.as_str()), alias.model.as_str()),
            None => split_model(&name),
        };
        let outlet = provider.and_then(|provider| plan.outlet(provider));
        if let (None, Some(combo)) = (outlet, provider.and_then(|provider| plan.combo(provider))) {
            combo.id.clone_into(&mut asked.provider);
            return Self::of_combo(plan, combo, model, asked);
        }
        let (outlet, model) = match outlet {
            Some(outlet) => (outlet, model),
            None => match plan.lister(&name) {
                Some(outlet) => (outlet, name.as_str()),
                None => {
                    let near = plan.near(&name);
                    return Err(Problem::ModelNotFound { model: name, near }.into());
                }
            },
        };
        asked.provider = outlet.config.id.to_string();
        if !outlet.config.passes(asked.dialect) {
            let path = path_of(outlet.config.format, &name);
            return Err(Problem::WrongDialect { path }.into());
        }
        Ok(Self::of_outlet(plan, outlet, Some(model), asked))
    }

    fn of_outlet(plan: &Plan, outlet: &Arc<Outlet>, model: Option<&str>, asked: &Asked) -> Self {
        let settings = &outlet.config.settings;
        let mut legs = vec![leg(outlet, model)];
        let speaks = |fallback: &&Fallback| {
            plan.outlet(fallback.provider.as_str()).is_some_and(|next| next.config.passes(asked.dialect))
        };
        for fallback in outlet.config.fallbacks.iter().filter(speaks) {
            let Some(next) = plan.outlet(fallback.provider.as_str()) else { continue };
            let model = fallback.model.as_ref().map(ModelId::as_str).or(model);
            legs.push(leg(next, model));
        }
        Self {
            legs,
            model: model.map(str::to_owned),
            deadline: Duration::from_secs(settings.request_deadline_s),
            keepalive: Duration::from_secs(settings.keepalive_s),
        }
    }

    fn of_combo(plan: &Plan, combo: &Combo, alias: &str, asked: &Asked) -> Result<Self, Refusal> {
        let members: Vec<_> = combo.members.iter().filter(|member| member.alias == alias).collect();
        let outlets: Vec<(&Arc<Outlet>, &ModelId)> = members
            .iter()
            .filter_map(|member| Some((plan.outlet(member.provider.as_str())?, &member.model)))
            .collect();
        let Some((first, _)) = outlets.first() else {
            let near = plan.near(&format!("{}/{alias}", combo.id));
            return Err(Problem::ModelNotFound { model: alias.to_owned(), near }.into());
        };
        let speaking: Vec<_> =
            outlets.iter().filter(|(outlet, _)| outlet.config.passes(asked.dialect)).collect();
        if speaking.is_empty() {
            let path = path_of(first.config.format, alias);
            return Err(Problem::WrongDialect { path: format!("/proxy/{}{path}", combo.id) }.into());
        }
        let settings = &first.config.settings;
        Ok(Self {
            deadline: Duration::from_secs(settings.request_deadline_s),
            keepalive: Duration::from_secs(settings.keepalive_s),
            legs: speaking.into_iter().map(|(outlet, model)| leg(outlet, Some(model.as_str()))).collect(),
            model: Some(alias.to_owned()),
        })
    }
}

fn leg(outlet: &Outlet, model: Option<&str>) -> Leg {
    let config = &outlet.config;
    // A call without a model still has a route: the empty name is never sent.
    let first = ModelId::from(model.unwrap_or_default());
    let mut models = vec![first];
    if config.settings.model_fallback && model.is_some() {
        let others = config.models.iter().filter(|other| **other != models[0]).cloned().collect::<Vec<_>>();
        models.extend(others);
    }
    Leg { provider: config.id.clone(), models, context_too_small: false }
}

/// The path on which a dialect generates.
fn path_of(dialect: Dialect, model: &str) -> String {
    match dialect {
        Dialect::OpenAiChat => "/v1/chat/completions".to_owned(),
        Dialect::OpenAiResponses => "/v1/responses".to_owned(),
        Dialect::AnthropicMessages => "/v1/messages".to_owned(),
        Dialect::Gemini => format!("/v1beta/models/{model}:generateContent"),
    }
}

/// Whether a call names its model, so that the model can name the provider.
fn is_unified(operation: Operation) -> bool {
    match operation {
        Operation::Generate
        | Operation::Compact
        | Operation::CountTokens
        | Operation::Embeddings
        | Operation::Images
        | Operation::Audio
        | Operation::Other => true,
        Operation::Models | Operation::Files | Operation::Batches | Operation::Stored => false,
    }
}

fn no_model() -> Refusal {
    Problem::BadRequest { why: "it names no model".into() }.into()
}
