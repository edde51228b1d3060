//! What is wrong at the moment, and how the gateway is set up.

use backstop_triage::pool::KeyState;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::{
    actions::{circuits, providers},
    app::App,
    problem::Answer,
};

/// The state of the whole.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct StatusView {
    /// `ok`, `degraded` (something needs a person) or `down` (no provider can be asked).
    pub state: &'static str,
    /// What needs a person, worst first.
    pub troubles: Vec<Trouble>,
    /// Providers that can be asked.
    pub usable_providers: usize,
    /// Providers in all.
    pub providers: usize,
    /// Failures that no rule knows and nobody has looked at.
    pub unknown_failures: usize,
    /// The state of the store.
    #[schema(value_type = Object)]
    pub store: Value,
    /// The program's version.
    pub version: &'static str,
}

/// Something that needs a person.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Trouble {
    /// What it is about: `provider/ID`, `provider/ID/keys/N`, `store`.
    pub subject: String,
    /// `critical` or `warning`.
    pub severity: &'static str,
    /// What is wrong, and what to do.
    pub text: String,
}

/// What is wrong at the moment.
pub async fn show(app: &App) -> Answer<StatusView> {
    let views = providers::list(app).await?;
    let mut troubles = Vec::new();
    store_troubles(app, &mut troubles);
    let mut usable = 0;
    for view in views.iter().filter(|view| !view.paused) {
        if view.usable_keys > 0 || view.auth != "managed" {
            usable += 1;
        } else {
            troubles.push(Trouble {
                subject: format!("provider/{}", view.id),
                severity: "critical",
                text: match (view.back_at, view.keys.values().sum::<usize>()) {
                    (_, 0) => "it has no key; add one".to_owned(),
                    (Some(at), _) => format!("none of its keys can be used before {at}"),
                    (None, _) => "none of its keys can be used; test them and enable what works".to_owned(),
                },
            });
        }
        key_troubles(app, &view.id, &mut troubles);
        circuit_troubles(app, &view.id, &mut troubles);
    }
    let unknown = app.read(|store| store.unknown_failures()).await?;
    let open = unknown.iter().filter(|row| row.state == backstop_store::unknown::UnknownState::Open).count();
    troubles.sort_by_key(|trouble| trouble.severity != "critical");
    let state = match (usable, views.len()) {
        (0, 1..) => "down",
        _ if troubles.is_empty() => "ok",
        _ => "degraded",
    };
    Ok(StatusView {
        state,
        troubles,
        usable_providers: usable,
        providers: views.len(),
        unknown_failures: open,
        store: serde_json::to_value(app.live.store().stats()).unwrap_or(Value::Null),
        version: env!("CARGO_PKG_VERSION"),
    })
}

fn store_troubles(app: &App, troubles: &mut Vec<Trouble>) {
    let stats = app.live.store().stats();
    let mut add = |text: String| {
        troubles.push(Trouble { subject: "store".to_owned(), severity: "critical", text });
    };
    if let Some(failing) = stats.failing {
        add(format!("nothing can be saved since {}: {}; check the disk", failing.since, failing.error));
    }
    if let Some(locked) = stats.locked {
        add(format!("secrets are locked: {locked}"));
    }
}

fn key_troubles(app: &App, provider: &str, troubles: &mut Vec<Trouble>) {
    let disabled: Vec<_> = app
        .key_statuses(&backstop_triage::ProviderId::from(provider))
        .into_iter()
        .filter(|status| status.state == KeyState::Disabled)
        .collect();
    let [first, others @ ..] = disabled.as_slice() else { return };
    let why = first.why.as_ref().map_or_else(String::new, |why| format!(" ({}, {})", why.class, why.reason));
    let text = match others.len() {
        0 => format!("key {} is out of service{why}; replace it, or test and enable it", first.label),
        count => format!("{} keys are out of service, the first{why}; test all keys", count + 1),
    };
    troubles.push(Trouble {
        subject: format!("provider/{provider}/keys/{}", first.id),
        severity: "warning",
        text,
    });
}

fn circuit_troubles(app: &App, provider: &str, troubles: &mut Vec<Trouble>) {
    for circuit in circuits::list(app, provider).unwrap_or_default() {
        let what = circuit.model.map_or_else(|| "it".to_owned(), |model| format!("model {model}"));
        troubles.push(Trouble {
            subject: format!("provider/{provider}"),
            severity: "warning",
            text: format!("{what} failed too often and is left alone until {}", circuit.until),
        });
    }
}
