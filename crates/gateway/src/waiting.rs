//! A stream that was opened before its answer had come, because the client would have heard nothing for too long.
//!
//! It carries comments only, so failing over is still possible; the journey goes on inside the body. When it arrives
//! with a stream, that stream follows; an error becomes the one error event.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use backstop_dialect::{ClientError, Continuation, Dialect, Framing, Problem, error_event, keepalive};
use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode};
use http_body::Frame;
use tokio::time::{Instant, Sleep, sleep};

use crate::{
    arrive::{Arrival, Ending, REQUEST_ID},
    reply::{self, Content, CutShort, Reply},
    request_id::RequestId,
};

/// A journey under way.
pub(crate) type Driving = Pin<Box<dyn Future<Output = Arrival> + Send>>;

/// The opened stream.
pub(crate) struct Waiting {
    dialect: Dialect,
    framing: Framing,
    every: Duration,
    speak: Pin<Box<Sleep>>,
    state: State,
}

enum State {
    /// The first comment has not been sent.
    Opening(Driving),
    Driving(Driving),
    Following(Content),
    /// The error event has been handed over, and the library gets a turn to write it.
    Failed,
    Flushing,
}

impl Waiting {
    pub(crate) fn new(dialect: Dialect, framing: Framing, every: Duration, driving: Driving) -> Self {
        Self { dialect, framing, every, speak: Box::pin(sleep(every)), state: State::Opening(driving) }
    }

    /// The answer that begins with it.
    pub(crate) fn into_response(self, id: RequestId) -> Response<Reply> {
        let content_type = match self.framing {
            Framing::Sse => "text/event-stream",
            Framing::JsonArray => "application/json",
        };
        let mut response = reply::text(StatusCode::OK, content_type, "");
        if let Ok(id) = HeaderValue::try_from(id.to_string()) {
            response.headers_mut().insert(REQUEST_ID, id);
        }
        response.map(|_| Reply::new(Content::Waiting(Box::new(self))))
    }

    pub(crate) fn poll_bytes(
        &mut self,
        cx: &mut Context<'_>,
        cut: bool,
    ) -> Poll<Option<Result<Bytes, CutShort>>> {
        loop {
            match &mut self.state {
                State::Opening(_) => {
                    let State::Opening(driving) = std::mem::replace(&mut self.state, State::Flushing) else {
                        continue;
                    };
                    self.state = State::Driving(driving);
                    return Poll::Ready(Some(Ok(self.nothing())));
                }
                State::Driving(driving) => match driving.as_mut().poll(cx) {
                    Poll::Ready(arrival) => match self.arrived(arrival) {
                        Some(event) => return Poll::Ready(Some(Ok(event))),
                        None => continue,
                    },
                    Poll::Pending if cut => {
                        self.state = State::Failed;
                        let error = ClientError::new(&Problem::GatewayFault, self.dialect, None);
                        return Poll::Ready(Some(Ok(self.event(&error))));
                    }
                    Poll::Pending => {
                        std::task::ready!(self.speak.as_mut().poll(cx));
                        let next = Instant::now() + self.every;
                        self.speak.as_mut().reset(next);
                        return Poll::Ready(Some(Ok(self.nothing())));
                    }
                },
                State::Following(content) => {
                    let polled = std::task::ready!(content.poll_frame(cx, cut));
                    return Poll::Ready(
                        polled.map(|frame| frame.map(|frame| Frame::into_data(frame).unwrap_or_default())),
                    );
                }
                State::Failed => {
                    self.state = State::Flushing;
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                State::Flushing => return Poll::Ready(Some(Err(CutShort))),
            }
        }
    }

    /// Goes over to what the journey arrived with; an error event if that is an error.
    fn arrived(&mut self, arrival: Arrival) -> Option<Bytes> {
        let success = arrival.status.is_success();
        match arrival.end {
            Ending::Stream(relay) => {
                self.state = State::Following(Content::Relay(relay));
                None
            }
            Ending::Passing(passing) if success => {
                self.state = State::Following(Content::Passing(passing));
                None
            }
            Ending::Whole(pieces) if success => {
                self.state = State::Following(Content::Whole(pieces));
                None
            }
            Ending::Ours(error) => {
                self.state = State::Failed;
                Some(self.event(&error))
            }
            Ending::Whole(pieces) => {
                self.state = State::Failed;
                let body: Vec<u8> = pieces.iter().flat_map(|piece| piece.iter().copied()).collect();
                Some(self.upstreams_words(&body, arrival.status.as_u16()))
            }
            Ending::Passing(_) => {
                self.state = State::Failed;
                Some(self.upstreams_words(&[], arrival.status.as_u16()))
            }
        }
    }

    /// The upstream's own error as an event: its message, under our envelope.
    fn upstreams_words(&self, body: &[u8], status: u16) -> Bytes {
        let parsed: Option<serde_json::Value> = serde_json::from_slice(body).ok();
        let message = parsed.as_ref().and_then(|body| {
            let error = body.get("error").unwrap_or(body);
            error.get("message").and_then(serde_json::Value::as_str).or_else(|| error.as_str())
        });
        let why = message.unwrap_or("the provider refused it").trim_end_matches('.').to_owned();
        let mut error = ClientError::new(&Problem::BadRequest { why: why.clone() }, self.dialect, None);
        error.message = why;
        error.status = status;
        self.event(&error)
    }

    fn event(&self, error: &ClientError) -> Bytes {
        Bytes::from(error_event(self.dialect, self.framing, error, &Continuation::default()))
    }

    fn nothing(&self) -> Bytes {
        Bytes::from_static(keepalive(self.dialect, self.framing))
    }
}
