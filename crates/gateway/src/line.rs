//! One client's connection, with the time limits that the HTTP library does not have.
//!
//! A connection is silent until its first byte, idle between requests, in the head while a request's head arrives,
//! and busy while a request is served. Each but the last has its limit; what exceeds it is closed:
//!
//! ```text
//!   silent --byte--> head --request--> busy --answer read--> idle --byte--> head …
//!    10 s            10 s             no limit              75 s
//! ```
//!
//! The timer of a connection is a single one that looks every few seconds how long the phase has lasted, so that a
//! request costs two stores and no timer.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{Instant, Sleep, sleep_until},
};

/// A client's socket with its time limits.
pub(crate) struct Socket {
    stream: TcpStream,
    line: Arc<Line>,
    look: Option<Pin<Box<Sleep>>>,
}

impl Socket {
    pub(crate) fn new(stream: TcpStream, line: Arc<Line>) -> Self {
        Self { stream, line, look: None }
    }

    /// Ready when the phase has lasted too long.
    fn poll_overdue(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if self.line.phase() == Phase::Busy {
                return Poll::Pending;
            }
            let line = &self.line;
            let look = self.look.get_or_insert_with(|| Box::pin(sleep_until(line.look_again())));
            std::task::ready!(look.as_mut().poll(cx));
            if self.line.is_overdue() {
                return Poll::Ready(());
            }
            look.as_mut().reset(self.line.look_again());
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if polled.is_ready() {
            if buffer.filled().len() > before {
                self.line.received();
            }
            return polled;
        }
        match self.poll_overdue(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// What socket, requests and shutdown share of one connection.
pub(crate) struct Line {
    opened: Instant,
    phase: AtomicU8,
    /// When the phase began, in milliseconds after `opened`.
    since: AtomicU64,
    /// Set when the time to finish is over: streams end with an error event.
    cut: AtomicBool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Phase {
    Silent,
    Idle,
    Head,
    Busy,
}

impl Phase {
    /// Each at the place of its number.
    const ALL: [Self; 4] = [Self::Silent, Self::Idle, Self::Head, Self::Busy];
}

impl Line {
    pub(crate) fn new() -> Self {
        let (phase, since, cut) =
            (AtomicU8::new(Phase::Silent as u8), AtomicU64::new(0), AtomicBool::new(false));
        Self { opened: Instant::now(), phase, since, cut }
    }

    /// A request is being served, until the result is dropped.
    pub(crate) fn busy(self: &Arc<Self>) -> Busy {
        self.enter(Phase::Busy);
        Busy(Arc::clone(self))
    }

    /// Ends what is still under way.
    pub(crate) fn cut(&self) {
        self.cut.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.cut.load(Ordering::Relaxed)
    }

    fn received(&self) {
        if matches!(self.phase(), Phase::Silent | Phase::Idle) {
            self.enter(Phase::Head);
        }
    }

    fn enter(&self, phase: Phase) {
        self.since.store(millis(self.opened.elapsed()), Ordering::Relaxed);
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    fn phase(&self) -> Phase {
        let number = usize::from(self.phase.load(Ordering::Relaxed));
        Phase::ALL.get(number).copied().unwrap_or(Phase::Busy)
    }

    fn end(&self) -> Instant {
        let limit = match self.phase() {
            Phase::Silent => FIRST_BYTE_WITHIN,
            Phase::Head => HEAD_WITHIN,
            Phase::Idle => IDLE_LIMIT,
            Phase::Busy => Duration::MAX / 4,
        };
        self.opened + Duration::from_millis(self.since.load(Ordering::Relaxed)) + limit.min(FAR)
    }

    fn is_overdue(&self) -> bool {
        self.end() <= Instant::now()
    }

    fn look_again(&self) -> Instant {
        self.end().min(Instant::now() + LOOK_EVERY)
    }
}

/// While it lives, the connection is busy.
pub(crate) struct Busy(Arc<Line>);

impl Busy {
    pub(crate) fn line(&self) -> &Line {
        &self.0
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.enter(Phase::Idle);
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

const FIRST_BYTE_WITHIN: Duration = Duration::from_secs(10);
const HEAD_WITHIN: Duration = Duration::from_secs(10);
const IDLE_LIMIT: Duration = Duration::from_secs(75);
const LOOK_EVERY: Duration = Duration::from_secs(5);
const FAR: Duration = Duration::from_secs(24 * 3600);
