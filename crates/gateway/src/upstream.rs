//! The only place that talks to providers.
//!
//! An [`Upstream`] is one provider's address with its idle connections. [`Upstream::send`] makes exactly the call
//! that it is given: no redirect is followed, nothing is repeated, no proxy is taken from the environment, no error
//! text contains a URL. How far a failed call got is part of its failure ([`Reach`]), because that decides whether it
//! may be made again.
//!
//! A connection is driven by a task of its own, spawned where it was dialled. Whoever holds its [`Lease`] holds the
//! connection; a lease that is dropped before the answer ended aborts the task, which closes the socket. So a client
//! that leaves takes its upstream call along. Connections go back to the idle list when the answer has been read to
//! its end; a worker prefers its own, and takes another worker's only where dialling means a TLS handshake.

mod address;
mod answer;
mod dial;
mod outgoing;
mod tls;
mod wire;

use std::{
    cell::Cell,
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use backstop_triage::Fault;
use http::{HeaderValue, Request, response};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::{task::AbortHandle, time::Instant};

pub use self::tls::TlsError;
pub(crate) use self::{
    answer::{Answer, Cut},
    dial::Trust,
    outgoing::{Outgoing, Upload},
};
use self::{dial::Dialer, outgoing::UploadError, wire::Traffic};
use crate::config::Provider;

/// One provider's address and its idle connections.
pub(crate) struct Upstream {
    dialer: Dialer,
    idle: Mutex<Vec<Connection>>,
    /// Calls made on a connection that had served before.
    reused: AtomicU64,
    /// Connections dialled.
    dialled: AtomicU64,
}

/// Whether a call may use a connection that has served before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freshness {
    Pooled,
    Fresh,
}

/// A call that was answered: the head is here, the body comes.
pub(crate) struct Exchange {
    pub(crate) head: response::Parts,
    pub(crate) body: Answer,
}

/// A call that failed before its answer's head had come.
#[derive(Debug)]
pub(crate) struct Broken {
    pub(crate) trouble: Trouble,
    pub(crate) reach: Reach,
    /// For the log: what the system said, without URL and secret.
    pub(crate) detail: String,
}

/// What went wrong with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The connection failed.
    Fault(Fault),
    /// The name leads to an address that no provider has: link-local, metadata, multicast.
    ForbiddenAddress,
    /// The client's own upload failed.
    Upload(UploadFault),
}

/// What was wrong with a client's upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UploadFault {
    /// The client stopped sending.
    BrokeOff,
    /// It is longer than the gateway takes.
    TooLong,
}

/// How far a failed call got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Nothing of it left this machine.
    NotSent,
    /// It went into a connection that had died while idle.
    Stale,
    /// It went out, and nobody knows what became of it.
    MaybeAccepted,
}

impl Upstream {
    pub(crate) fn new(provider: &Provider) -> Result<Self, TlsError> {
        Ok(Self {
            dialer: Dialer::new(provider)?,
            idle: Mutex::default(),
            reused: AtomicU64::new(0),
            dialled: AtomicU64::new(0),
        })
    }

    /// The value of the `Host` header.
    pub(crate) fn authority(&self) -> &HeaderValue {
        &self.dialer.authority
    }

    /// What is known of its certificate.
    pub(crate) fn trust(&self) -> Trust {
        self.dialer.trust()
    }

    /// (calls on a used connection, connections dialled).
    pub(crate) fn reuse(&self) -> (u64, u64) {
        (self.reused.load(Ordering::Relaxed), self.dialled.load(Ordering::Relaxed))
    }

    /// Opens a connection ahead of the first call.
    pub(crate) async fn warm(self: &Arc<Self>) -> Result<(), Broken> {
        let connection = self.dial().await?;
        self.put_back(connection);
        Ok(())
    }

    /// Closes connections that have been idle for too long.
    pub(crate) fn sweep(&self) {
        self.idle.lock().retain(|connection| connection.is_usable());
    }

    /// Makes one call, and waits for the head of the answer until `by`.
    pub(crate) async fn send(
        self: &Arc<Self>,
        request: Request<Outgoing>,
        freshness: Freshness,
        by: Instant,
    ) -> Result<Exchange, Broken> {
        let pooled = match freshness {
            Freshness::Pooled => self.take().await,
            Freshness::Fresh => None,
        };
        let used = pooled.is_some();
        let mut connection = match pooled {
            Some(connection) => connection,
            None => tokio::time::timeout_at(by, self.dial())
                .await
                .unwrap_or_else(|_| Err(Broken::connect_timeout()))?,
        };
        if used {
            self.reused.fetch_add(1, Ordering::Relaxed);
        }
        let before = connection.traffic.mark();
        let answer = connection.sender.send_request(request);
        let lease = Lease { connection: Some(connection), home: Arc::clone(self) };
        let traffic = lease.traffic();
        match tokio::time::timeout_at(by, answer).await {
            Ok(Ok(response)) => {
                let (head, body) = response.into_parts();
                Ok(Exchange { head, body: Answer::new(body, lease) })
            }
            Ok(Err(error)) => Err(Broken::while_sending(&error, traffic.since(before), used)),
            Err(_) => {
                let reach = if traffic.since(before).wrote { Reach::MaybeAccepted } else { Reach::NotSent };
                Err(Broken {
                    trouble: Trouble::Fault(Fault::ReadTimeout),
                    reach,
                    detail: "no answer in time".into(),
                })
            }
        }
    }

    async fn dial(self: &Arc<Self>) -> Result<Connection, Broken> {
        self.dialled.fetch_add(1, Ordering::Relaxed);
        let wire = self.dialer.dial().await?;
        let traffic = wire.traffic();
        let mut builder = http1::Builder::new();
        builder.max_buf_size(READ_BUFFER_LIMIT);
        let refused = |error: hyper::Error| Broken::not_sent(Fault::ConnectionReset, without_urls(&error));
        let (sender, driver) = builder.handshake(TokioIo::new(wire)).await.map_err(refused)?;
        let task = tokio::spawn(async move {
            // How it ended is told to whoever waits for an answer on it.
            let _ = driver.await;
        });
        let _driver = Driver(task.abort_handle());
        Ok(Connection { sender, _driver, traffic, worker: worker(), idle_since: Instant::now() })
    }

    async fn take(&self) -> Option<Connection> {
        loop {
            let mut connection = self.pop()?;
            if !connection.is_usable() {
                continue;
            }
            if connection.sender.is_ready() {
                return Some(connection);
            }
            let ready = tokio::time::timeout(READY_WITHIN, connection.sender.ready()).await;
            if matches!(ready, Ok(Ok(()))) {
                return Some(connection);
            }
        }
    }

    fn pop(&self) -> Option<Connection> {
        let mut idle = self.idle.lock();
        let own = idle.iter().rposition(|connection| connection.worker == worker());
        let index = own.or_else(|| self.dialer.is_tls().then(|| idle.len().checked_sub(1)).flatten())?;
        Some(idle.swap_remove(index))
    }

    fn put_back(&self, mut connection: Connection) {
        connection.idle_since = Instant::now();
        let mut idle = self.idle.lock();
        if idle.len() < MOST_IDLE && !connection.sender.is_closed() {
            idle.push(connection);
        }
    }
}

/// The right to one connection for one call.
struct Lease {
    connection: Option<Connection>,
    home: Arc<Upstream>,
}

impl Lease {
    fn traffic(&self) -> Arc<Traffic> {
        self.connection.as_ref().map(|connection| Arc::clone(&connection.traffic)).unwrap_or_default()
    }

    fn give_back(mut self) {
        if let Some(connection) = self.connection.take() {
            self.home.put_back(connection);
        }
    }
}

struct Connection {
    sender: http1::SendRequest<Outgoing>,
    /// Held for its destructor.
    _driver: Driver,
    traffic: Arc<Traffic>,
    worker: usize,
    idle_since: Instant,
}

impl Connection {
    fn is_usable(&self) -> bool {
        !self.sender.is_closed() && self.idle_since.elapsed() < IDLE_LIMIT
    }
}

/// Ends the task that drives a connection when the connection is dropped.
struct Driver(AbortHandle);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Broken {
    fn not_sent(fault: Fault, detail: String) -> Self {
        Self { trouble: Trouble::Fault(fault), reach: Reach::NotSent, detail }
    }

    fn connect_timeout() -> Self {
        Self::not_sent(Fault::ConnectTimeout, "no connection in time".into())
    }

    fn while_sending(error: &hyper::Error, moved: wire::Moved, used: bool) -> Self {
        let reach = match (moved.wrote, moved.read) {
            (false, _) if used => Reach::Stale,
            (false, _) => Reach::NotSent,
            // A connection that was closed while idle swallows the request and never says a byte.
            (true, false) if used => Reach::Stale,
            (true, _) => Reach::MaybeAccepted,
        };
        let trouble = match (upload_fault(error), io_kind(error)) {
            (Some(fault), _) => Trouble::Upload(fault),
            (None, Some(io::ErrorKind::BrokenPipe)) => Trouble::Fault(Fault::BrokenPipe),
            (None, Some(_) | None) => Trouble::Fault(Fault::ConnectionReset),
        };
        Self { trouble, reach, detail: without_urls(error) }
    }
}

/// Names the worker that this thread is, so that connections stay where they are driven.
pub(crate) fn set_worker(number: usize) {
    WORKER.set(number);
}

fn worker() -> usize {
    WORKER.get()
}

fn io_kind(error: &hyper::Error) -> Option<io::ErrorKind> {
    sources(error).find_map(|source| source.downcast_ref::<io::Error>()).map(io::Error::kind)
}

/// What was wrong with the client's upload, if that is why a call failed.
fn upload_fault(error: &hyper::Error) -> Option<UploadFault> {
    sources(error).find_map(|source| source.downcast_ref::<UploadError>()).map(|error| match error {
        UploadError::Client(_) => UploadFault::BrokeOff,
        UploadError::TooLong => UploadFault::TooLong,
    })
}

fn sources(error: &hyper::Error) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    std::iter::successors(std::error::Error::source(error), |error| error.source())
}

/// The texts of an error and its sources. The HTTP library's own never contain a URL.
fn without_urls(error: &hyper::Error) -> String {
    let mut text = error.to_string();
    for source in sources(error) {
        text.push_str(": ");
        text.push_str(&source.to_string());
    }
    text
}

thread_local! {
    static WORKER: Cell<usize> = const { Cell::new(0) };
}

/// Shorter than the idle limits of providers' edges.
const IDLE_LIMIT: Duration = Duration::from_secs(45);
/// How long a pooled connection may take to become free after its last answer.
const READY_WITHIN: Duration = Duration::from_millis(50);
/// Idle connections kept for one provider.
const MOST_IDLE: usize = 1024;
/// Bounds the head of an answer, and what is read ahead of a slow client.
const READ_BUFFER_LIMIT: usize = 64 * 1024;
