//! The secrets of this gateway for another one: every key that was added at run time, what may hold a credential in the
//! definitions of providers, and every client key's hash, as one text that only a passphrase opens. No secret leaves in
//! the clear.

use std::collections::BTreeMap;

use backstop_store::{Secret, Store, clients::hash_text, configuration::Kind, keys::Origin};
use backstop_triage::ProviderId;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::{
    app::{Actor, App},
    problem::{Answer, Problem},
    sealing::{SealError, Sealed},
};

/// Everything that is sealed.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Secrets {
    /// Keys by their providers, in order.
    pub keys: BTreeMap<String, Vec<KeySecret>>,
    /// Client keys.
    pub clients: Vec<ClientSecret>,
    /// What may hold credentials in the definitions of providers.
    #[serde(default)]
    pub definitions: BTreeMap<String, SecretFields>,
}

/// A provider's key.
#[derive(Serialize, Deserialize)]
pub struct KeySecret {
    /// What it is called.
    pub label: String,
    /// The account that it shares with others.
    pub account: Option<String>,
    /// The credential.
    pub key: String,
}

/// The [`SECRET_FIELDS`] of a provider's definition, by their names.
#[derive(Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretFields(pub BTreeMap<String, Value>);

/// A client key; of the key itself only the hash is known.
#[derive(Debug, Serialize, Deserialize)]
pub struct ClientSecret {
    /// What it is called.
    pub name: String,
    /// Its first characters.
    pub prefix: String,
    /// Its SHA-256 in hexadecimal digits.
    pub hash: String,
}

/// The secrets, sealed.
#[derive(Debug, Serialize, ToSchema)]
pub struct SealedSecrets {
    /// Keys in it.
    pub keys: usize,
    /// Client keys in it.
    pub clients: usize,
    /// Keys that cannot be opened, and so are not in it.
    pub locked: usize,
    /// The secrets.
    pub sealed: Sealed,
}

impl std::fmt::Debug for KeySecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeySecret").field("label", &self.label).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for SecretFields {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Seals the secrets of everything that was added at run time.
pub async fn export(app: &App, actor: &Actor, passphrase: Secret) -> Answer<SealedSecrets> {
    let sealed = app.blocking(move |app| {
        let providers: Vec<ProviderId> =
            app.live.providers().into_iter().map(|provider| provider.id).collect();
        let (secrets, locked) = collect(app.live.store(), &providers)?;
        let text = serde_json::to_vec(&secrets).map_err(|error| Problem::broken(error.to_string()))?;
        let sealed =
            Sealed::new(&zeroize::Zeroizing::new(text), &passphrase).map_err(|error| refused(&error))?;
        let keys = secrets.keys.values().map(Vec::len).sum();
        Ok(SealedSecrets { keys, clients: secrets.clients.len(), locked, sealed })
    });
    let sealed = sealed.await?;
    app.note(actor, "secrets.export", "secrets", &format!("{} keys", sealed.keys)).await;
    Ok(sealed)
}

fn collect(store: &Store, providers: &[ProviderId]) -> Answer<(Secrets, usize)> {
    let mut secrets = Secrets::default();
    let mut locked = 0;
    for provider in providers {
        let opened = store.key_secrets(provider)?;
        let rows = store.keys(provider)?.into_iter().filter(|row| row.origin == Origin::Added);
        for row in rows {
            match opened.get(&row.id) {
                Some(Ok(secret)) => {
                    let key = KeySecret {
                        label: row.label,
                        account: row.account.map(|account| account.to_string()),
                        key: secret.expose().to_owned(),
                    };
                    secrets.keys.entry(provider.to_string()).or_default().push(key);
                }
                Some(Err(_)) | None => locked += 1,
            }
        }
    }
    for object in store.objects(Kind::Provider)? {
        let mut fields: BTreeMap<String, Value> = serde_json::from_str(&object.spec).unwrap_or_default();
        fields.retain(|name, _| SECRET_FIELDS.contains(&name.as_str()));
        if !fields.is_empty() {
            secrets.definitions.insert(object.id, SecretFields(fields));
        }
    }
    let clients = store.clients()?.into_iter().filter(|row| row.origin == Origin::Added);
    secrets.clients = clients
        .map(|row| ClientSecret { name: row.name, prefix: row.prefix, hash: hash_text(&row.hash) })
        .collect();
    Ok((secrets, locked))
}

fn refused(error: &SealError) -> Problem {
    match error {
        SealError::TooShort => Problem::invalid_field("passphrase", error.to_string()),
        SealError::NoMemory
        | SealError::UnknownMethod
        | SealError::TooCostly
        | SealError::WrongPassphrase => Problem::broken(error.to_string()),
    }
}

/// The fields of a provider's definition that may hold credentials.
pub const SECRET_FIELDS: [&str; 3] = ["headers", "query", "proxy"];
