//! Which headers pass, in either direction.
//!
//! What belongs to one connection, to one browser or to a proxy in between stays here; credentials never pass
//! by themselves (the chosen key is put in afterwards). All else passes untouched, since providers and clients
//! agree on headers that no gateway has heard of: versions, betas, organisations, session ids.

use http::{HeaderMap, HeaderName, header};

/// The headers of a client's request that go on to the provider.
///
/// `accept-encoding` stays here: what is compressed cannot be watched.
pub fn request_headers(headers: &HeaderMap) -> HeaderMap {
    pass(headers, |name| {
        let text = name.as_str();
        !(is_per_hop(name) || is_credential(text) || is_of_a_proxy(text) || is_of_a_browser(text))
            && *name != header::HOST
            && *name != header::CONTENT_LENGTH
            && *name != header::EXPECT
            && *name != header::ACCEPT_ENCODING
            && !text.starts_with("x-backstop-")
    })
}

/// The headers of a provider's answer that go on to the client.
pub fn response_headers(headers: &HeaderMap) -> HeaderMap {
    pass(headers, |name| {
        let text = name.as_str();
        !is_per_hop(name)
            && *name != header::SET_COOKIE
            && *name != header::ALT_SVC
            && *name != header::STRICT_TRANSPORT_SECURITY
            && *name != header::SERVER
            && *name != header::DATE
            && *name != header::CONTENT_LENGTH
            && !text.starts_with("access-control-")
            && !text.starts_with("x-backstop-")
            && !matches!(text, "nel" | "report-to" | "reporting-endpoints")
    })
}

fn pass(headers: &HeaderMap, passes: impl Fn(&HeaderName) -> bool) -> HeaderMap {
    let named = named_by_connection(headers);
    let mut passed = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers {
        if passes(name) && !named.iter().any(|other| name.as_str().eq_ignore_ascii_case(other)) {
            passed.append(name.clone(), value.clone());
        }
    }
    passed
}

/// The headers that `Connection` declares to be this connection's own.
fn named_by_connection(headers: &HeaderMap) -> Vec<&str> {
    let values = headers.get_all(header::CONNECTION).into_iter();
    values.filter_map(|value| value.to_str().ok()).flat_map(|text| text.split(',')).map(str::trim).collect()
}

fn is_per_hop(name: &HeaderName) -> bool {
    matches!(
        name.as_str(),
        "connection"
            | "keep-alive"
            | "proxy-connection"
            | "proxy-authenticate"
            | "proxy-authorization"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
            | "http2-settings"
    )
}

fn is_credential(name: &str) -> bool {
    matches!(name, "authorization" | "x-api-key" | "x-goog-api-key" | "api-key" | "cookie" | "cookie2")
}

fn is_of_a_proxy(name: &str) -> bool {
    name.starts_with("x-forwarded-")
        || name.starts_with("cf-")
        || name.starts_with("x-envoy-")
        || matches!(
            name,
            "forwarded"
                | "via"
                | "x-real-ip"
                | "x-client-ip"
                | "true-client-ip"
                | "cdn-loop"
                | "x-original-uri"
        )
}

fn is_of_a_browser(name: &str) -> bool {
    name.starts_with("sec-") || matches!(name, "origin" | "referer" | "dnt" | "upgrade-insecure-requests")
}
