//! Numbers of the last day, the last week, and all time.

use std::collections::BTreeMap;

use backstop_store::traffic::{Range, Traffic, TrafficRow};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    app::App,
    problem::{Answer, Problem},
};

/// What was asked in a range of time.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct StatsView {
    /// `24h`, `7d` or `all`.
    pub range: String,
    /// Over everything.
    #[schema(value_type = Object)]
    pub total: Traffic,
    /// By provider.
    #[schema(value_type = Object)]
    pub providers: BTreeMap<String, Traffic>,
    /// By provider and model, as `provider/model`.
    #[schema(value_type = Object)]
    pub models: BTreeMap<String, Traffic>,
    /// By half hour, oldest first; half hours without traffic are left out.
    #[schema(value_type = Vec<Object>)]
    pub slots: Vec<Slot>,
}

/// What was asked in half an hour.
#[derive(Clone, Debug, Serialize)]
pub struct Slot {
    /// When it began.
    pub at: backstop_triage::Timestamp,
    /// What was asked.
    #[serde(flatten)]
    pub traffic: Traffic,
}

/// What was asked in a range, of all providers or of one.
pub async fn show(app: &App, range: &str, provider: Option<String>) -> Answer<StatsView> {
    let name = range.to_owned();
    let range = Range::parse(range).ok_or_else(|| Problem::invalid_field("range", "use 24h, 7d or all"))?;
    let now = app.live.now();
    let rows = app.read(move |store| store.traffic(range, now)).await?;
    let wanted = rows.into_iter().filter(|row| provider.as_ref().is_none_or(|id| row.provider == *id));
    Ok(sum(name, wanted))
}

fn sum(range: String, rows: impl Iterator<Item = TrafficRow>) -> StatsView {
    let mut view = StatsView {
        range,
        total: Traffic::default(),
        providers: BTreeMap::new(),
        models: BTreeMap::new(),
        slots: Vec::new(),
    };
    for row in rows {
        view.total.absorb(row.traffic);
        view.models.entry(format!("{}/{}", row.provider, row.model)).or_default().absorb(row.traffic);
        view.providers.entry(row.provider).or_default().absorb(row.traffic);
        match view.slots.last_mut().filter(|slot| slot.at == row.slot) {
            Some(slot) => slot.traffic.absorb(row.traffic),
            None => view.slots.push(Slot { at: row.slot, traffic: row.traffic }),
        }
    }
    view
}
