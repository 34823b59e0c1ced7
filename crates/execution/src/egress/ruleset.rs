//! The packet filter inside the namespace: everything is refused but loopback, our DNS and our gateway.

use std::{
    io::{self, Write as _},
    net::IpAddr,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::Value;

use super::{GATEWAY_PORT, GATEWAY4, GATEWAY6, NFLOG_GROUP};

/// An address that was dialled and refused by the kernel, without any packet reaching user space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tried {
    /// Where to.
    pub address: IpAddr,
    /// Destination port.
    pub port: u16,
    /// UDP rather than TCP.
    pub udp: bool,
    /// Packets that were sent there.
    pub packets: u64,
}

/// The rules as text for `nft -f -`. With `address_dials`, TCP to any address goes to the gateway, which then decides by
/// address; without it only addresses that stand for a name do, and the kernel refuses the rest at once. `log` makes
/// the kernel tell of each address tried for the first time, so that it can be announced.
pub(super) fn text(address_dials: bool, log: bool) -> String {
    let dials = if address_dials {
        format!(
            "    meta nfproto ipv4 meta l4proto tcp dnat ip to {GATEWAY4}:{GATEWAY_PORT}
    ip6 daddr {{ ::1, {GATEWAY6} }} accept
    meta nfproto ipv6 meta l4proto tcp dnat ip6 to [{GATEWAY6}]:{GATEWAY_PORT}\n"
        )
    } else {
        String::new()
    };
    // A full set would let each further packet be logged, hence the limit.
    let tell = |family: &str, saddr: &str| {
        if log {
            format!(
                "    meta nfproto {family} meta l4proto {{ tcp, udp }} {saddr} daddr . meta l4proto . th dport != @tried_{family} \
                 limit rate 100/second burst 200 packets log group {NFLOG_GROUP} snaplen 64\n"
            )
        } else {
            String::new()
        }
    };
    let (tell4, tell6) = (tell("ipv4", "ip"), tell("ipv6", "ip6"));
    format!(
        "table inet egress {{
  set tried_ipv4 {{
    type ipv4_addr . inet_proto . inet_service
    flags dynamic
    size 4096
  }}
  set tried_ipv6 {{
    type ipv6_addr . inet_proto . inet_service
    flags dynamic
    size 4096
  }}
  chain to_us {{
    type nat hook output priority -100; policy accept;
    ip daddr {{ 127.0.0.0/8, {GATEWAY4} }} accept
    meta nfproto ipv4 meta l4proto {{ tcp, udp }} th dport 53 dnat ip to {GATEWAY4}:53
    ip daddr 198.18.0.0/15 meta l4proto tcp dnat ip to {GATEWAY4}:{GATEWAY_PORT}
{dials}  }}
  chain out {{
    type filter hook output priority 0; policy drop;
    ip daddr 127.0.0.0/8 accept
    ip6 daddr ::1 accept
    ct state established,related accept
    ip daddr {GATEWAY4} tcp dport {{ 53, {GATEWAY_PORT} }} accept
    ip daddr {GATEWAY4} udp dport 53 accept
    ip6 daddr {GATEWAY6} tcp dport {GATEWAY_PORT} accept
{tell4}{tell6}    meta nfproto ipv4 meta l4proto {{ tcp, udp }} update @tried_ipv4 {{ ip daddr . meta l4proto . th dport counter }}
    meta nfproto ipv6 meta l4proto {{ tcp, udp }} update @tried_ipv6 {{ ip6 daddr . meta l4proto . th dport counter }}
    meta l4proto tcp reject with tcp reset
    reject with icmpx admin-prohibited
  }}
}}
"
    )
}

/// Runs `nft` with the given arguments and input in the network namespace of the calling thread.
fn nft(program: &Path, arguments: &[&str], input: &str) -> io::Result<Vec<u8>> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| {
            io::Error::new(
                error.kind(),
                format!(
                    "cannot start {} (Debian package nftables): {error}",
                    program.display()
                ),
            )
        })?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that ends early shows why by its status, not by our broken pipe.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output()?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(io::Error::other(format!(
            "nft refused the rules ({}): {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        )))
    }
}

/// Loads the rules; `true` when the kernel also logs what it refuses.
pub(super) fn load(program: &Path, address_dials: bool) -> io::Result<bool> {
    // A file is loaded as one transaction: either all of it stands or nothing does.
    match nft(program, &["-f", "-"], &text(address_dials, true)) {
        Ok(_) => return Ok(true),
        // A kernel without nfnetlink_log: what it refuses is known only at the end.
        Err(error) => tracing::debug!(%error, "rules that log"),
    }
    nft(program, &["-f", "-"], &text(address_dials, false))?;
    Ok(false)
}

/// Reads what the kernel refused.
pub(super) fn tried(program: &Path) -> io::Result<Vec<Tried>> {
    let mut all = Vec::new();
    for set in ["tried_ipv4", "tried_ipv6"] {
        let answer = nft(program, &["-j", "list", "set", "inet", "egress", set], "")?;
        all.extend(parse(&serde_json::from_slice(&answer)?));
    }
    Ok(all)
}

/// The elements of a listed set.
fn parse(listing: &Value) -> Vec<Tried> {
    let objects = listing["nftables"].as_array().into_iter().flatten();
    objects
        .filter_map(|object| object["set"]["elem"].as_array())
        .flatten()
        .filter_map(|element| {
            let (element, packets) = match element.get("elem") {
                Some(inner) => (
                    &inner["val"],
                    inner["counter"]["packets"].as_u64().unwrap_or(1),
                ),
                None => (element, 1),
            };
            let parts = element["concat"].as_array()?;
            let [address, protocol, port] = parts.as_slice() else {
                return None;
            };
            Some(Tried {
                address: address.as_str()?.parse().ok()?,
                port: u16::try_from(port.as_u64()?).ok()?,
                udp: protocol.as_str()? == "udp",
                packets: packets.max(1),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listed_set_is_read_with_its_counters() {
        let listing = serde_json::json!({"nftables": [
            {"metainfo": {"version": "1.0.6"}},
            {"set": {"name": "tried_ipv4", "elem": [
                {"elem": {"val": {"concat": ["1.2.3.4", "tcp", 99]}, "counter": {"packets": 2, "bytes": 120}}},
                {"concat": ["5.6.7.8", "udp", 123]},
            ]}},
            {"set": {"name": "tried_ipv6"}},
        ]});
        let expected = [("1.2.3.4", 99, false, 2), ("5.6.7.8", 123, true, 1)].map(
            |(address, port, udp, packets)| Tried {
                address: address.parse().unwrap(),
                port,
                udp,
                packets,
            },
        );
        assert_eq!(parse(&listing), expected);
    }

    #[test]
    fn only_a_policy_with_addresses_sends_raw_addresses_to_the_gateway() {
        assert!(!text(false, true).contains("dnat ip6"));
        assert!(text(true, true).contains("dnat ip6"));
        assert!(!text(true, false).contains("log group"));
    }
}
