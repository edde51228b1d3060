//! Usage windows: whether a provider tells of them.

use crate::{app::App, live::Configured};

/// Whether a provider has an endpoint that tells of its keys' windows or their balance.
pub fn can_be_read(app: &App, provider: &Configured) -> bool {
    let catalog = app.live.catalog();
    let preset = provider.preset.as_deref().and_then(|id| catalog.preset(id));
    preset.is_some_and(|preset| !preset.quota.is_empty())
}
