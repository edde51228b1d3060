//! Tokens and money, day by day: in all, and by provider, client key and provider key.

use std::{cmp::Reverse, collections::BTreeMap};

use backstop_store::spend::{Spend, SpendRow};
use backstop_triage::{KeyId, Timestamp};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    app::App,
    problem::{Answer, Problem},
};

/// What was used up on the last days.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct CostsView {
    /// How many days, today (UTC) included.
    pub days: u32,
    /// In all.
    pub total: CostView,
    /// By day, oldest first; days without requests are left out.
    pub by_day: Vec<DayCost>,
    /// By provider, the dearest first.
    pub providers: Vec<NamedCost>,
    /// By client key, the dearest first.
    pub clients: Vec<NamedCost>,
    /// By provider key, the dearest first.
    pub keys: Vec<NamedCost>,
}

/// What was used up.
#[derive(Clone, Copy, Debug, Default, Serialize, ToSchema)]
pub struct CostView {
    /// Requests that ended.
    pub requests: u64,
    /// Prompt tokens.
    pub input_tokens: u64,
    /// Answer tokens.
    pub output_tokens: u64,
    /// Cost in millionths of a dollar, estimated where the provider did not tell; none where no price is known.
    pub cost_micros: Option<u64>,
    /// Answered requests whose price nobody knows; the cost is without them.
    pub unpriced: u64,
}

/// What was used up on a day.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub struct DayCost {
    /// The day's beginning, UTC.
    #[schema(value_type = String, format = DateTime)]
    pub day: Timestamp,
    /// What was used up.
    #[serde(flatten)]
    pub cost: CostView,
}

/// What somebody used up.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct NamedCost {
    /// The provider, or the id of the key; none for requests without one.
    pub id: Option<String>,
    /// The name for people.
    pub name: String,
    /// The provider, for its keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// What was used up.
    #[serde(flatten)]
    pub cost: CostView,
}

/// What was used up on the last 1 to 366 days.
pub async fn show(app: &App, days: u32) -> Answer<CostsView> {
    if !(1..=366).contains(&days) {
        return Err(Problem::invalid_field("days", "1 to 366"));
    }
    let now = app.live.now();
    app.blocking(move |app| {
        let store = app.live.store();
        let rows = store.spend(days, now)?;
        let names: BTreeMap<u64, String> =
            store.clients()?.into_iter().map(|client| (client.id, client.name)).collect();
        let client = |id: Option<u64>| match id {
            Some(id) => names.get(&id).cloned().unwrap_or_else(|| format!("client {id}, revoked")),
            None => "without a client key".to_owned(),
        };
        let mut keys = grouped(&rows, |row| (row.provider.clone(), row.key))
            .into_iter()
            .map(|((provider, key), spend)| {
                let label = match key {
                    Some(key) => store.key(key)?.map_or_else(|| format!("key {key}"), |row| row.label),
                    None => "no key".to_owned(),
                };
                Ok(named(key.map(|KeyId(id)| id), label, Some(provider), spend))
            })
            .collect::<Answer<Vec<NamedCost>>>()?;
        keys.sort_by_key(dearest);
        let clients = grouped(&rows, |row| row.client_id).into_iter();
        let providers = grouped(&rows, |row| row.provider.clone()).into_iter();
        let by_day = grouped(&rows, |row| row.day).into_iter();
        Ok(CostsView {
            days,
            total: grouped(&rows, |_| ()).into_values().next().map_or_else(CostView::default, CostView::of),
            by_day: by_day.map(|(day, spend)| DayCost { day, cost: CostView::of(spend) }).collect(),
            providers: sorted(providers.map(|(id, spend)| named(Some(&id), id.clone(), None, spend))),
            clients: sorted(clients.map(|(id, spend)| named(id, client(id), None, spend))),
            keys,
        })
    })
    .await
}

impl CostView {
    fn of(spend: Spend) -> Self {
        let Spend { requests, unpriced, input_tokens, output_tokens, cost_micros } = spend;
        let unknown = cost_micros == 0 && unpriced > 0;
        let cost_micros = (!unknown).then_some(cost_micros);
        Self { requests, input_tokens, output_tokens, cost_micros, unpriced }
    }
}

fn grouped<K: Ord>(rows: &[SpendRow], of: impl Fn(&SpendRow) -> K) -> BTreeMap<K, Spend> {
    let mut sums = BTreeMap::<K, Spend>::new();
    for row in rows {
        sums.entry(of(row)).or_default().absorb(row.spend);
    }
    sums
}

fn named(id: Option<impl ToString>, name: String, provider: Option<String>, spend: Spend) -> NamedCost {
    NamedCost { id: id.map(|id| id.to_string()), name, provider, cost: CostView::of(spend) }
}

fn sorted(costs: impl Iterator<Item = NamedCost>) -> Vec<NamedCost> {
    let mut costs: Vec<NamedCost> = costs.collect();
    costs.sort_by_key(dearest);
    costs
}

fn dearest(named: &NamedCost) -> (Reverse<Option<u64>>, Reverse<u64>) {
    (Reverse(named.cost.cost_micros), Reverse(named.cost.input_tokens + named.cost.output_tokens))
}
