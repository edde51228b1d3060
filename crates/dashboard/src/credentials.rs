//! Who may administer: a token for scripts, a password and one-time links for people.
//!
//! The token is made on the first start; its hash is in the store, and the token itself in a file of mode 0600
//! beside it, for the command line of the same user. Passwords are hashed with argon2id, two at a time at most, so
//! that signing in can exhaust neither processor nor memory. A password that the configuration names a file for comes
//! from there and from nowhere else.

use std::{
    collections::{HashMap, VecDeque},
    fs::{self, OpenOptions},
    io::{self, Write as _},
    net::IpAddr,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use argon2::{
    Argon2,
    password_hash::{PasswordHasher as _, PasswordVerifier as _},
};
use backstop_store::{
    Secret, Store, StoreError,
    clients::{hash_text, parse_hash, random_token, token_hash},
};
use backstop_triage::Timestamp;
use parking_lot::Mutex;
use subtle::ConstantTimeEq as _;
use tokio::sync::Semaphore;

use crate::problem::{Answer, Problem};

/// The credentials of administrators.
pub(crate) struct Credentials {
    store: Store,
    hashing: Semaphore,
    tries: Mutex<Tries>,
    link_tries: Mutex<Tries>,
    links: Mutex<HashMap<[u8; 32], Timestamp>>,
}

impl Credentials {
    pub(crate) fn new(store: Store) -> Self {
        Self {
            store,
            hashing: Semaphore::new(2),
            tries: Mutex::default(),
            link_tries: Mutex::default(),
            links: Mutex::default(),
        }
    }

    /// Whether a password has been set.
    pub(crate) fn has_password(&self) -> bool {
        self.setting(PASSWORD).is_some()
    }

    /// Signs in with the password; the session's token.
    pub(crate) async fn sign_in(
        &self,
        password: Secret,
        peer: Option<IpAddr>,
        agent: &str,
        now: Timestamp,
    ) -> Answer<Secret> {
        self.tries.lock().admit(peer, now)?;
        if !self.verify(password).await {
            return Err(Problem::wrong_credentials());
        }
        Ok(self.store.begin_session(agent, now).await?)
    }

    /// Sets the password and ends all sessions.
    pub(crate) async fn set_password(&self, password: Secret) -> Answer<()> {
        if self.setting(ORIGIN).is_some() {
            return Err(Problem::from_the_file("the admin password"));
        }
        if is_short(&password) {
            let detail = format!("the password needs at least {SHORTEST} characters");
            return Err(Problem::invalid_field("password", detail));
        }
        let hashed = self.hash(password).await?;
        self.store.set_settings(vec![(PASSWORD.to_owned(), Some(hashed))]).await?;
        Ok(self.store.end_sessions(None).await?)
    }

    /// Makes a link token that signs in once within ten minutes.
    pub(crate) fn make_link(&self, now: Timestamp) -> Secret {
        let token = random_token("");
        let mut links = self.links.lock();
        links.retain(|_, until| *until > now);
        if links.len() < MOST_LINKS {
            links.insert(token_hash(token.expose()), now.saturating_add(LINK_LIFE).unwrap_or(Timestamp::MAX));
        }
        token
    }

    /// Uses a link token up; the session's token.
    pub(crate) async fn use_link(
        &self,
        token: &str,
        peer: Option<IpAddr>,
        agent: &str,
        now: Timestamp,
    ) -> Answer<Secret> {
        self.link_tries.lock().admit(peer, now)?;
        let until = self.links.lock().remove(&token_hash(token));
        if until.is_none_or(|until| until <= now) {
            return Err(Problem::wrong_credentials());
        }
        Ok(self.store.begin_session(agent, now).await?)
    }

    async fn verify(&self, password: Secret) -> bool {
        // Without a password the same work is done, so that the time tells nothing.
        let known = self.setting(PASSWORD);
        let exists = known.is_some();
        let hashed = known.unwrap_or_else(|| NO_PASSWORD.to_owned());
        let Ok(_turn) = self.hashing.acquire().await else { return false };
        let verified = tokio::task::spawn_blocking(move || is_password(&password, &hashed)).await;
        verified.unwrap_or(false) && exists
    }

    async fn hash(&self, password: Secret) -> Answer<String> {
        let failed = || Problem::broken("the password could not be hashed");
        let _turn = self.hashing.acquire().await.map_err(|_| failed())?;
        let hashed = tokio::task::spawn_blocking(move || hash(&password)).await;
        hashed.ok().flatten().ok_or_else(failed)
    }

    fn setting(&self, name: &str) -> Option<String> {
        setting(&self.store, name).ok().flatten()
    }
}

/// Why the file of the admin password cannot be used. Every message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum PasswordError {
    /// The file cannot be read.
    #[error("cannot read the admin password from {path}: {source}; let this user read it", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// What it holds is too short, or nothing.
    #[error("the admin password in {path} is shorter than {SHORTEST} characters; write a longer one into it", path = path.display())]
    Short {
        /// The file.
        path: PathBuf,
    },
    /// The password cannot be hashed.
    #[error("the admin password cannot be hashed")]
    Hash,
    /// It cannot be kept.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl PasswordError {
    /// Whether trying again cannot help until a person has changed something.
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::File { .. } | Self::Short { .. } => true,
            Self::Hash | Self::Store(_) => false,
        }
    }
}

/// Takes the admin password over from its file, if there is one; whether there is a password then. Blocks.
///
/// # Errors
/// When the file cannot be read or holds too short a password; the password stays as it was.
pub fn prepare_password(store: &Store, file: Option<&Path>) -> Result<bool, PasswordError> {
    let known = setting(store, PASSWORD)?;
    let Some(path) = file else {
        if setting(store, ORIGIN)?.is_some() {
            store.set_settings(vec![(ORIGIN.to_owned(), None)]).wait()?;
        }
        return Ok(known.is_some());
    };
    let text = fs::read_to_string(path)
        .map(zeroize::Zeroizing::new)
        .map_err(|source| PasswordError::File { path: path.to_owned(), source })?;
    let password = Secret::new(&text);
    if is_short(&password) {
        return Err(PasswordError::Short { path: path.to_owned() });
    }
    if setting(store, ORIGIN)?.is_none() {
        store.set_settings(vec![(ORIGIN.to_owned(), Some("file".to_owned()))]).wait()?;
    }
    if !known.is_some_and(|known| is_password(&password, &known)) {
        let hashed = hash(&password).ok_or(PasswordError::Hash)?;
        store.set_settings(vec![(PASSWORD.to_owned(), Some(hashed))]).wait()?;
        store.end_sessions(None).wait()?;
    }
    Ok(true)
}

/// Makes the admin token if there is none; returns it only when it is new.
pub fn prepare_token(store: &Store) -> Result<Option<Secret>, StoreError> {
    if store.settings()?.iter().any(|(name, _)| name == TOKEN) {
        return Ok(None);
    }
    let token = random_token("bsa_");
    let hash = hash_text(&token_hash(token.expose()));
    write_token(&token_file(store.data_dir()), &token)
        .map_err(|error| StoreError::Failing(format!("the admin token cannot be written: {error}")))?;
    store.set_settings(vec![(TOKEN.to_owned(), Some(hash))]).wait()?;
    Ok(Some(token))
}

/// Whether this is the admin token.
pub(crate) fn is_token(store: &Store, token: &str) -> bool {
    let known = setting(store, TOKEN).ok().flatten().and_then(|text| parse_hash(&text));
    known.is_some_and(|known| known.ct_eq(&token_hash(token)).into())
}

/// Where the command line finds the admin token.
pub fn token_file(data_dir: &Path) -> PathBuf {
    data_dir.join("admin.token")
}

/// Whether a setting of the store holds a credential, and so is no setting for people.
pub(crate) fn is_credential(name: &str) -> bool {
    name.starts_with("admin.")
}

fn setting(store: &Store, name: &str) -> Result<Option<String>, StoreError> {
    Ok(store.settings()?.into_iter().find(|(known, _)| known == name).map(|(_, value)| value))
}

fn is_short(password: &Secret) -> bool {
    password.expose().chars().count() < SHORTEST
}

fn is_password(password: &Secret, hashed: &str) -> bool {
    Argon2::default().verify_password(password.expose().as_bytes(), hashed).is_ok()
}

fn hash(password: &Secret) -> Option<String> {
    Argon2::default().hash_password(password.expose().as_bytes()).ok().map(|hash| hash.to_string())
}

fn write_token(path: &Path, token: &Secret) -> io::Result<()> {
    let mut file = OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(path)?;
    writeln!(file, "{}", token.expose())?;
    file.sync_all()
}

/// Tries to sign in during the last minute.
#[derive(Default)]
struct Tries {
    all: VecDeque<(Timestamp, Option<IpAddr>)>,
}

impl Tries {
    fn admit(&mut self, peer: Option<IpAddr>, now: Timestamp) -> Answer<()> {
        let minute_ago = now.saturating_sub(MINUTE).unwrap_or(Timestamp::MIN);
        while self.all.front().is_some_and(|(at, _)| *at <= minute_ago) {
            self.all.pop_front();
        }
        let own = self.all.iter().filter(|(_, who)| *who == peer).count();
        if own >= PER_PEER || self.all.len() >= PER_ALL {
            // Who is over its own limit waits for its own oldest try, the others for the oldest of all.
            let counted = |(_, who): &&(Timestamp, Option<IpAddr>)| own < PER_PEER || *who == peer;
            let oldest = self.all.iter().find(counted).map_or(now, |(at, _)| *at);
            let left = 60 - now.duration_since(oldest).as_secs().clamp(0, 59);
            return Err(Problem::too_many(u32::try_from(left).unwrap_or(60)));
        }
        self.all.push_back((now, peer));
        Ok(())
    }
}

const TOKEN: &str = "admin.token_hash";
const PASSWORD: &str = "admin.password_hash";
/// Set while the password is that of a file.
const ORIGIN: &str = "admin.password_origin";
/// A hash that no password has.
const NO_PASSWORD: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$YmFja3N0b3Bub3NhbHQ$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
const SHORTEST: usize = 10;
const LINK_LIFE: Duration = Duration::from_secs(600);
const MOST_LINKS: usize = 100;
const MINUTE: Duration = Duration::from_secs(60);
const PER_PEER: usize = 5;
const PER_ALL: usize = 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_tries_a_minute_and_thirty_from_everywhere() {
        let mut tries = Tries::default();
        let now = Timestamp::UNIX_EPOCH;
        let peer = |last: u8| Some(IpAddr::from([127, 0, 0, last]));
        for _ in 0..5 {
            assert!(tries.admit(peer(1), now).is_ok());
        }
        assert!(tries.admit(peer(1), now).is_err());
        for last in 2..7 {
            for _ in 0..5 {
                assert!(tries.admit(peer(last), now).is_ok());
            }
        }
        assert!(tries.admit(peer(9), now).is_err());
        assert!(tries.admit(peer(1), now + MINUTE).is_ok());
    }
}
