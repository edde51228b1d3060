//! What surrounds every page, and what every page needs to speak of times: who looks, when, and from where.

use backstop_store::unknown::UnknownState;
use http::{HeaderMap, header};
use jiff::{Timestamp, tz::TimeZone};

use crate::{app::App, assets, problem::Answer};

/// The frame of a page.
pub(crate) struct Frame {
    /// What the page is called in the tab and in the browser's history.
    pub(crate) title: String,
    /// Which entry of the sidebar it belongs to.
    pub(crate) here: &'static str,
    /// `light`, `dark`, or empty for what the system says.
    pub(crate) theme: &'static str,
    /// The moment at which it was made.
    pub(crate) now: Timestamp,
    /// Where the clock of the person who looks stands.
    pub(crate) zone: TimeZone,
    /// Notifications that nobody has read.
    pub(crate) unread: usize,
    /// Failures that no rule knows and nobody has looked at.
    pub(crate) unknown: usize,
}

impl Frame {
    /// The frame of a page for whoever sent these headers.
    pub(crate) async fn load(
        app: &App,
        headers: &HeaderMap,
        here: &'static str,
        title: impl Into<String>,
    ) -> Answer<Self> {
        let (unread, unknown) = app
            .read(|store| {
                let unread = store.notices()?.iter().filter(|notice| notice.read_at.is_none()).count();
                let open = |row: &backstop_store::unknown::UnknownRow| row.state == UnknownState::Open;
                Ok((unread, store.unknown_failures()?.iter().filter(|row| open(row)).count()))
            })
            .await?;
        Ok(Self { unread, unknown, ..Self::bare(app, headers, here, title) })
    }

    /// A frame that says nothing of the gateway, for whoever has not signed in.
    pub(crate) fn bare(app: &App, headers: &HeaderMap, here: &'static str, title: impl Into<String>) -> Self {
        let theme = match cookie(headers, "backstop-theme") {
            Some("light") => "light",
            Some("dark") => "dark",
            _ => "",
        };
        let zone = cookie(headers, "backstop-zone").and_then(|name| TimeZone::get(&unescaped(name)).ok());
        Self {
            title: title.into(),
            here,
            theme,
            now: app.live.now(),
            zone: zone.unwrap_or(TimeZone::UTC),
            unread: 0,
            unknown: 0,
        }
    }

    pub(crate) fn style(&self) -> &'static str {
        assets::STYLE.path()
    }

    pub(crate) fn script(&self) -> &'static str {
        assets::SCRIPT.path()
    }

    pub(crate) fn mark(&self) -> &'static str {
        assets::MARK.path()
    }

    pub(crate) fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }

    /// The name of the time zone.
    pub(crate) fn zone_name(&self) -> &str {
        self.zone.iana_name().unwrap_or("UTC")
    }
}

/// A cookie that is no secret.
fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let all = headers.get_all(header::COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    let mut pairs = all.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(known, _)| *known == name).map(|(_, value)| value)
}

/// Names of time zones hold nothing to escape but slashes.
fn unescaped(name: &str) -> String {
    name.replace("%2F", "/")
}
