//! Secrets that travel: sealed by a passphrase, for an export that may lie anywhere.
//!
//! ```text
//! passphrase --argon2id (salt, memory, passes)--> key --XChaCha20-Poly1305 (nonce; the parameters authenticated)--> data
//! ```
//!
//! The parameters travel with the data, so that they can be raised without making older exports unreadable.

use argon2::{Algorithm, Argon2, Params, Version};
use backstop_store::Secret;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use chacha20poly1305::{
    KeyInit as _, XChaCha20Poly1305, XNonce,
    aead::{Aead, Payload},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use zeroize::Zeroizing;

/// Sealed data with what is needed, beside the passphrase, to open it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Sealed {
    /// How it is sealed: `argon2id+xchacha20-poly1305`.
    pub method: String,
    /// Memory that a guess costs, in KiB.
    pub memory_kib: u32,
    /// Passes over that memory.
    pub passes: u32,
    /// Salt of the passphrase, in base64.
    pub salt: String,
    /// Nonce, in base64.
    pub nonce: String,
    /// The sealed data, in base64.
    pub data: String,
}

/// Why data cannot be sealed or opened.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// It could be guessed.
    #[error("the passphrase needs at least {SHORTEST} characters")]
    TooShort,
    /// A newer program, or somebody else, sealed it.
    #[error("it is not sealed in a way that this version opens")]
    UnknownMethod,
    /// Opening it would take more memory than anybody has for it.
    #[error("it asks for more memory than is sensible")]
    TooCostly,
    /// The passphrase is another one, or the data was changed.
    #[error("the passphrase is not the one that sealed it, or it was changed since")]
    WrongPassphrase,
    /// There is no memory for it.
    #[error("there is not enough memory to use the passphrase")]
    NoMemory,
}

impl Sealed {
    /// Seals data with a passphrase. Takes a second and 64 MiB.
    pub fn new(plain: &[u8], passphrase: &Secret) -> Result<Self, SealError> {
        if passphrase.expose().chars().count() < SHORTEST {
            return Err(SealError::TooShort);
        }
        let (salt, nonce): ([u8; 16], [u8; 24]) = (rand::random(), rand::random());
        let mut sealed = Self {
            method: METHOD.to_owned(),
            memory_kib: MEMORY_KIB,
            passes: PASSES,
            salt: STANDARD.encode(salt),
            nonce: STANDARD.encode(nonce),
            data: String::new(),
        };
        let key = sealed.key(passphrase, &salt)?;
        let payload = Payload { msg: plain, aad: &sealed.parameters() };
        let cipher = XChaCha20Poly1305::new((&*key).into());
        let data = cipher.encrypt(&XNonce::from(nonce), payload).map_err(|_| SealError::NoMemory)?;
        sealed.data = STANDARD.encode(data);
        Ok(sealed)
    }

    /// Opens it with the passphrase that sealed it.
    pub fn open(&self, passphrase: &Secret) -> Result<Zeroizing<Vec<u8>>, SealError> {
        if self.method != METHOD {
            return Err(SealError::UnknownMethod);
        }
        if self.memory_kib > MOST_MEMORY_KIB || self.passes > MOST_PASSES {
            return Err(SealError::TooCostly);
        }
        let bytes = |text: &str| STANDARD.decode(text).map_err(|_| SealError::WrongPassphrase);
        let (salt, nonce, data) = (bytes(&self.salt)?, bytes(&self.nonce)?, bytes(&self.data)?);
        let nonce: [u8; 24] = nonce.try_into().map_err(|_| SealError::WrongPassphrase)?;
        let key = self.key(passphrase, &salt)?;
        let payload = Payload { msg: &data, aad: &self.parameters() };
        let cipher = XChaCha20Poly1305::new((&*key).into());
        let plain = cipher.decrypt(&XNonce::from(nonce), payload);
        plain.map(Zeroizing::new).map_err(|_| SealError::WrongPassphrase)
    }

    fn key(&self, passphrase: &Secret, salt: &[u8]) -> Result<Zeroizing<[u8; 32]>, SealError> {
        let parameters = Params::new(self.memory_kib, self.passes, LANES, Some(32));
        let parameters = parameters.map_err(|_| SealError::UnknownMethod)?;
        let mut key = Zeroizing::new([0; 32]);
        let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, parameters);
        argon2
            .hash_password_into(passphrase.expose().as_bytes(), salt, key.as_mut())
            .map_err(|_| SealError::NoMemory)?;
        Ok(key)
    }

    /// What is authenticated beside the data.
    fn parameters(&self) -> Vec<u8> {
        format!("backstop export|{}|{}|{}|{}", self.method, self.memory_kib, self.passes, self.salt)
            .into_bytes()
    }
}

const METHOD: &str = "argon2id+xchacha20-poly1305";
const MEMORY_KIB: u32 = 64 * 1024;
const PASSES: u32 = 3;
const LANES: u32 = 1;
const MOST_MEMORY_KIB: u32 = 1024 * 1024;
const MOST_PASSES: u32 = 16;
/// The shortest passphrase that is taken.
pub const SHORTEST: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed() -> Sealed {
        Sealed::new(b"the keys", &Secret::new("a long enough phrase")).unwrap()
    }

    #[test]
    fn only_the_passphrase_opens_what_it_sealed() {
        let sealed = sealed();
        assert_eq!(sealed.open(&Secret::new("a long enough phrase")).unwrap().as_slice(), b"the keys");
        let other = sealed.open(&Secret::new("another long phrase")).unwrap_err();
        assert!(matches!(other, SealError::WrongPassphrase));
        assert!(matches!(Sealed::new(b"", &Secret::new("short")), Err(SealError::TooShort)));
    }

    #[test]
    fn what_was_changed_or_costs_too_much_is_refused() {
        let phrase = Secret::new("a long enough phrase");
        let sealed = sealed();
        let weaker = Sealed { passes: 1, ..sealed.clone() };
        assert!(matches!(weaker.open(&phrase), Err(SealError::WrongPassphrase)));
        let costly = Sealed { memory_kib: u32::MAX, ..sealed.clone() };
        assert!(matches!(costly.open(&phrase), Err(SealError::TooCostly)));
        let foreign = Sealed { method: "rot13".to_owned(), ..sealed.clone() };
        assert!(matches!(foreign.open(&phrase), Err(SealError::UnknownMethod)));
        for broken in ["", "!", "AAAA"] {
            let broken = Sealed { nonce: broken.to_owned(), ..sealed.clone() };
            assert!(broken.open(&phrase).is_err());
        }
    }
}
