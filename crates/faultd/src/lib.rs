//! A scripted provider that speaks four API shapes and fails at every phase.
//!
//! A [`Script`] says which request gets which [`Reply`]: by key, model, path, and number. Without rules every request
//! is answered well: chat completions, responses, messages and Gemini, streaming and not, with lists of models, token
//! counts and embeddings. With rules it waits, breaks off, resets, lies about lengths, floods, or falls silent, at a
//! place that is named and not timed. What reached it stands in a log, with how each call ended, so that a test can
//! say what a client in front of it did.
//!
//! HTTP/1.1 is written by hand, because a well-behaved library cannot misbehave.
//!
//! ```
//! # async fn example() -> std::io::Result<()> {
//! use backstop_faultd::{Faultd, How, Point, Reply, Script, key};
//!
//! let script = Script::new()
//!     .on(key("sk-limited"), Reply::status(429).header("retry-after", "30"))
//!     .on(key("sk-flaky").nth(1), Reply::answer().cut(Point::Content(2), How::Reset));
//! let provider = Faultd::start(script).await?;
//! println!("{}", provider.base_url());
//! # Ok(())
//! # }
//! ```

mod bomb;
mod client;
mod connection;
mod log;
mod provider;
mod render;
mod reply;
mod request;
mod script;
mod script_file;
mod shape;
mod template;
mod wire;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket};
use tokio::task::{JoinHandle, JoinSet};

use crate::provider::Provider;

pub use crate::client::{AnswerHead, Client, Trouble};
pub use crate::log::{Call, Counters, Ended, hash};
pub use crate::reply::{Answer, Body, Cut, ErrorEvent, Framing, How, Point, Reply, Waits};
pub use crate::script::{Greeting, Limit, Script, When, any, key, model, path};
pub use crate::script_file::ScriptError;
pub use crate::shape::{Operation, Shape};

/// A running provider; dropping it ends it and resets what is open.
pub struct Faultd {
    addr: SocketAddr,
    provider: Arc<Provider>,
    accepting: JoinHandle<()>,
}

impl Faultd {
    /// Starts on a free loopback port.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start(script: Script) -> io::Result<Self> {
        Self::listen(script, SocketAddr::from(([127, 0, 0, 1], 0))).await
    }

    /// Starts on this address.
    ///
    /// # Errors
    /// When the address cannot be listened on.
    #[expect(clippy::unused_async, reason = "says that it must be called inside a runtime")]
    pub async fn listen(script: Script, addr: SocketAddr) -> io::Result<Self> {
        Self::run(Provider::new(script), addr)
    }

    /// Starts on a free loopback port behind TLS, with a certificate and its private key (PKCS#8), both in DER.
    ///
    /// # Errors
    /// When no port can be had, or the two do not fit together.
    #[cfg(feature = "tls")]
    #[expect(clippy::unused_async, reason = "says that it must be called inside a runtime")]
    pub async fn start_tls(script: Script, certificate: Vec<u8>, key: Vec<u8>) -> io::Result<Self> {
        use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
        use tokio_rustls::rustls::{ServerConfig, crypto::aws_lc_rs};

        let key = PrivateKeyDer::Pkcs8(key.into());
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|config| {
                config.with_no_client_auth().with_single_cert(vec![CertificateDer::from(certificate)], key)
            });
        let config = config.map_err(io::Error::other)?;
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        Self::run(Provider::new(script).behind(acceptor), SocketAddr::from(([127, 0, 0, 1], 0)))
    }

    fn run(provider: Provider, addr: SocketAddr) -> io::Result<Self> {
        let socket = if addr.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?;
        socket.bind(addr)?;
        let listener = socket.listen(BACKLOG)?;
        let addr = listener.local_addr()?;
        let provider = Arc::new(provider);
        let accepting = tokio::spawn(accept(listener, Arc::clone(&provider)));
        Ok(Self { addr, provider, accepting })
    }

    /// The address that it listens on.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The address as a URL without a path: `http://127.0.0.1:1234`.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// The calls that were kept, oldest first.
    #[must_use]
    pub fn log(&self) -> Vec<Call> {
        self.provider.calls()
    }

    /// The calls that came with this key, oldest first.
    #[must_use]
    pub fn calls_with(&self, key: &str) -> Vec<Call> {
        let mut calls = self.log();
        calls.retain(|call| call.key.as_deref() == Some(key));
        calls
    }

    /// What was counted since the start.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.provider.counters()
    }

    /// Waits until `look` finds what it looks for in the log.
    pub async fn until<T>(&self, look: impl FnMut(&[Call]) -> Option<T>) -> T {
        self.provider.until(look).await
    }

    /// Plays another script from the next request on; counts of rules and limits begin anew, the log stays.
    pub fn set_script(&self, script: Script) {
        self.provider.set_script(script);
    }

    /// Empties the log.
    pub fn clear_log(&self) {
        self.provider.clear();
    }
}

impl Drop for Faultd {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, provider: Arc<Provider>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection::serve(stream, Arc::clone(&provider)));
                }
                // Out of file descriptors, mostly: trying again at once would spin.
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

const BACKLOG: u32 = 4096;

const ACCEPT_PAUSE: Duration = Duration::from_millis(20);
