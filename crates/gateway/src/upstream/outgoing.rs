//! The body of a call to a provider: nothing, the client's bytes once more, or an upload that streams through.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

/// What is sent.
pub(crate) enum Outgoing {
    /// A buffered body; shared by all attempts.
    Whole(Bytes),
    /// An upload, which can be sent only once.
    Upload(Upload),
}

/// A client's body on its way through.
pub(crate) struct Upload {
    body: Incoming,
    left: u64,
}

impl Upload {
    /// An upload of at most `limit` bytes.
    pub(crate) fn new(body: Incoming, limit: u64) -> Self {
        Self { body, left: limit }
    }
}

/// Why an upload stopped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UploadError {
    #[error("the client's upload broke off")]
    Client(#[source] hyper::Error),
    #[error("the client's upload is longer than upload_limit")]
    TooLong,
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = UploadError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UploadError>>> {
        match self.get_mut() {
            Self::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Self::Upload(upload) => upload.poll(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_empty(),
            Self::Upload(upload) => upload.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Upload(upload) => upload.body.size_hint(),
        }
    }
}

impl Upload {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, UploadError>>> {
        let frame = match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
            None => return Poll::Ready(None),
            Some(Err(error)) => return Poll::Ready(Some(Err(UploadError::Client(error)))),
            Some(Ok(frame)) => frame,
        };
        let length = frame.data_ref().map_or(0, Bytes::len) as u64;
        match self.left.checked_sub(length) {
            Some(left) => {
                self.left = left;
                Poll::Ready(Some(Ok(frame)))
            }
            None => Poll::Ready(Some(Err(UploadError::TooLong))),
        }
    }
}
