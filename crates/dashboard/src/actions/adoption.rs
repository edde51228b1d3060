//! Client keys that programs have already: taken over by their hash, so that nobody has to hand out new ones after a
//! move from another gateway or another machine.

use backstop_store::clients::NewClient;
use backstop_triage::Timestamp;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::{
    actions::clients::{self, ClientView, Limits},
    app::{Actor, App},
    problem::{Answer, Problem},
};

/// A client key that exists somewhere else.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Adoption {
    /// What people call it.
    pub name: String,
    /// The SHA-256 of the key, in hexadecimal digits. The key itself is never asked for.
    pub hash: String,
    /// What may be shown of the key.
    pub prefix: String,
    /// What it may do.
    #[serde(default)]
    pub limits: Limits,
    /// When it ends.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub expires_at: Option<Timestamp>,
}

/// Takes a client key over; one that is known stays as it is. Says whether it is new.
pub async fn adopt(app: &App, actor: &Actor, adoption: Adoption) -> Answer<(ClientView, bool)> {
    let hash = backstop_store::clients::parse_hash(&adoption.hash)
        .ok_or_else(|| Problem::invalid_field("hash", "a hash has 64 hexadecimal digits"))?;
    let name = adoption.name.trim().to_owned();
    if name.is_empty() {
        return Err(Problem::invalid_field("name", "give the client key a name"));
    }
    if adoption.prefix.chars().count() > LONGEST_PREFIX {
        return Err(Problem::invalid_field(
            "prefix",
            format!("at most {LONGEST_PREFIX} characters may be shown"),
        ));
    }
    let limits = clients::stored(adoption.limits);
    let new = NewClient { name, limits, expires_at: adoption.expires_at };
    let (row, is_new) = app.live.store().adopt_client(new, &adoption.prefix, hash).await?;
    if is_new {
        app.changed(actor, "clients.adopt", &row.name, "").await?;
    }
    Ok((clients::view(row, None), is_new))
}

const LONGEST_PREFIX: usize = 12;
