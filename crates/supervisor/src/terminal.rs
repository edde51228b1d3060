//! A person's terminal, when the child gets a pseudo-terminal of its own.
//!
//! While the child runs, our terminal is raw: every key goes to the child's, whose line discipline turns it
//! into signals. Between two runs it is as it was, so that an interrupt reaches us.

use std::{
    io::{IsTerminal as _, Read as _},
    os::fd::AsFd as _,
};

use rustix::termios::{self, OptionalActions, Termios};
use tokio::sync::mpsc;

/// Puts our terminal into raw mode until it is dropped.
pub(crate) struct RawMode {
    before: Termios,
}

impl RawMode {
    /// `None` if our input is no terminal.
    pub(crate) fn enter() -> Option<Self> {
        let stdin = std::io::stdin();
        let before = termios::tcgetattr(stdin.as_fd()).ok()?;
        let mut raw = before.clone();
        raw.make_raw();
        termios::tcsetattr(stdin.as_fd(), OptionalActions::Drain, &raw).ok()?;
        Some(Self { before })
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        let _ = termios::tcsetattr(std::io::stdin().as_fd(), OptionalActions::Drain, &self.before);
    }
}

/// Rows and columns of our terminal.
pub(crate) fn size() -> Option<(u16, u16)> {
    let size = termios::tcgetwinsize(std::io::stdout().as_fd()).ok()?;
    Some((size.ws_row, size.ws_col))
}

/// What a person types, read by one thread for the life of the supervisor: a read that waits for a key cannot
/// be called off, so each child's own reader would swallow the first key meant for the next one.
pub(crate) struct Keyboard {
    keys: mpsc::Receiver<Vec<u8>>,
}

impl Keyboard {
    /// `None` if our input is no terminal.
    pub(crate) fn open() -> Option<Self> {
        if !std::io::stdin().is_terminal() {
            return None;
        }
        let (sender, keys) = mpsc::channel(16);
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = std::io::stdin().lock().read(&mut buffer) {
                if sender.blocking_send(buffer[..read].to_vec()).is_err() {
                    return;
                }
            }
        });
        Some(Self { keys })
    }

    /// The next keys; never returns after the end of input.
    pub(crate) async fn next(&mut self) -> Vec<u8> {
        match self.keys.recv().await {
            Some(keys) => keys,
            None => std::future::pending().await,
        }
    }
}
