//! Calls off the path of requests: is this key good, how full are its windows, is there money again?
//!
//! The pool says when a call is due and what for, the preset says where. A call goes to the host that the provider is
//! configured with; a preset's endpoint on another host is called only if the provider itself is the preset's.

use std::{sync::Arc, time::Duration};

use backstop_dialect::has_embedded_error;
use backstop_triage::{
    Basis, Class, Evidence, KeyId, Kind, Penalty, Preset, ProviderId, Scope, Timestamp, Treatment, Verdict,
    pool::{Probe, ProbeKind, ProbeResult},
    probe::{QuotaProbe, Reading},
    quota::QuotaSnapshot,
};
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, StatusCode, Uri};
use tokio::time::Instant;

use crate::{
    ask::{Call, request, with_query},
    config::{BaseUrl, Provider},
    gateway::Control,
    plan::{Outlet, OutletKey},
    settle,
    shared::Shared,
    upstream::{Freshness, Outgoing, Upstream},
};

/// Makes one call, and tells the pool what it found.
pub(crate) async fn make(shared: Arc<Shared>, probe: Probe) {
    shared.meters.probes.add(1);
    let found = find(&shared, &probe).await.unwrap_or(ProbeResult::Inconclusive);
    tracing::debug!(provider = %probe.provider, key = %probe.key, kind = ?probe.kind, found = word(&found), "probe");
    let now = shared.clock.now();
    drop(settle::work(&shared, |pool| pool.probe_result(&probe, found, now)));
    shared.pool_changed.notify_waiters();
}

/// What a usage endpoint said when a person asked.
#[derive(Clone, Debug, PartialEq)]
pub enum QuotaTold {
    /// How full the key's windows are.
    Windows(QuotaSnapshot),
    /// The key is refused.
    Refused,
    /// Nothing that can be read.
    Unreadable,
    /// The provider has no usage endpoint that is known, or the key is not there.
    NoEndpoint,
}

impl Control {
    /// Asks a usage endpoint how full a key's windows are, and lets the pool know. A key that it refuses is only told.
    pub async fn ask_quota(&self, provider: &ProviderId, key: KeyId) -> QuotaTold {
        let shared = self.shared();
        let plan = shared.plan.load_full();
        let catalog = shared.catalog.load_full();
        let Some(outlet) = plan.outlet(provider.as_str()) else { return QuotaTold::NoEndpoint };
        let preset = outlet.config.preset.as_deref().and_then(|id| catalog.preset(id));
        let preset = preset.filter(|preset| !preset.quota.is_empty());
        let (Some(stored), Some(preset)) = (outlet.keys.get(&key), preset) else {
            return QuotaTold::NoEndpoint;
        };
        match (Caller { outlet, key: stored, preset }).quota(shared.clock.now()).await {
            Some(ProbeResult::Quota(snapshot)) => {
                let now = shared.clock.now();
                drop(settle::work(shared, |pool| pool.record_quota(provider, key, &snapshot, now)));
                shared.pool_changed.notify_waiters();
                QuotaTold::Windows(snapshot)
            }
            Some(ProbeResult::Refused(_)) => QuotaTold::Refused,
            Some(ProbeResult::Passed | ProbeResult::Money(_) | ProbeResult::Inconclusive) | None => {
                QuotaTold::Unreadable
            }
        }
    }
}

async fn find(shared: &Arc<Shared>, probe: &Probe) -> Option<ProbeResult> {
    let plan = shared.plan.load_full();
    let catalog = shared.catalog.load_full();
    let outlet = plan.outlet(probe.provider.as_str())?;
    let key = outlet.keys.get(&probe.key)?;
    let preset = catalog.preset(outlet.config.preset.as_deref()?)?;
    let caller = Caller { outlet, key, preset };
    match probe.kind {
        ProbeKind::Test => {
            let url = preset.free_test()?.resolve(&outlet.config.base_url.to_string());
            let answer = caller.get(&url, &[]).await?;
            Some(test(&answer, |evidence| {
                catalog.classify(&outlet.config.rules, evidence, shared.clock.now())
            }))
        }
        ProbeKind::Quota => caller.quota(shared.clock.now()).await,
        ProbeKind::Balance => match caller.quota(shared.clock.now()).await? {
            ProbeResult::Quota(snapshot) => Some(ProbeResult::Money(snapshot.is_open())),
            other => Some(other),
        },
    }
}

/// What a free test says of a key.
fn test(answer: &Got, classify: impl Fn(&Evidence) -> Verdict) -> ProbeResult {
    if answer.status.is_success() && !has_embedded_error(&answer.body) {
        return ProbeResult::Passed;
    }
    let verdict = classify(&answer.evidence());
    match verdict.class {
        // A permission or a service that the test lacks says nothing against the key.
        Class::AuthError | Class::BillingExhausted
            if Treatment::of(&verdict, Some(answer.status.as_u16())).penalty == Penalty::RestDoubt =>
        {
            ProbeResult::Inconclusive
        }
        Class::AuthError | Class::BillingExhausted => ProbeResult::Refused(verdict),
        Class::RequestError
        | Class::ContextOverflow
        | Class::TransientRequest
        | Class::ModelError
        | Class::QuotaExhausted
        | Class::RateLimit
        | Class::Overloaded
        | Class::ServerError
        | Class::Timeout
        | Class::NetworkError
        | Class::ConfigurationError
        | Class::LocalFault
        | Class::Unknown => ProbeResult::Inconclusive,
    }
}

struct Caller<'a> {
    outlet: &'a Outlet,
    key: &'a OutletKey,
    preset: &'a Preset,
}

struct Got {
    status: StatusCode,
    headers: http::HeaderMap,
    body: Bytes,
}

impl Got {
    fn evidence(&self) -> Evidence {
        let header = |(name, value): (&HeaderName, &HeaderValue)| {
            Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
        };
        Evidence {
            kind: Kind::Http { status: self.status.as_u16() },
            headers: self.headers.iter().filter_map(header).collect(),
            text: String::from_utf8_lossy(&self.body).into_owned(),
            ..Evidence::default()
        }
    }
}

impl Caller<'_> {
    /// Asks the usage endpoints in turn until one can be read.
    async fn quota(&self, now: Timestamp) -> Option<ProbeResult> {
        for probe in &self.preset.quota {
            let headers: Vec<(&str, &str)> =
                probe.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            let url = probe.resolve(&self.outlet.config.base_url.to_string());
            let Some(answer) = self.get(&url, &headers).await else { continue };
            if let Some(found) = read(probe, &answer, now) {
                return Some(found);
            }
        }
        None
    }

    async fn get(&self, url: &str, headers: &[(&str, &str)]) -> Option<Got> {
        let config = &self.outlet.config;
        let uri: Uri = url.parse().ok()?;
        let origin = format!("{}://{}", uri.scheme_str()?, uri.authority()?);
        let base = BaseUrl::parse(&origin).ok()?;
        let at_home = base.host == config.base_url.host && base.port == config.base_url.port;
        let is_the_presets =
            BaseUrl::parse(&self.preset.base_url).is_ok_and(|own| own.host == config.base_url.host);
        if !at_home && !is_the_presets {
            return None;
        }
        let upstream = if at_home {
            Arc::clone(&self.outlet.upstream)
        } else {
            Arc::new(Upstream::new(&Provider { base_url: base, ..config.clone() }).ok()?)
        };
        let target = with_query(uri.path_and_query()?.as_str().to_owned(), config);
        let call = Call { method: Method::GET, target, body: Bytes::new() };
        let mut request = request(call, &upstream, config, Some(&self.key.credential)).ok()?;
        for (name, value) in headers {
            request
                .headers_mut()
                .insert(HeaderName::try_from(*name).ok()?, HeaderValue::try_from(*value).ok()?);
        }
        get(&upstream, request).await
    }
}

async fn get(upstream: &Arc<Upstream>, request: Request<Outgoing>) -> Option<Got> {
    let by = Instant::now() + WITHIN;
    let exchange = upstream.send(request, Freshness::Fresh, by).await.ok()?;
    let mut answer = exchange.body;
    let mut body = Vec::new();
    while body.len() < Evidence::TEXT_CAP {
        match tokio::time::timeout_at(by, answer.bytes()).await.ok()? {
            Some(Ok(bytes)) => body.extend_from_slice(&bytes),
            Some(Err(_)) => return None,
            None => break,
        }
    }
    Some(Got { status: exchange.head.status, headers: exchange.head.headers, body: body.into() })
}

fn read(probe: &QuotaProbe, answer: &Got, now: Timestamp) -> Option<ProbeResult> {
    let text = String::from_utf8_lossy(&answer.body);
    match probe.read(answer.status.as_u16(), &text, now) {
        Reading::Windows(snapshot) => Some(ProbeResult::Quota(snapshot)),
        Reading::DeadKey => {
            let mut verdict = Verdict::new(Class::AuthError, Scope::Key, "invalid_key", Basis::Structure);
            verdict.disable_key = true;
            Some(ProbeResult::Refused(verdict))
        }
        Reading::NoPlan | Reading::NotUsable => None,
    }
}

fn word(found: &ProbeResult) -> &'static str {
    match found {
        ProbeResult::Passed => "passed",
        ProbeResult::Refused(_) => "refused",
        ProbeResult::Quota(_) => "quota",
        ProbeResult::Money(_) => "money",
        ProbeResult::Inconclusive => "inconclusive",
    }
}

const WITHIN: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_test_refuses_a_key_only_with_proof() {
        let answer =
            Got { status: StatusCode::FORBIDDEN, headers: http::HeaderMap::new(), body: Bytes::new() };
        let verdict = |reason: &str, basis: Basis| Verdict::new(Class::AuthError, Scope::Key, reason, basis);
        for (verdict, refused) in [
            (verdict("permission_missing", Basis::Structure), false),
            (Verdict { disable_key: true, ..verdict("invalid_key", Basis::Structure) }, true),
        ] {
            let found = test(&answer, |_| verdict.clone());
            assert_eq!(matches!(found, ProbeResult::Refused(_)), refused, "{verdict:?}");
        }
    }
}
