//! What is configured at run time: providers, models, fallbacks, combos, settings, rules, sealed values.
//!
//! Specifications are JSON text that the gateway reads and checks; the store keeps them, their order and their
//! versions. An edit that names the version it was made on fails when somebody else was faster.

use backstop_triage::{ModelId, ProviderId, Timestamp};
use rusqlite::{OptionalExtension, Row, Transaction, params};
use serde::Serialize;

use crate::{
    Pending, Secret, Store, StoreError,
    rows::{count, millis, moment, signed},
    sequence::next_id,
    vault::Place,
};

/// A kind of object whose definition is one text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A provider.
    Provider,
    /// A combo.
    Combo,
    /// A user's rule pack, in TOML.
    Rule,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Provider => "provider",
            Self::Combo => "combo",
            Self::Rule => "rule pack",
        }
    }

    const fn sql(self) -> &'static ObjectSql {
        match self {
            Self::Provider => &PROVIDER,
            Self::Combo => &COMBO,
            Self::Rule => &RULE,
        }
    }
}

/// An object that was configured at run time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ObjectRow {
    /// Its id.
    pub id: String,
    /// Its definition.
    pub spec: String,
    /// Raised by every edit.
    pub version: u64,
    /// When it was last changed.
    pub changed_at: Timestamp,
}

/// A model of a provider's list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ModelRow {
    /// The model as the upstream names it.
    pub id: ModelId,
    /// What else is set for it, as JSON.
    pub spec: String,
}

/// One leg of a provider's fallback chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FallbackRow {
    /// Its id.
    pub id: u64,
    /// The provider that is left.
    pub provider: ProviderId,
    /// The provider that is tried.
    pub target_provider: ProviderId,
    /// The model that is asked there; none keeps the request's model.
    pub target_model: Option<ModelId>,
}

/// What people set on a provider beside its definition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Marks {
    /// Not asked until resumed.
    pub paused: bool,
    /// Shown first.
    pub favorite: bool,
}

impl Store {
    /// All objects of a kind, by id.
    pub fn objects(&self, kind: Kind) -> Result<Vec<ObjectRow>, StoreError> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached(kind.sql().all)?;
            let rows = statement.query_map([], read_object)?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// One object.
    pub fn object(&self, kind: Kind, id: &str) -> Result<Option<ObjectRow>, StoreError> {
        self.read(|connection| {
            Ok(connection.prepare_cached(kind.sql().one)?.query_row([id], read_object).optional()?)
        })
    }

    /// Adds an object; fails when the id is taken.
    pub fn add_object(&self, kind: Kind, id: &str, spec: &str) -> Pending<()> {
        let (id, spec) = (id.to_owned(), spec.to_owned());
        self.write(move |transaction| {
            let added = transaction.execute(kind.sql().add, params![id, spec, millis(Timestamp::now())])?;
            if added == 0 { Err(StoreError::Exists(kind.name())) } else { Ok(()) }
        })
    }

    /// Changes an object; its new version.
    pub fn edit_object(&self, kind: Kind, id: &str, spec: &str, version: Option<u64>) -> Pending<u64> {
        let (id, spec) = (id.to_owned(), spec.to_owned());
        self.write(move |transaction| {
            let current = transaction
                .query_row(kind.sql().one, [&id], |row| count(row, "version"))
                .optional()?
                .ok_or(StoreError::NotFound(kind.name()))?;
            if version.is_some_and(|version| version != current) {
                return Err(StoreError::Changed { what: kind.name(), current });
            }
            let values = params![id, spec, signed(current + 1), millis(Timestamp::now())];
            transaction.execute(kind.sql().edit, values)?;
            Ok(current + 1)
        })
    }

    /// Removes an object. A provider takes its keys, models, fallbacks and marks with it.
    pub fn remove_object(&self, kind: Kind, id: &str) -> Pending<()> {
        let id = id.to_owned();
        self.write(move |transaction| {
            if transaction.execute(kind.sql().remove, [&id])? == 0 {
                return Err(StoreError::NotFound(kind.name()));
            }
            match kind {
                Kind::Provider => REMOVE_WITH_PROVIDER
                    .iter()
                    .try_for_each(|sql| transaction.execute(sql, [&id]).map(drop))?,
                Kind::Combo | Kind::Rule => {}
            }
            Ok(())
        })
    }

    /// A provider's models in their order.
    pub fn models(&self, provider: &ProviderId) -> Result<Vec<ModelRow>, StoreError> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached(MODELS)?;
            let rows = statement.query_map([provider.as_str()], |row| {
                Ok(ModelRow { id: ModelId::from(row.get::<_, String>("id")?), spec: row.get("spec")? })
            })?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Sets a provider's whole list of models, in order.
    pub fn set_models(&self, provider: &ProviderId, models: Vec<ModelRow>) -> Pending<()> {
        let provider = provider.clone();
        self.write(move |transaction| {
            transaction.execute("DELETE FROM model WHERE provider = ?1", [provider.as_str()])?;
            for (position, model) in models.iter().enumerate() {
                let position = signed(position as u64);
                let values = params![provider.as_str(), model.id.as_str(), position, model.spec];
                if transaction.prepare_cached(ADD_MODEL)?.execute(values)? == 0 {
                    return Err(StoreError::Exists("model"));
                }
            }
            Ok(())
        })
    }

    /// Every fallback, by provider and order.
    pub fn fallbacks(&self) -> Result<Vec<FallbackRow>, StoreError> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached(FALLBACKS)?;
            let rows = statement.query_map([], |row| {
                Ok(FallbackRow {
                    id: count(row, "id")?,
                    provider: ProviderId::from(row.get::<_, String>("provider")?),
                    target_provider: ProviderId::from(row.get::<_, String>("target_provider")?),
                    target_model: row.get::<_, Option<String>>("target_model")?.map(ModelId::from),
                })
            })?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Sets a provider's whole chain, in order; the ids of its legs.
    pub fn set_fallbacks(
        &self,
        provider: &ProviderId,
        chain: Vec<(ProviderId, Option<ModelId>)>,
    ) -> Pending<Vec<u64>> {
        let provider = provider.clone();
        self.write(move |transaction| {
            transaction.execute("DELETE FROM fallback WHERE provider = ?1", [provider.as_str()])?;
            let mut ids = Vec::with_capacity(chain.len());
            for (position, (target, model)) in chain.iter().enumerate() {
                let id = next_id(transaction, "fallback")?;
                let model = model.as_ref().map(ModelId::as_str);
                let position = signed(position as u64);
                let values = params![signed(id), provider.as_str(), position, target.as_str(), model];
                if transaction.execute(ADD_FALLBACK, values)? == 0 {
                    return Err(StoreError::Exists("fallback"));
                }
                ids.push(id);
            }
            Ok(ids)
        })
    }

    /// What people set on providers, by id; providers without marks are left out.
    pub fn marks(&self) -> Result<Vec<(ProviderId, Marks)>, StoreError> {
        self.read(|connection| {
            let mut statement =
                connection.prepare_cached("SELECT id, paused, favorite FROM provider_mark")?;
            let rows = statement.query_map([], |row| {
                let marks = Marks { paused: row.get("paused")?, favorite: row.get("favorite")? };
                Ok((ProviderId::from(row.get::<_, String>("id")?), marks))
            })?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Sets the marks of a provider.
    pub fn mark(&self, provider: &ProviderId, marks: Marks) -> Pending<()> {
        let provider = provider.clone();
        self.write(move |transaction| {
            transaction.execute(MARK, params![provider.as_str(), marks.paused, marks.favorite])?;
            Ok(())
        })
    }

    /// All settings that were changed, as (name, JSON value).
    pub fn settings(&self) -> Result<Vec<(String, String)>, StoreError> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached("SELECT name, value FROM setting ORDER BY name")?;
            let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Sets settings, or puts those without a value back to their default.
    pub fn set_settings(&self, changes: Vec<(String, Option<String>)>) -> Pending<()> {
        self.write(move |transaction| {
            for (name, value) in changes {
                match value {
                    Some(value) => {
                        transaction.execute(SET, params![name, value, millis(Timestamp::now())])?
                    }
                    None => transaction.execute("DELETE FROM setting WHERE name = ?1", [name])?,
                };
            }
            Ok(())
        })
    }

    /// A sealed value by name, such as a webhook's signing secret.
    pub fn secret_value(&self, name: &str) -> Result<Option<Secret>, StoreError> {
        let sealed: Option<(Vec<u8>, u64)> = self.read(|connection| {
            let mut statement = connection.prepare_cached(SECRET)?;
            let found = statement.query_row([name], |row| Ok((row.get("sealed")?, count(row, "version")?)));
            Ok(found.optional()?)
        })?;
        let open = |(sealed, version): (Vec<u8>, u64)| {
            self.vault().open_secret(&Place { table: "secret_value", row: name, version }, &sealed)
        };
        sealed.map(open).transpose()
    }

    /// Seals a value under a name, in the place of an older one.
    pub fn set_secret_value(&self, name: &str, secret: Secret) -> Pending<()> {
        let vault = self.vault().clone();
        let name = name.to_owned();
        self.write(move |transaction| {
            let version = secret_version(transaction, &name)? + 1;
            let place = Place { table: "secret_value", row: &name, version };
            let sealed = vault.seal(&place, secret.expose().as_bytes())?;
            let now = millis(Timestamp::now());
            transaction.execute(SET_SECRET, params![name, sealed, signed(version), now])?;
            Ok(())
        })
    }
}

fn secret_version(transaction: &Transaction<'_>, name: &str) -> rusqlite::Result<u64> {
    Ok(transaction.query_row(SECRET, [name], |row| count(row, "version")).optional()?.unwrap_or(0))
}

fn read_object(row: &Row<'_>) -> rusqlite::Result<ObjectRow> {
    Ok(ObjectRow {
        id: row.get("id")?,
        spec: row.get("spec")?,
        version: count(row, "version")?,
        changed_at: moment(row, "changed_at")?,
    })
}

struct ObjectSql {
    all: &'static str,
    one: &'static str,
    add: &'static str,
    edit: &'static str,
    remove: &'static str,
}

const PROVIDER: ObjectSql = ObjectSql {
    all: "SELECT id, spec, version, changed_at FROM provider ORDER BY id",
    one: "SELECT id, spec, version, changed_at FROM provider WHERE id = ?1",
    add: "INSERT INTO provider (id, spec, version, created_at, changed_at) VALUES (?1, ?2, 1, ?3, ?3)
        ON CONFLICT (id) DO NOTHING",
    edit: "UPDATE provider SET spec = ?2, version = ?3, changed_at = ?4 WHERE id = ?1",
    remove: "DELETE FROM provider WHERE id = ?1",
};
const COMBO: ObjectSql = ObjectSql {
    all: "SELECT id, spec, version, changed_at FROM combo ORDER BY id",
    one: "SELECT id, spec, version, changed_at FROM combo WHERE id = ?1",
    add: "INSERT INTO combo (id, spec, version, created_at, changed_at) VALUES (?1, ?2, 1, ?3, ?3)
        ON CONFLICT (id) DO NOTHING",
    edit: "UPDATE combo SET spec = ?2, version = ?3, changed_at = ?4 WHERE id = ?1",
    remove: "DELETE FROM combo WHERE id = ?1",
};
const RULE: ObjectSql = ObjectSql {
    all: "SELECT name AS id, toml AS spec, version, changed_at FROM user_rule ORDER BY name",
    one: "SELECT name AS id, toml AS spec, version, changed_at FROM user_rule WHERE name = ?1",
    add: "INSERT INTO user_rule (name, toml, version, changed_at) VALUES (?1, ?2, 1, ?3)
        ON CONFLICT (name) DO NOTHING",
    edit: "UPDATE user_rule SET toml = ?2, version = ?3, changed_at = ?4 WHERE name = ?1",
    remove: "DELETE FROM user_rule WHERE name = ?1",
};
const REMOVE_WITH_PROVIDER: [&str; 7] = [
    "DELETE FROM key_error WHERE key_id IN (SELECT id FROM api_key WHERE provider = ?1)",
    "DELETE FROM key_traffic WHERE key_id IN (SELECT id FROM api_key WHERE provider = ?1)",
    "DELETE FROM key_total WHERE key_id IN (SELECT id FROM api_key WHERE provider = ?1)",
    "DELETE FROM api_key WHERE provider = ?1",
    "DELETE FROM model WHERE provider = ?1",
    "DELETE FROM fallback WHERE provider = ?1 OR target_provider = ?1",
    "DELETE FROM provider_mark WHERE id = ?1",
];
const MODELS: &str = "SELECT id, spec FROM model WHERE provider = ?1 ORDER BY position";
const ADD_MODEL: &str = "INSERT INTO model (provider, id, position, spec) VALUES (?1, ?2, ?3, ?4) ON CONFLICT (provider, id) DO NOTHING";
const FALLBACKS: &str =
    "SELECT id, provider, target_provider, target_model FROM fallback ORDER BY provider, position";
const ADD_FALLBACK: &str = "INSERT INTO fallback (id, provider, position, target_provider, target_model)
    VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (provider, target_provider, target_model) DO NOTHING";
const MARK: &str = "INSERT INTO provider_mark (id, paused, favorite) VALUES (?1, ?2, ?3)
    ON CONFLICT (id) DO UPDATE SET paused = excluded.paused, favorite = excluded.favorite";
const SET: &str = "INSERT INTO setting (name, value, changed_at) VALUES (?1, ?2, ?3)
    ON CONFLICT (name) DO UPDATE SET value = excluded.value, changed_at = excluded.changed_at";
const SECRET: &str = "SELECT sealed, version FROM secret_value WHERE name = ?1";
const SET_SECRET: &str =
    "INSERT INTO secret_value (name, sealed, version, changed_at) VALUES (?1, ?2, ?3, ?4)
    ON CONFLICT (name) DO UPDATE SET sealed = excluded.sealed, version = excluded.version,
    changed_at = excluded.changed_at";
