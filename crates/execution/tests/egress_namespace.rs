//! The namespace without anything that answers: closed from its first moment. Needs root and nftables.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{
    io::ErrorKind,
    net::{SocketAddr, TcpListener, TcpStream, UdpSocket},
    time::Duration,
};

use domain::network_policy::NetworkPolicy;
use execution::egress::{EgressConfig, GATEWAY_PORT, GATEWAY4, GATEWAY6, Network};

/// Longer than a machine that has much else to do takes for what is answered at once.
const PATIENCE: Duration = Duration::from_secs(20);

fn network() -> Network {
    assert!(
        nix::unistd::geteuid().is_root(),
        "this test makes network namespaces and must run as root"
    );
    Network::create(EgressConfig::new(NetworkPolicy::no_access())).expect("a network namespace")
}

#[test]
fn nothing_but_loopback_is_reached_from_a_new_namespace() {
    let host = TcpListener::bind("127.0.0.1:0").unwrap();
    let host_address = host.local_addr().unwrap();
    let network = network();
    network
        .run_in(move || {
            let mut interfaces: Vec<String> = nix::ifaddrs::getifaddrs()
                .unwrap()
                .map(|interface| interface.interface_name)
                .collect();
            interfaces.dedup();
            assert_eq!(interfaces, ["lo"]);
            for address in [
                "1.1.1.1:443",
                "[2606:4700:4700::1111]:443",
                &host_address.to_string(),
            ] {
                let address: SocketAddr = address.parse().unwrap();
                let error = TcpStream::connect_timeout(&address, PATIENCE).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{address}");
            }
            let udp = UdpSocket::bind("0.0.0.0:0").unwrap();
            assert!(udp.send_to(b"x", "1.1.1.1:123").is_err());
            let own = TcpListener::bind("127.0.0.1:80").unwrap();
            TcpStream::connect(own.local_addr().unwrap()).unwrap();
        })
        .unwrap();
    let report = network.report();
    let mut tried: Vec<_> = report
        .records
        .iter()
        .map(|record| (record.host.as_str(), record.port, record.allowed))
        .collect();
    tried.sort_unstable();
    assert_eq!(
        tried,
        [
            ("1.1.1.1", 123, false),
            ("1.1.1.1", 443, false),
            ("2606:4700:4700::1111", 443, false)
        ]
    );
}

/// The kernel makes an IPv6 address at once, and its route to it some time later: one address in six was seen without. What
/// counts is the route that is there from the first moment: ours, with the metric of what is not the kernel's.
#[test]
fn the_gateways_addresses_are_reached_from_the_first_moment() {
    const OURS: &str = "00000400";
    let network = network();
    let routes = network
        .run_in(|| {
            for gateway in [GATEWAY4.into(), GATEWAY6.into()] {
                let gateway = SocketAddr::new(gateway, GATEWAY_PORT);
                TcpStream::connect(gateway).unwrap_or_else(|error| panic!("{gateway}: {error}"));
            }
            std::fs::read_to_string("/proc/thread-self/net/ipv6_route").unwrap()
        })
        .unwrap();
    let gateway = GATEWAY6
        .octets()
        .map(|octet| format!("{octet:02x}"))
        .concat();
    let found = routes.lines().any(|line| {
        let mut fields = line.split_whitespace();
        fields.next() == Some(&*gateway) && fields.nth(4) == Some(OURS)
    });
    assert!(found, "{routes}");
}

#[test]
fn a_child_started_in_the_namespace_inherits_it() {
    let network = network();
    let ours = std::fs::read_link("/proc/thread-self/ns/net").unwrap();
    let output = network
        .run_in(|| {
            std::process::Command::new("readlink")
                .arg("/proc/self/ns/net")
                .output()
        })
        .unwrap()
        .unwrap();
    let inside = String::from_utf8(output.stdout).unwrap();
    assert!(inside.starts_with("net:["));
    assert_ne!(inside.trim(), ours.to_str().unwrap());
}

#[test]
fn work_that_panics_is_an_error_and_the_next_still_runs() {
    let network = network();
    assert!(network.run_in(|| panic!("expected")).is_err());
    assert_eq!(network.run_in(|| 7).unwrap(), 7);
}
