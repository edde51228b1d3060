//! Behind TLS everything is as it is without.

use std::sync::Arc;

use backstop_faultd::{Ended, Faultd, How, Point, Reply, Script};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::aws_lc_rs};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::client::{CHAT_STREAM, keep, post};

async fn play(reply: Reply) -> (Faultd, TlsConnector) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_string()]).unwrap();
    let certificate = made.cert.der().to_vec();
    let key = made.signing_key.serialize_der();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(certificate.clone())).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let provider = Faultd::start_tls(Script::new().otherwise(reply), certificate, key).await.unwrap();
    (provider, TlsConnector::from(Arc::new(config)))
}

async fn connect(provider: &Faultd, connector: &TlsConnector) -> TlsStream<TcpStream> {
    let stream = TcpStream::connect(provider.addr()).await.unwrap();
    connector.connect(ServerName::try_from("localhost").unwrap(), stream).await.unwrap()
}

#[tokio::test]
async fn answers_come_through() {
    let (provider, connector) = play(Reply::answer()).await;
    let mut stream = connect(&provider, &connector).await;
    stream.write_all(post("/v1/chat/completions", CHAT_STREAM).as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.ends_with("data: [DONE]\n\n\r\n0\r\n\r\n"), "{answer}");
}

#[tokio::test]
async fn cuts_and_leavings_are_seen() {
    let (provider, connector) = play(Reply::answer().cut(Point::Content(1), How::Hang)).await;
    let mut stream = connect(&provider, &connector).await;
    stream.write_all(keep("/v1/chat/completions", "k", CHAT_STREAM).as_bytes()).await.unwrap();
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains("piece 0") {
        stream.read_buf(&mut seen).await.unwrap();
    }
    drop(stream);
    let ended =
        provider.until(|calls| calls.iter().map(|call| call.ended).find(|end| *end != Ended::Open)).await;
    assert_eq!(ended, Ended::Cut);
}

#[tokio::test]
async fn who_does_not_shake_hands_is_shut_out() {
    let (provider, _) = play(Reply::answer()).await;
    let mut stream = TcpStream::connect(provider.addr()).await.unwrap();
    stream.write_all(post("/v1/chat/completions", CHAT_STREAM).as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    assert!(!String::from_utf8_lossy(&answer).contains("HTTP"));
    assert_eq!((provider.counters().calls, provider.counters().malformed), (0, 1));
}
