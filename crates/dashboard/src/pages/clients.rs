//! Client keys: who may use the gateway.

use askama::Template;
use axum::extract::State;
use http::HeaderMap;

use super::{Page, filters, frame::Frame, render, times};
use crate::{
    actions::clients::{self, ClientView},
    app::App,
};

#[derive(Template)]
#[template(path = "clients.html")]
struct Clients {
    frame: Frame,
    clients: Vec<ClientView>,
    providers: Vec<String>,
}

pub(super) async fn show(State(app): State<App>, headers: HeaderMap) -> Page {
    let clients = clients::list(&app).await?;
    let providers = app.live.providers().into_iter().map(|provider| provider.id.to_string()).collect();
    let frame = Frame::load(&app, &headers, "clients", "Clients").await?;
    render(&Clients { frame, clients, providers }, &headers)
}

/// What a client key may do, in words.
fn limits(client: &ClientView) -> String {
    let limits = &client.limits;
    let mut parts = Vec::new();
    if !limits.providers.is_empty() {
        parts.push(format!("only {}", limits.providers.join(", ")));
    }
    if !limits.models.is_empty() {
        parts.push(format!("only {}", limits.models.join(", ")));
    }
    if !limits.routes.is_empty() {
        parts.push(format!("only {}", limits.routes.join(", ")));
    }
    if let Some(requests) = limits.requests_per_minute {
        parts.push(format!("{requests} requests a minute"));
    }
    if let Some(tokens) = limits.tokens_per_minute {
        parts.push(format!("{} tokens a minute", times::grouped(tokens)));
    }
    if let Some(spend) = limits.spend_micros {
        parts.push(format!("{} a month", times::dollars(spend)));
    }
    if parts.is_empty() { "No limits".to_owned() } else { parts.join(" · ") }
}
