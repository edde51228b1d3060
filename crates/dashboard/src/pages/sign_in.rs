//! The door for people.

use askama::Template;
use axum::{
    extract::{Query, State},
    response::{IntoResponse as _, Response},
};
use http::HeaderMap;
use serde::Deserialize;

use super::{Page, Refused, filters, frame::Frame, render};
use crate::app::App;

/// Where to go afterwards.
#[derive(Deserialize)]
pub(super) struct Asked {
    #[serde(default)]
    then: String,
}

#[derive(Template)]
#[template(path = "sign-in.html")]
struct SignIn {
    frame: Frame,
    then: String,
    has_password: bool,
}

pub(super) async fn show(State(app): State<App>, headers: HeaderMap, Query(asked): Query<Asked>) -> Response {
    page(&app, &headers, asked).await.unwrap_or_else(|refused| refused.into_response())
}

async fn page(app: &App, headers: &HeaderMap, asked: Asked) -> Page {
    let has_password = app.blocking(|app| Ok(app.credentials.has_password())).await.map_err(Refused::from)?;
    let frame = Frame::bare(app, headers, "", "Sign in");
    // Only a path of our own; a second slash would lead to another host.
    let own = asked.then.starts_with('/') && !asked.then.starts_with("//") && !asked.then.contains('\\');
    let then = if own { asked.then } else { "/".to_owned() };
    render(&SignIn { frame, then, has_password }, headers)
}
