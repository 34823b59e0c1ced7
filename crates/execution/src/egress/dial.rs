//! Finding and reaching the far side, from the host's network.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use async_trait::async_trait;
use domain::network_policy::is_refused_address;
use tokio::{
    net::TcpStream,
    time::{Instant, timeout, timeout_at},
};

use super::gateway::Shared;

/// Turns a name that the policy allows into addresses. Asked at each connection; what it says is dialled, so there is no
/// time between check and use.
#[async_trait]
pub trait Resolver: Send + Sync + 'static {
    /// The addresses of `host` (lower case, no trailing dot), best first.
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>>;
}

/// The host's own resolver (`/etc/hosts`, `/etc/resolv.conf`).
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

#[async_trait]
impl Resolver for SystemResolver {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let mut found: Vec<IpAddr> = Vec::new();
        for address in tokio::net::lookup_host((host, 0)).await? {
            if !found.contains(&address.ip()) {
                found.push(address.ip());
            }
        }
        Ok(found)
    }
}

/// Where a connection is to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    /// By name.
    Name(std::sync::Arc<str>),
    /// By address, as the sandbox dialled it.
    Address(IpAddr),
}

impl Target {
    /// As records and rules name it.
    pub(super) fn host(&self) -> String {
        match self {
            Self::Name(name) => name.to_string(),
            Self::Address(address) => address.to_canonical().to_string(),
        }
    }
}

/// Why there is no connection; the text goes into the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NoConnection {
    /// Its address is one that no sandbox may reach.
    Refused(String),
    /// The name does not resolve, or nothing answers.
    Failed(String),
}

/// Most addresses of one name that are tried.
const TRIED_MAX: usize = 8;

/// Connects to the target.
pub(super) async fn dial(
    shared: &Shared,
    target: &Target,
    port: u16,
) -> Result<TcpStream, NoConnection> {
    let found = match target {
        Target::Address(address) => vec![*address],
        Target::Name(name) => resolve(shared, name).await?,
    };
    let own = own_addresses(shared);
    let (good, refused): (Vec<IpAddr>, Vec<IpAddr>) = found
        .into_iter()
        .map(|address| address.to_canonical())
        .partition(|address| may_be_reached(shared, &own, *address));
    if good.is_empty() {
        return Err(match refused.first() {
            Some(address) => NoConnection::Refused(not_for_sandboxes(target, *address)),
            None => NoConnection::Failed("the name has no address".into()),
        });
    }
    let good = &good[..good.len().min(TRIED_MAX)];
    let end = Instant::now() + shared.config.limits.dial;
    let mut last = String::new();
    for (index, address) in good.iter().enumerate() {
        let left = end.saturating_duration_since(Instant::now());
        let share = left / u32::try_from(good.len() - index).unwrap_or(1);
        match connect(SocketAddr::new(*address, port), share).await {
            // A route can lead back to this machine for an address that none of its interfaces has.
            Ok(stream) if leads_home(&stream) && !opened(shared, *address) => {
                return Err(NoConnection::Refused(not_for_sandboxes(target, *address)));
            }
            Ok(stream) => return Ok(stream),
            Err(error) => last = error.to_string(),
        }
    }
    Err(NoConnection::Failed(last))
}

async fn resolve(shared: &Shared, name: &str) -> Result<Vec<IpAddr>, NoConnection> {
    let end = Instant::now() + shared.config.limits.lookup;
    let looked_up = timeout_at(end, async {
        let _place = shared.lookups.acquire().await;
        shared.resolver.resolve(name).await
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

async fn connect(address: SocketAddr, within: Duration) -> io::Result<TcpStream> {
    timeout(within, TcpStream::connect(address))
        .await
        .unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time")))
}

/// This machine's addresses now (they change: DHCP, containers).
fn own_addresses(shared: &Shared) -> Vec<IpAddr> {
    let mut own: Vec<IpAddr> = shared.config.own_addresses.clone();
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

fn opened(shared: &Shared, address: IpAddr) -> bool {
    shared
        .config
        .opened
        .iter()
        .any(|range| range.contains(address))
}

fn may_be_reached(shared: &Shared, own: &[IpAddr], address: IpAddr) -> bool {
    !is_refused_address(address, &shared.config.opened)
        && (!own.contains(&address) || opened(shared, address))
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
