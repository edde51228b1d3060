//! Keys of providers: stable ids, order, labels, sealed secrets.
//!
//! A key of the configuration file keeps its secret in the file; here it has its id, which follows the secret
//! (by fingerprint) through renaming and reordering, and comes back with it after an absence.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use backstop_triage::{AccountId, KeyId, ProviderId, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use serde::{Deserialize, Serialize};

use crate::{
    Pending, Secret, Store, StoreError,
    rows::{count, millis, moment, signed},
    sequence::next_id,
    vault::{Place, Vault},
};

/// A key as it is added or provisioned.
#[derive(Clone, Debug)]
pub struct NewKey {
    /// What people call it; may be empty.
    pub label: String,
    /// The account it shares with others.
    pub account: Option<AccountId>,
    /// The credential.
    pub secret: Secret,
}

/// Where an object is defined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// In the configuration file or the environment; read-only elsewhere.
    File,
    /// At run time; the store is its home.
    Added,
}

impl Origin {
    /// The public name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Added => "added",
        }
    }

    /// Reads a public name.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        [Self::File, Self::Added].into_iter().find(|origin| origin.as_str() == name)
    }
}

/// A key without its secret.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KeyRow {
    /// Its id, never given to another key.
    pub id: KeyId,
    /// Whose key it is.
    pub provider: ProviderId,
    /// What people call it.
    pub label: String,
    /// The account it shares with others.
    pub account: Option<AccountId>,
    /// Where it is defined.
    pub origin: Origin,
    /// What may be shown of the secret.
    pub hint: String,
    /// Raised by every edit.
    pub version: u64,
    /// When it was first seen.
    pub created_at: Timestamp,
    /// Its last connection test.
    pub test: Option<KeyTest>,
}

/// The result of a connection test, as it is kept with the key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeyTest {
    /// When it ended.
    pub at: Timestamp,
    /// Whether the provider accepts the key; none when the test could not find out.
    pub valid: Option<bool>,
    /// How long the provider took.
    pub latency_ms: u64,
    /// The upstream status, if there was one.
    pub status: Option<u16>,
    /// The class of the failure, if it failed.
    pub class: Option<String>,
    /// What to know although the key is valid, such as a full window.
    pub warning: Option<String>,
    /// What went wrong, redacted.
    pub error: Option<String>,
}

/// What became of one key of several that were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "result", content = "id")]
pub enum Added {
    /// It is new and has this id.
    Added(KeyId),
    /// The provider has it already, under this id.
    Duplicate(KeyId),
}

/// An edit of a key; what is none stays.
#[derive(Clone, Debug, Default)]
pub struct KeyEdit {
    /// A new label.
    pub label: Option<String>,
    /// A new account, or none at all.
    pub account: Option<Option<AccountId>>,
    /// The version that the edit was made on.
    pub version: Option<u64>,
}

impl Store {
    /// Makes the keys of the file known and returns their ids in order; others of the file become absent.
    pub fn provision_keys(&self, provider: &ProviderId, keys: Vec<NewKey>) -> Pending<Vec<KeyId>> {
        let vault = self.vault().clone();
        let provider = provider.clone();
        self.write(move |transaction| {
            transaction.execute(ABSENT, [provider.as_str()])?;
            let mut ids = Vec::with_capacity(keys.len());
            for (position, key) in keys.iter().enumerate() {
                ids.push(provision(transaction, &vault, &provider, key, position)?);
            }
            Ok(ids)
        })
    }

    /// The id of the provider's key with this secret, if it has had one; nothing is written.
    pub fn key_of(&self, provider: &ProviderId, secret: &Secret) -> Result<Option<KeyId>, StoreError> {
        let fingerprint = self.vault().fingerprint(secret)?;
        self.read(|connection| Ok(find(connection, provider, &fingerprint)?))
    }

    /// Adds keys behind those that are there; a secret that the provider has already is only reported.
    pub fn add_keys(&self, provider: &ProviderId, keys: Vec<NewKey>) -> Pending<Vec<Added>> {
        let vault = self.vault().clone();
        let provider = provider.clone();
        self.write(move |transaction| {
            let mut position: i64 =
                transaction.query_row(LAST_POSITION, [provider.as_str()], |row| row.get(0))?;
            let mut added = Vec::with_capacity(keys.len());
            for key in &keys {
                position += 1;
                added.push(add(transaction, &vault, &provider, key, position)?);
            }
            Ok(added)
        })
    }

    /// Which keys a provider has already, in the order of the secrets.
    pub fn find_keys(
        &self,
        provider: &ProviderId,
        secrets: &[Secret],
    ) -> Result<Vec<Option<KeyId>>, StoreError> {
        let fingerprints =
            secrets.iter().map(|secret| self.vault().fingerprint(secret)).collect::<Result<Vec<_>, _>>()?;
        self.read(|connection| {
            let mut statement = connection.prepare_cached(PRESENT_BY_FINGERPRINT)?;
            let find = |fingerprint: &Vec<u8>| {
                let values = params![provider.as_str(), fingerprint];
                statement.query_row(values, |row| count(row, "id").map(KeyId)).optional()
            };
            Ok(fingerprints.iter().map(find).collect::<rusqlite::Result<_>>()?)
        })
    }

    /// The keys of a provider in their order, those of the file first; without absent ones.
    pub fn keys(&self, provider: &ProviderId) -> Result<Vec<KeyRow>, StoreError> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached(LIST)?;
            let rows = statement.query_map([provider.as_str()], |row| Ok(read(row)))?;
            rows.map(|row| row?).collect()
        })
    }

    /// One key.
    pub fn key(&self, id: KeyId) -> Result<Option<KeyRow>, StoreError> {
        self.read(|connection| {
            let row =
                connection.prepare_cached(ONE)?.query_row([signed(id.0)], |row| Ok(read(row))).optional()?;
            row.transpose()
        })
    }

    /// The secrets of a provider's added keys. One that cannot be opened is locked, the others are not.
    pub fn key_secrets(
        &self,
        provider: &ProviderId,
    ) -> Result<BTreeMap<KeyId, Result<Secret, StoreError>>, StoreError> {
        let sealed: Vec<(KeyId, Vec<u8>)> = self.read(|connection| {
            let mut statement = connection.prepare_cached(SECRETS)?;
            let rows = statement
                .query_map([provider.as_str()], |row| Ok((KeyId(count(row, "id")?), row.get("sealed")?)))?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })?;
        let open =
            |(id, sealed): (KeyId, Vec<u8>)| (id, self.vault().open_secret(&place(&id.to_string()), &sealed));
        Ok(sealed.into_iter().map(open).collect())
    }

    /// Those of the keys whose secret cannot be opened with the key file of this folder.
    pub fn locked_keys(&self, among: &[KeyId]) -> Result<BTreeSet<KeyId>, StoreError> {
        let sealed: Vec<(KeyId, Vec<u8>)> = self.read(|connection| {
            let mut statement = connection.prepare_cached(SECRET)?;
            let mut secret = |id: &KeyId| {
                let found = statement.query_row([signed(id.0)], |row| row.get("sealed")).optional();
                found.map(|sealed| Some((*id, sealed?))).transpose()
            };
            Ok(among.iter().filter_map(&mut secret).collect::<rusqlite::Result<_>>()?)
        })?;
        let is_locked = |(id, sealed): &(KeyId, Vec<u8>)| {
            let opened = self.vault().open_secret(&place(&id.to_string()), sealed);
            matches!(opened, Err(StoreError::Locked(_)))
        };
        Ok(sealed.into_iter().filter(is_locked).map(|(id, _)| id).collect())
    }

    /// Changes label or account of an added key; its new version.
    pub fn edit_key(&self, id: KeyId, edit: KeyEdit) -> Pending<u64> {
        self.write(move |transaction| {
            let row = transaction.query_row(ONE, [signed(id.0)], |row| Ok(read(row))).optional()?;
            let row = row.transpose()?.ok_or(StoreError::NotFound("key"))?;
            if edit.version.is_some_and(|version| version != row.version) {
                return Err(StoreError::Changed { what: "key", current: row.version });
            }
            let label = edit.label.unwrap_or(row.label);
            let account = edit.account.unwrap_or(row.account);
            let account = account.as_ref().map(AccountId::as_str);
            transaction.execute(EDIT, params![signed(id.0), label, account, signed(row.version + 1)])?;
            Ok(row.version + 1)
        })
    }

    /// Removes keys and what is remembered of them; those that were there.
    pub fn remove_keys(&self, ids: Vec<KeyId>) -> Pending<Vec<KeyId>> {
        self.write(move |transaction| {
            let mut removed = Vec::new();
            for id in ids {
                if transaction.prepare_cached(REMOVE)?.execute([signed(id.0)])? > 0 {
                    for sql in FORGET {
                        transaction.prepare_cached(sql)?.execute([signed(id.0)])?;
                    }
                    removed.push(id);
                }
            }
            Ok(removed)
        })
    }

    /// Puts the named keys first, in this order; the others follow as they were.
    pub fn reorder_keys(&self, provider: &ProviderId, first: Vec<KeyId>) -> Pending<()> {
        let provider = provider.clone();
        self.write(move |transaction| {
            let mut statement = transaction.prepare_cached(LIST)?;
            let rows = statement.query_map([provider.as_str()], |row| count(row, "id").map(KeyId))?;
            let present: Vec<KeyId> = rows.collect::<rusqlite::Result<_>>()?;
            let place: HashMap<KeyId, usize> = first.iter().copied().zip(0..).collect();
            let known: HashSet<KeyId> = present.iter().copied().collect();
            if !first.iter().all(|id| known.contains(id)) {
                return Err(StoreError::NotFound("key"));
            }
            let mut order = present;
            order.sort_by_key(|id| place.get(id).copied().unwrap_or(usize::MAX));
            for (position, id) in order.iter().enumerate() {
                transaction.prepare_cached(MOVE)?.execute(params![signed(id.0), signed(position as u64)])?;
            }
            Ok(())
        })
    }

    /// Keeps the result of a connection test with its key.
    pub fn save_key_test(&self, id: KeyId, test: KeyTest) -> Pending<()> {
        self.write(move |transaction| {
            let text = serde_json::to_string(&test).map_err(|_| StoreError::Unreadable("api_key"))?;
            transaction.execute(TESTED, params![signed(id.0), millis(test.at), text])?;
            Ok(())
        })
    }

    /// Sets a key's counts and its error history to nothing.
    pub fn reset_key_counts(&self, id: KeyId) -> Pending<()> {
        self.write(move |transaction| {
            for sql in FORGET {
                transaction.execute(sql, [signed(id.0)])?;
            }
            Ok(())
        })
    }
}

fn provision(
    transaction: &Transaction<'_>,
    vault: &Vault,
    provider: &ProviderId,
    key: &NewKey,
    position: usize,
) -> Result<KeyId, StoreError> {
    let known = match vault.fingerprint(&key.secret) {
        Ok(fingerprint) => (find(transaction, provider, &fingerprint)?, fingerprint),
        // Without the fingerprint key the label is all that tells keys of the file apart.
        Err(_) => {
            let found = transaction
                .query_row(BY_LABEL, params![provider.as_str(), key.label], |row| count(row, "id"))
                .optional()?;
            (found.map(KeyId), rand::random::<[u8; 16]>().to_vec())
        }
    };
    let account = key.account.as_ref().map(AccountId::as_str);
    let position = signed(position as u64);
    match known {
        (Some(id), _) => {
            let hint = key.secret.hint();
            transaction.prepare_cached(PRESENT)?.execute(params![
                signed(id.0),
                key.label,
                account,
                position,
                hint
            ])?;
            Ok(id)
        }
        (None, fingerprint) => insert(
            transaction,
            &New { provider, key, origin: Origin::File, position, fingerprint: &fingerprint },
        ),
    }
}

fn add(
    transaction: &Transaction<'_>,
    vault: &Vault,
    provider: &ProviderId,
    key: &NewKey,
    position: i64,
) -> Result<Added, StoreError> {
    let fingerprint = vault.fingerprint(&key.secret)?;
    let absent = match find(transaction, provider, &fingerprint)? {
        Some(id) if transaction.query_row(IS_PRESENT, [signed(id.0)], |row| row.get(0))? => {
            return Ok(Added::Duplicate(id));
        }
        absent => absent,
    };
    let id = match absent {
        Some(id) => {
            let account = key.account.as_ref().map(AccountId::as_str);
            transaction
                .execute(PRESENT, params![signed(id.0), key.label, account, position, key.secret.hint()])?;
            id
        }
        None => insert(
            transaction,
            &New { provider, key, origin: Origin::Added, position, fingerprint: &fingerprint },
        )?,
    };
    let sealed = vault.seal(&place(&id.to_string()), key.secret.expose().as_bytes())?;
    transaction.prepare_cached(SEAL)?.execute(params![signed(id.0), sealed])?;
    Ok(Added::Added(id))
}

struct New<'a> {
    provider: &'a ProviderId,
    key: &'a NewKey,
    origin: Origin,
    position: i64,
    fingerprint: &'a [u8],
}

fn insert(transaction: &Transaction<'_>, new: &New<'_>) -> Result<KeyId, StoreError> {
    let id = next_id(transaction, "key")?;
    transaction.prepare_cached(INSERT)?.execute(params![
        signed(id),
        new.provider.as_str(),
        new.key.label,
        new.key.account.as_ref().map(AccountId::as_str),
        new.origin.as_str(),
        new.position,
        new.key.secret.hint(),
        new.fingerprint,
        millis(Timestamp::now()),
    ])?;
    Ok(KeyId(id))
}

fn find(
    connection: &Connection,
    provider: &ProviderId,
    fingerprint: &[u8],
) -> rusqlite::Result<Option<KeyId>> {
    let mut statement = connection.prepare_cached(BY_FINGERPRINT)?;
    statement.query_row(params![provider.as_str(), fingerprint], |row| count(row, "id").map(KeyId)).optional()
}

fn read(row: &Row<'_>) -> Result<KeyRow, StoreError> {
    let origin: String = row.get("origin")?;
    let test: Option<String> = row.get("test")?;
    Ok(KeyRow {
        id: KeyId(count(row, "id")?),
        provider: ProviderId::from(row.get::<_, String>("provider")?),
        label: row.get("label")?,
        account: row.get::<_, Option<String>>("account")?.map(AccountId::from),
        origin: Origin::parse(&origin).ok_or(StoreError::Unreadable("api_key"))?,
        hint: row.get("hint")?,
        version: count(row, "version")?,
        created_at: moment(row, "created_at")?,
        test: test.as_deref().and_then(|test| serde_json::from_str(test).ok()),
    })
}

fn place(row: &str) -> Place<'_> {
    Place { table: "api_key", row, version: 1 }
}

const ABSENT: &str = "UPDATE api_key SET present = 0 WHERE provider = ?1 AND origin = 'file'";
const BY_FINGERPRINT: &str = "SELECT id FROM api_key WHERE provider = ?1 AND fingerprint = ?2";
const PRESENT_BY_FINGERPRINT: &str =
    "SELECT id FROM api_key WHERE provider = ?1 AND fingerprint = ?2 AND present";
const BY_LABEL: &str = "SELECT id FROM api_key WHERE provider = ?1 AND label = ?2 AND origin = 'file' AND present = 0 ORDER BY id LIMIT 1";
const PRESENT: &str =
    "UPDATE api_key SET present = 1, label = ?2, account = ?3, position = ?4, hint = ?5 WHERE id = ?1";
const IS_PRESENT: &str = "SELECT present FROM api_key WHERE id = ?1";
const INSERT: &str = "INSERT INTO api_key
    (id, provider, label, account, origin, present, position, hint, fingerprint, version, created_at)
    VALUES (?1, ?2, ?3, ?4, ?5, 1, ?6, ?7, ?8, 1, ?9)";
const SEAL: &str = "UPDATE api_key SET sealed = ?2, origin = 'added' WHERE id = ?1";
const LAST_POSITION: &str = "SELECT COALESCE(MAX(position), -1) FROM api_key WHERE provider = ?1";
const LIST: &str = "SELECT * FROM api_key WHERE provider = ?1 AND present = 1 ORDER BY position, id";
const ONE: &str = "SELECT * FROM api_key WHERE id = ?1 AND present = 1";
const SECRET: &str = "SELECT sealed FROM api_key WHERE id = ?1 AND sealed IS NOT NULL AND present = 1";
const SECRETS: &str =
    "SELECT id, sealed FROM api_key WHERE provider = ?1 AND sealed IS NOT NULL AND present = 1";
const EDIT: &str = "UPDATE api_key SET label = ?2, account = ?3, version = ?4 WHERE id = ?1";
const REMOVE: &str = "DELETE FROM api_key WHERE id = ?1";
const MOVE: &str = "UPDATE api_key SET position = ?2 WHERE id = ?1";
const TESTED: &str = "UPDATE api_key SET tested_at = ?2, test = ?3 WHERE id = ?1";
const FORGET: [&str; 3] = [
    "DELETE FROM key_error WHERE key_id = ?1",
    "DELETE FROM key_traffic WHERE key_id = ?1",
    "DELETE FROM key_total WHERE key_id = ?1",
];
