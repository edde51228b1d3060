//! Calls that a person asks for: connection tests and lists of models.
//!
//! They go the way of every other call to a provider, with its address, headers and TLS, on a connection of their
//! own. They are no traffic: nothing is counted, no key is blamed, nothing is repeated. What comes back is shown to
//! people, so the key that was sent is taken out of it.

use std::{sync::Arc, time::Duration};

use backstop_store::Secret;
use backstop_triage::{Catalog, Fault, KeyId, ProviderId, Timestamp, pool::Pool};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri, header, uri::InvalidUri};
use tokio::time::Instant;

use crate::{
    config::{BaseUrl, Provider},
    gateway::Control,
    plan::{Credential, OutletKey, StoredKey},
    settle,
    upstream::{Freshness, Outgoing, Trouble, Upstream},
};

/// A call to make.
#[derive(Debug)]
pub struct Ask {
    /// Whom to ask, and with which key.
    pub whom: Whom,
    /// How.
    pub method: Method,
    /// A path below the base URL, one below its origin (`{origin}/x`), or a whole URL of the provider.
    pub url: String,
    /// The body, JSON.
    pub body: Option<Bytes>,
    /// When to give up.
    pub within: Duration,
}

/// Whom to ask, and with which key.
#[derive(Debug)]
pub enum Whom {
    /// A configured provider with one of its keys.
    Key(ProviderId, KeyId),
    /// A configured provider with a key that is not saved, or with none.
    Unsaved(ProviderId, Option<Secret>),
    /// A provider that is not configured, with a key or without.
    Draft(Box<Provider>, Option<Secret>),
}

/// What came back.
#[derive(Debug)]
pub struct Told {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, at most 4 MiB of it, without the key.
    pub body: Bytes,
}

/// Why nothing came back.
#[derive(Debug)]
pub struct Silence {
    /// What failed.
    pub fault: Fault,
    /// What the system said, without URL and secret.
    pub detail: String,
}

impl Control {
    /// The configured providers, in order of the configuration.
    #[must_use]
    pub fn configured(&self) -> Vec<Provider> {
        self.shared().plan.load().outlets().map(|outlet| outlet.config.clone()).collect()
    }

    /// The rules in force.
    #[must_use]
    pub fn catalog(&self) -> Arc<Catalog> {
        self.shared().catalog.load_full()
    }

    /// Works on the pool, and writes its transitions through. The work must be quick: requests wait for it.
    pub fn with_pool<T>(&self, work: impl FnOnce(&mut Pool, Timestamp) -> T) -> T {
        let shared = self.shared();
        let now = shared.clock.now();
        let settled = settle::work(shared, |pool| work(pool, now));
        if !settled.changes.is_empty() {
            shared.pool_changed.notify_waiters();
        }
        settled.result
    }

    /// Makes a call.
    ///
    /// # Errors
    /// When there is no whole answer in time, or the provider, key or address cannot be used.
    pub async fn ask(&self, ask: Ask) -> Result<Told, Silence> {
        let (provider, upstream, key) = self.find(ask.whom)?;
        let (upstream, target) = self.target(&provider, upstream, &ask.url)?;
        let credential = key.as_ref().map(|key| OutletKey::new(key, &provider).credential);
        let wanted = Call { method: ask.method, target, body: ask.body.unwrap_or_default() };
        let request = request(wanted, &upstream, &provider, credential.as_ref())
            .map_err(|_| Silence::unusable("the address cannot be used"))?;
        let mut told = call(&upstream, request, Instant::now() + ask.within).await?;
        if let Some(key) = key {
            told.body = without(&told.body, key.secret.expose());
        }
        Ok(told)
    }

    fn find(&self, whom: Whom) -> Result<(Provider, Arc<Upstream>, Option<StoredKey>), Silence> {
        let stored = |secret: Secret| StoredKey { id: KeyId(0), label: String::new(), account: None, secret };
        let plan = self.shared().plan.load_full();
        let outlet = |id: &ProviderId| {
            plan.outlet(id.as_str()).ok_or_else(|| Silence::unusable("there is no such provider"))
        };
        match whom {
            Whom::Key(id, key) => {
                let outlet = outlet(&id)?;
                let secret = outlet.keys.get(&key).map(|key| key.secret.clone());
                let secret = secret.ok_or_else(|| Silence::unusable("the key is locked or not there"))?;
                Ok((outlet.config.clone(), Arc::clone(&outlet.upstream), Some(stored(secret))))
            }
            Whom::Unsaved(id, secret) => {
                let outlet = outlet(&id)?;
                Ok((outlet.config.clone(), Arc::clone(&outlet.upstream), secret.map(stored)))
            }
            Whom::Draft(provider, secret) => {
                let upstream =
                    Upstream::new(&provider).map_err(|error| Silence::unusable(&error.to_string()))?;
                Ok((*provider, Arc::new(upstream), secret.map(stored)))
            }
        }
    }

    /// The connection and the path of a URL. A key is sent to no other host than its provider's, or its preset's.
    fn target(
        &self,
        provider: &Provider,
        upstream: Arc<Upstream>,
        url: &str,
    ) -> Result<(Arc<Upstream>, String), Silence> {
        let query = provider.query.iter().map(|(name, value)| format!("{name}={value}"));
        let query = query.collect::<Vec<_>>().join("&");
        if url.starts_with('/') {
            let path = provider.base_url.address.join(url, Some(&query));
            return path.map(|path| (upstream, path)).map_err(|error| Silence::unusable(&error.to_string()));
        }
        let own = &provider.base_url;
        let origin = format!("{}://{}", own.address.scheme, own.authority());
        let url = url.replace("{origin}", &origin);
        let unusable = || Silence::unusable("the address cannot be used");
        let uri: Uri = url.parse().map_err(|_| unusable())?;
        let (Some(scheme), Some(authority), Some(path)) =
            (uri.scheme_str(), uri.authority(), uri.path_and_query())
        else {
            return Err(unusable());
        };
        let base = BaseUrl::parse(&format!("{scheme}://{authority}")).map_err(|_| unusable())?;
        if base.host == own.host && base.port == own.port {
            return Ok((upstream, path.as_str().to_owned()));
        }
        let catalog = self.catalog();
        let preset = provider.preset.as_deref().and_then(|id| catalog.preset(id));
        let genuine = preset.and_then(|preset| BaseUrl::parse(&preset.base_url).ok());
        if genuine.is_none_or(|genuine| genuine.host != own.host) {
            return Err(Silence::unusable("a key is not sent to another host than its provider's"));
        }
        let elsewhere = Upstream::new(&Provider { base_url: base, ..provider.clone() });
        let elsewhere = elsewhere.map_err(|error| Silence::unusable(&error.to_string()))?;
        Ok((Arc::new(elsewhere), path.as_str().to_owned()))
    }
}

impl Silence {
    fn unusable(detail: &str) -> Self {
        Self { fault: Fault::ConnectRefused, detail: detail.to_owned() }
    }
}

/// A call that is none of a client's.
pub(crate) struct Call {
    pub(crate) method: Method,
    /// Path and query, without the key.
    pub(crate) target: String,
    pub(crate) body: Bytes,
}

/// Makes a call ready to be sent to a provider: with its headers, and with the key where it wants it.
pub(crate) fn request(
    call: Call,
    upstream: &Upstream,
    provider: &Provider,
    credential: Option<&Credential>,
) -> Result<Request<Outgoing>, InvalidUri> {
    let has_body = !call.body.is_empty();
    let mut request = Request::new(Outgoing::Whole(call.body));
    *request.method_mut() = call.method;
    let headers = request.headers_mut();
    headers.insert(header::HOST, upstream.authority().clone());
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    if has_body {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    for (name, value) in &provider.headers {
        headers.insert(name.clone(), value.clone());
    }
    let target = match credential {
        Some(Credential::Header(name, value)) => {
            headers.insert(name.clone(), value.clone());
            call.target
        }
        Some(Credential::Query(pair)) => and_query(&call.target, pair),
        Some(Credential::Nothing) | None => call.target,
    };
    *request.uri_mut() = target.parse()?;
    Ok(request)
}

/// A path and query with what the provider's configuration adds to every query, except what is there already.
pub(crate) fn with_query(target: String, provider: &Provider) -> String {
    let has = |target: &str, name: &str| {
        let query = target.split_once('?').map_or("", |(_, query)| query);
        query.split('&').any(|pair| pair.split('=').next() == Some(name))
    };
    provider.query.iter().fold(target, |target, (name, value)| {
        if has(&target, name) { target } else { and_query(&target, &format!("{name}={value}")) }
    })
}

fn and_query(target: &str, pair: &str) -> String {
    let join = if target.contains('?') { '&' } else { '?' };
    format!("{target}{join}{pair}")
}

async fn call(upstream: &Arc<Upstream>, request: Request<Outgoing>, by: Instant) -> Result<Told, Silence> {
    let broken = |fault: Fault, detail: String| Silence { fault, detail };
    let exchange =
        upstream.send(request, Freshness::Fresh, by).await.map_err(|error| match error.trouble {
            Trouble::Fault(fault) => broken(fault, error.detail),
            Trouble::ForbiddenAddress => {
                Silence::unusable("the name leads to an address that no provider has")
            }
            // What we ask ourselves is whole before it is sent.
            Trouble::Upload(_) => broken(Fault::BrokenPipe, error.detail),
        })?;
    let mut answer = exchange.body;
    let mut body = Vec::new();
    while body.len() < LARGEST {
        match tokio::time::timeout_at(by, answer.bytes()).await {
            Ok(Some(Ok(bytes))) => body.extend_from_slice(&bytes),
            Ok(Some(Err(cut))) => return Err(broken(cut.fault, cut.detail)),
            Ok(None) => break,
            Err(_) => return Err(broken(Fault::ReadTimeout, "the answer did not end in time".to_owned())),
        }
    }
    Ok(Told { status: exchange.head.status, headers: exchange.head.headers, body: body.into() })
}

/// A body without a secret that an upstream has repeated in it.
fn without(body: &Bytes, secret: &str) -> Bytes {
    let text = String::from_utf8_lossy(body);
    if secret.is_empty() || !text.contains(secret) {
        body.clone()
    } else {
        text.replace(secret, "***").into()
    }
}

const LARGEST: usize = 4 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::{Config, Environment};

    #[test]
    fn a_key_in_the_query_goes_along_with_what_the_configuration_adds() {
        let text = "[[provider]]\nid = \"p\"\nformat = \"openai-chat\"\nbase_url = \"http://127.0.0.1:9/v1\"\nkey_header = \"query:token\"\nquery = { version = \"2\" }\n[[provider.key]]\nvalue = \"sk-one\"\n";
        let config =
            Config::parse(text, Path::new("t.toml"), &Environment::default(), &Catalog::embedded()).unwrap();
        let provider = &config.providers[0];
        let upstream = Upstream::new(provider).unwrap();
        let secret = Secret::new("sk-one");
        let key = StoredKey { id: KeyId(1), label: String::new(), account: None, secret };
        let credential = OutletKey::new(&key, provider).credential;
        let target = with_query("/v1/models?version=1".to_owned(), provider);
        let call = Call { method: Method::GET, target, body: Bytes::new() };
        let made = request(call, &upstream, provider, Some(&credential)).unwrap();
        assert_eq!(made.uri(), "/v1/models?version=1&token=sk%2Done");
        assert_eq!(with_query("/v1/models".to_owned(), provider), "/v1/models?version=2");
    }
}
