//! Keys: see, add, paste, change, order, pause, enable, forget, remove.

use std::collections::{BTreeMap, BTreeSet};

use backstop_store::{
    Secret, StoreError,
    key_errors::KeyError,
    keys::{Added, KeyEdit, KeyRow, KeyTest, NewKey, Origin},
    traffic::KeyTraffic,
};
use backstop_triage::{
    AccountId, KeyId, ProviderId, Timestamp,
    pool::{Deed, KeyStatus, Subject},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::{
    actions::providers::is_usable,
    app::{Actor, App},
    problem::{Answer, Problem},
};

/// A key as people see it.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct KeyView {
    /// Its id, never given to another key.
    pub id: u64,
    /// What people call it.
    pub label: String,
    /// The account that it shares with others.
    pub account: Option<String>,
    /// `file` or `added`.
    pub origin: &'static str,
    /// What may be shown of the secret.
    pub hint: String,
    /// Raised by every edit; also the ETag.
    pub version: u64,
    /// `active`, `unstable`, `resting`, `half_open`, `quarantined`, `disabled`, `paused` or `locked`.
    pub state: String,
    /// Since when, where it is not simply active.
    #[schema(value_type = Option<String>)]
    pub since: Option<Timestamp>,
    /// Until when.
    #[schema(value_type = Option<String>)]
    pub until: Option<Timestamp>,
    /// Why: class, reason, status, window, and where the time was read.
    #[schema(value_type = Option<Object>)]
    pub why: Option<Value>,
    /// Models that it does not serve for a time.
    #[schema(value_type = Vec<Object>)]
    pub models: Vec<Value>,
    /// Failures in a row.
    pub consecutive_errors: u32,
    /// Calls under way.
    pub in_flight: u32,
    /// Calls that went well.
    pub succeeded: u64,
    /// Calls that failed.
    pub failed: u64,
    /// Errors in its history.
    pub errors: u64,
    /// The last call.
    #[schema(value_type = Option<String>)]
    pub last_used: Option<Timestamp>,
    /// The last connection test.
    #[schema(value_type = Option<Object>)]
    pub test: Option<KeyTest>,
    /// Its usage windows, as far as they are known.
    #[schema(value_type = Option<Object>)]
    pub quota: Option<Value>,
}

/// Which keys to list.
#[derive(Clone, Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct KeyFilter {
    /// Only keys in this state.
    pub state: Option<String>,
    /// Only keys whose label, account or hint contains this.
    pub q: Option<String>,
    /// Continue after a page; what it gave as `next`.
    pub cursor: Option<String>,
    /// Keys per page, 1 to 1000; 200 by default.
    pub limit: Option<usize>,
}

/// A page of keys.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct KeyPage {
    /// The keys in their order.
    pub items: Vec<KeyView>,
    /// The cursor of the next page.
    pub next: Option<String>,
    /// How many keys the filter lets through.
    pub total: usize,
}

/// What became of one item of a bulk operation.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ItemResult {
    /// The key, where there is one.
    pub id: Option<u64>,
    /// `added`, `duplicate`, `removed`, `done`, `missing` or `refused`.
    pub result: &'static str,
    /// What may be shown of the secret, for keys that were added.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// What to do with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Not used until resumed, or for a time.
    Pause,
    /// Ends a pause.
    Resume,
    /// Back into service, whatever was wrong.
    Enable,
    /// Out of service.
    Disable,
    /// Forgets rests, ladders and errors in a row.
    Reset,
    /// Ends a rest or a quarantine; a disabled key stays disabled.
    EndRest,
}

impl Action {
    fn deed(self, until: Option<Timestamp>) -> Deed {
        match self {
            Self::Pause => Deed::Pause(until),
            Self::Resume => Deed::Resume,
            Self::Enable => Deed::Enable,
            Self::Disable => Deed::Disable,
            Self::Reset => Deed::Reset,
            Self::EndRest => Deed::EndRest,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Pause => "keys.pause",
            Self::Resume => "keys.resume",
            Self::Enable => "keys.enable",
            Self::Disable => "keys.disable",
            Self::Reset => "keys.reset",
            Self::EndRest => "keys.end_rest",
        }
    }

    fn takes_out(self) -> bool {
        matches!(self, Self::Pause | Self::Disable)
    }
}

/// An action on some keys.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// What to do.
    pub action: Action,
    /// For a pause: for how long, in seconds; without it until resumed.
    #[serde(default)]
    pub for_s: Option<u32>,
    /// Must be true to take the last usable key of a provider out of service.
    #[serde(default)]
    pub confirm: bool,
}

/// The keys of a provider in their order.
pub async fn list(app: &App, provider: &str, filter: KeyFilter) -> Answer<KeyPage> {
    let provider = app.provider(provider)?.id;
    app.blocking(move |app| {
        let wanted = filter.q.as_deref().map(str::to_lowercase);
        let named = |row: &KeyRow| {
            let account = row.account.as_ref().map(AccountId::as_str).unwrap_or_default();
            let text = format!("{} {account} {}", row.label, row.hint);
            wanted.as_ref().is_none_or(|wanted| text.to_lowercase().contains(wanted))
        };
        let rows: Vec<KeyRow> = app.live.store().keys(&provider)?.into_iter().filter(named).collect();
        let (cursor, limit) = (filter.cursor.as_deref(), filter.limit.unwrap_or(200).clamp(1, 1000));
        // Of thousands of keys a page shows a hundred: only a question for a state needs to look at all.
        match filter.state {
            None => {
                let page = page(rows, |row| row.id.0, (cursor, limit))?;
                Ok(KeyPage { items: views(app, &provider, page.items)?, next: page.next, total: page.total })
            }
            Some(state) => {
                let all = views(app, &provider, rows)?;
                let found = all.into_iter().filter(|view| view.state == state).collect();
                let page = page(found, |view: &KeyView| view.id, (cursor, limit))?;
                Ok(KeyPage { items: page.items, next: page.next, total: page.total })
            }
        }
    })
    .await
}

/// One key.
pub async fn show(app: &App, provider: &str, id: KeyId) -> Answer<KeyView> {
    let provider = app.provider(provider)?.id;
    app.blocking(move |app| {
        let row = app.key(&provider, id)?;
        views(app, &provider, vec![row])?.pop().ok_or_else(|| Problem::not_found("key"))
    })
    .await
}

/// Which of these keys a provider has already, in their order; nothing is added.
pub async fn find(app: &App, provider: &str, secrets: Vec<Secret>) -> Answer<Vec<Option<u64>>> {
    let provider = app.provider(provider)?.id;
    if secrets.len() > MOST_AT_ONCE {
        return Err(Problem::invalid_field("keys", format!("at most {MOST_AT_ONCE} keys at once")));
    }
    let found = app.read(move |store| store.find_keys(&provider, &secrets)).await?;
    Ok(found.into_iter().map(|id| id.map(|id| id.0)).collect())
}

/// Adds keys, telling those that the provider has already.
pub async fn add(app: &App, actor: &Actor, provider: &str, keys: Vec<NewKey>) -> Answer<Vec<ItemResult>> {
    let configured = app.provider(provider)?;
    if configured.auth != "managed" {
        let detail = format!("provider {provider} uses no keys of ours; set `auth` to `managed` first");
        return Err(Problem::conflict("keyless", detail));
    }
    if keys.is_empty() {
        return Err(Problem::invalid_field("keys", "there is no key in it; give one per line"));
    }
    if keys.len() > MOST_AT_ONCE {
        return Err(Problem::invalid_field("keys", format!("at most {MOST_AT_ONCE} keys at once")));
    }
    let hints: Vec<String> = keys.iter().map(|key| key.secret.hint()).collect();
    let added = app.live.store().add_keys(&configured.id, keys).await?;
    let count = added.iter().filter(|added| matches!(added, Added::Added(_))).count();
    if count > 0 {
        app.changed(actor, "keys.add", provider, &format!("{count} keys")).await?;
    }
    let results = added.into_iter().zip(hints).map(|(added, hint)| {
        let (id, result) = match added {
            Added::Added(id) => (id, "added"),
            Added::Duplicate(id) => (id, "duplicate"),
        };
        ItemResult { id: Some(id.0), result, hint: Some(hint) }
    });
    Ok(results.collect())
}

/// Changes label or account of a key.
pub async fn edit(app: &App, actor: &Actor, key: (&str, KeyId), edit: KeyEdit) -> Answer<KeyView> {
    let (provider, id) = key;
    let row = owned(app, provider, id).await?;
    if row.origin == Origin::File {
        return Err(Problem::from_the_file(&format!("key {}", row.label)));
    }
    app.live.store().edit_key(id, edit).await?;
    app.changed(actor, "keys.change", &subject(provider, id), "").await?;
    show(app, provider, id).await
}

/// Removes keys that were added at run time.
pub async fn remove(app: &App, actor: &Actor, provider: &str, ids: Vec<KeyId>) -> Answer<Vec<ItemResult>> {
    let known = rows(app, provider).await?;
    let removable = |id: &KeyId| known.get(id).is_some_and(|row| row.origin == Origin::Added);
    let wanted: Vec<KeyId> = ids.iter().copied().filter(removable).collect();
    let removed = app.live.store().remove_keys(wanted).await?;
    if !removed.is_empty() {
        forget_health(app, provider, &removed);
        app.changed(actor, "keys.remove", provider, &format!("{} keys", removed.len())).await?;
    }
    let result = |id: KeyId| match known.get(&id) {
        Some(row) if row.origin == Origin::File => "refused",
        Some(_) => "removed",
        None => "missing",
    };
    Ok(ids.into_iter().map(|id| ItemResult { id: Some(id.0), result: result(id), hint: None }).collect())
}

/// Puts the named keys first, in this order.
pub async fn reorder(app: &App, actor: &Actor, provider: &str, first: Vec<KeyId>) -> Answer<()> {
    let configured = app.provider(provider)?;
    app.live.store().reorder_keys(&configured.id, first).await?;
    app.changed(actor, "keys.reorder", provider, "").await
}

/// Does something to keys; what became of each.
pub async fn act(
    app: &App,
    actor: &Actor,
    provider: &str,
    ids: Vec<KeyId>,
    order: Order,
) -> Answer<Vec<ItemResult>> {
    let configured = app.provider(provider)?;
    if order.action.takes_out() && !order.confirm && takes_the_last(app, &configured.id, &ids) {
        let detail = "no usable key would be left; send `confirm: true` to do it all the same";
        return Err(Problem::conflict("last_usable_key", detail));
    }
    let done = app.pool(|pool, now| {
        let until = order
            .for_s
            .and_then(|seconds| now.checked_add(std::time::Duration::from_secs(seconds.into())).ok());
        let act = |id: &KeyId| pool.act(&configured.id, *id, order.action.deed(until), now);
        ids.iter().map(act).collect::<Vec<bool>>()
    });
    let done = done.unwrap_or_default();
    let count = done.iter().filter(|done| **done).count();
    if let (1, [id]) = (count, ids.as_slice()) {
        app.note(actor, order.action.name(), &subject(provider, *id), "").await;
    } else if count > 0 {
        app.note(actor, order.action.name(), provider, &format!("{count} keys")).await;
    }
    let results = ids.into_iter().zip(done).map(|(id, done)| ItemResult {
        id: Some(id.0),
        result: if done { "done" } else { "missing" },
        hint: None,
    });
    Ok(results.collect())
}

/// The errors of a key, newest first; at most fifty.
pub async fn errors(app: &App, provider: &str, id: KeyId) -> Answer<Vec<KeyError>> {
    owned(app, provider, id).await?;
    app.read(move |store| store.key_errors(id)).await
}

/// What a key did: in all, and in the last 24 hours by half hours.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct KeyStats {
    /// Since it was added or its counts were reset.
    #[schema(value_type = Object)]
    pub total: KeyTraffic,
    /// 48 half hours, oldest first.
    #[schema(value_type = Vec<Object>)]
    pub strip: Vec<KeyTraffic>,
}

/// What a key did.
pub async fn stats(app: &App, provider: &str, id: KeyId) -> Answer<KeyStats> {
    owned(app, provider, id).await?;
    let now = app.live.now();
    app.read(move |store| Ok(KeyStats { total: store.key_traffic(id)?, strip: store.key_strip(id, now)? }))
        .await
}

/// Sets the counts and the error history of a key to nothing.
pub async fn reset_counts(app: &App, actor: &Actor, provider: &str, id: KeyId) -> Answer<()> {
    owned(app, provider, id).await?;
    app.live.store().reset_key_counts(id).await?;
    app.note(actor, "keys.reset_counts", &subject(provider, id), "").await;
    Ok(())
}

/// A key of a provider, by its row.
pub(crate) async fn owned(app: &App, provider: &str, id: KeyId) -> Answer<KeyRow> {
    let provider = app.provider(provider)?.id;
    app.blocking(move |app| app.key(&provider, id)).await
}

/// The subject of a key in the audit log.
pub(crate) fn subject(provider: &str, id: KeyId) -> String {
    format!("{provider}/keys/{id}")
}

async fn rows(app: &App, provider: &str) -> Answer<BTreeMap<KeyId, KeyRow>> {
    let provider = app.provider(provider)?.id;
    app.read(move |store| Ok(store.keys(&provider)?.into_iter().map(|row| (row.id, row)).collect())).await
}

fn takes_the_last(app: &App, provider: &ProviderId, ids: &[KeyId]) -> bool {
    let ids: BTreeSet<KeyId> = ids.iter().copied().collect();
    let statuses = app.key_statuses(provider);
    let usable = || statuses.iter().filter(|status| is_usable(status.state));
    usable().any(|status| ids.contains(&status.id)) && usable().all(|status| ids.contains(&status.id))
}

fn forget_health(app: &App, provider: &str, ids: &[KeyId]) {
    let provider = ProviderId::from(provider);
    let subject = |id: &KeyId| {
        (backstop_store::Register::Health, Subject::Key(provider.clone(), *id).to_string(), None)
    };
    // The rows are gone for good; nobody has to wait for the rest.
    drop(app.live.store().save(ids.iter().map(subject)));
}

fn views(app: &App, provider: &ProviderId, rows: Vec<KeyRow>) -> Answer<Vec<KeyView>> {
    let store = app.live.store();
    let statuses: BTreeMap<KeyId, KeyStatus> =
        app.key_statuses(provider).into_iter().map(|status| (status.id, status)).collect();
    let traffic = store.all_key_traffic()?;
    let errors = store.key_error_counts()?;
    let ids: Vec<KeyId> = rows.iter().map(|row| row.id).collect();
    let locked = store.locked_keys(&ids)?;
    let shown = |row: KeyRow| {
        let known = Known {
            status: statuses.get(&row.id),
            traffic: traffic.get(&row.id).copied().unwrap_or_default(),
            errors: errors.get(&row.id).copied().unwrap_or(0),
            locked: locked.contains(&row.id),
        };
        view(row, &known)
    };
    Ok(rows.into_iter().map(shown).collect())
}

struct Known<'a> {
    status: Option<&'a KeyStatus>,
    traffic: KeyTraffic,
    errors: u64,
    locked: bool,
}

fn view(row: KeyRow, known: &Known<'_>) -> KeyView {
    let status = known.status;
    let pause = status.and_then(|status| status.paused);
    let state = match status {
        _ if known.locked => "locked",
        Some(status) => status.state.as_str(),
        None => "active",
    };
    KeyView {
        id: row.id.0,
        label: row.label,
        account: row.account.as_ref().map(AccountId::to_string),
        origin: row.origin.as_str(),
        hint: row.hint,
        version: row.version,
        state: state.to_owned(),
        since: pause.map(|pause| pause.since).or_else(|| status?.since),
        until: pause.map_or_else(|| status?.until, |pause| pause.until),
        why: status.and_then(|status| status.why.as_ref()).map(json),
        models: status.map(|status| status.models.iter().map(json).collect()).unwrap_or_default(),
        consecutive_errors: status.map_or(0, |status| status.consecutive_errors),
        in_flight: status.map_or(0, |status| status.in_flight),
        succeeded: known.traffic.succeeded,
        failed: known.traffic.failed,
        errors: known.errors,
        last_used: known.traffic.last_at,
        test: row.test,
        quota: status.and_then(|status| status.quota.as_ref()).map(json),
    }
}

/// A part of a list.
struct Part<T> {
    items: Vec<T>,
    next: Option<String>,
    total: usize,
}

fn page<T>(all: Vec<T>, id: impl Fn(&T) -> u64, (cursor, limit): (Option<&str>, usize)) -> Answer<Part<T>> {
    let total = all.len();
    let begin = match cursor {
        None => 0,
        Some(cursor) => {
            let after: u64 = cursor.parse().map_err(|_| Problem::from(StoreError::BadCursor))?;
            let place = all.iter().position(|item| id(item) == after);
            place.map_or(total, |place| place + 1)
        }
    };
    let items: Vec<T> = all.into_iter().skip(begin).take(limit).collect();
    let next = if begin + items.len() < total { items.last().map(|item| id(item).to_string()) } else { None };
    Ok(Part { items, next, total })
}

/// Values of other crates are shown as they serialise.
fn json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or(Value::Null)
}

const MOST_AT_ONCE: usize = 20_000;
