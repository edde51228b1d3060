//! Breakers of providers and models: see and close.

use backstop_triage::{ModelId, Timestamp, breaker::BreakerState};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::{
    app::{Actor, App},
    problem::Answer,
};

/// An open breaker.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Circuit {
    /// The model; none for the provider's own.
    pub model: Option<String>,
    /// Since when it is open.
    #[schema(value_type = String)]
    pub since: Timestamp,
    /// When one call may try.
    #[schema(value_type = String)]
    pub until: Timestamp,
    /// How often in a row that call has failed.
    pub relapses: u32,
    /// What opened it.
    #[schema(value_type = Object)]
    pub why: Value,
}

/// The open breakers of a provider, its own first.
pub fn list(app: &App, provider: &str) -> Answer<Vec<Circuit>> {
    let id = app.provider(provider)?.id;
    let circuits = app.pool(|pool, _| {
        let own = pool.provider_breaker(&id).and_then(|state| circuit(None, state));
        let models = pool.model_breakers(&id).filter_map(|(model, state)| circuit(Some(model), state));
        own.into_iter().chain(models).collect()
    });
    Ok(circuits.unwrap_or_default())
}

/// Closes the breaker of a model, or the provider's own and all its models'.
pub async fn reset(app: &App, actor: &Actor, provider: &str, model: Option<&str>) -> Answer<()> {
    let id = app.provider(provider)?.id;
    app.pool(|pool, _| match model {
        Some(model) => pool.reset_model(&id, &ModelId::from(model)),
        None => {
            let open: Vec<ModelId> = pool.model_breakers(&id).map(|(model, _)| model.clone()).collect();
            open.iter().for_each(|model| pool.reset_model(&id, model));
            pool.reset_provider(&id);
        }
    });
    app.note(actor, "circuits.reset", provider, model.unwrap_or("")).await;
    Ok(())
}

fn circuit(model: Option<&ModelId>, state: &BreakerState) -> Option<Circuit> {
    let opening = state.open.as_ref()?;
    Some(Circuit {
        model: model.map(ToString::to_string),
        since: opening.since,
        until: opening.until,
        relapses: opening.relapses,
        why: serde_json::to_value(&opening.why).unwrap_or(Value::Null),
    })
}
