//! Where requests go: fallback chains of all providers, and combos.

use askama::Template;
use axum::extract::State;
use http::HeaderMap;

use super::{Page, filters, frame::Frame, render};
use crate::{
    actions::{
        combos::{self, ComboView},
        fallbacks::{self, Chain},
    },
    app::App,
};

#[derive(Template)]
#[template(path = "fallback.html")]
struct Fallback {
    frame: Frame,
    chains: Vec<Chain>,
}

pub(super) async fn fallback(State(app): State<App>, headers: HeaderMap) -> Page {
    let chains = fallbacks::list(&app);
    let frame = Frame::load(&app, &headers, "fallback", "Fallback").await?;
    render(&Fallback { frame, chains }, &headers)
}

#[derive(Template)]
#[template(path = "combos.html")]
struct Combos {
    frame: Frame,
    combos: Vec<ComboView>,
    providers: Vec<(String, Vec<String>)>,
}

pub(super) async fn combos(State(app): State<App>, headers: HeaderMap) -> Page {
    let combos = combos::list(&app).await?;
    let providers = app.live.providers().into_iter();
    let providers = providers
        .map(|provider| (provider.id.to_string(), provider.models.iter().map(ToString::to_string).collect()))
        .collect();
    let frame = Frame::load(&app, &headers, "combos", "Combos").await?;
    render(&Combos { frame, combos, providers }, &headers)
}

/// The members of a combo, one per line, as the form takes them.
fn members(view: &ComboView) -> String {
    let line = |member: &combos::Member| {
        let alias = member.alias.as_ref().map(|alias| format!(" as {alias}")).unwrap_or_default();
        format!("{}/{}{alias}", member.provider, member.model)
    };
    view.combo.members.iter().map(line).collect::<Vec<_>>().join("\n")
}
