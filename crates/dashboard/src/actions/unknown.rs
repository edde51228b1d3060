//! The inbox of failures that no rule knows: see, dismiss, explain, and turn into a rule.

use backstop_store::unknown::{UnknownRow, UnknownState};
use backstop_triage::wire::Failure;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::{
    actions::rules::{self, Trial},
    app::{Actor, App, value_of},
    problem::{Answer, Problem},
};

/// A line of the inbox.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct UnknownView {
    /// Its id.
    pub shape: String,
    /// Whom it came from.
    pub provider: String,
    /// How it came: `http`, `stream`, `transport` or `process`.
    pub kind: String,
    /// Its status, if it had one.
    pub status: Option<u16>,
    /// The words of the newest one.
    pub text: String,
    /// How often it was seen.
    pub count: u64,
    /// When first.
    pub first_at: String,
    /// When last.
    pub last_at: String,
    /// `open`, `ruled` or `dismissed`.
    pub state: &'static str,
    /// The newest one in full, redacted, as `backstop classify` reads it.
    #[schema(value_type = Object)]
    pub evidence: Value,
    /// Why no rule knows it.
    #[schema(value_type = Option<Object>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<Value>,
}

/// The inbox, last seen first.
pub async fn list(app: &App) -> Answer<Vec<UnknownView>> {
    let rows = app.read(|store| store.unknown_failures()).await?;
    Ok(rows.into_iter().map(view).collect())
}

/// One line, with the rules that were tried on it.
pub async fn show(app: &App, shape: &str) -> Answer<UnknownView> {
    let row = find(app, shape).await?;
    let catalog = app.live.catalog();
    let case = Failure::parse(&row.evidence).and_then(|failure| failure.resolve(&catalog, row.last_at));
    let explanation = case.ok().and_then(|case| {
        serde_json::to_value(catalog.explain(&case.provider, &case.evidence, case.now)).ok()
    });
    Ok(UnknownView { explanation, ..view(row) })
}

/// Puts a line aside.
pub async fn dismiss(app: &App, actor: &Actor, shape: &str) -> Answer<()> {
    app.live.store().settle_unknown(shape, UnknownState::Dismissed).await?;
    app.note(actor, "unknown.dismiss", shape, "").await;
    Ok(())
}

/// Saves a pack with a rule for a line, if the rule knows it. What it changes is in the result.
pub async fn make_rule(app: &App, actor: &Actor, shape: &str, (name, toml): (&str, &str)) -> Answer<Trial> {
    let row = find(app, shape).await?;
    let trial = rules::try_out(app, name, toml).await?;
    if !trial.inbox.iter().any(|change| change.subject == row.shape) {
        let detail = "the rule does not match this failure; `explain` says which condition fails";
        return Err(Problem::invalid_field("toml", detail));
    }
    rules::save(app, actor, (name, toml), None).await?;
    for change in &trial.inbox {
        app.live.store().settle_unknown(&change.subject, UnknownState::Ruled).await?;
    }
    Ok(trial)
}

async fn find(app: &App, shape: &str) -> Answer<UnknownRow> {
    let shape = shape.to_owned();
    let row = app.read(move |store| store.unknown_failure(&shape)).await?;
    row.ok_or_else(|| Problem::not_found("unknown failure"))
}

fn view(row: UnknownRow) -> UnknownView {
    UnknownView {
        shape: row.shape,
        provider: row.provider,
        kind: row.kind,
        status: row.status,
        text: row.text,
        count: row.count,
        first_at: row.first_at.to_string(),
        last_at: row.last_at.to_string(),
        state: row.state.as_str(),
        evidence: value_of(&row.evidence),
        explanation: None,
    }
}
