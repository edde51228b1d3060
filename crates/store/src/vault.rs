//! Seals secrets at rest.
//!
//! ```text
//! key file (0600), credential, passphrase --wraps--> data key (in the database) --HMAC--> sealing key, fingerprint key
//! ```
//!
//! A passphrase becomes a key by argon2id, with a salt that lies before what the key wraps.
//!
//! What is sealed is bound to its table, row and version, so that moving a sealed value elsewhere makes it
//! unreadable. A value that cannot be opened locks that one key and nothing else; a missing or foreign key file
//! locks all secrets, while everything else goes on.

use std::sync::Arc;

use chacha20poly1305::{
    KeyInit as _, XChaCha20Poly1305, XNonce,
    aead::{Aead, Payload},
};
use hmac::{Hmac, Mac};
use parking_lot::RwLock;
use rusqlite::{Connection, params};
use sha2::Sha256;
use zeroize::{Zeroize, Zeroizing};

use crate::{
    OpenError, Pending, Secret, Store, StoreError,
    folder::{Folder, KeyBytes, KeySource, Opener},
    requests::Bodies,
    rows::millis,
};

/// The keys that seal, or why there are none.
#[derive(Clone)]
pub(crate) struct Vault {
    keys: Arc<RwLock<Result<Keys, String>>>,
}

struct Keys {
    data: KeyBytes,
    cipher: XChaCha20Poly1305,
    fingerprint: KeyBytes,
}

impl Vault {
    /// Unwraps the data key, or makes one for a new database.
    pub(crate) fn open(
        connection: &mut Connection,
        folder: &Folder,
        source: &KeySource,
    ) -> Result<Self, OpenError> {
        let fault = |source| folder.fault(source);
        let wrapped = load_wrapped(connection).map_err(fault)?;
        let keys = if wrapped.is_empty() {
            // Nothing has been sealed yet, so that nothing is lost by a key that cannot be had: a person mends it.
            let opener = if *source == KeySource::Folder && !folder.has_key() {
                folder.make_key()?
            } else {
                folder.opener(source)?
            };
            let data: KeyBytes = Zeroizing::new(rand::random());
            let sealed = opener.wrap(&data);
            connection.execute(SAVE, params![1, sealed, millis(jiff::Timestamp::now())]).map_err(fault)?;
            Ok(Keys::derive(data))
        } else {
            match folder.opener(source) {
                Err(error) => Err(error.to_string()),
                Ok(opener) => {
                    let data = wrapped.iter().find_map(|wrapped| opener.unwrap(wrapped));
                    data.map(Keys::derive).ok_or_else(|| FOREIGN.to_owned())
                }
            }
        };
        if let Err(reason) = &keys {
            tracing::warn!(reason, "stored secrets are locked");
        }
        Ok(Self { keys: Arc::new(RwLock::new(keys)) })
    }

    /// Why secrets are locked; none when they are not.
    pub(crate) fn locked(&self) -> Option<String> {
        self.keys.read().as_ref().err().cloned()
    }

    /// Seals a value for one place.
    pub(crate) fn seal(&self, place: &Place<'_>, value: &[u8]) -> Result<Vec<u8>, StoreError> {
        let keys = self.keys.read();
        let keys = keys.as_ref().map_err(|reason| StoreError::Locked(reason.clone()))?;
        Ok(encrypt(&keys.cipher, &place.text(), value))
    }

    /// Opens a value that was sealed for this place.
    pub(crate) fn open_sealed(
        &self,
        place: &Place<'_>,
        sealed: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, StoreError> {
        let keys = self.keys.read();
        let keys = keys.as_ref().map_err(|reason| StoreError::Locked(reason.clone()))?;
        decrypt(&keys.cipher, &place.text(), sealed)
            .ok_or_else(|| StoreError::Locked("it was not sealed for this row by this key file".into()))
    }

    /// Opens a sealed text.
    pub(crate) fn open_secret(&self, place: &Place<'_>, sealed: &[u8]) -> Result<Secret, StoreError> {
        let bytes = self.open_sealed(place, sealed)?;
        let text = std::str::from_utf8(&bytes).map_err(|_| StoreError::Locked("it is not text".into()))?;
        Ok(Secret::new(text))
    }

    /// What two equal secrets have in common, and what tells nothing about either.
    pub(crate) fn fingerprint(&self, secret: &Secret) -> Result<Vec<u8>, StoreError> {
        let keys = self.keys.read();
        let keys = keys.as_ref().map_err(|reason| StoreError::Locked(reason.clone()))?;
        Ok(hmac(&keys.fingerprint, secret.expose().as_bytes()).to_vec())
    }

    pub(crate) fn seal_bodies(&self, request: &str, bodies: &Bodies) -> Result<Vec<u8>, StoreError> {
        let mut plain = Zeroizing::new(Vec::with_capacity(8 + bodies.request.len() + bodies.answer.len()));
        plain.extend_from_slice(&(bodies.request.len() as u64).to_le_bytes());
        plain.extend_from_slice(&bodies.request);
        plain.extend_from_slice(&bodies.answer);
        self.seal(&Place { table: "request_body", row: request, version: 1 }, &plain)
    }

    pub(crate) fn open_bodies(&self, request: &str, sealed: &[u8]) -> Result<Bodies, StoreError> {
        let plain = self.open_sealed(&Place { table: "request_body", row: request, version: 1 }, sealed)?;
        let unreadable = || StoreError::Unreadable("request_body");
        let (length, rest) = plain.split_first_chunk::<8>().ok_or_else(unreadable)?;
        let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| unreadable())?;
        let (asked, answered) = rest.split_at_checked(length).ok_or_else(unreadable)?;
        Ok(Bodies::new(asked.to_vec(), answered.to_vec()))
    }
}

impl Store {
    /// Wraps the data key anew: with a new key file in the data folder, or with what another source holds. Secrets
    /// stay as they are sealed; what opened them before opens nothing any more.
    ///
    /// The old key goes only when the new wrapping is on the disk and its source, read again, opens it; until then
    /// the database holds both wrappings, so that no crash locks anything.
    pub fn rekey(&self, to: &KeySource) -> Pending<()> {
        let (sender, pending) = Pending::new();
        let (store, to) = (self.clone(), to.clone());
        let new = self.new_key(&to);
        let finish = move || new.and_then(|(source, opener)| store.change_key(&to, &source, opener));
        let spawned =
            std::thread::Builder::new().name("rekey".into()).spawn(move || drop(sender.send(finish())));
        if let Err(error) = spawned {
            tracing::warn!(%error, "the new key file could not be made");
        }
        pending
    }

    /// Reads the new key, or makes one beside the folder's own; with it, where it lies.
    fn new_key(&self, to: &KeySource) -> Result<(KeySource, Opener), StoreError> {
        let folder = &self.inner.folder;
        let source = match to {
            KeySource::Folder => KeySource::File(folder.write_new_key().map_err(|error| failing(&error))?),
            KeySource::File(file) | KeySource::Passphrase(file) if folder.is_own_key(file) => {
                return Err(StoreError::KeyInForce);
            }
            KeySource::File(_) | KeySource::Passphrase(_) => to.clone(),
        };
        let opener = folder.opener(&source).map_err(|error| StoreError::Locked(error.to_string()))?;
        Ok((source, opener))
    }

    fn change_key(&self, to: &KeySource, source: &KeySource, opener: Opener) -> Result<(), StoreError> {
        let folder = &self.inner.folder;
        let number = self.add_wrapping(opener).wait()?;
        if let Err(reason) = self.open_again(source, number) {
            self.remove_wrappings(TAKE_BACK, number).wait()?;
            return Err(reason);
        }
        match to {
            KeySource::Folder => {
                folder.place_new_key().map_err(|error| failing(&error))?;
                self.remove_wrappings(FORGET, number).wait()
            }
            KeySource::File(_) | KeySource::Passphrase(_) => {
                self.remove_wrappings(FORGET, number).wait()?;
                folder.remove_key().map_err(|error| failing(&error))
            }
        }
    }

    /// Adds a wrapping beside those that are there; on the disk when its number is told.
    fn add_wrapping(&self, opener: Opener) -> Pending<i64> {
        let vault = self.vault().clone();
        self.inner.queue.durable_operation(move |transaction| {
            let keys = vault.keys.read();
            let keys = keys.as_ref().map_err(|reason| StoreError::Locked(reason.clone()))?;
            let number: i64 = transaction.query_row(NEXT, [], |row| row.get(0))?;
            let now = millis(jiff::Timestamp::now());
            transaction.execute(SAVE, params![number, opener.wrap(&keys.data), now])?;
            Ok(number)
        })
    }

    /// Opens a wrapping as the next start will: from the file, with what the source holds.
    fn open_again(&self, source: &KeySource, number: i64) -> Result<(), StoreError> {
        let opener =
            self.inner.folder.opener(source).map_err(|error| StoreError::Locked(error.to_string()))?;
        let wrapped: Vec<u8> =
            self.read(|connection| Ok(connection.query_row(WRAPPED, [number], |row| row.get(0))?))?;
        let keys = self.vault().keys.read();
        let keys = keys.as_ref().map_err(|reason| StoreError::Locked(reason.clone()))?;
        let is_whole = opener.unwrap(&wrapped).is_some_and(|data| data == keys.data);
        if is_whole { Ok(()) } else { Err(StoreError::Locked(FICKLE.to_owned())) }
    }

    fn remove_wrappings(&self, which: &'static str, number: i64) -> Pending<()> {
        self.write(move |transaction| {
            transaction.execute(which, [number])?;
            Ok(())
        })
    }
}

fn failing(error: &std::io::Error) -> StoreError {
    StoreError::Failing(error.to_string())
}

/// Where a sealed value belongs; part of what authenticates it.
pub(crate) struct Place<'a> {
    pub(crate) table: &'a str,
    pub(crate) row: &'a str,
    pub(crate) version: u64,
}

impl Place<'_> {
    fn text(&self) -> String {
        format!("{}|{}|{}", self.table, self.row, self.version)
    }
}

impl Keys {
    fn derive(data: KeyBytes) -> Self {
        let mut sealing = hmac(&data, b"backstop sealing key");
        let cipher = XChaCha20Poly1305::new(&sealing.into());
        sealing.zeroize();
        let fingerprint = Zeroizing::new(hmac(&data, b"backstop fingerprint key"));
        Self { data, cipher, fingerprint }
    }
}

fn hmac(key: &KeyBytes, message: &[u8]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key.as_slice()).expect("HMAC takes keys of any length");
    mac.update(message);
    mac.finalize().into_bytes().into()
}

impl Opener {
    fn wrap(&self, data: &KeyBytes) -> Vec<u8> {
        match self {
            Self::Key(key) => wrap(key, data),
            Self::Passphrase(passphrase) => {
                let salt: [u8; SALT] = rand::random();
                let key = derive(passphrase, &salt).expect("argon2 takes a salt of this length");
                [salt.as_slice(), &wrap(&key, data)].concat()
            }
        }
    }

    fn unwrap(&self, wrapped: &[u8]) -> Option<KeyBytes> {
        match self {
            Self::Key(key) => unwrap(key, wrapped),
            Self::Passphrase(passphrase) => {
                let (salt, wrapped) = wrapped.split_first_chunk::<SALT>()?;
                unwrap(&derive(passphrase, salt)?, wrapped)
            }
        }
    }
}

fn derive(passphrase: &Secret, salt: &[u8; SALT]) -> Option<KeyBytes> {
    let mut key: KeyBytes = Zeroizing::new([0; 32]);
    let argon = argon2::Argon2::default();
    argon.hash_password_into(passphrase.expose().as_bytes(), salt, key.as_mut_slice()).ok()?;
    Some(key)
}

fn wrap(key: &KeyBytes, data: &KeyBytes) -> Vec<u8> {
    encrypt(&XChaCha20Poly1305::new(&(**key).into()), WRAP, data.as_slice())
}

fn unwrap(key: &KeyBytes, wrapped: &[u8]) -> Option<KeyBytes> {
    let data = decrypt(&XChaCha20Poly1305::new(&(**key).into()), WRAP, wrapped)?;
    Some(Zeroizing::new(data.as_slice().try_into().ok()?))
}

fn encrypt(cipher: &XChaCha20Poly1305, place: &str, value: &[u8]) -> Vec<u8> {
    let nonce: [u8; NONCE] = rand::random();
    let payload = Payload { msg: value, aad: place.as_bytes() };
    let sealed = cipher.encrypt(&XNonce::from(nonce), payload).expect("sealing in memory cannot fail");
    [nonce.as_slice(), &sealed].concat()
}

fn decrypt(cipher: &XChaCha20Poly1305, place: &str, sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let (nonce, sealed) = sealed.split_first_chunk::<NONCE>()?;
    let payload = Payload { msg: sealed, aad: place.as_bytes() };
    cipher.decrypt(&XNonce::from(*nonce), payload).ok().map(Zeroizing::new)
}

fn load_wrapped(connection: &Connection) -> rusqlite::Result<Vec<Vec<u8>>> {
    let mut statement = connection.prepare("SELECT wrapped FROM vault ORDER BY id DESC")?;
    let rows = statement.query_map([], |row| row.get(0))?;
    rows.collect()
}

const NONCE: usize = 24;
const SALT: usize = 16;
const FOREIGN: &str = "the key file or passphrase is not the one that sealed them; restore it from a backup, or name the right one";
const WRAP: &str = "vault|data key";
const SAVE: &str = "INSERT INTO vault (id, wrapped, created_at) VALUES (?1, ?2, ?3)";
const NEXT: &str = "SELECT MAX(id) + 1 FROM vault";
const WRAPPED: &str = "SELECT wrapped FROM vault WHERE id = ?1";
const TAKE_BACK: &str = "DELETE FROM vault WHERE id = ?1";
const FICKLE: &str =
    "the new key, read a second time, does not open what it sealed; name a file that stays as it is";
const FORGET: &str = "DELETE FROM vault WHERE id < ?1";
