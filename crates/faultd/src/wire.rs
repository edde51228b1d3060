//! One connection at the level of bytes: sends what it is told, notices when the peer leaves, ends in the way asked for.

use std::io;
use std::time::Duration;

use bytes::BytesMut;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

#[cfg(feature = "tls")]
use tokio::io::{AsyncReadExt, AsyncWriteExt};
#[cfg(feature = "tls")]
use tokio_rustls::server::TlsStream;

/// An accepted connection.
pub(crate) struct Wire {
    stream: Stream,
    pub(crate) input: BytesMut,
}

/// The connection itself.
pub(crate) enum Stream {
    Plain(TcpStream),
    #[cfg(feature = "tls")]
    Tls(Box<TlsStream<TcpStream>>),
}

/// The peer has left.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Gone;

impl Wire {
    pub(crate) fn new(stream: Stream) -> Self {
        Self { stream, input: BytesMut::with_capacity(READ_SIZE) }
    }

    /// Shakes hands, where the provider has a certificate.
    #[cfg(feature = "tls")]
    pub(crate) async fn secured(self, acceptor: Option<tokio_rustls::TlsAcceptor>) -> Result<Self, Gone> {
        let Some(acceptor) = acceptor else { return Ok(self) };
        let Stream::Plain(stream) = self.stream else { return Ok(self) };
        let stream = acceptor.accept(stream).await.map_err(|_| Gone)?;
        Ok(Self { stream: Stream::Tls(Box::new(stream)), input: self.input })
    }

    /// Waits for more input.
    pub(crate) async fn fill(&mut self) -> Result<(), Gone> {
        self.input.reserve(READ_SIZE);
        self.stream.read(&mut self.input).await
    }

    /// Sends all of `bytes`, or notices that the peer has left.
    pub(crate) async fn send(&mut self, bytes: &[u8]) -> Result<(), Gone> {
        match &mut self.stream {
            Stream::Plain(stream) => send_plain(stream, &mut self.input, bytes).await,
            #[cfg(feature = "tls")]
            Stream::Tls(stream) => {
                stream.write_all(bytes).await.map_err(|_| Gone)?;
                stream.flush().await.map_err(|_| Gone)
            }
        }
    }

    /// Waits, or notices that the peer has left.
    pub(crate) async fn pause(&mut self, wait: Duration) -> Result<(), Gone> {
        if wait.is_zero() {
            return Ok(());
        }
        tokio::select! {
            () = sleep(wait) => Ok(()),
            gone = watch(&mut self.stream, &mut self.input) => Err(gone),
        }
    }

    /// Waits until the peer leaves.
    pub(crate) async fn hang(&mut self) -> Gone {
        watch(&mut self.stream, &mut self.input).await
    }

    /// Ends the connection with a reset.
    pub(crate) fn reset(self) {
        let _ = self.stream.tcp().set_zero_linger();
    }

    /// Ends the connection in order: nothing more is sent, what still arrives is read, so that no reset follows.
    pub(crate) async fn close(self) {
        let Self { mut stream, mut input } = self;
        stream.end().await;
        let drain = async {
            while stream.read(&mut input).await.is_ok() {
                input.clear();
            }
        };
        let _ = timeout(LINGER, drain).await;
    }
}

impl Stream {
    fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.get_ref().0,
        }
    }

    /// Reads some bytes; the end of the peer's sending is its leaving.
    async fn read(&mut self, input: &mut BytesMut) -> Result<(), Gone> {
        match self {
            Self::Plain(stream) => read_plain(stream, input).await,
            #[cfg(feature = "tls")]
            Self::Tls(stream) => match stream.read_buf(input).await {
                Ok(1..) => Ok(()),
                Ok(0) | Err(_) => Err(Gone),
            },
        }
    }

    /// Says that nothing more will be sent.
    async fn end(&mut self) {
        match self {
            Self::Plain(stream) => {
                let _ = socket2::SockRef::from(&*stream).shutdown(std::net::Shutdown::Write);
            }
            #[cfg(feature = "tls")]
            Self::Tls(stream) => {
                let _ = stream.shutdown().await;
            }
        }
    }
}

async fn read_plain(stream: &TcpStream, input: &mut BytesMut) -> Result<(), Gone> {
    loop {
        match stream.try_read_buf(input) {
            Ok(0) => return Err(Gone),
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                stream.readable().await.map_err(|_| Gone)?;
            }
            Err(_) => return Err(Gone),
        }
    }
}

async fn send_plain(stream: &TcpStream, input: &mut BytesMut, mut bytes: &[u8]) -> Result<(), Gone> {
    while !bytes.is_empty() {
        match stream.try_write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                tokio::select! {
                    ready = stream.writable() => ready.map_err(|_| Gone)?,
                    gone = watch_plain(stream, input) => return Err(gone),
                }
            }
            Err(_) => return Err(Gone),
        }
    }
    Ok(())
}

/// Resolves when the peer has left; what it sends meanwhile is kept for the next request, within bounds.
async fn watch(stream: &mut Stream, input: &mut BytesMut) -> Gone {
    match stream {
        Stream::Plain(stream) => watch_plain(stream, input).await,
        #[cfg(feature = "tls")]
        Stream::Tls(_) => {
            while input.len() <= EARLY_INPUT_LIMIT {
                if let Err(gone) = stream.read(input).await {
                    return gone;
                }
            }
            std::future::pending().await
        }
    }
}

async fn watch_plain(stream: &TcpStream, input: &mut BytesMut) -> Gone {
    while input.len() <= EARLY_INPUT_LIMIT {
        if let Err(gone) = read_plain(stream, input).await {
            return gone;
        }
    }
    std::future::pending().await
}

const READ_SIZE: usize = 16 * 1024;

/// What a peer may send while its reply is on the way, before it is left in the socket.
const EARLY_INPUT_LIMIT: usize = 1024 * 1024;

/// How long a closed connection waits for the peer to close too.
const LINGER: Duration = Duration::from_secs(5);
