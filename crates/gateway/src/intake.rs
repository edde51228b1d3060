//! Taking a request's body in: within the limit of one body, within the budget of all bodies, and not for ever.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http_body::Body as _;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::Instant;

/// Bytes of request bodies that may be held at a time, over all requests.
#[derive(Debug)]
pub(crate) struct Budget {
    left: AtomicU64,
}

/// A body that was taken in, and its share of the budget.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    pub(crate) bytes: Bytes,
    _share: Option<Share>,
}

/// Why a body was not taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IntakeError {
    /// Longer than `body_limit`.
    TooLong,
    /// No memory for it at the moment.
    Full,
    /// It came too slowly.
    TooSlow,
    /// It broke off.
    BrokeOff,
}

impl Budget {
    pub(crate) fn new(bytes: u64) -> Arc<Self> {
        Arc::new(Self { left: AtomicU64::new(bytes) })
    }

    /// Reads a body of at most `limit` bytes to its end.
    pub(crate) async fn take(self: &Arc<Self>, mut body: Incoming, limit: u64) -> Result<Taken, IntakeError> {
        if body.is_end_stream() {
            return Ok(Taken::default());
        }
        let announced = body.size_hint().exact();
        if announced.is_some_and(|length| length > limit) {
            return Err(IntakeError::TooLong);
        }
        let mut share = self.share(announced.unwrap_or(0)).ok_or(IntakeError::Full)?;
        let began = Instant::now();
        let mut whole = Gathered::Nothing;
        let mut length = 0;
        while let Some(frame) = next(&mut body, began, length).await? {
            length += frame.len() as u64;
            if length > limit {
                return Err(IntakeError::TooLong);
            }
            if length > share.bytes && !share.grow(length) {
                return Err(IntakeError::Full);
            }
            whole.add(frame, announced);
        }
        Ok(Taken { bytes: whole.into_bytes(), _share: Some(share) })
    }

    fn share(self: &Arc<Self>, bytes: u64) -> Option<Share> {
        let taken =
            self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes));
        taken.ok().map(|_| Share { budget: Arc::clone(self), bytes })
    }
}

/// A part of the budget, given back when dropped.
#[derive(Debug)]
struct Share {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Share {
    fn grow(&mut self, needed: u64) -> bool {
        let Some(more) = self.budget.share(needed - self.bytes) else { return false };
        self.bytes = needed;
        // The two shares are one from here on.
        std::mem::forget(more);
        true
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.left.fetch_add(self.bytes, Ordering::Relaxed);
    }
}

/// A body under construction; one that comes in one piece is never copied.
enum Gathered {
    Nothing,
    One(Bytes),
    Many(BytesMut),
}

impl Gathered {
    fn add(&mut self, frame: Bytes, announced: Option<u64>) {
        match self {
            Self::Nothing => *self = Self::One(frame),
            Self::One(first) => {
                let room = announced
                    .and_then(|length| usize::try_from(length).ok())
                    .unwrap_or(first.len() + frame.len());
                let mut many = BytesMut::with_capacity(room);
                many.extend_from_slice(first);
                many.extend_from_slice(&frame);
                *self = Self::Many(many);
            }
            Self::Many(many) => many.extend_from_slice(&frame),
        }
    }

    fn into_bytes(self) -> Bytes {
        match self {
            Self::Nothing => Bytes::new(),
            Self::One(bytes) => bytes,
            Self::Many(bytes) => bytes.freeze(),
        }
    }
}

async fn next(body: &mut Incoming, began: Instant, length: u64) -> Result<Option<Bytes>, IntakeError> {
    let by = began + PATIENCE + Duration::from_secs(length / LEAST_RATE);
    loop {
        let frame = tokio::time::timeout_at(by, body.frame()).await.map_err(|_| IntakeError::TooSlow)?;
        match frame {
            None => return Ok(None),
            Some(Err(_)) => return Err(IntakeError::BrokeOff),
            Some(Ok(frame)) => {
                if let Ok(bytes) = frame.into_data() {
                    return Ok(Some(bytes));
                }
            }
        }
    }
}

/// What any body may take, whatever its rate.
const PATIENCE: Duration = Duration::from_secs(20);
/// Bytes per second that a body must come with beyond that.
const LEAST_RATE: u64 = 1024;
