//! Combos: virtual providers whose members share names of models.

use backstop_store::configuration::Kind;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    app::{Actor, App},
    problem::{Answer, Problem},
};

/// A virtual provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Combo {
    /// Its id in paths and models.
    pub id: String,
    /// Members with the same alias take over from each other, in order.
    pub members: Vec<Member>,
}

/// A member of a combo.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// The provider that answers.
    pub provider: String,
    /// The model there.
    pub model: String,
    /// The name under which clients ask for it; the model's own if there is none.
    #[serde(default)]
    pub alias: Option<String>,
}

/// A combo with its version.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ComboView {
    /// The combo.
    #[serde(flatten)]
    pub combo: Combo,
    /// Raised by every edit; also the ETag.
    pub version: u64,
}

/// The combos that were added at run time.
pub async fn list(app: &App) -> Answer<Vec<ComboView>> {
    let rows = app.read(|store| store.objects(Kind::Combo)).await?;
    let view = |row: backstop_store::configuration::ObjectRow| {
        Some(ComboView { combo: serde_json::from_str(&row.spec).ok()?, version: row.version })
    };
    Ok(rows.into_iter().filter_map(view).collect())
}

/// Adds a combo.
pub async fn add(app: &App, actor: &Actor, combo: Combo) -> Answer<ComboView> {
    check(app, &combo)?;
    if app.provider(&combo.id).is_ok() {
        return Err(Problem::conflict("exists", format!("there is a provider {} already", combo.id)));
    }
    app.live.store().add_object(Kind::Combo, &combo.id, &text(&combo)?).await?;
    app.changed(actor, "combos.add", &combo.id, "").await?;
    Ok(ComboView { combo, version: 1 })
}

/// Changes a combo.
pub async fn change(app: &App, actor: &Actor, combo: Combo, version: Option<u64>) -> Answer<ComboView> {
    check(app, &combo)?;
    let version = app.live.store().edit_object(Kind::Combo, &combo.id, &text(&combo)?, version).await?;
    app.changed(actor, "combos.change", &combo.id, "").await?;
    Ok(ComboView { combo, version })
}

/// Removes a combo.
pub async fn remove(app: &App, actor: &Actor, id: &str) -> Answer<()> {
    app.live.store().remove_object(Kind::Combo, id).await?;
    app.changed(actor, "combos.remove", id, "").await
}

fn check(app: &App, combo: &Combo) -> Answer<()> {
    let fine = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    if combo.id.is_empty() || !combo.id.chars().all(fine) {
        return Err(Problem::invalid_field("id", "use letters, digits, `-`, `_` and `.`"));
    }
    if combo.members.is_empty() {
        return Err(Problem::invalid_field("members", "a combo needs a member"));
    }
    for member in &combo.members {
        app.provider(&member.provider).map_err(|_| {
            Problem::invalid_field(
                "members",
                format!("there is no provider {}; add it first", member.provider),
            )
        })?;
    }
    Ok(())
}

fn text(combo: &Combo) -> Answer<String> {
    serde_json::to_string(combo).map_err(|error| Problem::malformed(error.to_string()))
}
