//! A provider's base URL, taken apart once.

use std::net::IpAddr;

use backstop_dialect::Address;

/// Where a provider is reached: scheme, host, port and the path below which its API lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseUrl {
    /// Whether the connection is encrypted.
    pub tls: bool,
    /// The host, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The whole, for joining with the paths of clients.
    pub address: Address,
}

impl BaseUrl {
    /// Takes a base URL apart; the error says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let address = Address::parse(text).map_err(|error| error.to_string())?;
        let tls = address.scheme == "https";
        let authority: http::uri::Authority =
            address.authority.parse().map_err(|_| "the base URL has no valid host".to_owned())?;
        let host = authority.host().trim_matches(['[', ']']).to_ascii_lowercase();
        let port = authority.port_u16().unwrap_or(if tls { 443 } else { 80 });
        Ok(Self { tls, host, port, address })
    }

    /// The value of the `Host` header.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let usual = if self.tls { 443 } else { 80 };
        if self.port == usual { host } else { format!("{host}:{}", self.port) }
    }

    /// Whether the host, as it is written, is this machine.
    pub fn is_loopback(&self) -> bool {
        match self.host.parse::<IpAddr>() {
            Ok(address) => address.is_loopback(),
            Err(_) => self.host == "localhost" || self.host.ends_with(".localhost"),
        }
    }
}

impl std::fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.address.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_is_taken_apart() {
        let url = BaseUrl::parse("https://api.example.com/v1/").unwrap();
        assert_eq!(
            (url.tls, url.host.as_str(), url.port, url.address.path.as_str()),
            (true, "api.example.com", 443, "/v1")
        );
        let local = BaseUrl::parse("http://[::1]:8000").unwrap();
        assert_eq!((local.authority().as_str(), local.is_loopback()), ("[::1]:8000", true));
    }

    #[test]
    fn what_does_not_belong_into_a_base_url_is_refused() {
        for wrong in
            ["ftp://x", "api.example.com/v1", "https://key@x/v1", "https://x/v1?key=1", "https://x/v1#a", ""]
        {
            assert!(BaseUrl::parse(wrong).is_err(), "{wrong}");
        }
    }
}
