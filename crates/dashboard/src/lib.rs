//! Shows and changes: the admin API and the pages.
//!
//! ```text
//! page or script --door (who, from where)--> api (paths, bodies) or page --> action --> store, pool --> reload
//! ```
//!
//! An [`actions`] function is one thing that a person can do; pages and API only read input and write output
//! around it. What the running gateway has to offer for that stands in [`live::Live`].

pub mod actions;
mod added;
mod api;
pub mod app;
mod assets;
pub mod connect;
mod credentials;
mod door;
pub mod events;
pub mod live;
mod models_cache;
mod pages;
pub mod problem;
mod replays;
pub mod running;
pub mod sealing;

use std::sync::Arc;

use axum::{body::Body, extract::Request, response::Response};
use tower::ServiceExt as _;
use utoipa::openapi::OpenApi;

use crate::{app::App, live::Live};
pub use crate::{
    credentials::{PasswordError, prepare_password, prepare_token, token_file},
    pages::paths as page_paths,
};

/// The admin side of a running gateway; clones share it.
#[derive(Clone)]
pub struct Dashboard {
    app: App,
    router: axum::Router,
}

impl Dashboard {
    /// The admin side of this gateway. The admin token has to be prepared first ([`prepare_token`]).
    pub fn new(live: Arc<dyn Live>) -> Self {
        let app = App::new(live);
        let router = api::router(&app);
        Self { app, router }
    }

    /// Answers a request whose `Host` has been checked.
    pub async fn serve(&self, request: Request<Body>) -> Response {
        match self.router.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }

    /// The path and fragment that sign a person in, once and within ten minutes.
    pub fn sign_in_path(&self) -> String {
        format!("/sign-in#{}", self.app.credentials.make_link(self.app.live.now()).expose())
    }

    /// The description of the API.
    pub fn document() -> OpenApi {
        api::document()
    }
}
