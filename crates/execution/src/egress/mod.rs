//! Egress: a sandbox's only way out (spec 4-execution, *Egress*; 1-domain, *Network policy*).
//!
//! In the sandbox's network namespace there is only loopback. Names are answered by us: one that the policy allows gets an
//! address of our own (198.18.1.0 and up) that stands for the name, one that it does not gets "no such name" and is never
//! sent on. Every TCP connection to such an address reaches the gateway, which knows the name, asks the policy again
//! (also about the TLS server name on port 443 and the `Host` on port 80), resolves the name by the host's resolver and
//! dials what it resolved, unless that is an address no sandbox may reach. Everything else the kernel refuses.
//!
//! How a shim uses it, in this order:
//!
//! 1. Make the mount namespace (the namespace's thread inherits it), then [`Network::create`] (blocking, ~10 ms; run it
//!    beside the making of the disk). From here on the namespace exists and is closed.
//! 2. On the shim's tokio runtime, in the host's network namespace: `let gateway = network.serve(resolver, events)?` with
//!    [`SystemResolver`] and a channel on which each first attempt per host, port and outcome arrives before the client has
//!    its answer; write [`EgressEvent::sentence`] of all but the allowed ones into the log (once: later ones have a count above 1). Keep `gateway` for the sandbox's life: dropping it closes the network.
//! 3. `network.ready(Duration::from_secs(5)).await?` before anything runs inside.
//! 4. `network.run_in(move || command.spawn())` starts `crun run` in the namespace: leave `network` out of the
//!    configuration's `linux.namespaces`. Spawn there, wait elsewhere. `crun exec` needs no such care.
//! 5. In the sandbox, `/etc/resolv.conf` is [`RESOLV_CONF`].
//! 6. After the script: `network.report()`, the counted attempts for [`crate::runtime::ScriptEnd`]; then empty the channel.
//!
//! Limits of what it can promise: a host that serves many names (a content network) can be made to serve another one inside
//! TLS, and an allowed host that takes uploads can be used to send data out.

use std::net::{Ipv4Addr, Ipv6Addr};

mod config;
pub(crate) mod dial;
mod dns;
mod gateway;
mod http;
mod http_gate;
mod names;
mod netlink;
mod network;
mod nflog;
mod pace;
mod probe;
mod pump;
mod records;
mod ruleset;
mod tls;
mod tls_gate;

pub use domain::network_policy::Cidr;

pub use config::{EgressConfig, Limits};
pub use dial::{Resolver, SystemResolver};
pub use gateway::Gateway;
pub use network::Network;
pub use records::EgressReport;

pub use crate::runtime::{EgressEvent, EgressOutcome};

/// Our address in every sandbox's namespace: DNS and the gateway. 127.0.0.1 is the sandbox's own.
pub const GATEWAY4: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
/// The same for IPv6 connections that are dialled by address.
pub const GATEWAY6: Ipv6Addr = Ipv6Addr::new(0xfd67, 0x726f, 0x756e, 0x64, 0, 0, 0, 1);
/// Where the gateway listens.
pub const GATEWAY_PORT: u16 = 15001;
const DNS_PORT: u16 = 53;
/// Groups are per namespace, so any number does.
const NFLOG_GROUP: u16 = 7;
/// What `/etc/resolv.conf` must hold in a sandbox. One short attempt: the responder is in the same kernel, so an answer
/// that is late never comes.
pub const RESOLV_CONF: &str = "nameserver 198.18.0.1\noptions ndots:1 timeout:2 attempts:2\n";
