//! A plain client that hides nothing: which bytes came, when, and how the answer ended.
//!
//! The benchmark and the demo ask with it, because a finished client library repeats, buffers and smooths over what they
//! want to see. One client is one connection, kept while the peer keeps it.

use std::io;
use std::net::SocketAddr;

use bytes::{Bytes, BytesMut};
use memchr::memmem;
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// One connection's worth of asking.
#[derive(Debug)]
pub struct Client {
    addr: SocketAddr,
    stream: Option<TcpStream>,
    input: BytesMut,
    rest: Rest,
    last_of_connection: bool,
}

/// Status and headers of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerHead {
    /// The status.
    pub status: u16,
    /// The headers in order, names in lower case.
    pub headers: Vec<(String, String)>,
}

/// Why an answer is not whole.
#[derive(Debug, Error)]
pub enum Trouble {
    /// No connection came about.
    #[error("cannot connect")]
    Connect(#[source] io::Error),
    /// The connection was closed before the answer's end.
    #[error("the connection was closed early")]
    Closed,
    /// The connection was reset.
    #[error("the connection broke")]
    Broken(#[source] io::Error),
    /// What came is no HTTP.
    #[error("the answer is malformed: {0}")]
    Malformed(&'static str),
}

/// What is left of an answer's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    None,
    Length(usize),
    UntilClose,
    ChunkSize,
    Chunk(usize),
    ChunkEnd,
    Trailer,
}

impl Client {
    /// Makes a client of a server; it connects when it first asks.
    #[must_use]
    pub fn new(addr: SocketAddr) -> Self {
        Self { addr, stream: None, input: BytesMut::new(), rest: Rest::None, last_of_connection: false }
    }

    /// Sends a request, given as its bytes.
    ///
    /// # Errors
    /// When there is no connection, or it breaks.
    pub async fn send(&mut self, request: &[u8]) -> Result<(), Trouble> {
        if self.last_of_connection || self.rest != Rest::None {
            self.hang_up();
        }
        let stream = match &mut self.stream {
            Some(stream) => stream,
            None => {
                let stream = TcpStream::connect(self.addr).await.map_err(Trouble::Connect)?;
                stream.set_nodelay(true).map_err(Trouble::Connect)?;
                self.stream.insert(stream)
            }
        };
        stream.write_all(request).await.map_err(Trouble::Broken)
    }

    /// Waits for status and headers; informational answers are skipped.
    ///
    /// # Errors
    /// When the connection ends first, or what comes is no HTTP.
    pub async fn head(&mut self) -> Result<AnswerHead, Trouble> {
        loop {
            let Some(end) = memmem::find(&self.input, b"\r\n\r\n") else {
                self.fill().await?;
                continue;
            };
            let head = parse(&self.input.split_to(end + 4))?;
            if (100..200).contains(&head.status) {
                continue;
            }
            self.last_of_connection =
                head.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
            self.rest = match (head.header("transfer-encoding"), head.header("content-length")) {
                (Some(_), _) => Rest::ChunkSize,
                (None, Some("0")) => Rest::None,
                (None, Some(length)) => Rest::Length(
                    length.parse().map_err(|_| Trouble::Malformed("content-length is no number"))?,
                ),
                (None, None) if matches!(head.status, 204 | 304) => Rest::None,
                (None, None) => Rest::UntilClose,
            };
            return Ok(head);
        }
    }

    /// Waits for the next piece of the body, without its framing; `None` is the orderly end.
    ///
    /// # Errors
    /// When the connection ends before the body, or the framing is malformed.
    pub async fn piece(&mut self) -> Result<Option<Bytes>, Trouble> {
        loop {
            if self.rest == Rest::None {
                return Ok(None);
            }
            if let Some(piece) = self.take()? {
                return Ok(Some(piece));
            }
            if self.rest == Rest::None {
                return Ok(None);
            }
            match self.fill().await {
                Ok(()) => {}
                Err(Trouble::Closed) if self.rest == Rest::UntilClose => {
                    self.hang_up();
                    return Ok(None);
                }
                Err(trouble) => return Err(trouble),
            }
        }
    }

    /// Sends a request and reads the whole answer.
    ///
    /// # Errors
    /// When any part of it fails.
    pub async fn ask(&mut self, request: &[u8]) -> Result<(AnswerHead, Vec<u8>), Trouble> {
        self.send(request).await?;
        let head = self.head().await?;
        let mut body = Vec::new();
        while let Some(piece) = self.piece().await? {
            body.extend_from_slice(&piece);
        }
        Ok((head, body))
    }

    /// Ends the connection; the next request opens another.
    pub fn hang_up(&mut self) {
        self.stream = None;
        self.input.clear();
        self.rest = Rest::None;
        self.last_of_connection = false;
    }

    /// Takes what is there of the body; `None` asks for more input, unless the body is over.
    fn take(&mut self) -> Result<Option<Bytes>, Trouble> {
        loop {
            match self.rest {
                Rest::None => return Ok(None),
                _ if self.input.is_empty() => return Ok(None),
                Rest::UntilClose => return Ok(Some(self.input.split().freeze())),
                Rest::Length(left) => {
                    let piece = self.input.split_to(left.min(self.input.len())).freeze();
                    let left = left - piece.len();
                    self.rest = if left == 0 { Rest::None } else { Rest::Length(left) };
                    return Ok(Some(piece));
                }
                Rest::Chunk(left) => {
                    let piece = self.input.split_to(left.min(self.input.len())).freeze();
                    let left = left - piece.len();
                    self.rest = if left == 0 { Rest::ChunkEnd } else { Rest::Chunk(left) };
                    return Ok(Some(piece));
                }
                Rest::ChunkSize | Rest::ChunkEnd | Rest::Trailer => {
                    let Some(end) = memmem::find(&self.input, b"\r\n") else { return Ok(None) };
                    let line = self.input.split_to(end + 2);
                    self.rest = after_line(self.rest, &line[..end])?;
                }
            }
        }
    }

    async fn fill(&mut self) -> Result<(), Trouble> {
        let Some(stream) = &mut self.stream else { return Err(Trouble::Closed) };
        self.input.reserve(READ_SIZE);
        match stream.read_buf(&mut self.input).await {
            Ok(0) => Err(Trouble::Closed),
            Ok(_) => Ok(()),
            Err(error) => Err(Trouble::Broken(error)),
        }
    }
}

impl AnswerHead {
    /// The first header of this name, given in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

fn after_line(rest: Rest, line: &[u8]) -> Result<Rest, Trouble> {
    match rest {
        Rest::ChunkEnd if line.is_empty() => Ok(Rest::ChunkSize),
        Rest::ChunkEnd => Err(Trouble::Malformed("a chunk is longer than it says")),
        Rest::Trailer => Ok(if line.is_empty() { Rest::None } else { Rest::Trailer }),
        Rest::None | Rest::Length(_) | Rest::UntilClose | Rest::ChunkSize | Rest::Chunk(_) => {
            let size = std::str::from_utf8(line).ok().and_then(|line| line.split(';').next());
            let size = size.and_then(|size| usize::from_str_radix(size.trim(), 16).ok());
            match size {
                Some(0) => Ok(Rest::Trailer),
                Some(size) => Ok(Rest::Chunk(size)),
                None => Err(Trouble::Malformed("a chunk's size is no number")),
            }
        }
    }
}

fn parse(head: &[u8]) -> Result<AnswerHead, Trouble> {
    let text = String::from_utf8_lossy(head);
    let mut lines = text.split("\r\n");
    let status = lines.next().filter(|line| line.starts_with("HTTP/1.")).and_then(|line| line.get(9..12));
    let status = status.and_then(|status| status.parse().ok()).ok_or(Trouble::Malformed("no status line"))?;
    let headers = lines.filter_map(|line| line.split_once(':'));
    let headers =
        headers.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_string())).collect();
    Ok(AnswerHead { status, headers })
}

const READ_SIZE: usize = 16 * 1024;
