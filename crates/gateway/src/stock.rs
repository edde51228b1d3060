//! Brings configuration and store together: keys and clients of the file get their ids, those added at run time join.

use std::collections::HashMap;

use backstop_store::{
    Secret, Store, StoreError,
    clients::{ClientLimits, ClientRow, NewClient},
    keys::{NewKey, Origin},
};
use backstop_triage::{KeyId, ProviderId, Timestamp};

use crate::{
    auth::Clients,
    config::{Client, Config, Key, Provider},
    plan::StoredKey,
};

/// The keys of all providers, those of the configuration first.
pub(crate) fn keys(config: &Config, store: &Store) -> HashMap<ProviderId, Vec<StoredKey>> {
    config.providers.iter().map(|provider| (provider.id.clone(), keys_of(provider, store))).collect()
}

fn keys_of(provider: &Provider, store: &Store) -> Vec<StoredKey> {
    let mut keys = provisioned(provider, store);
    match added(provider, store) {
        Ok(added) => keys.extend(added),
        Err(error) => {
            tracing::error!(provider = %provider.id, %error, "the keys added at run time cannot be read")
        }
    }
    keys
}

fn provisioned(provider: &Provider, store: &Store) -> Vec<StoredKey> {
    let new = |key: &Key| NewKey {
        label: key.label.clone(),
        account: key.account.clone(),
        secret: key.secret.clone(),
    };
    let ids = store.provision_keys(&provider.id, provider.keys.iter().map(new).collect()).wait();
    let ids = ids.unwrap_or_else(|error| {
        tracing::error!(provider = %provider.id, %error, "the store cannot be written; keys get passing ids");
        provider.keys.iter().map(|key| passing_id(&provider.id, key)).collect()
    });
    let stored = |(id, key): (KeyId, &Key)| StoredKey {
        id,
        label: key.label.clone(),
        account: key.account.clone(),
        secret: key.secret.clone(),
    };
    ids.into_iter().zip(&provider.keys).map(stored).collect()
}

fn added(provider: &Provider, store: &Store) -> Result<Vec<StoredKey>, StoreError> {
    let mut secrets = store.key_secrets(&provider.id)?;
    let rows = store.keys(&provider.id)?.into_iter().filter(|row| row.origin == Origin::Added);
    let stored = |row: backstop_store::keys::KeyRow| match secrets.remove(&row.id)? {
        Ok(secret) => Some(StoredKey { id: row.id, label: row.label, account: row.account, secret }),
        Err(error) => {
            tracing::error!(provider = %provider.id, key = row.label, %error, "this key cannot be used");
            None
        }
    };
    Ok(rows.filter_map(stored).collect())
}

/// An id for as long as the store cannot give one; the same for the same key.
fn passing_id(provider: &ProviderId, key: &Key) -> KeyId {
    let hash = backstop_store::clients::token_hash(&format!("{provider}\0{}", key.secret.expose()));
    let number = hash.iter().take(8).fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    KeyId(number | 1 << 62)
}

/// The clients, and the key of the first one if it had to be made.
pub(crate) fn clients(
    config: &Config,
    store: &Store,
    before: &Clients,
    now: Timestamp,
) -> Result<(Clients, Option<Secret>), StoreError> {
    let new = |client: &Client| {
        let new = NewClient {
            name: client.name.clone(),
            limits: client.limits.clone(),
            expires_at: client.expires,
        };
        (new, client.secret.clone())
    };
    store.provision_clients(config.clients.iter().map(new).collect()).wait()?;
    let mut rows = store.clients()?;
    let first =
        if rows.is_empty() && config.server.client_auth { Some(first(store, &mut rows)?) } else { None };
    let month =
        now.to_zoned_datetime(jiff::tz::TimeZone::UTC).first_of_month().ok().map(|month| month.timestamp());
    let spent = |id| month.and_then(|month| store.client_spend(id, month).ok()).unwrap_or(0);
    Ok((Clients::new(rows, Some(before), spent), first))
}

fn first(store: &Store, rows: &mut Vec<ClientRow>) -> Result<Secret, StoreError> {
    let new = NewClient { name: "first".to_owned(), limits: ClientLimits::default(), expires_at: None };
    let (row, secret) = store.create_client(new).wait()?;
    rows.push(row);
    Ok(secret)
}
