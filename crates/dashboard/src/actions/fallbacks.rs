//! Fallback chains: where a request goes when its provider cannot answer.

use backstop_triage::{ModelId, ProviderId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    actions::providers::refuse_file,
    app::{Actor, App},
    problem::{Answer, Problem},
};

/// The chain of one provider.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Chain {
    /// The provider that is left.
    pub provider: String,
    /// Whether the file defines it, so that it is read-only here.
    pub from_file: bool,
    /// Where to go, in order.
    pub legs: Vec<Leg>,
}

/// One step of a chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Leg {
    /// The provider.
    pub provider: String,
    /// The model there; the requested one if none is named.
    #[serde(default)]
    pub model: Option<String>,
}

/// The chains of all providers.
pub fn list(app: &App) -> Vec<Chain> {
    let leg = |(provider, model): &(ProviderId, Option<ModelId>)| Leg {
        provider: provider.to_string(),
        model: model.as_ref().map(ToString::to_string),
    };
    let chain = |provider: crate::live::Configured| Chain {
        provider: provider.id.to_string(),
        from_file: provider.from_file,
        legs: provider.fallbacks.iter().map(leg).collect(),
    };
    app.live.providers().into_iter().map(chain).collect()
}

/// Sets the chain of a provider.
pub async fn set(app: &App, actor: &Actor, provider: &str, legs: Vec<Leg>) -> Answer<Vec<Leg>> {
    let configured = refuse_file(app, provider)?;
    for leg in &legs {
        if leg.provider == provider && leg.model.is_none() {
            let detail = "a provider cannot fall back to itself with the same model";
            return Err(Problem::invalid_field("legs", detail));
        }
        app.provider(&leg.provider).map_err(|_| {
            Problem::invalid_field("legs", format!("there is no provider {}; add it first", leg.provider))
        })?;
    }
    let chain = legs
        .iter()
        .map(|leg| (ProviderId::from(leg.provider.as_str()), leg.model.as_deref().map(ModelId::from)));
    app.live.store().set_fallbacks(&configured.id, chain.collect()).await?;
    app.changed(actor, "fallbacks.set", provider, &format!("{} legs", legs.len())).await?;
    Ok(legs)
}
