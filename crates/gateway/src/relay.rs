//! A stream on its way to the client, from its first content on.
//!
//! Whole events pass as they come; the bytes of an event whose end has not arrived wait for it, so that a stream that
//! breaks off never leaves half an event behind. From here on nothing is repeated. What ends badly ends with one error
//! event in the client's own protocol, and the connection is closed in the middle of the answer: nobody can take that
//! for a regular end.

use std::{
    collections::VecDeque,
    future::Future as _,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use backstop_dialect::{ClientError, EventKind, Framing, StreamReader, error_event, keepalive};
use backstop_triage::{Basis, Class, Evidence, Fault, Kind, Scope, Verdict, cascade::Progress};
use bytes::Bytes;
use http::HeaderMap;
use tokio::time::{Instant, Sleep, sleep};

use crate::{attempt::Opened, drive::Journey, objects, refuse, reply::CutShort, upstream::Answer};

/// The rest of a stream.
pub(crate) struct Relay {
    /// What may go to the client.
    outbox: VecDeque<Bytes>,
    answer: Answer,
    reader: StreamReader,
    framing: Framing,
    state: State,
    /// Half of an event that never ended is with the client.
    half_is_out: bool,
    idle_timeout: Duration,
    /// How long the client may hear nothing; zero is for ever.
    keepalive: Duration,
    /// When the upstream was heard last, and when the client.
    heard: Instant,
    spoke: Instant,
    tick: Pin<Box<Sleep>>,
    journey: Box<Journey>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Flowing,
    /// The upstream has ended well; what is in the outbox is the rest.
    Ended,
    /// An error event is in the outbox; then the connection closes.
    Failed,
    /// The error event has been handed over, and the library gets a turn to write it.
    Flushing,
}

impl Relay {
    pub(crate) fn new(opened: Opened, idle_timeout: Duration, journey: Box<Journey>) -> Self {
        let keepalive = journey.route.as_ref().map_or(0, |route| route.outlet.config.settings.keepalive_s);
        let keepalive = Duration::from_secs(keepalive);
        let now = Instant::now();
        let first_tick = if keepalive.is_zero() { idle_timeout } else { idle_timeout.min(keepalive) };
        Self {
            outbox: opened.held.pieces,
            answer: opened.answer,
            reader: opened.reader,
            framing: opened.framing,
            state: State::Flowing,
            half_is_out: false,
            idle_timeout,
            keepalive,
            heard: now,
            spoke: now,
            tick: Box::pin(sleep(first_tick)),
            journey,
        }
    }

    pub(crate) fn poll_bytes(
        &mut self,
        cx: &mut Context<'_>,
        cut: bool,
    ) -> Poll<Option<Result<Bytes, CutShort>>> {
        loop {
            if let Some(bytes) = self.outbox.pop_front() {
                self.spoke = Instant::now();
                self.journey.record.showed(&bytes);
                return Poll::Ready(Some(Ok(bytes)));
            }
            match self.state {
                State::Flowing => {
                    if self.take_in() {
                        continue;
                    }
                    if cut {
                        self.stop_for_shutdown();
                    } else {
                        ready!(self.poll_upstream(cx));
                    }
                }
                State::Ended => return Poll::Ready(None),
                State::Failed => {
                    self.state = State::Flushing;
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                State::Flushing => return Poll::Ready(Some(Err(CutShort))),
            }
        }
    }

    /// Moves what the reader has let go into the outbox; whether there was anything.
    fn take_in(&mut self) -> bool {
        let Some(passage) = self.reader.pop() else { return false };
        match passage.kind {
            EventKind::Error => self.failed_inside(),
            EventKind::Comment
            | EventKind::Ping
            | EventKind::Preamble
            | EventKind::Content
            | EventKind::Usage
            | EventKind::Terminal { .. }
            | EventKind::Other => self.outbox.push_back(passage.bytes),
        }
        true
    }

    fn poll_upstream(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self.answer.poll_bytes(cx) {
            Poll::Ready(Some(Ok(chunk))) => {
                self.heard = Instant::now();
                self.reader.push(chunk);
                Poll::Ready(())
            }
            Poll::Ready(Some(Err(cut))) => {
                self.ended(Some((cut.fault, cut.detail)));
                Poll::Ready(())
            }
            Poll::Ready(None) => {
                self.ended(None);
                Poll::Ready(())
            }
            Poll::Pending => self.poll_tick(cx),
        }
    }

    /// The upstream's body is over, by itself or by a fault. After the terminal event both are fine.
    fn ended(&mut self, fault: Option<(Fault, String)>) {
        let at = self.reader.has_ended();
        if !at && fault.is_none() {
            self.finish_reading();
            if self.state != State::Flowing {
                return;
            }
        }
        if self.reader.has_ended() {
            self.complete();
            self.state = State::Ended;
            return;
        }
        let (fault, detail) =
            fault.unwrap_or_else(|| (Fault::IncompleteBody, "the stream ended early".to_owned()));
        let evidence = self.journey.evidence_of(fault, 0);
        self.journey.record.detail(&detail);
        self.fail(|journey| journey.failed(&evidence, Progress::Committed, None));
    }

    /// The body ended in order. An event without its end counts if it is the last one of a whole answer; else half of
    /// it would be read together with the error event that follows.
    fn finish_reading(&mut self) {
        let half_is_out = self.reader.is_mid_event();
        self.reader.finish();
        if self.reader.has_ended() {
            while self.state == State::Flowing && self.take_in() {}
            return;
        }
        self.half_is_out = half_is_out;
        while let Some(passage) = self.reader.pop() {
            if passage.kind == EventKind::Error {
                return self.failed_inside();
            }
        }
    }

    fn complete(&mut self) {
        self.journey.counted(self.reader.usage());
        if let Some(id) = self.reader.continuation().response_id {
            objects::remember(&self.journey, &id);
        }
        self.journey.completed();
    }

    fn failed_inside(&mut self) {
        let text =
            self.reader.error().map(|error| String::from_utf8_lossy(error).into_owned()).unwrap_or_default();
        let evidence = self.journey.evidence(Kind::Stream { status: 200 }, &HeaderMap::new(), text);
        self.fail(|journey| journey.failed(&evidence, Progress::Committed, Some(200)));
    }

    fn stop_for_shutdown(&mut self) {
        if self.reader.is_over() {
            // The client has it all: what the reader let go is out before this is asked.
            return self.ended(None);
        }
        let verdict = Verdict::new(Class::LocalFault, Scope::Local, "shutting_down", Basis::Structure);
        self.fail(|journey| journey.failed_as(verdict, &Evidence::default(), Progress::Committed, None));
    }

    /// Reports the failure and puts the one error event into the outbox.
    fn fail(&mut self, report: impl FnOnce(&mut Journey)) {
        self.journey.counted(self.reader.usage());
        report(&mut self.journey);
        self.journey.record.broke_off();
        let error = refuse::in_stream(&self.journey);
        self.speak(&error);
        self.state = State::Failed;
    }

    fn speak(&mut self, error: &ClientError) {
        if self.half_is_out || self.reader.is_mid_event() {
            // Half of a huge event is with the client already; an event of ours would be read as its rest.
            return;
        }
        let event = error_event(self.journey.asked.dialect, self.framing, error, &self.reader.continuation());
        self.outbox.push_back(Bytes::from(event));
    }

    fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            ready!(self.tick.as_mut().poll(cx));
            let now = Instant::now();
            let silent_at = self.heard + self.idle_timeout;
            if silent_at <= now {
                self.ended(Some((Fault::IdleTimeout, "the stream fell silent".to_owned())));
                return Poll::Ready(());
            }
            let mut next = silent_at;
            if !self.keepalive.is_zero() {
                let speak_at = self.spoke + self.keepalive;
                if speak_at <= now && !self.reader.is_mid_event() {
                    let nothing = keepalive(self.journey.asked.dialect, self.framing);
                    self.outbox.push_back(Bytes::from_static(nothing));
                    self.tick.as_mut().reset(silent_at.min(now + self.keepalive));
                    return Poll::Ready(());
                }
                next = next.min(speak_at.max(now + LEAST_TICK));
            }
            self.tick.as_mut().reset(next);
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // A client that has the terminal event may leave without waiting for the end of the body.
        if self.state == State::Flowing && self.reader.has_ended() {
            self.complete();
        }
    }
}

const LEAST_TICK: Duration = Duration::from_millis(100);
