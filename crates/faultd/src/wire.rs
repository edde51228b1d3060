//! One connection at the level of bytes: sends what it is told, notices when the peer leaves, ends in the way asked for.

use std::io;
use std::time::Duration;

use bytes::BytesMut;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

/// An accepted connection.
pub(crate) struct Wire {
    stream: TcpStream,
    pub(crate) input: BytesMut,
}

/// The peer has left.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Gone;

impl Wire {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self { stream, input: BytesMut::with_capacity(READ_SIZE) }
    }

    /// Waits for more input.
    pub(crate) async fn fill(&mut self) -> Result<(), Gone> {
        loop {
            self.input.reserve(READ_SIZE);
            match self.stream.try_read_buf(&mut self.input) {
                Ok(0) => return Err(Gone),
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.stream.readable().await.map_err(|_| Gone)?;
                }
                Err(_) => return Err(Gone),
            }
        }
    }

    /// Sends all of `bytes`, or notices that the peer has left.
    pub(crate) async fn send(&mut self, mut bytes: &[u8]) -> Result<(), Gone> {
        while !bytes.is_empty() {
            match self.stream.try_write(bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    tokio::select! {
                        ready = self.stream.writable() => ready.map_err(|_| Gone)?,
                        gone = watch(&self.stream, &mut self.input) => return Err(gone),
                    }
                }
                Err(_) => return Err(Gone),
            }
        }
        Ok(())
    }

    /// Waits, or notices that the peer has left.
    pub(crate) async fn pause(&mut self, wait: Duration) -> Result<(), Gone> {
        if wait.is_zero() {
            return Ok(());
        }
        tokio::select! {
            () = sleep(wait) => Ok(()),
            gone = watch(&self.stream, &mut self.input) => Err(gone),
        }
    }

    /// Waits until the peer leaves.
    pub(crate) async fn hang(&mut self) -> Gone {
        watch(&self.stream, &mut self.input).await
    }

    /// Ends the connection with a reset.
    pub(crate) fn reset(self) {
        let _ = self.stream.set_zero_linger();
    }

    /// Ends the connection in order: nothing more is sent, what still arrives is read, so that no reset follows.
    pub(crate) async fn close(self) {
        let Self { stream, mut input } = self;
        let _ = socket2::SockRef::from(&stream).shutdown(std::net::Shutdown::Write);
        let drain = async {
            while stream.readable().await.is_ok() {
                input.clear();
                match stream.try_read_buf(&mut input) {
                    Ok(0) => return,
                    Err(error) if error.kind() != io::ErrorKind::WouldBlock => return,
                    Ok(_) | Err(_) => {}
                }
            }
        };
        let _ = timeout(LINGER, drain).await;
    }
}

/// Resolves when the peer has left; what it sends meanwhile is kept for the next request, within bounds.
async fn watch(stream: &TcpStream, input: &mut BytesMut) -> Gone {
    loop {
        if stream.readable().await.is_err() {
            return Gone;
        }
        if input.len() > EARLY_INPUT_LIMIT {
            return std::future::pending().await;
        }
        match stream.try_read_buf(input) {
            Ok(0) => return Gone,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return Gone,
        }
    }
}

const READ_SIZE: usize = 16 * 1024;

/// What a peer may send while its reply is on the way, before it is left in the socket.
const EARLY_INPUT_LIMIT: usize = 1024 * 1024;

/// How long a closed connection waits for the peer to close too.
const LINGER: Duration = Duration::from_secs(5);
