//! The answers that clients get, as a body that the HTTP library can write.
//!
//! Nothing is spawned and nothing goes through a channel: a streamed answer is polled by the client's own connection,
//! so a slow client slows its provider down, and a client that leaves drops the call with the body.

use std::{
    collections::VecDeque,
    pin::Pin,
    task::{Context, Poll},
};

use backstop_dialect::{ClientError, Dialect, error_body, error_headers};
use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body::{Body, Frame, SizeHint};

use crate::{line::Busy, mount::MountBody, passing::Passing, relay::Relay, waiting::Waiting};

/// The body of an answer.
pub(crate) struct Reply {
    content: Content,
    /// Keeps the connection marked as busy until the answer has been written.
    busy: Option<Busy>,
}

pub(crate) enum Content {
    /// Complete, in the pieces in which it came.
    Whole(VecDeque<Bytes>),
    /// Passing through unread.
    Passing(Box<Passing>),
    /// A stream that is watched.
    Relay(Box<Relay>),
    /// A stream that was opened before its answer had come.
    Waiting(Box<Waiting>),
    /// From the admin API or the dashboard.
    Mounted(MountBody),
}

/// Ends an answer that cannot be completed: the connection is closed in the middle of it.
#[derive(Debug, thiserror::Error)]
#[error("the answer was cut")]
pub(crate) struct CutShort;

impl Reply {
    pub(crate) fn new(content: Content) -> Self {
        Self { content, busy: None }
    }

    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        let pieces = if bytes.is_empty() { VecDeque::new() } else { VecDeque::from([bytes]) };
        Self::new(Content::Whole(pieces))
    }

    pub(crate) fn holding(self, busy: Busy) -> Self {
        Self { busy: Some(busy), ..self }
    }
}

impl Content {
    /// The next frame. `cut` says that the time to finish is over.
    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
        cut: bool,
    ) -> Poll<Option<Result<Frame<Bytes>, CutShort>>> {
        let polled = match self {
            Self::Whole(pieces) => Poll::Ready(pieces.pop_front().map(Ok)),
            Self::Passing(passing) => passing.poll_bytes(cx),
            Self::Relay(relay) => relay.poll_bytes(cx, cut),
            Self::Waiting(waiting) => waiting.poll_bytes(cx, cut),
            Self::Mounted(body) => {
                let polled = Pin::new(body).poll_frame(cx);
                return polled.map(|frame| frame.map(|frame| frame.map_err(|_| CutShort)));
            }
        };
        polled.map(|bytes| bytes.map(|bytes| bytes.map(Frame::data)))
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = CutShort;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, CutShort>>> {
        let this = self.get_mut();
        let cut = this.busy.as_ref().is_some_and(|busy| busy.line().is_cut());
        this.content.poll_frame(cx, cut)
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Whole(pieces) => pieces.is_empty(),
            Content::Mounted(body) => body.is_end_stream(),
            Content::Passing(_) | Content::Relay(_) | Content::Waiting(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole(pieces) => {
                SizeHint::with_exact(pieces.iter().map(|piece| piece.len() as u64).sum())
            }
            Content::Passing(passing) => {
                passing.length().map_or_else(SizeHint::default, SizeHint::with_exact)
            }
            Content::Mounted(body) => body.size_hint(),
            Content::Relay(_) | Content::Waiting(_) => SizeHint::default(),
        }
    }
}

/// An error of ours as an answer in the client's dialect.
pub(crate) fn error(dialect: Dialect, error: &ClientError) -> Response<Reply> {
    let mut response = Response::new(Reply::whole(error_body(dialect, error)));
    *response.status_mut() = StatusCode::from_u16(error.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    *response.headers_mut() = error_headers(dialect, error);
    response
}

/// A short text of ours.
pub(crate) fn text(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> Response<Reply> {
    let mut response = Response::new(Reply::whole(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
