//! A receiver on loopback that answers as told, or not at all.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};

/// What the receiver does with the next call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    Status(u16),
    Hang,
}

/// A call as it arrived.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Call {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(header, _)| header == name).map_or("", |(_, value)| value)
    }
}

pub(crate) struct Sink {
    pub(crate) url: String,
    pub(crate) calls: mpsc::UnboundedReceiver<Call>,
}

impl Sink {
    /// Answers with 200 once the script is used up.
    pub(crate) async fn start(script: impl IntoIterator<Item = Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let script = Arc::new(Mutex::new(script.into_iter().collect::<VecDeque<_>>()));
        let (sender, calls) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&script), sender.clone()));
            }
        });
        Self { url, calls }
    }

    pub(crate) async fn call(&mut self) -> Call {
        self.calls.recv().await.unwrap()
    }
}

async fn serve(
    mut stream: TcpStream,
    script: Arc<Mutex<VecDeque<Answer>>>,
    sender: mpsc::UnboundedSender<Call>,
) {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    let (head_end, length) = loop {
        let read = stream.read(&mut chunk).await.unwrap_or(0);
        if read == 0 {
            return;
        }
        bytes.extend_from_slice(&chunk[..read]);
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        break (end + 4, length.unwrap_or(0));
    };
    while bytes.len() < head_end + length {
        let read = stream.read(&mut chunk).await.unwrap_or(0);
        bytes.extend_from_slice(&chunk[..read]);
    }
    let head = String::from_utf8_lossy(&bytes[..head_end]).into_owned();
    let mut lines = head.lines();
    let path = lines.next().unwrap_or_default().split(' ').nth(1).unwrap_or_default().to_owned();
    let headers = lines.filter_map(|line| line.split_once(": "));
    let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
    let body = String::from_utf8_lossy(&bytes[head_end..]).into_owned();
    let answer = script.lock().pop_front().unwrap_or(Answer::Status(200));
    let _ = sender.send(Call { path, headers, body });
    match answer {
        Answer::Status(status) => {
            let text = format!("HTTP/1.1 {status} X\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok");
            let _ = stream.write_all(text.as_bytes()).await;
        }
        Answer::Hang => std::future::pending().await,
    }
}
