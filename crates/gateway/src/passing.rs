//! An answer that passes through unread, because it is too long to be held: files, audio, images.

use std::{
    collections::VecDeque,
    future::Future as _,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use backstop_triage::Fault;
use bytes::Bytes;
use tokio::time::{Instant, Sleep, sleep};

use crate::{drive::Journey, reply::CutShort, upstream::Answer};

/// The rest of an answer whose beginning has been seen.
pub(crate) struct Passing {
    held: VecDeque<Bytes>,
    answer: Answer,
    length: Option<u64>,
    idle_timeout: Duration,
    last: Instant,
    silence: Pin<Box<Sleep>>,
    /// None for an error that goes back: its journey has ended.
    journey: Option<Box<Journey>>,
}

impl Passing {
    pub(crate) fn new(
        held: VecDeque<Bytes>,
        answer: Answer,
        idle_timeout: Duration,
        journey: Option<Box<Journey>>,
    ) -> Self {
        let begun: u64 = held.iter().map(|piece| piece.len() as u64).sum();
        let length = answer.length().map(|rest| begun + rest);
        let silence = Box::pin(sleep(idle_timeout));
        Self { held, answer, length, idle_timeout, last: Instant::now(), silence, journey }
    }

    /// How long the whole answer is, if that was announced.
    pub(crate) fn length(&self) -> Option<u64> {
        self.length
    }

    pub(crate) fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, CutShort>>> {
        if let Some(piece) = self.held.pop_front() {
            self.showed(&piece);
            return Poll::Ready(Some(Ok(piece)));
        }
        match self.answer.poll_bytes(cx) {
            Poll::Ready(Some(Ok(bytes))) => {
                self.last = Instant::now();
                self.showed(&bytes);
                Poll::Ready(Some(Ok(bytes)))
            }
            Poll::Ready(None) => {
                if let Some(mut journey) = self.journey.take() {
                    journey.completed();
                }
                Poll::Ready(None)
            }
            Poll::Ready(Some(Err(cut))) => self.break_off(cut.fault, &cut.detail),
            Poll::Pending => self.poll_silence(cx),
        }
    }

    fn showed(&mut self, bytes: &Bytes) {
        if let Some(journey) = &mut self.journey {
            journey.record.showed(bytes);
        }
    }

    fn break_off(&mut self, fault: Fault, detail: &str) -> Poll<Option<Result<Bytes, CutShort>>> {
        if let Some(mut journey) = self.journey.take() {
            journey.broke_off(fault, detail);
        }
        Poll::Ready(Some(Err(CutShort)))
    }

    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, CutShort>>> {
        loop {
            std::task::ready!(self.silence.as_mut().poll(cx));
            let end = self.last + self.idle_timeout;
            if end <= Instant::now() {
                return self.break_off(Fault::IdleTimeout, "silent for too long");
            }
            self.silence.as_mut().reset(end);
        }
    }
}
