//! Finding and reaching the far side, from the host's network.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use domain::network_policy::{Cidr, may_be_reached};
use tokio::{
    net::TcpStream,
    sync::Semaphore,
    time::{Instant, timeout, timeout_at},
};

/// Turns a name that the policy allows into addresses. Asked at each connection; what it says is dialled, so there is no
/// time between check and use.
#[async_trait]
pub trait Resolver: Send + Sync + 'static {
    /// The addresses of `host` (lower case, no trailing dot), best first.
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>>;
}

/// The host's own resolver (`/etc/hosts`, `/etc/resolv.conf`). A name is looked up as it is: the domains that the host
/// searches for short names are not tried, because the name that they make of it is not the one that the policy allowed.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

#[async_trait]
impl Resolver for SystemResolver {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        // The final dot makes a name absolute, and hides it from glibc's reading of this file.
        let listed = tokio::fs::read_to_string(HOSTS)
            .await
            .map_or_else(|_| Vec::new(), |table| listed(&table, host));
        if !listed.is_empty() {
            return Ok(listed);
        }
        let mut found: Vec<IpAddr> = Vec::new();
        for address in tokio::net::lookup_host((format!("{host}."), 0)).await? {
            if !found.contains(&address.ip()) {
                found.push(address.ip());
            }
        }
        Ok(found)
    }
}

/// The host's own table of names.
const HOSTS: &str = "/etc/hosts";

/// The addresses that a table of hosts has for a name, in its order.
fn listed(table: &str, host: &str) -> Vec<IpAddr> {
    let mut found = Vec::new();
    for line in table.lines() {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_ascii_whitespace();
        let Some(Ok(address)) = words.next().map(str::parse::<IpAddr>) else {
            continue;
        };
        let is_it = |name: &str| name.trim_end_matches('.').eq_ignore_ascii_case(host);
        if words.any(is_it) && !found.contains(&address) {
            found.push(address);
        }
    }
    found
}

/// Where a connection is to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// By name.
    Name(Arc<str>),
    /// By address, as the sandbox dialled it.
    Address(IpAddr),
}

impl Target {
    /// As records and rules name it.
    pub(crate) fn host(&self) -> String {
        match self {
            Self::Name(name) => name.to_string(),
            Self::Address(address) => address.to_canonical().to_string(),
        }
    }
}

/// Why there is no connection; the text goes into the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NoConnection {
    /// Its address is one that no sandbox may reach.
    Refused(String),
    /// The name does not resolve, or nothing answers.
    Failed(String),
}

/// Most addresses of one name that are tried.
const TRIED_MAX: usize = 8;

/// Bounds on finding and reaching a far side.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DialLimits {
    /// Lookups by the host's resolver at once.
    pub(crate) lookups: usize,
    /// A lookup.
    pub(crate) lookup: Duration,
    /// Until one address has answered.
    pub(crate) dial: Duration,
}

/// Reaches far sides by one rule: no private address, and none of this machine's.
pub(crate) struct Dialer {
    resolver: Arc<dyn Resolver>,
    opened: Vec<Cidr>,
    own_addresses: Vec<IpAddr>,
    lookups: Semaphore,
    limits: DialLimits,
}

impl Dialer {
    /// `opened`: private networks that may be reached all the same, but for this machine's addresses in them.
    /// `own_addresses`: further addresses of the control plane.
    pub(crate) fn new(
        resolver: Arc<dyn Resolver>,
        opened: Vec<Cidr>,
        own_addresses: Vec<IpAddr>,
        limits: DialLimits,
    ) -> Self {
        Self {
            resolver,
            opened,
            own_addresses,
            lookups: Semaphore::new(limits.lookups),
            limits,
        }
    }

    /// Connects to the target.
    pub(crate) async fn dial(&self, target: &Target, port: u16) -> Result<TcpStream, NoConnection> {
        let found = match target {
            Target::Address(address) => vec![*address],
            Target::Name(name) => self.resolve(name).await?,
        };
        let own = self.own_addresses();
        let (good, refused): (Vec<IpAddr>, Vec<IpAddr>) = found
            .into_iter()
            .map(|address| address.to_canonical())
            .partition(|address| may_be_reached(*address, &self.opened, &own));
        if good.is_empty() {
            return Err(match refused.first() {
                Some(address) => NoConnection::Refused(not_for_sandboxes(target, *address)),
                None => NoConnection::Failed("the name has no address".into()),
            });
        }
        let good = &good[..good.len().min(TRIED_MAX)];
        let end = Instant::now() + self.limits.dial;
        let mut last = String::new();
        for (index, address) in good.iter().enumerate() {
            let left = end.saturating_duration_since(Instant::now());
            let share = left / u32::try_from(good.len() - index).unwrap_or(1);
            match connect(SocketAddr::new(*address, port), share).await {
                // A route can lead back to this machine for an address that none of its interfaces has.
                Ok(stream) if leads_home(&stream) => {
                    return Err(NoConnection::Refused(not_for_sandboxes(target, *address)));
                }
                Ok(stream) => return Ok(stream),
                Err(error) => last = error.to_string(),
            }
        }
        Err(NoConnection::Failed(last))
    }

    async fn resolve(&self, name: &str) -> Result<Vec<IpAddr>, NoConnection> {
        let end = Instant::now() + self.limits.lookup;
        let looked_up = timeout_at(end, async {
            let _place = self.lookups.acquire().await;
            self.resolver.resolve(name).await
        });
        match looked_up.await {
            Ok(Ok(addresses)) => Ok(addresses),
            Ok(Err(error)) => Err(NoConnection::Failed(format!(
                "the name does not resolve: {error}"
            ))),
            Err(_) => Err(NoConnection::Failed(
                "the name does not resolve in time".into(),
            )),
        }
    }

    /// This machine's addresses now (they change: DHCP, containers).
    fn own_addresses(&self) -> Vec<IpAddr> {
        let mut own = self.own_addresses.clone();
        let interfaces = nix::ifaddrs::getifaddrs().into_iter().flatten();
        for address in interfaces.filter_map(|interface| interface.address) {
            if let Some(v4) = address.as_sockaddr_in() {
                own.push(IpAddr::V4(v4.ip()));
            } else if let Some(v6) = address.as_sockaddr_in6() {
                own.push(IpAddr::V6(v6.ip()));
            }
        }
        own
    }
}

async fn connect(address: SocketAddr, within: Duration) -> io::Result<TcpStream> {
    timeout(within, TcpStream::connect(address))
        .await
        .unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time")))
}

fn leads_home(stream: &TcpStream) -> bool {
    match (stream.local_addr(), stream.peer_addr()) {
        (Ok(local), Ok(peer)) => local.ip() == peer.ip(),
        _ => true,
    }
}

fn not_for_sandboxes(target: &Target, address: IpAddr) -> String {
    match target {
        Target::Name(_) => format!("it resolves to {address}, which no sandbox may reach"),
        Target::Address(_) => "no sandbox may reach this address".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_hosts_is_read_as_the_system_reads_it() {
        let table = "127.0.0.1\tlocalhost\n\
                     # 192.0.2.9 off.example\n\
                     192.0.2.1 One.example one # also.example\n\
                     nonsense one.example\n\
                     2001:db8::1  one.example.\n\
                     192.0.2.1 one.example\n";
        let found = |host: &str| -> Vec<String> {
            listed(table, host).iter().map(IpAddr::to_string).collect()
        };
        assert_eq!(found("one.example"), ["192.0.2.1", "2001:db8::1"]);
        assert_eq!(found("one"), ["192.0.2.1"]);
        for none in ["off.example", "also.example", "example", ""] {
            assert!(found(none).is_empty(), "{none}");
        }
    }
}
