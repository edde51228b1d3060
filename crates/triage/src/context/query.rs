//! What to ask over the network about a model, for each step that asks.

use serde_json::{Value, json};

use super::{Directory, Step, metadata::Alone};
use crate::preset::Format;

/// Where a model is served.
#[derive(Clone, Copy, Debug)]
pub struct Endpoint<'a> {
    /// The base URL, with its version segment if it has one.
    pub base_url: &'a str,
    /// The API's shape.
    pub format: Format,
}

/// One question to a server.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// For which step.
    pub step: Step,
    /// How.
    pub method: Method,
    /// Where.
    pub url: String,
    /// What is sent.
    pub body: Option<Value>,
    /// Whether it carries the provider's credential.
    pub authorised: bool,
}

/// The methods that queries use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Reads.
    Get,
    /// Reads too, with the model's name in a body.
    Post,
}

impl Method {
    /// As it stands on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
        }
    }
}

impl Query {
    /// A local server with one model means that model, whatever its name.
    pub(super) fn alone(&self) -> Alone {
        if is_local(&self.url) { Alone::IsOurs } else { Alone::MustBeNamed }
    }
}

/// Everything worth asking about a model, in the order of the steps; the first answer that knows is enough.
pub fn queries(endpoint: Endpoint<'_>, model: &str) -> Vec<Query> {
    let base = endpoint.base_url.trim_end_matches('/');
    let root = without_version(base);
    let versioned = if root.len() == base.len() { format!("{base}/v1") } else { base.to_owned() };
    let query = |step, method, url: String, body| Query { step, method, url, body, authorised: true };
    let get = |step, url| query(step, Method::Get, url, None);
    let own_api = matches!(endpoint.format, Format::AnthropicMessages | Format::Gemini);
    let step = if own_api { Step::ProviderApi } else { Step::Endpoint };
    // A model's name may hold slashes; a path segment may not.
    let segment = model.replace('/', "%2F");
    let mut queries =
        vec![get(step, format!("{versioned}/models/{segment}")), get(step, format!("{versioned}/models"))];
    if is_local(base) {
        let show = Some(json!({ "model": model }));
        queries.extend([
            query(Step::LocalServer, Method::Post, format!("{root}/api/show"), show),
            get(Step::LocalServer, format!("{root}/api/v0/models")),
            get(Step::LocalServer, format!("{root}/props")),
        ]);
    } else if let Some(url) = Directory::embedded().public_list() {
        let url = url.to_owned();
        queries.push(Query { authorised: false, ..get(Step::PublicList, url) });
    }
    queries
}

/// Whether an address is on this machine or a private network.
pub fn is_local(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let authority = authority.rsplit('@').next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(six) => six.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    match host.parse() {
        Ok(std::net::IpAddr::V4(ip)) => {
            let [first, second, ..] = ip.octets();
            let shared = first == 100 && (64..128).contains(&second);
            ip.is_loopback() || ip.is_private() || ip.is_link_local() || shared
        }
        Ok(std::net::IpAddr::V6(ip)) => {
            ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local()
        }
        Err(_) => {
            let host = host.to_ascii_lowercase();
            let suffixes = [".localhost", ".local", ".internal", ".lan"];
            !host.is_empty() && (!host.contains('.') || suffixes.iter().any(|suffix| host.ends_with(suffix)))
        }
    }
}

/// The URL without a last segment such as `/v1` or `/v1beta`.
fn without_version(base: &str) -> &str {
    let Some((root, last)) = base.rsplit_once('/') else { return base };
    let digits = last.strip_prefix('v').unwrap_or_default();
    if digits.starts_with(|c: char| c.is_ascii_digit()) && !root.ends_with('/') { root } else { base }
}
