//! Brings configuration and store together: keys and clients of the file get their ids, those added at run time join.

use std::collections::{BTreeMap, HashMap};

use backstop_store::{
    Secret, Store, StoreError,
    clients::{ClientLimits, ClientRow, NewClient, token_hash},
    keys::{KeyRow, NewKey, Origin},
};
use backstop_triage::{KeyId, ProviderId, Timestamp};

use crate::{
    auth::Clients,
    config::{Client, Config, Key, Provider},
    plan::StoredKey,
};

/// The keys of all providers, those of the configuration first.
pub(crate) fn keys(config: &Config, store: &Store) -> HashMap<ProviderId, Stock> {
    config.providers.iter().map(|provider| (provider.id.clone(), keys_of(provider, store))).collect()
}

/// The keys of a provider.
#[derive(Debug, Default)]
pub(crate) struct Stock {
    /// Those that can be used.
    pub(crate) keys: Vec<StoredKey>,
    /// Those that cannot be decrypted, by label, with why.
    pub(crate) locked: BTreeMap<String, String>,
}

fn keys_of(provider: &Provider, store: &Store) -> Stock {
    let mut stock = Stock { keys: provisioned(provider, store), locked: BTreeMap::new() };
    if let Err(error) = stock.add(provider, store) {
        tracing::error!(provider = %provider.id, %error, "the keys added at run time cannot be read");
    }
    stock
}

impl Stock {
    /// Takes up the keys that were added at run time.
    fn add(&mut self, provider: &Provider, store: &Store) -> Result<(), StoreError> {
        let mut secrets = store.key_secrets(&provider.id)?;
        let rows = store.keys(&provider.id)?.into_iter().filter(|row| row.origin == Origin::Added);
        for row in rows {
            match secrets.remove(&row.id) {
                Some(Ok(secret)) => {
                    let KeyRow { id, label, account, .. } = row;
                    self.keys.push(StoredKey { id, label, account, secret });
                }
                Some(Err(error)) => {
                    tracing::error!(provider = %provider.id, key = row.label, %error, "this key cannot be used");
                    self.locked.insert(row.label, error.to_string());
                }
                None => {}
            }
        }
        Ok(())
    }
}

fn provisioned(provider: &Provider, store: &Store) -> Vec<StoredKey> {
    let new = |key: &Key| NewKey {
        label: key.label.clone(),
        account: key.account.clone(),
        secret: key.secret.clone(),
    };
    let ids = store.provision_keys(&provider.id, provider.keys.iter().map(new).collect()).wait();
    let ids = ids.unwrap_or_else(|error| {
        tracing::error!(provider = %provider.id, %error, "the store cannot be written; new keys get passing ids");
        let known = |key: &Key| store.key_of(&provider.id, &key.secret).ok().flatten();
        provider.keys.iter().map(|key| known(key).unwrap_or_else(|| passing_id(&provider.id, key))).collect()
    });
    let stored = |(id, key): (KeyId, &Key)| StoredKey {
        id,
        label: key.label.clone(),
        account: key.account.clone(),
        secret: key.secret.clone(),
    };
    ids.into_iter().zip(&provider.keys).map(stored).collect()
}

/// An id for as long as the store cannot give one; the same for the same key.
fn passing_id(provider: &ProviderId, key: &Key) -> KeyId {
    KeyId(passing_number(&token_hash(&format!("{provider}\0{}", key.secret.expose()))))
}

/// A number beyond those that the store gives.
fn passing_number(hash: &[u8; 32]) -> u64 {
    let number = hash.iter().take(8).fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    number >> 1 | 1 << 62
}

/// Whether somebody is let in who has no key yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum First {
    /// A key is made if there is none at all, to be shown once.
    Make,
    /// Nobody is there to be shown one.
    Never,
}

/// The clients, and the key of the first one if it had to be made. A store that cannot be written keeps nobody out whom
/// the configuration names.
pub(crate) fn clients(
    config: &Config,
    store: &Store,
    before: &Clients,
    (first, now): (First, Timestamp),
) -> Result<(Clients, Option<Secret>), StoreError> {
    let new = |client: &Client| {
        let new = NewClient {
            name: client.name.clone(),
            limits: client.limits.clone(),
            expires_at: client.expires,
        };
        (new, client.secret.clone())
    };
    let written = store.provision_clients(config.clients.iter().map(new).collect()).wait();
    let mut rows = match written.and_then(|_| store.clients()) {
        Ok(rows) => rows,
        Err(error) if first == First::Make && !config.clients.is_empty() => {
            tracing::error!(%error, "the store cannot be written; clients of the configuration are let in all the same");
            with_passing(config, store.clients().unwrap_or_default(), now)
        }
        Err(error) => return Err(error),
    };
    let is_lonely = rows.is_empty() && config.server.client_auth;
    let made = if is_lonely && first == First::Make { Some(make(store, &mut rows)?) } else { None };
    let month =
        now.to_zoned_datetime(jiff::tz::TimeZone::UTC).first_of_month().ok().map(|month| month.timestamp());
    let spent = |id| month.and_then(|month| store.client_spend(id, month).ok()).unwrap_or(0);
    Ok((Clients::new(rows, Some(before), spent), made))
}

fn make(store: &Store, rows: &mut Vec<ClientRow>) -> Result<Secret, StoreError> {
    let new = NewClient { name: "first".to_owned(), limits: ClientLimits::default(), expires_at: None };
    let (row, secret) = store.create_client(new).wait()?;
    rows.push(row);
    Ok(secret)
}

/// The clients that were made at run time, and those of the configuration as it says, by the ids that the store knows.
fn with_passing(config: &Config, known: Vec<ClientRow>, now: Timestamp) -> Vec<ClientRow> {
    let mut known: HashMap<[u8; 32], ClientRow> = known.into_iter().map(|row| (row.hash, row)).collect();
    let named = |client: &Client| {
        let hash = token_hash(client.secret.expose());
        let before = known.remove(&hash);
        ClientRow {
            id: before.as_ref().map_or_else(|| passing_number(&hash), |row| row.id),
            name: client.name.clone(),
            origin: Origin::File,
            prefix: client.secret.hint(),
            hash,
            limits: client.limits.clone(),
            created_at: before.as_ref().map_or(now, |row| row.created_at),
            expires_at: client.expires,
            version: before.map_or(1, |row| row.version),
        }
    };
    let mut rows: Vec<ClientRow> = config.clients.iter().map(named).collect();
    rows.extend(known.into_values().filter(|row| row.origin == Origin::Added));
    rows.sort_unstable_by_key(|row| row.id);
    rows
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use backstop_triage::Catalog;

    use super::*;
    use crate::config::Environment;

    fn config(clients: &str) -> Config {
        Config::parse(clients, Path::new("t.toml"), &Environment::default(), &Catalog::embedded()).unwrap()
    }

    #[test]
    fn on_a_store_that_cannot_be_written_only_those_come_in_whom_the_configuration_names() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let first = |config: &Config| {
            let now = "2026-11-30T12:00:00Z".parse().unwrap();
            clients(config, &store, &Clients::default(), (First::Make, now)).unwrap().0
        };
        first(&config(
            "[[client]]\nname = \"stays\"\nvalue = \"bsk_of_one_that_stays\"\n[[client]]\nname = \"goes\"\nvalue = \"bsk_of_one_that_goes\"\n",
        ));
        let new = NewClient { name: "added".to_owned(), ..NewClient::default() };
        let (_, added) = store.create_client(new).wait().unwrap();
        store.close();
        let changed = config(
            "[[client]]\nname = \"stays\"\nvalue = \"bsk_of_one_that_stays\"\nrequests_per_minute = 7\nexpires = \"2027-01-01T00:00:00Z\"\n[[client]]\nname = \"comes\"\nvalue = \"bsk_of_one_that_comes\"\n",
        );
        let clients = first(&changed);
        let known =
            ["bsk_of_one_that_stays", "bsk_of_one_that_comes", added.expose()].map(|key| clients.knows(key));
        assert_eq!((known, clients.knows("bsk_of_one_that_goes")), ([true; 3], false));
        let rows = with_passing(&changed, store.clients().unwrap(), Timestamp::UNIX_EPOCH);
        let stays = rows.iter().find(|row| row.name == "stays").unwrap();
        assert_eq!((stays.id, stays.limits.requests_per_minute), (1, Some(7)));
        assert_eq!(stays.expires_at, changed.clients[0].expires);
    }
}
