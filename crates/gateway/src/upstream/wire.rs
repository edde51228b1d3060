//! A connection's bytes, plain or encrypted, with a note of whether any went out or came in: that tells a call that
//! was never sent from one that was, and a connection that died while idle from one that died at work.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::client::TlsStream;

/// A dialled connection.
pub(super) struct Wire {
    line: Line,
    traffic: Arc<Traffic>,
}

enum Line {
    Plain(TcpStream),
    Encrypted(Box<TlsStream<TcpStream>>),
}

impl Wire {
    pub(super) fn plain(stream: TcpStream) -> Self {
        Self { line: Line::Plain(stream), traffic: Arc::default() }
    }

    pub(super) fn encrypted(stream: TlsStream<TcpStream>) -> Self {
        Self { line: Line::Encrypted(Box::new(stream)), traffic: Arc::default() }
    }

    pub(super) fn traffic(&self) -> Arc<Traffic> {
        Arc::clone(&self.traffic)
    }

    fn wrote(&self, polled: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(count)) = &polled {
            self.traffic.wrote.fetch_add(*count as u64, Ordering::Relaxed);
        }
        polled
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = match &mut self.line {
            Line::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Line::Encrypted(stream) => Pin::new(stream.as_mut()).poll_read(cx, buffer),
        };
        self.traffic.read.fetch_add((buffer.filled().len() - before) as u64, Ordering::Relaxed);
        polled
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = match &mut self.line {
            Line::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Line::Encrypted(stream) => Pin::new(stream.as_mut()).poll_write(cx, bytes),
        };
        self.wrote(polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = match &mut self.line {
            Line::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Line::Encrypted(stream) => Pin::new(stream.as_mut()).poll_write_vectored(cx, slices),
        };
        self.wrote(polled)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.line {
            Line::Plain(stream) => stream.is_write_vectored(),
            Line::Encrypted(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.line {
            Line::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Line::Encrypted(stream) => Pin::new(stream.as_mut()).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.line {
            Line::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Line::Encrypted(stream) => Pin::new(stream.as_mut()).poll_shutdown(cx),
        }
    }
}

/// Counts what moved on one connection, after decryption.
#[derive(Default)]
pub(super) struct Traffic {
    read: AtomicU64,
    wrote: AtomicU64,
}

impl Traffic {
    pub(super) fn mark(&self) -> Mark {
        Mark { read: self.read.load(Ordering::Relaxed), wrote: self.wrote.load(Ordering::Relaxed) }
    }

    pub(super) fn since(&self, mark: Mark) -> Moved {
        let current = self.mark();
        Moved { read: current.read > mark.read, wrote: current.wrote > mark.wrote }
    }
}

/// The counts at one moment.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    read: u64,
    wrote: u64,
}

/// Whether anything moved since a mark.
#[derive(Clone, Copy)]
pub(super) struct Moved {
    pub(super) read: bool,
    pub(super) wrote: bool,
}
