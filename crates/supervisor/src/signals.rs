//! The signals that we pass on.

use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind};

use crate::SupervisorError;

/// Every signal that a service manager, a shell or a terminal sends.
pub struct Signals {
    streams: Vec<(Signal, unix::Signal)>,
}

impl Signals {
    /// Begins to watch.
    pub fn watch() -> Result<Self, SupervisorError> {
        let watched = [
            (Signal::TERM, SignalKind::terminate()),
            (Signal::INT, SignalKind::interrupt()),
            (Signal::HUP, SignalKind::hangup()),
            (Signal::QUIT, SignalKind::quit()),
            (Signal::USR1, SignalKind::user_defined1()),
            (Signal::USR2, SignalKind::user_defined2()),
            (Signal::WINCH, SignalKind::window_change()),
        ];
        let streams = watched.into_iter().map(|(signal, kind)| Ok((signal, unix::signal(kind)?)));
        Ok(Self { streams: streams.collect::<Result<_, _>>().map_err(SupervisorError::Signals)? })
    }

    /// The next one.
    pub(crate) async fn next(&mut self) -> Signal {
        std::future::poll_fn(|context| {
            for (signal, stream) in &mut self.streams {
                if stream.poll_recv(context).is_ready() {
                    return std::task::Poll::Ready(*signal);
                }
            }
            std::task::Poll::Pending
        })
        .await
    }

    /// The next one that asks us to end.
    pub(crate) async fn end(&mut self) -> Signal {
        loop {
            let signal = self.next().await;
            if ends(signal) || signal == Signal::INT {
                return signal;
            }
        }
    }
}

/// Whether a signal asks the process to end. An interrupt does not: agents take it as "stop what you are
/// doing".
pub(crate) fn ends(signal: Signal) -> bool {
    [Signal::TERM, Signal::HUP, Signal::QUIT].contains(&signal)
}
