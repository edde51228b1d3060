//! Dialling: name, address, TCP, proxy, TLS, each with its own limit and its own fault.
//!
//! A name is looked up by one task at a time, whoever waits for it, so that a resolver that hangs holds one thread
//! and not one for each request. An answer serves for half a minute, and longer while the resolver fails.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use backstop_triage::Fault;
use http::HeaderValue;
use rustls::{ClientConfig, pki_types::ServerName};
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::Mutex,
    task::JoinHandle,
    time::{Instant, timeout},
};
use tokio_rustls::TlsConnector;

use super::{
    Broken, Reach, Trouble,
    address::Allowed,
    tls::{self, TlsError},
    wire::Wire,
};
use crate::config::{Provider, Proxy};

/// Opens connections to one provider.
pub(super) struct Dialer {
    host: String,
    port: u16,
    pub(super) authority: HeaderValue,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    proxy: Option<Proxy>,
    allowed: Allowed,
    names: Mutex<Names>,
    trust: parking_lot::Mutex<Trust>,
}

/// What is known of a provider's certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Trust {
    /// No connection has told yet, or nothing is encrypted.
    #[default]
    Unknown,
    /// The last handshake went well.
    Good,
    /// The certificate was not accepted: why.
    Refused(String),
}

impl Dialer {
    pub(super) fn new(provider: &Provider) -> Result<Self, TlsError> {
        let url = &provider.base_url;
        let unusable = || TlsError::Name(url.host.clone());
        let tls = if url.tls {
            let config: Arc<ClientConfig> = tls::client(provider.ca_file.as_deref())?;
            Some((
                TlsConnector::from(config),
                ServerName::try_from(url.host.clone()).map_err(|_| unusable())?,
            ))
        } else {
            None
        };
        let allowed = match (provider.allow_private, url.is_loopback()) {
            (true, _) => Allowed::Everything,
            (false, true) => Allowed::Loopback,
            (false, false) => Allowed::Outside,
        };
        Ok(Self {
            host: url.host.clone(),
            port: url.port,
            authority: HeaderValue::from_str(&url.authority()).map_err(|_| unusable())?,
            tls,
            proxy: provider.proxy.clone(),
            allowed,
            names: Mutex::default(),
            trust: parking_lot::Mutex::default(),
        })
    }

    pub(super) fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    pub(super) fn trust(&self) -> Trust {
        self.trust.lock().clone()
    }

    pub(super) async fn dial(&self) -> Result<Wire, Broken> {
        let mut stream = timeout(CONNECT_WITHIN, self.connect())
            .await
            .unwrap_or_else(|_| Err(Broken::connect_timeout()))?;
        if let Some(proxy) = &self.proxy {
            let tunnel = timeout(CONNECT_WITHIN, self.tunnel(&mut stream, proxy)).await;
            tunnel.unwrap_or_else(|_| Err(Broken::connect_timeout()))?;
        }
        let Some((connector, name)) = &self.tls else { return Ok(Wire::plain(stream)) };
        match timeout(TLS_WITHIN, connector.connect(name.clone(), stream)).await {
            Ok(Ok(stream)) => {
                *self.trust.lock() = Trust::Good;
                Ok(Wire::encrypted(stream))
            }
            Ok(Err(error)) => {
                if tls::is_about_the_certificate(&error) {
                    *self.trust.lock() = Trust::Refused(error.to_string());
                }
                Err(Broken::not_sent(Fault::Tls, error.to_string()))
            }
            Err(_) => Err(Broken::not_sent(Fault::Tls, "no TLS handshake in time".into())),
        }
    }

    async fn connect(&self) -> Result<TcpStream, Broken> {
        let addresses = match &self.proxy {
            Some(proxy) => self.lookup(&proxy.host, proxy.port).await?,
            None => {
                let addresses = self.lookup(&self.host, self.port).await?;
                addresses.into_iter().filter(|address| self.allowed.admits(address.ip())).collect()
            }
        };
        if addresses.is_empty() {
            let detail =
                "the name leads to an address that no provider has; allow_private would permit it".into();
            return Err(Broken { trouble: Trouble::ForbiddenAddress, reach: Reach::NotSent, detail });
        }
        let share = CONNECT_WITHIN / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
        let mut failed = Broken::connect_timeout();
        for address in addresses {
            match timeout(share.max(LEAST_SHARE), TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return tuned(stream),
                Ok(Err(error)) => failed = refused(&error),
                Err(_) => failed = Broken::connect_timeout(),
            }
        }
        Err(failed)
    }

    /// Asks the proxy for a tunnel, whatever the scheme: no proxy reads what goes through.
    async fn tunnel(&self, stream: &mut TcpStream, proxy: &Proxy) -> Result<(), Broken> {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let target = format!("{host}:{}", self.port);
        let mut request = format!("CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n");
        if let Some(credentials) = &proxy.credentials {
            request.push_str(&format!(
                "proxy-authorization: Basic {}\r\n",
                base64(credentials.expose().as_bytes())
            ));
        }
        request.push_str("\r\n");
        stream.write_all(request.as_bytes()).await.map_err(|error| refused(&error))?;
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            // One byte at a time: what follows the head belongs to the tunnel.
            let byte = stream.read_u8().await.map_err(|error| refused(&error))?;
            answer.push(byte);
            if answer.len() > PROXY_ANSWER_LIMIT {
                break;
            }
        }
        let status = answer.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
        if status == b"200" {
            return Ok(());
        }
        let detail = format!("the proxy answered {} to CONNECT", String::from_utf8_lossy(status));
        Err(Broken::not_sent(Fault::ConnectRefused, detail))
    }

    async fn lookup(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, Broken> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, port)]);
        }
        let unknown = |detail: String| Broken::not_sent(Fault::Dns, detail);
        let found = timeout(LOOKUP_WITHIN, async { self.names.lock().await.resolve(host, port).await }).await;
        found.unwrap_or_else(|_| Err("no answer from the resolver in time".into())).map_err(unknown)
    }
}

/// What a name led to, and the lookup that is under way.
#[derive(Default)]
struct Names {
    known: Option<(Instant, Vec<SocketAddr>)>,
    running: Option<JoinHandle<io::Result<Vec<SocketAddr>>>>,
}

impl Names {
    async fn resolve(&mut self, host: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
        if let Some((since, addresses)) = &self.known
            && since.elapsed() < NAME_SERVES
        {
            return Ok(addresses.clone());
        }
        let running = self.running.get_or_insert_with(|| {
            let host = host.to_owned();
            tokio::spawn(async move { Ok(tokio::net::lookup_host((host.as_str(), port)).await?.collect()) })
        });
        let found = running.await;
        self.running = None;
        match (found, &self.known) {
            (Ok(Ok(addresses)), _) => {
                self.known = Some((Instant::now(), addresses.clone()));
                Ok(addresses)
            }
            (Ok(Err(_)) | Err(_), Some((_, addresses))) => Ok(addresses.clone()),
            (Ok(Err(error)), None) => Err(error.to_string()),
            (Err(_), None) => Err("the lookup was given up".into()),
        }
    }
}

fn tuned(stream: TcpStream) -> Result<TcpStream, Broken> {
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE).with_retries(5);
    let set = stream.set_nodelay(true).and_then(|()| SockRef::from(&stream).set_tcp_keepalive(&keepalive));
    set.map_err(|error| refused(&error))?;
    Ok(stream)
}

fn refused(error: &io::Error) -> Broken {
    let fault = match error.kind() {
        io::ErrorKind::ConnectionReset => Fault::ConnectionReset,
        io::ErrorKind::TimedOut => Fault::ConnectTimeout,
        _ => Fault::ConnectRefused,
    };
    Broken::not_sent(fault, error.to_string())
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let number =
            chunk.iter().chain([0, 0].iter()).take(3).fold(0u32, |sum, byte| sum << 8 | u32::from(*byte));
        for place in 0..4 {
            let letter = LETTERS[(number >> (18 - 6 * place) & 63) as usize];
            text.push(if place <= chunk.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

/// For name and TCP together.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
const LOOKUP_WITHIN: Duration = Duration::from_secs(3);
const TLS_WITHIN: Duration = Duration::from_secs(5);
/// What each of many addresses gets at least.
const LEAST_SHARE: Duration = Duration::from_secs(1);
const NAME_SERVES: Duration = Duration::from_secs(30);
/// As the official SDKs have it.
const KEEPALIVE: Duration = Duration::from_secs(60);
const PROXY_ANSWER_LIMIT: usize = 8 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxy_credentials_are_encoded() {
        let encoded = ["", "f", "fo", "foo", "user:pässword"].map(|text| base64(text.as_bytes()));
        assert_eq!(encoded, ["", "Zg==", "Zm8=", "Zm9v", "dXNlcjpww6Rzc3dvcmQ="]);
    }
}
