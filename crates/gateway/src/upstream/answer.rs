//! The body of a provider's answer, and the right to the connection that it comes through.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use backstop_triage::Fault;
use bytes::Bytes;
use http_body::Body as _;
use hyper::body::Incoming;

use super::{Lease, io_kind, without_urls};

/// The body of an answer, and the connection that it comes through.
pub(crate) struct Answer {
    body: Incoming,
    lease: Option<Lease>,
}

impl Answer {
    pub(super) fn new(body: Incoming, lease: Lease) -> Self {
        Self { body, lease: Some(lease) }
    }

    /// The next bytes; `None` at the end, after which the connection serves others.
    pub(crate) fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Cut>>> {
        loop {
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    // Trailers mean nothing to anybody here.
                    if let Ok(bytes) = frame.into_data() {
                        return Poll::Ready(Some(Ok(bytes)));
                    }
                }
                Some(Err(error)) => {
                    self.lease = None;
                    return Poll::Ready(Some(Err(Cut::from(&error))));
                }
                None => {
                    self.finish();
                    return Poll::Ready(None);
                }
            }
        }
    }

    /// The next bytes.
    pub(crate) async fn bytes(&mut self) -> Option<Result<Bytes, Cut>> {
        std::future::poll_fn(|cx| self.poll_bytes(cx)).await
    }

    /// How many bytes come, if that was announced.
    pub(crate) fn length(&self) -> Option<u64> {
        self.body.size_hint().exact()
    }

    /// Whether the end has been reached already.
    pub(crate) fn is_at_end(&self) -> bool {
        self.body.is_end_stream()
    }

    /// Gives the connection back if nothing more comes.
    pub(crate) fn finish(&mut self) {
        if let Some(lease) = self.lease.take() {
            lease.give_back();
        }
    }
}

/// A body that broke off.
#[derive(Debug)]
pub(crate) struct Cut {
    pub(crate) fault: Fault,
    pub(crate) detail: String,
}

impl From<&hyper::Error> for Cut {
    fn from(error: &hyper::Error) -> Self {
        let fault = match io_kind(error) {
            Some(io::ErrorKind::ConnectionReset) => Fault::ConnectionReset,
            Some(_) | None => Fault::IncompleteBody,
        };
        Self { fault, detail: without_urls(error) }
    }
}
