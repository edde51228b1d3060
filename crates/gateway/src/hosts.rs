//! Which names a client may call us by.
//!
//! A web page can make its own name lead to this machine and then call us with the visitor's browser; the `Host`
//! header still carries the page's name. Addresses cannot be rebound, so any IP literal passes, and so do `localhost`
//! and the names of `allowed_hosts`.

use std::net::IpAddr;

use http::{HeaderMap, Uri, header};

/// The names that pass.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hosts(Vec<String>);

/// Why a request's `Host` or `Origin` does not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HostError {
    /// None, several, or characters that no host has.
    Malformed,
    /// A name that is not ours.
    Foreign(String),
    /// A web page of another origin calls.
    ForeignOrigin,
}

impl Hosts {
    pub(crate) fn new(allowed: &[String]) -> Self {
        Self(allowed.to_vec())
    }

    /// Checks the authority of an absolute target, `Host`, and `Origin` where a browser sends one.
    pub(crate) fn check(&self, target: &Uri, headers: &HeaderMap) -> Result<(), HostError> {
        if let Some(authority) = target.authority() {
            // Whoever is called by a full address may be called by a foreign one; and no login belongs into it.
            self.check_host(authority.as_str())?;
        }
        let mut hosts = headers.get_all(header::HOST).into_iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else { return Err(HostError::Malformed) };
        let host = host.to_str().map_err(|_| HostError::Malformed)?;
        self.check_host(host)?;
        let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
        let origin = origin.to_str().map_err(|_| HostError::ForeignOrigin)?;
        let Some(host) = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://")) else {
            // Editors and desktop programs have origins of their own schemes; no web page can take one on.
            return if origin == "null" { Err(HostError::ForeignOrigin) } else { Ok(()) };
        };
        let name = name_of(host).ok_or(HostError::ForeignOrigin)?;
        if self.admits(name, host) { Ok(()) } else { Err(HostError::ForeignOrigin) }
    }

    fn check_host(&self, host: &str) -> Result<(), HostError> {
        let name = name_of(host).ok_or(HostError::Malformed)?;
        if self.admits(name, host) { Ok(()) } else { Err(HostError::Foreign(name.to_owned())) }
    }

    fn admits(&self, name: &str, host: &str) -> bool {
        if name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok() {
            return true;
        }
        self.0.iter().any(|allowed| allowed.eq_ignore_ascii_case(name) || allowed.eq_ignore_ascii_case(host))
    }
}

/// The name within `name:port`; `None` for what is no host.
fn name_of(host: &str) -> Option<&str> {
    if let Some(rest) = host.strip_prefix('[') {
        let (address, port) = rest.split_once(']')?;
        let port_fine = port.is_empty() || is_port(port.strip_prefix(':')?);
        return (port_fine && address.parse::<IpAddr>().is_ok()).then_some(address);
    }
    let (name, port) = host.split_once(':').map_or((host, None), |(name, port)| (name, Some(port)));
    let letters = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    (!name.is_empty() && name.bytes().all(letters) && port.is_none_or(is_port)).then_some(name)
}

fn is_port(text: &str) -> bool {
    text.parse::<u16>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(headers: &[(header::HeaderName, &str)]) -> Result<(), HostError> {
        let headers = headers.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect();
        Hosts::new(&["gateway.lan".into(), "proxy.lan:8443".into()])
            .check(&Uri::from_static("/v1/models"), &headers)
    }

    #[test]
    fn only_our_own_names_pass() {
        for ours in [
            "127.0.0.1:3030",
            "localhost",
            "[::1]:3030",
            "192.168.1.5:3030",
            "Gateway.LAN:1",
            "proxy.lan:8443",
        ] {
            assert_eq!(check(&[(header::HOST, ours)]), Ok(()), "{ours}");
        }
        assert_eq!(check(&[(header::HOST, "evil.test:3030")]), Err(HostError::Foreign("evil.test".into())));
        assert_eq!(check(&[(header::HOST, "proxy.lan:1")]), Err(HostError::Foreign("proxy.lan".into())));
    }

    #[test]
    fn a_malformed_host_is_no_host() {
        for wrong in ["", "a/b", "a?b", "localhost:x", "[::1", "a b", "user@localhost", "localhost:99999"] {
            assert_eq!(check(&[(header::HOST, wrong)]), Err(HostError::Malformed), "{wrong}");
        }
        assert_eq!(check(&[]), Err(HostError::Malformed));
    }

    #[test]
    fn a_web_page_of_another_origin_is_refused() {
        let from = |origin| check(&[(header::HOST, "localhost:3030"), (header::ORIGIN, origin)]);
        assert_eq!(from("http://localhost:3030"), Ok(()));
        assert_eq!(from("vscode-webview://abc"), Ok(()));
        assert_eq!(from("https://evil.test"), Err(HostError::ForeignOrigin));
        assert_eq!(from("null"), Err(HostError::ForeignOrigin));
    }
}
