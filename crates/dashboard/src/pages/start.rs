//! First start: from an empty gateway to the first answered request, on one page.

use askama::Template;
use axum::extract::State;
use backstop_store::requests::RequestRow;
use http::{HeaderMap, header};

use super::{
    Page, filters,
    frame::Frame,
    providers::{Shelf, shelves},
    render,
    requests::outcome_badge,
};
use crate::{
    actions::{
        keys::{self, KeyFilter, KeyView},
        logs::{self, LogQuery},
        providers::{self, ProviderView},
    },
    app::App,
};

#[derive(Template)]
#[template(path = "start.html")]
struct Start {
    frame: Frame,
    shelves: Vec<Shelf>,
    provider: Option<ProviderView>,
    keys: Vec<KeyView>,
    first: Option<RequestRow>,
    base: String,
}

pub(super) async fn show(State(app): State<App>, headers: HeaderMap) -> Page {
    let provider = providers::list(&app).await?.into_iter().next();
    let keys = match &provider {
        Some(provider) => keys::list(&app, &provider.id, KeyFilter::default()).await?.items,
        None => Vec::new(),
    };
    let first = logs::list(&app, LogQuery { limit: Some(1), ..LogQuery::default() }).await?.items.pop();
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or("127.0.0.1:3030");
    let scheme = if headers.get("x-forwarded-proto").is_some_and(|scheme| scheme == "https") {
        "https"
    } else {
        "http"
    };
    let base = format!("{scheme}://{host}");
    let frame = Frame::load(&app, &headers, "", "Set up").await?;
    render(&Start { frame, shelves: shelves(&app), provider, keys, first, base }, &headers)
}

impl Start {
    fn keyless(&self) -> bool {
        self.provider.as_ref().is_some_and(|provider| provider.auth != "managed")
    }

    /// A key that a test has found good, or that has answered already.
    fn proven(&self) -> Option<&KeyView> {
        let good = |key: &&KeyView| {
            key.succeeded > 0 || key.test.as_ref().is_some_and(|test| test.valid == Some(true))
        };
        self.keys.iter().find(good)
    }

    fn first_key(&self) -> Option<(&ProviderView, &KeyView)> {
        Some((self.provider.as_ref()?, self.keys.first()?))
    }

    /// Which step is next, 1 to 5.
    fn step(&self) -> u8 {
        match (&self.provider, self.keys.is_empty() && !self.keyless(), &self.first) {
            (None, ..) => 1,
            (Some(_), true, _) => 2,
            (Some(_), false, None) if self.proven().is_none() && !self.keyless() => 3,
            (Some(_), false, _) => 4,
        }
    }

    fn model(&self) -> String {
        let Some(provider) = &self.provider else { return String::new() };
        let model = provider.models.first().map_or("MODEL", String::as_str);
        format!("{}/{model}", provider.id)
    }
}
