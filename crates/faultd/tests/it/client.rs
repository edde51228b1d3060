//! A client that sends and reads bytes and hides nothing.

use std::io;
use std::net::SocketAddr;

use backstop_faultd::Faultd;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How a peer ended a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Closed,
    Reset,
}

/// One connection.
pub(crate) struct Client {
    stream: TcpStream,
    read: Vec<u8>,
}

impl Client {
    pub(crate) async fn connect(addr: SocketAddr) -> Self {
        Self { stream: TcpStream::connect(addr).await.unwrap(), read: Vec::new() }
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
    }

    /// Reads until `end` has come; gives everything up to it.
    pub(crate) async fn until(&mut self, end: &str) -> String {
        if end.is_empty() {
            return String::new();
        }
        let mut looked = 0;
        loop {
            let fresh = self.read[looked..].windows(end.len()).position(|window| window == end.as_bytes());
            if let Some(at) = fresh {
                let rest = self.read.split_off(looked + at + end.len());
                return String::from_utf8(std::mem::replace(&mut self.read, rest)).unwrap();
            }
            looked = (self.read.len() + 1).saturating_sub(end.len());
            assert!(self.more().await.unwrap() > 0, "closed after {:?}", String::from_utf8_lossy(&self.read));
        }
    }

    /// Reads until the peer ends the connection.
    pub(crate) async fn read_all(mut self) -> (Vec<u8>, End) {
        loop {
            match self.more().await {
                Ok(0) => return (self.read, End::Closed),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                    return (self.read, End::Reset);
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Says that nothing more will be sent.
    pub(crate) async fn half_close(&mut self) {
        let _ = self.stream.shutdown().await;
    }

    /// Reads until the peer ends the connection, in whichever way.
    pub(crate) async fn drain(mut self) {
        while matches!(self.more().await, Ok(1..)) {}
    }

    async fn more(&mut self) -> io::Result<usize> {
        self.stream.read_buf(&mut self.read).await
    }
}

/// A POST with a key as bearer token, on a connection that ends after it.
pub(crate) fn post(path: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: faultd\r\nauthorization: Bearer sk-1\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

/// The same with another key, on a connection that stays.
pub(crate) fn keep(path: &str, key: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: faultd\r\nauthorization: Bearer {key}\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

pub(crate) fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: faultd\r\nconnection: close\r\n\r\n")
}

/// Sends one request on a connection of its own and reads all that comes.
pub(crate) async fn ask(provider: &Faultd, request: impl AsRef<[u8]>) -> (String, End) {
    let mut client = Client::connect(provider.addr()).await;
    client.send(request).await;
    let (bytes, end) = client.read_all().await;
    (String::from_utf8_lossy(&bytes).replace('\r', ""), end)
}

pub(crate) const CHAT: &str = r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#;

pub(crate) const CHAT_STREAM: &str =
    r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}"#;
