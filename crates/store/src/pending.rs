//! The answer of the writer thread to one operation: awaited in async code, or waited for in a plain thread.

use std::{
    future::Future,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
};

use tokio::sync::oneshot;

use crate::StoreError;

/// An operation under way. Dropping it does not stop the operation.
#[derive(Debug)]
#[must_use = "the operation may fail"]
pub struct Pending<T>(oneshot::Receiver<Result<T, StoreError>>);

impl<T> Pending<T> {
    pub(crate) fn new() -> (oneshot::Sender<Result<T, StoreError>>, Self) {
        let (sender, receiver) = oneshot::channel();
        (sender, Self(receiver))
    }

    /// Blocks this thread until the operation is done. Not for async code.
    pub fn wait(self) -> Result<T, StoreError> {
        block_on(self)
    }
}

impl<T> Future for Pending<T> {
    type Output = Result<T, StoreError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map(|answer| answer.unwrap_or(Err(StoreError::Closed)))
    }
}

/// Resolves when a change has reached the write-ahead log, where it survives the end of the process.
///
/// While the disk fails it stays pending, so whoever awaits it sets a limit; dropping it loses nothing.
#[derive(Debug)]
#[must_use = "await it, with a limit, or drop it on purpose"]
pub struct Ack(pub(crate) oneshot::Receiver<()>);

impl Ack {
    /// Blocks this thread until the change is written, or the store is closed. Not for async code.
    pub fn wait(self) -> bool {
        block_on(self)
    }
}

impl Future for Ack {
    /// Whether it was written; `false` when the store was closed first.
    type Output = bool;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<bool> {
        Pin::new(&mut self.0).poll(context).map(|answer| answer.is_ok())
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}
