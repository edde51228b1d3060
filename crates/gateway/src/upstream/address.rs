//! Which addresses a provider may have. Checked when dialling, not when configuring: a name can lead anywhere by then.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// How far a provider's name may lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Allowed {
    /// Public and private addresses, as a provider on the internet or in one's own network has them.
    Outside,
    /// This machine as well: the configured host says so itself.
    Loopback,
    /// Everything (`allow_private`).
    Everything,
}

impl Allowed {
    pub(super) fn admits(self, address: IpAddr) -> bool {
        match self {
            Self::Everything => true,
            Self::Loopback => address.to_canonical().is_loopback() || is_ordinary(address.to_canonical()),
            Self::Outside => is_ordinary(address.to_canonical()),
        }
    }
}

fn is_ordinary(address: IpAddr) -> bool {
    if address.is_loopback()
        || address.is_unspecified()
        || address.is_multicast()
        || METADATA.contains(&address)
    {
        return false;
    }
    match address {
        IpAddr::V4(address) => !address.is_link_local() && !address.is_broadcast(),
        IpAddr::V6(address) => !address.is_unicast_link_local(),
    }
}

/// Where clouds tell a machine its secrets, beside the link-local 169.254.169.254.
const METADATA: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_not_lead_to_metadata_link_local_or_this_machine() {
        let refused = [
            "169.254.169.254",
            "::ffff:169.254.169.254",
            "fe80::1",
            "127.0.0.1",
            "::1",
            "0.0.0.0",
            "224.0.0.1",
            "fd00:ec2::254",
        ];
        for address in refused {
            assert!(!Allowed::Outside.admits(address.parse().unwrap()), "{address}");
        }
        for address in ["8.8.8.8", "10.1.2.3", "2606:4700::1111"] {
            assert!(Allowed::Outside.admits(address.parse().unwrap()), "{address}");
        }
        assert!(Allowed::Loopback.admits("127.0.0.1".parse().unwrap()));
        assert!(!Allowed::Loopback.admits("169.254.169.254".parse().unwrap()));
    }
}
