//! A small HTTP client for calls beside the traffic: one question, one bounded answer, a time limit.

use std::{error::Error, time::Duration};

use bytes::Bytes;
pub use http::Method;
use http::{Request, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use rustls::{ClientConfig, RootCertStore};

/// A client; cheap to clone.
#[derive(Clone, Debug)]
pub struct HttpClient {
    inner: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    time_limit: Duration,
    tls_trouble: Option<String>,
}

/// Why there is no answer. Names hosts only, since paths and queries may hold secrets.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The certificates of this system cannot be used.
    #[error("cannot set up TLS: {0}")]
    Tls(String),
    /// No URL.
    #[error("no valid http:// or https:// address")]
    BadUrl,
    /// No connection, or it broke.
    #[error("cannot reach {host}: {cause}")]
    Unreachable {
        /// The host.
        host: String,
        /// The innermost cause.
        cause: String,
    },
    /// No answer in time.
    #[error("no answer from {host} within {limit_s} s")]
    TimedOut {
        /// The host.
        host: String,
        /// The limit in seconds.
        limit_s: u64,
    },
    /// The answer is larger than anything that is read here.
    #[error("the answer of {0} is broken off or too large")]
    BadBody(String),
}

/// An answer.
#[derive(Clone, Debug)]
pub struct HttpReply {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: http::HeaderMap,
    /// The body, at most 16 MiB.
    pub body: Bytes,
}

impl HttpReply {
    /// A header as text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

impl HttpClient {
    /// A client whose calls take at most `time_limit`, connection included. Redirects are not followed. Where
    /// the system has no certificates, calls to `https://` fail and the others work.
    pub fn new(time_limit: Duration) -> Self {
        let trusting = HttpsConnectorBuilder::new().try_with_platform_verifier();
        let tls_trouble = trusting.as_ref().err().map(ToString::to_string);
        let builder = trusting.unwrap_or_else(|_| {
            let nobody = ClientConfig::builder().with_root_certificates(RootCertStore::empty());
            HttpsConnectorBuilder::new().with_tls_config(nobody.with_no_client_auth())
        });
        let connector = builder.https_or_http().enable_http1().build();
        let inner = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector);
        Self { inner, time_limit, tls_trouble }
    }

    /// Why nothing can be encrypted, if so.
    pub fn tls_trouble(&self) -> Option<&str> {
        self.tls_trouble.as_deref()
    }

    /// The same client with another time limit.
    pub fn within(&self, time_limit: Duration) -> Self {
        Self { time_limit, ..self.clone() }
    }

    /// Reads.
    pub async fn get(&self, url: &str, headers: &[(&str, String)]) -> Result<HttpReply, HttpError> {
        self.send(Method::GET, url, headers, Bytes::new()).await
    }

    /// Sends JSON.
    pub async fn post_json(
        &self,
        url: &str,
        headers: &[(&str, String)],
        body: impl Into<Bytes>,
    ) -> Result<HttpReply, HttpError> {
        self.send(Method::POST, url, headers, body.into()).await
    }

    /// Sends anything; a body is JSON.
    pub async fn send(
        &self,
        method: Method,
        url: &str,
        headers: &[(&str, String)],
        body: Bytes,
    ) -> Result<HttpReply, HttpError> {
        let uri: Uri = url.parse().map_err(|_| HttpError::BadUrl)?;
        if let Some(trouble) = self.tls_trouble.as_ref().filter(|_| uri.scheme_str() == Some("https")) {
            return Err(HttpError::Tls(trouble.clone()));
        }
        let host = uri
            .authority()
            .ok_or(HttpError::BadUrl)?
            .as_str()
            .rsplit('@')
            .next()
            .unwrap_or_default()
            .to_owned();
        let mut request = Request::builder().method(&method).uri(uri).header(header::USER_AGENT, USER_AGENT);
        if method == Method::POST || !body.is_empty() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let request = request.body(Full::new(body)).map_err(|_| HttpError::BadUrl)?;
        let exchange = async {
            let answer = self
                .inner
                .request(request)
                .await
                .map_err(|error| HttpError::Unreachable { host: host.clone(), cause: innermost(&error) })?;
            let (head, body) = answer.into_parts();
            let body = Limited::new(body, BODY_LIMIT).collect().await;
            let body = body.map_err(|_| HttpError::BadBody(host.clone()))?.to_bytes();
            Ok(HttpReply { status: head.status.as_u16(), headers: head.headers, body })
        };
        let limit_s = self.time_limit.as_secs();
        tokio::time::timeout(self.time_limit, exchange)
            .await
            .unwrap_or_else(|_| Err(HttpError::TimedOut { host: host.clone(), limit_s }))
    }
}

fn innermost(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

const USER_AGENT: &str = concat!("backstop/", env!("CARGO_PKG_VERSION"));
const BODY_LIMIT: usize = 16 * 1024 * 1024;
