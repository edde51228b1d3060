//! Client keys: who may use the gateway, and how much.

use backstop_triage::Timestamp;
use rand::RngExt as _;
use rusqlite::{OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{
    Pending, Secret, Store, StoreError, hex,
    keys::Origin,
    rows::{count, millis, moment, moment_or_none, now, signed},
    sequence::next_id,
};

/// What a client key may do. An empty list or a missing number sets no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClientLimits {
    /// Providers and combos that it may ask.
    pub providers: Vec<String>,
    /// Models that it may ask.
    pub models: Vec<String>,
    /// Operations that it may use: `generate`, `embeddings` …
    pub routes: Vec<String>,
    /// Requests a minute.
    pub requests_per_minute: Option<u32>,
    /// Tokens a minute.
    pub tokens_per_minute: Option<u64>,
    /// Millionths of a dollar per calendar month (UTC).
    pub spend_micros: Option<u64>,
    /// Whether its requests and answers are kept with the log, sealed.
    pub keep_bodies: bool,
}

/// A client key to make.
#[derive(Clone, Debug, Default)]
pub struct NewClient {
    /// What people call it.
    pub name: String,
    /// What it may do.
    pub limits: ClientLimits,
    /// When it ends.
    pub expires_at: Option<Timestamp>,
}

/// A client key without its secret.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClientRow {
    /// Its id, never given to another.
    pub id: u64,
    /// What people call it.
    pub name: String,
    /// Where it is defined.
    pub origin: Origin,
    /// Its first characters.
    pub prefix: String,
    /// The SHA-256 of it.
    #[serde(skip)]
    pub hash: [u8; 32],
    /// What it may do.
    pub limits: ClientLimits,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it ends.
    pub expires_at: Option<Timestamp>,
    /// Raised by every edit.
    pub version: u64,
}

/// An edit of a client key; what is none stays.
#[derive(Clone, Debug, Default)]
pub struct ClientEdit {
    /// A new name.
    pub name: Option<String>,
    /// New limits.
    pub limits: Option<ClientLimits>,
    /// A new end, or none at all.
    pub expires_at: Option<Option<Timestamp>>,
    /// The version that the edit was made on.
    pub version: Option<u64>,
}

impl Store {
    /// Makes a client key; the secret is returned once and kept nowhere.
    pub fn create_client(&self, new: NewClient) -> Pending<(ClientRow, Secret)> {
        let secret = random_token(CLIENT_PREFIX);
        self.write(move |transaction| {
            let id = next_id(transaction, "client")?;
            let row = ClientRow {
                id,
                name: new.name,
                origin: Origin::Added,
                prefix: secret.expose().chars().take(PREFIX_SHOWN).collect(),
                hash: token_hash(secret.expose()),
                limits: new.limits,
                created_at: now(),
                expires_at: new.expires_at,
                version: 1,
            };
            insert(transaction, &row)?;
            Ok((row, secret))
        })
    }

    /// Takes over a client key that programs have already, of which only the hash is known. One that is there stays
    /// as it is; says whether it is new. One that was revoked stays revoked, and is refused.
    pub fn adopt_client(&self, new: NewClient, prefix: &str, hash: [u8; 32]) -> Pending<(ClientRow, bool)> {
        let prefix = prefix.to_owned();
        self.write(move |transaction| {
            let known = transaction
                .query_row("SELECT * FROM client WHERE hash = ?1", [hash.as_slice()], |row| {
                    Ok((row.get::<_, Option<i64>>("revoked_at")?, read(row)))
                })
                .optional()?;
            if let Some((revoked_at, row)) = known {
                return if revoked_at.is_some() {
                    Err(StoreError::Exists("revoked client key"))
                } else {
                    Ok((row?, false))
                };
            }
            let row = ClientRow {
                id: next_id(transaction, "client")?,
                name: new.name,
                origin: Origin::Added,
                prefix,
                hash,
                limits: new.limits,
                created_at: now(),
                expires_at: new.expires_at,
                version: 1,
            };
            insert(transaction, &row)?;
            Ok((row, true))
        })
    }

    /// Makes the client keys of the file known and returns them in order; others of the file are revoked.
    pub fn provision_clients(&self, clients: Vec<(NewClient, Secret)>) -> Pending<Vec<ClientRow>> {
        self.write(move |transaction| {
            transaction.execute(REVOKE_FILE, [millis(Timestamp::now())])?;
            let mut rows = Vec::with_capacity(clients.len());
            for (new, secret) in clients {
                let hash = token_hash(secret.expose());
                let known = transaction
                    .query_row(BY_HASH, [hash.as_slice()], |row| {
                        Ok((count(row, "id")?, moment(row, "created_at")?, count(row, "version")?))
                    })
                    .optional()?;
                let (id, created_at, version) = match known {
                    Some(known) => known,
                    None => (next_id(transaction, "client")?, now(), 1),
                };
                let row = ClientRow {
                    id,
                    name: new.name,
                    origin: Origin::File,
                    prefix: secret.hint(),
                    hash,
                    limits: new.limits,
                    created_at,
                    expires_at: new.expires_at,
                    version,
                };
                transaction.execute("DELETE FROM client WHERE id = ?1", [signed(id)])?;
                insert(transaction, &row)?;
                rows.push(row);
            }
            Ok(rows)
        })
    }

    /// The client keys that are not revoked, oldest first; ended ones included.
    pub fn clients(&self) -> Result<Vec<ClientRow>, StoreError> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached(LIST)?;
            let rows = statement.query_map([], |row| Ok(read(row)))?;
            rows.map(|row| row?).collect()
        })
    }

    /// Changes a client key; the changed row.
    pub fn edit_client(&self, id: u64, edit: ClientEdit) -> Pending<ClientRow> {
        self.write(move |transaction| {
            let row = transaction.query_row(ONE, [signed(id)], |row| Ok(read(row))).optional()?;
            let mut row = row.transpose()?.ok_or(StoreError::NotFound("client key"))?;
            if edit.version.is_some_and(|version| version != row.version) {
                return Err(StoreError::Changed { what: "client key", current: row.version });
            }
            row.version += 1;
            row.name = edit.name.unwrap_or(row.name);
            row.limits = edit.limits.unwrap_or(row.limits);
            row.expires_at = edit.expires_at.unwrap_or(row.expires_at);
            let expires_at = row.expires_at.map(millis);
            let values =
                params![signed(id), row.name, limits_text(&row.limits)?, expires_at, signed(row.version)];
            transaction.execute(EDIT, values)?;
            Ok(row)
        })
    }

    /// Revokes a client key for good.
    pub fn revoke_client(&self, id: u64) -> Pending<()> {
        self.write(move |transaction| {
            match transaction.execute(REVOKE, params![signed(id), millis(Timestamp::now())])? {
                0 => Err(StoreError::NotFound("client key")),
                _ => Ok(()),
            }
        })
    }
}

/// The form in which random credentials are kept and compared.
pub fn token_hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// A random credential of 256 bits behind a prefix that tells what it is for.
pub fn random_token(prefix: &str) -> Secret {
    let mut rng = rand::rng();
    let random = (0..43).map(|_| char::from(ALPHABET[rng.random_range(0..ALPHABET.len())]));
    Secret::new(&prefix.chars().chain(random).collect::<String>())
}

/// Reads the hash of a token from its 64 hexadecimal digits.
pub fn parse_hash(text: &str) -> Option<[u8; 32]> {
    hex::read(text).map(|hash| *hash)
}

/// The hash of a token as 64 hexadecimal digits.
pub fn hash_text(hash: &[u8; 32]) -> String {
    hex::write(hash).to_string()
}

fn insert(transaction: &rusqlite::Transaction<'_>, row: &ClientRow) -> Result<(), StoreError> {
    transaction.execute(
        INSERT,
        params![
            signed(row.id),
            row.name,
            row.origin.as_str(),
            row.prefix,
            row.hash.as_slice(),
            limits_text(&row.limits)?,
            millis(row.created_at),
            row.expires_at.map(millis),
            signed(row.version),
        ],
    )?;
    Ok(())
}

fn limits_text(limits: &ClientLimits) -> Result<String, StoreError> {
    serde_json::to_string(limits).map_err(|_| StoreError::Unreadable("client"))
}

fn read(row: &Row<'_>) -> Result<ClientRow, StoreError> {
    let unreadable = || StoreError::Unreadable("client");
    let origin: String = row.get("origin")?;
    let hash: Vec<u8> = row.get("hash")?;
    let limits: String = row.get("limits")?;
    Ok(ClientRow {
        id: count(row, "id")?,
        name: row.get("name")?,
        origin: Origin::parse(&origin).ok_or_else(unreadable)?,
        prefix: row.get("prefix")?,
        hash: hash.try_into().map_err(|_| unreadable())?,
        limits: serde_json::from_str(&limits).map_err(|_| unreadable())?,
        created_at: moment(row, "created_at")?,
        expires_at: moment_or_none(row, "expires_at")?,
        version: count(row, "version")?,
    })
}

/// What client keys begin with.
pub const CLIENT_PREFIX: &str = "bsk_";
const PREFIX_SHOWN: usize = 10;
const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

const INSERT: &str =
    "INSERT INTO client (id, name, origin, prefix, hash, limits, created_at, expires_at, version)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
const LIST: &str = "SELECT * FROM client WHERE revoked_at IS NULL ORDER BY id";
const ONE: &str = "SELECT * FROM client WHERE id = ?1 AND revoked_at IS NULL";
const BY_HASH: &str = "SELECT id, created_at, version FROM client WHERE hash = ?1";
const EDIT: &str = "UPDATE client SET name = ?2, limits = ?3, expires_at = ?4, version = ?5 WHERE id = ?1";
const REVOKE: &str = "UPDATE client SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL";
const REVOKE_FILE: &str = "UPDATE client SET revoked_at = ?1 WHERE origin = 'file' AND revoked_at IS NULL";
