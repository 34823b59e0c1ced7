//! Finding and reaching the far side.

use std::{io, net::IpAddr};

use async_trait::async_trait;

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
