//! What was observed of a failure, before anybody interprets it.

use serde::{Deserialize, Serialize};

/// One failure as it was observed. Secrets and prompts may be inside: never log it, show it only redacted.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// How it failed.
    pub kind: Kind,
    /// Response headers, names in lower case, in order of arrival.
    pub headers: Vec<(String, String)>,
    /// The body, the stream's bytes, or a process's stdout; at most [`Evidence::TEXT_CAP`] of it is read.
    pub text: String,
    /// A process's stderr; at most [`Evidence::TEXT_CAP`] of it is read.
    pub stderr: String,
    /// Facts that only the caller knows.
    pub hints: Hints,
}

impl Evidence {
    /// Bytes of text that are read, from each of body and stderr.
    pub const TEXT_CAP: usize = 64 * 1024;

    /// The first value of a header, by its lower-case name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
    }
}

/// How it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A complete HTTP answer with this status (also an error inside a 200).
    Http {
        /// The status code.
        status: u16,
    },
    /// A stream that carried an error, or ended without its terminal event.
    Stream {
        /// The status that the stream began with.
        status: u16,
    },
    /// The connection failed; no complete answer.
    Transport(Fault),
    /// A process ended.
    Process {
        /// Its exit code, if it exited by itself.
        exit_code: Option<i32>,
        /// The signal that ended it.
        signal: Option<i32>,
    },
}

impl Default for Kind {
    fn default() -> Self {
        Self::Http { status: 0 }
    }
}

/// The ways a connection fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// Nothing listens there.
    ConnectRefused,
    /// The name does not resolve.
    Dns,
    /// The TLS handshake failed.
    Tls,
    /// Reset, or closed without an answer.
    ConnectionReset,
    /// The peer closed while we were sending.
    BrokenPipe,
    /// No connection in time.
    ConnectTimeout,
    /// No answer in time.
    ReadTimeout,
    /// The stream fell silent.
    IdleTimeout,
    /// The body broke off.
    IncompleteBody,
}

impl Fault {
    /// Every fault.
    pub const ALL: [Self; 9] = [
        Self::ConnectRefused,
        Self::Dns,
        Self::Tls,
        Self::ConnectionReset,
        Self::BrokenPipe,
        Self::ConnectTimeout,
        Self::ReadTimeout,
        Self::IdleTimeout,
        Self::IncompleteBody,
    ];

    /// The public name, as in the corpus.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ConnectRefused => "connect_refused",
            Self::Dns => "dns",
            Self::Tls => "tls",
            Self::ConnectionReset => "connection_reset",
            Self::BrokenPipe => "broken_pipe",
            Self::ConnectTimeout => "connect_timeout",
            Self::ReadTimeout => "read_timeout",
            Self::IdleTimeout => "idle_timeout",
            Self::IncompleteBody => "incomplete_body",
        }
    }
}

/// Facts that a gateway knows beside the failure itself; all optional.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hints {
    /// The model that was asked.
    pub model: Option<String>,
    /// An estimate of the prompt's tokens.
    pub approx_tokens: Option<u64>,
    /// The model's window in tokens.
    pub context_length: Option<u64>,
    /// Messages in the prompt.
    pub messages: Option<u64>,
    /// Bytes of answer that had arrived when the connection broke.
    pub bytes_received: Option<u64>,
    /// Texts of the client's own request, so that an echo of them in an error is not read for words.
    pub echo: Vec<String>,
}
