//! Addresses that no sandbox may reach, whatever its policy (spec 1-domain, *Network policy*).

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

/// A range of addresses that a deployment's configuration opens, such as `10.20.0.0/16`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cidr {
    address: IpAddr,
    prefix: u8,
}

/// The text is not a range of addresses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a range of addresses: write ADDRESS/BITS, such as 10.20.0.0/16")]
pub struct BadCidr;

impl FromStr for Cidr {
    type Err = BadCidr;
    fn from_str(text: &str) -> Result<Self, BadCidr> {
        let (address, prefix) = text.split_once('/').ok_or(BadCidr)?;
        let address: IpAddr = address.parse().map_err(|_| BadCidr)?;
        let prefix: u8 = prefix.parse().map_err(|_| BadCidr)?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        if prefix > most {
            return Err(BadCidr);
        }
        // A range of v4-mapped addresses is the range of their IPv4 addresses.
        match (address, address.to_canonical()) {
            (IpAddr::V6(_), v4 @ IpAddr::V4(_)) if prefix >= 96 => Ok(Self {
                address: v4,
                prefix: prefix - 96,
            }),
            _ => Ok(Self { address, prefix }),
        }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

impl Cidr {
    /// Whether the range holds `ip`. A v4-mapped IPv6 address counts as its IPv4 address.
    pub fn contains(&self, ip: IpAddr) -> bool {
        match (self.address, ip.to_canonical()) {
            (IpAddr::V4(range), IpAddr::V4(ip)) => in_v4(ip, range, u32::from(self.prefix)),
            (IpAddr::V6(range), IpAddr::V6(ip)) => in_v6(ip, range, u32::from(self.prefix)),
            _ => false,
        }
    }

    /// Whether everything in the range stays closed although it is opened: nothing but loopback, link-local, metadata,
    /// multicast and the like.
    pub fn opens_nothing(&self) -> bool {
        let prefix = u32::from(self.prefix);
        match self.address {
            IpAddr::V4(address) => within_v4(address, prefix, &NEVER_OPENED_V4),
            IpAddr::V6(address) => within_v6(address, prefix, &NEVER_OPENED_V6),
        }
    }
}

fn within_v4(address: Ipv4Addr, prefix: u32, ranges: &[(Ipv4Addr, u32)]) -> bool {
    ranges
        .iter()
        .any(|(range, least)| prefix >= *least && in_v4(address, *range, *least))
}

fn within_v6(address: Ipv6Addr, prefix: u32, ranges: &[(Ipv6Addr, u32)]) -> bool {
    ranges
        .iter()
        .any(|(range, least)| prefix >= *least && in_v6(address, *range, *least))
}

fn in_v4(ip: Ipv4Addr, range: Ipv4Addr, prefix: u32) -> bool {
    let shift = 32 - prefix;
    u32::from(ip).checked_shr(shift).unwrap_or(0)
        == u32::from(range).checked_shr(shift).unwrap_or(0)
}

fn in_v6(ip: Ipv6Addr, range: Ipv6Addr, prefix: u32) -> bool {
    let shift = 128 - prefix;
    u128::from(ip).checked_shr(shift).unwrap_or(0)
        == u128::from(range).checked_shr(shift).unwrap_or(0)
}

/// Ranges of IPv4 that are never the public internet. The documentation ranges are not among them: nothing lives there,
/// and tests of deployments use them for hosts that are reachable.
const REFUSED_V4: [(Ipv4Addr, u32); 11] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),      // "this network", unspecified
    (Ipv4Addr::new(10, 0, 0, 0), 8),     // private
    (Ipv4Addr::new(100, 64, 0, 0), 10),  // carrier-grade NAT; some clouds' metadata
    (Ipv4Addr::new(127, 0, 0, 0), 8),    // loopback
    (Ipv4Addr::new(169, 254, 0, 0), 16), // link-local; cloud metadata
    (Ipv4Addr::new(172, 16, 0, 0), 12),  // private
    (Ipv4Addr::new(192, 0, 0, 0), 24),   // protocol assignments; a cloud's metadata
    (Ipv4Addr::new(192, 168, 0, 0), 16), // private
    (Ipv4Addr::new(198, 18, 0, 0), 15),  // benchmarking
    (Ipv4Addr::new(224, 0, 0, 0), 4),    // multicast
    (Ipv4Addr::new(240, 0, 0, 0), 4),    // reserved, broadcast
];

/// Ranges of IPv4 that not even a deployment opens: what there is of use in them is this machine's, or its cloud's secrets.
const NEVER_OPENED_V4: [(Ipv4Addr, u32); 8] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),   // unspecified: leads to this machine
    (Ipv4Addr::new(127, 0, 0, 0), 8), // loopback
    (Ipv4Addr::new(169, 254, 0, 0), 16), // link-local; most clouds' metadata
    (Ipv4Addr::new(224, 0, 0, 0), 4), // multicast
    (Ipv4Addr::new(240, 0, 0, 0), 4), // reserved, broadcast
    (Ipv4Addr::new(168, 63, 129, 16), 32), // the host agent of one large cloud, in a public range
    (Ipv4Addr::new(100, 100, 100, 200), 32), // a cloud's metadata
    (Ipv4Addr::new(192, 0, 0, 192), 32), // another's
];

/// The same of IPv6.
const NEVER_OPENED_V6: [(Ipv6Addr, u32); 6] = [
    (Ipv6Addr::new(0, 0, 0, 0, 0, 0, 0, 0), 96), // unspecified, loopback, v4-compatible
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 32), // Teredo: hides an IPv4 address
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10), // link-local
    (Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8), // multicast
    (Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), 128), // a cloud's metadata
    (Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254), 128), // another's
];

/// Ranges of IPv6 that are never the public internet.
const REFUSED_V6: [(Ipv6Addr, u32); 8] = [
    (Ipv6Addr::new(0, 0, 0, 0, 0, 0, 0, 0), 96), // unspecified, loopback, v4-compatible
    (Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, 0, 0), 48), // local translation prefix
    (Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 0), 64), // discard only
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 32), // Teredo: hides an IPv4 address
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7), // unique local; metadata over IPv6
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10), // link-local
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10), // site-local
    (Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8), // multicast
];

/// Whether a sandbox is kept from `ip` under every policy: loopback, private, link-local, cloud metadata, multicast and the
/// like, also where an IPv6 form carries such an IPv4 address. `opened`, the deployment's configuration, lets through what
/// is private; loopback, link-local, metadata and multicast it never does.
pub fn is_refused_address(ip: IpAddr, opened: &[Cidr]) -> bool {
    let ip = ip.to_canonical();
    if is_never_opened(ip) {
        return true;
    }
    if opened.iter().any(|range| range.contains(ip)) {
        return false;
    }
    match ip {
        IpAddr::V4(ip) => refused_v4(ip),
        IpAddr::V6(ip) => {
            if within_v6(ip, 128, &REFUSED_V6) {
                return true;
            }
            match embedded_v4(ip) {
                Some(v4) => {
                    refused_v4(v4) && !opened.iter().any(|range| range.contains(IpAddr::V4(v4)))
                }
                None => false,
            }
        }
    }
}

/// Whether a sandbox may connect to `ip`, if its policy allows the host: not where [`is_refused_address`], and to none of
/// `own`, the addresses of this deployment, in whatever form it is written.
pub fn may_be_reached(ip: IpAddr, opened: &[Cidr], own: &[IpAddr]) -> bool {
    let plain = plain_address(ip);
    !is_refused_address(ip, opened) && !own.iter().any(|own| plain_address(*own) == plain)
}

/// Where an address leads: the IPv4 address in a mapped, translated or tunnelled form, else itself.
fn plain_address(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(v6) => embedded_v4(v6).map_or(IpAddr::V6(v6), IpAddr::V4),
        v4 => v4,
    }
}

fn is_never_opened(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => within_v4(ip, 32, &NEVER_OPENED_V4),
        IpAddr::V6(ip) => {
            within_v6(ip, 128, &NEVER_OPENED_V6)
                || embedded_v4(ip).is_some_and(|ip| within_v4(ip, 32, &NEVER_OPENED_V4))
        }
    }
}

fn refused_v4(ip: Ipv4Addr) -> bool {
    within_v4(ip, 32, &REFUSED_V4)
}

/// The IPv4 address that a translated (64:ff9b::/96, 64:ff9b:1::/48) or tunnelled (2002::/16) IPv6 address leads to.
fn embedded_v4(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let s = ip.segments();
    let v4 = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    if in_v6(ip, Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96)
        || in_v6(ip, Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, 0, 0), 48)
    {
        Some(v4(s[6], s[7]))
    } else if s[0] == 0x2002 {
        Some(v4(s[1], s[2]))
    } else {
        None
    }
}
