//! Accepting clients.
//!
//! All workers accept from one socket, so that a worker that is free takes the next connection. A connection is one
//! task on the worker that accepted it; reading, calling upstream and writing happen inside it. When file descriptors
//! run out, accepting pauses; what is open goes on.

use std::{
    convert::Infallible,
    io,
    net::{SocketAddr, TcpListener as StdListener},
    sync::Arc,
    time::Duration,
};

use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use socket2::{Domain, Protocol, SockRef, Socket as RawSocket, TcpKeepalive, Type};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, watch},
};

use crate::{
    line::{Line, Socket},
    mount::Peer,
    route,
    shared::Shared,
};

/// How far a shutdown has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// Serving.
    Open,
    /// No new connections and requests; what is under way goes on.
    Draining,
    /// What is under way ends.
    Cut,
}

/// Binds an address.
pub(crate) fn bind(address: SocketAddr) -> io::Result<StdListener> {
    let socket = RawSocket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    #[cfg(unix)]
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Accepts until the shutdown begins.
pub(crate) async fn accept(listener: TcpListener, shared: Arc<Shared>, slots: Arc<Semaphore>) {
    let mut stage = shared.stage.subscribe();
    let mut pausing = false;
    loop {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stage.wait_for(|stage| *stage != Stage::Open) => return,
        };
        match accepted {
            Ok((stream, peer)) => {
                pausing = false;
                tokio::spawn(serve((stream, Peer(peer.ip())), Arc::clone(&shared), slot));
            }
            Err(error) if is_of_the_connection(&error) => {}
            Err(error) => {
                shared.meters.accept_pauses.add(1);
                if !std::mem::replace(&mut pausing, true) {
                    tracing::warn!(%error, "cannot accept connections, pausing until it works again");
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve((stream, peer): (TcpStream, Peer), shared: Arc<Shared>, _slot: OwnedSemaphorePermit) {
    // A client whose machine is gone says nothing; without this its stream would stay open for ever.
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE / 4).with_retries(4);
    let tuned = stream.set_nodelay(true).and_then(|()| SockRef::from(&stream).set_tcp_keepalive(&keepalive));
    if tuned.is_err() {
        return;
    }
    shared.meters.connections.add(1);
    let stage = shared.stage.subscribe();
    let line = Arc::new(Line::new());
    let of_line = Arc::clone(&line);
    let of_shared = Arc::clone(&shared);
    let service = service_fn(move |request| {
        let busy = of_line.busy();
        let shared = Arc::clone(&of_shared);
        async move { Ok::<_, Infallible>(route::answer(&shared, (busy, peer), request).await) }
    });
    let mut builder = http1::Builder::new();
    builder.max_buf_size(READ_BUFFER_LIMIT).max_header_size(HEAD_LIMIT);
    let connection = builder.serve_connection(TokioIo::new(Socket::new(stream, Arc::clone(&line))), service);
    drive(connection, stage, &line).await;
    shared.meters.connections.subtract(1);
}

async fn drive<S>(
    connection: http1::Connection<TokioIo<Socket>, S>,
    mut stage: watch::Receiver<Stage>,
    line: &Line,
) where
    S: hyper::service::HttpService<hyper::body::Incoming, ResBody = crate::reply::Reply>,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        // A client that leaves or sends rubbish is nobody's fault here.
        _ = connection.as_mut() => return,
        _ = stage.wait_for(|stage| *stage != Stage::Open) => {}
    }
    connection.as_mut().graceful_shutdown();
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = stage.wait_for(|stage| *stage == Stage::Cut) => {}
    }
    line.cut();
    let _ = tokio::time::timeout(CUT_WITHIN, connection).await;
}

/// Errors of one connection that died before it was accepted.
fn is_of_the_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    )
}

const BACKLOG: i32 = 4096;
const KEEPALIVE: Duration = Duration::from_secs(60);
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long a cut stream may take to get its last words out.
const CUT_WITHIN: Duration = Duration::from_secs(2);
/// The longest head of a request.
const HEAD_LIMIT: usize = 64 * 1024;
/// Bounds what is read ahead of the body's reader.
const READ_BUFFER_LIMIT: usize = 128 * 1024;
