//! The document of a set-up, in TOML or JSON.

use std::{collections::BTreeMap, fmt};

use anyhow::{Context as _, Result, bail};
use backstop_dashboard::{
    actions::secrets::{ClientSecret, KeySecret, SECRET_FIELDS, Secrets},
    sealing::Sealed,
};
use backstop_store::Secret;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A whole set-up.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Document {
    /// The version of this form.
    pub(crate) backstop: u32,
    /// Providers that the configuration file defines, which therefore are not in here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) from_file: Vec<String>,
    /// Settings that were changed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) settings: BTreeMap<String, Value>,
    /// Providers, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) provider: Vec<Provider>,
    /// Virtual providers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) combo: Vec<Combo>,
    /// Client keys.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) client: Vec<Client>,
    /// A user's rule packs: texts by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) rules: BTreeMap<String, String>,
    /// The secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sealed: Option<Sealed>,
}

/// A provider with all that belongs to it.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Provider {
    /// Its id.
    pub(crate) id: String,
    /// Its models in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) models: Vec<String>,
    /// PROVIDER or PROVIDER/MODEL, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) fallbacks: Vec<String>,
    /// Whether it is not asked, if the document says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) paused: Option<bool>,
    /// Whether it is shown first, if the document says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) favorite: Option<bool>,
    /// The fields of its `[[provider]]` table; none for a provider that the file defines.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) definition: BTreeMap<String, Value>,
    /// Fields of the definition that may hold credentials, and so are sealed or left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) secret_fields: Vec<String>,
    /// Its keys in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) key: Vec<Key>,
}

/// A key of a provider.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Key {
    /// What it is called.
    #[serde(default)]
    pub(crate) label: String,
    /// The account that it shares with others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) account: Option<String>,
    /// What may be shown of it.
    #[serde(default)]
    pub(crate) hint: String,
    /// Whether a person took it out of service.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) disabled: bool,
    /// The key itself, while the document is in memory.
    #[serde(skip)]
    pub(crate) secret: Option<Secret>,
}

/// A virtual provider.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Combo {
    /// Its id.
    pub(crate) id: String,
    /// [ALIAS=]PROVIDER/MODEL, in order.
    pub(crate) members: Vec<String>,
}

/// A client key.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Client {
    /// What it is called.
    pub(crate) name: String,
    /// Its first characters.
    #[serde(default)]
    pub(crate) prefix: String,
    /// When it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expires_at: Option<String>,
    /// What it may do.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) limits: BTreeMap<String, Value>,
    /// Its SHA-256 in hexadecimal digits, while the document is in memory.
    #[serde(skip)]
    pub(crate) hash: Option<String>,
}

impl Document {
    /// An empty document of this version.
    pub(crate) fn new() -> Self {
        Self { backstop: VERSION, ..Self::default() }
    }

    /// Reads a document; JSON if it begins with a brace.
    pub(crate) fn read(text: &str) -> Result<Self> {
        let document: Self = if text.trim_start().starts_with('{') {
            serde_json::from_str(text).context("this is no export of Backstop")?
        } else {
            toml::from_str(text).context("this is no export of Backstop")?
        };
        if document.backstop != VERSION {
            bail!("it is of version {}, and this program reads version {VERSION}", document.backstop);
        }
        Ok(document)
    }

    /// Puts the sealed secrets to the keys and client keys that they belong to.
    pub(crate) fn unseal(&mut self, passphrase: &Secret) -> Result<()> {
        let Some(sealed) = &self.sealed else { bail!("there are no secrets in it") };
        let plain = sealed.open(passphrase)?;
        let secrets: Secrets = serde_json::from_slice(&plain).map_err(|_| Unreadable)?;
        for (provider, keys) in secrets.keys {
            let keys = keys.into_iter().map(Key::from);
            match self.provider.iter_mut().find(|known| known.id == provider) {
                Some(known) => known.take_secrets(keys),
                None => {
                    self.provider.push(Provider { id: provider, key: keys.collect(), ..Provider::default() })
                }
            }
        }
        for (id, fields) in secrets.definitions {
            if let Some(known) = self.provider.iter_mut().find(|known| known.id == id) {
                known.definition.extend(fields.0);
            }
        }
        for ClientSecret { name, prefix, hash } in secrets.clients {
            let mut unnamed = self.client.iter_mut().filter(|client| client.hash.is_none());
            if let Some(client) = unnamed.find(|client| client.name == name && client.prefix == prefix) {
                client.hash = Some(hash);
            }
        }
        Ok(())
    }
}

impl Provider {
    /// Takes the fields that may hold credentials out of the definition.
    pub(crate) fn leave_out_secrets(&mut self) {
        let held = SECRET_FIELDS.into_iter().filter(|name| self.definition.remove(*name).is_some());
        self.secret_fields = held.map(str::to_owned).collect();
    }

    /// Puts secrets to the keys that they belong to, by label and hint.
    fn take_secrets(&mut self, keys: impl Iterator<Item = Key>) {
        for key in keys {
            let mut open = self.key.iter_mut().filter(|known| known.secret.is_none());
            match open.find(|known| known.label == key.label && known.hint == key.hint) {
                Some(known) => known.secret = key.secret,
                None => self.key.push(key),
            }
        }
    }
}

impl From<KeySecret> for Key {
    fn from(KeySecret { label, account, key }: KeySecret) -> Self {
        let secret = Secret::new(&key);
        Self { label, account, hint: secret.hint(), disabled: false, secret: Some(secret) }
    }
}

/// The sealed text could be opened, but is of another form. Its content is never told.
#[derive(Debug, thiserror::Error)]
struct Unreadable;

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the secrets in it are of a form that this version does not read")
    }
}

const VERSION: u32 = 1;
