//! Alerts: what is on, and what was told.

use askama::Template;
use axum::extract::State;
use backstop_store::notices::NoticeRow;
use http::HeaderMap;

use super::{
    Page, filters,
    frame::Frame,
    overview::{subject_link, subject_name, trouble_badge},
    render,
    words::Badge,
};
use crate::{
    actions::{
        notices,
        status::{self, StatusView},
    },
    app::App,
};

#[derive(Template)]
#[template(path = "alerts.html")]
struct Alerts {
    frame: Frame,
    status: StatusView,
    notices: Vec<NoticeRow>,
}

pub(super) async fn show(State(app): State<App>, headers: HeaderMap) -> Page {
    let status = status::show(&app).await?;
    let notices = notices::list(&app).await?;
    let frame = Frame::load(&app, &headers, "alerts", "Alerts").await?;
    render(&Alerts { frame, status, notices }, &headers)
}

fn severity_badge(notice: &NoticeRow) -> Badge<'static> {
    match notice.severity.as_str() {
        "critical" => Badge::new("bad", "warn", "Critical"),
        "warning" => Badge::new("warn", "warn", "Warning"),
        _ => Badge::new("off", "info", "Note"),
    }
}
