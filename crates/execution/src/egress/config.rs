//! What a sandbox's network is made from.

use std::{net::IpAddr, path::PathBuf, time::Duration};

use domain::{
    limits::RUN_HOSTS_MAX,
    network_policy::{Cidr, NetworkPolicy, RuleAction},
};

/// One sandbox's egress.
#[derive(Debug, Clone)]
pub struct EgressConfig {
    /// Hosts that may be reached.
    pub policy: NetworkPolicy,
    /// Networks that the deployment opens although they are private; the policy must still allow the host.
    pub opened: Vec<Cidr>,
    /// Addresses of the control plane beyond those of this machine's interfaces (a public address behind translation).
    pub own_addresses: Vec<IpAddr>,
    /// Bounds on what one sandbox can make the gateway hold.
    pub limits: Limits,
    /// The nftables program.
    pub nft: PathBuf,
}

/// Bounds per sandbox. Times are how long a peer may take, sizes are counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Names that get an address; further ones are answered as a server failure. At most 130,816.
    pub names: usize,
    /// Distinct attempts (host, port, outcome) that are kept; further ones are only counted.
    pub records: usize,
    /// Bytes of text that the kept attempts have together; beyond them attempts are only counted, too.
    pub record_bytes: usize,
    /// A denied attempt is told again when it comes so long after it was told (with its count).
    pub tell_again: Duration,
    /// DNS questions a second; more wait, and what the socket does not hold is lost.
    pub questions_per_second: u32,
    /// New connections a second; more wait.
    pub connections_per_second: u32,
    /// Connections at once; further ones are reset.
    pub connections: usize,
    /// Lookups by the host's resolver at once.
    pub lookups: usize,
    /// DNS connections over TCP at once.
    pub dns_connections: usize,
    /// Until a client has sent its TLS hello or HTTP head, or its whole DNS message over TCP.
    pub hello: Duration,
    /// A lookup by the host's resolver.
    pub lookup: Duration,
    /// Until one address has answered the dial.
    pub dial: Duration,
    /// A connection on which nothing moves in either direction.
    pub idle: Duration,
    /// The same once one side has ended its direction.
    pub half_open: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            names: 65_536,
            records: RUN_HOSTS_MAX,
            record_bytes: 2 << 20,
            tell_again: Duration::from_secs(1),
            questions_per_second: 5_000,
            connections_per_second: 2_000,
            connections: 1_024,
            lookups: 32,
            dns_connections: 64,
            hello: Duration::from_secs(10),
            lookup: Duration::from_secs(10),
            dial: Duration::from_secs(10),
            idle: Duration::from_secs(3_600),
            half_open: Duration::from_secs(600),
        }
    }
}

impl EgressConfig {
    /// The defaults for a policy: nothing private opened.
    pub fn new(policy: NetworkPolicy) -> Self {
        Self {
            policy,
            opened: Vec::new(),
            own_addresses: Vec::new(),
            limits: Limits::default(),
            nft: "nft".into(),
        }
    }

    /// Whether the policy could allow an address dialled as such. If not, the kernel refuses those at once, which clients
    /// understand better than a connection that is reset.
    pub(super) fn address_dials(&self) -> bool {
        match &self.policy {
            NetworkPolicy::Unrestricted => true,
            NetworkPolicy::Rules(rules) => rules
                .iter()
                .filter(|rule| rule.action == RuleAction::Allow)
                .any(|rule| could_be_address(&rule.host_glob)),
        }
    }
}

/// Whether a glob can match the text of an address: nothing in it that no address has, and either a whole address or a
/// star somewhere.
fn could_be_address(glob: &str) -> bool {
    let glob = glob.trim_start_matches('[').trim_end_matches(']');
    glob.parse::<IpAddr>().is_ok()
        || (glob.contains('*')
            && glob
                .chars()
                .all(|c| c.is_ascii_hexdigit() || matches!(c, '.' | ':' | '*')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_go_to_the_gateway_only_when_a_rule_could_allow_one() {
        for (glob, expected) in [
            ("*", true),
            ("93.184.216.34", true),
            ("2001:db8::1", true),
            ("93.184.*", true),
            ("*.example.com", false),
            ("example.com", false),
            ("*.de", true),
        ] {
            assert_eq!(could_be_address(glob), expected, "{glob}");
        }
    }
}
