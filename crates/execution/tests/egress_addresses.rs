//! Addresses: dialled as such, and those that names resolve to. Needs root and nftables.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod lab;

use std::{
    io::ErrorKind,
    net::{TcpListener, UdpSocket},
    process::Command,
    time::{Duration, Instant},
};

use domain::network_policy::NetworkPolicy;
use execution::egress::EgressOutcome;
use lab::{Ending, Plan, allow, connect_to, echo_lab, fate, lookup, rules, said};

#[test]
fn addresses_that_no_rule_could_allow_are_refused_by_the_kernel_and_told_at_once() {
    let lab = echo_lab(allow(&["good.example"]));
    let took = lab.inside(|| {
        let begun = Instant::now();
        for address in [
            "203.0.113.1:7",
            "10.1.2.3:80",
            "169.254.169.254:80",
            "[2001:db8:1::1]:443",
        ] {
            let error = connect_to(address).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{address}");
        }
        begun.elapsed()
    });
    // Nobody's patience was used up; the rest is a machine that has much else to do.
    assert!(took < Duration::from_secs(2), "{took:?}");
    let told: Vec<String> = (0..4).map(|_| lab.event().sentence()).collect();
    assert_eq!(
        told,
        [
            "egress: blocked 203.0.113.1:7, no rule allows it",
            "egress: blocked 10.1.2.3:80, no rule allows it",
            "egress: blocked 169.254.169.254:80, no rule allows it",
            "egress: blocked [2001:db8:1::1]:443, no rule allows it",
        ]
    );
    assert!(lab.asked().is_empty());
}

#[test]
fn udp_quic_and_icmp_go_nowhere_under_any_policy() {
    for policy in [
        NetworkPolicy::Unrestricted,
        allow(&["good.example", "203.0.113.1"]),
    ] {
        let lab = echo_lab(policy);
        let far = lab.far.run(|| UdpSocket::bind("0.0.0.0:443")).unwrap();
        far.set_nonblocking(true).unwrap();
        lab.inside(|| {
            let fake = lookup("good.example.").unwrap();
            for target in ["203.0.113.1:443".to_owned(), format!("{fake}:443")] {
                let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
                assert!(socket.send_to(b"quic", &target).is_err(), "{target}");
            }
            let socket = UdpSocket::bind("[::]:0").unwrap();
            assert!(socket.send_to(b"quic", "[2001:db8:1::1]:443").is_err());
            for target in ["203.0.113.1", "10.1.2.3", "2001:db8:1::1"] {
                let output = Command::new("ping").args(["-c1", "-W1", target]).output();
                // Without a ping program there is nothing to try.
                assert!(
                    !output.is_ok_and(|output| output.status.success()),
                    "{target} answers"
                );
            }
        });
        assert_eq!(
            far.recv_from(&mut [0; 16]).unwrap_err().kind(),
            ErrorKind::WouldBlock
        );
        for host in ["203.0.113.1", "good.example", "2001:db8:1::1"] {
            assert_eq!(
                lab.record(host, 443).outcome,
                EgressOutcome::Protocol,
                "{host}"
            );
        }
    }
}

#[test]
fn an_unrestricted_policy_lets_public_addresses_through_and_no_private_ones() {
    let lab = echo_lab(NetworkPolicy::Unrestricted);
    lab.echo("[2001:db8:1::1]:7");
    for address in lab::FAR {
        if !address.starts_with("203.") && !address.starts_with("2001:") {
            let target = if address.contains(':') {
                format!("[{address}]:7")
            } else {
                format!("{address}:7")
            };
            lab.echo(&target);
        }
    }
    lab.inside(|| {
        for address in [
            "203.0.113.1:7",
            "[2001:db8:1::1]:7",
            "[::ffff:203.0.113.1]:7",
        ] {
            assert_eq!(
                said(address, b"hello"),
                Ending::Closed(b"hello".to_vec()),
                "{address}"
            );
        }
    });
    assert_eq!(lab.record("203.0.113.1", 7).count, 2);
    for address in [
        "10.1.2.3",
        "172.16.9.9",
        "192.168.7.7",
        "169.254.169.254",
        "100.64.0.1",
        "100.100.100.200",
        "168.63.129.16",
        "fd00:ec2::254",
        "fd12::1",
        lab::HOST,
    ] {
        let target = if address.contains(':') {
            format!("[{address}]:7")
        } else {
            format!("{address}:7")
        };
        lab.inside(move || {
            assert_eq!(fate(&target), Ending::Reset, "{target}");
        });
        assert_eq!(
            lab.record(address, 7).outcome,
            EgressOutcome::RefusedAddress,
            "{address}"
        );
    }
}

#[test]
fn a_rule_with_an_address_lets_that_address_through_and_no_other() {
    let lab = echo_lab(rules(&[
        ("203.0.113.1", true),
        ("2001:db8:1::1", true),
        ("10.1.2.3", true),
    ]));
    lab.echo("203.0.113.2:7");
    lab.echo("[2001:db8:1::1]:7");
    lab.inside(|| {
        assert_eq!(said("203.0.113.1:7", b"a"), Ending::Closed(b"a".to_vec()));
        assert_eq!(
            said("[2001:db8:1::1]:7", b"b"),
            Ending::Closed(b"b".to_vec())
        );
        assert_eq!(fate("203.0.113.2:7"), Ending::Reset);
        // A rule does not open what only the deployment can open.
        assert_eq!(fate("10.1.2.3:7"), Ending::Reset);
    });
    assert_eq!(lab.record("203.0.113.1", 7).rule, Some(0));
    assert_eq!(lab.record("203.0.113.2", 7).outcome, EgressOutcome::Denied);
    assert_eq!(
        lab.record("10.1.2.3", 7).outcome,
        EgressOutcome::RefusedAddress
    );
}

#[test]
fn an_allowed_name_that_resolves_to_a_forbidden_address_is_refused() {
    let forbidden = [
        ("loopback", "127.0.0.1"),
        ("loopback6", "::1"),
        ("any", "0.0.0.0"),
        ("mapped-loopback", "::ffff:127.0.0.1"),
        ("mapped-private", "::ffff:10.1.2.3"),
        ("translated-private", "64:ff9b::a01:203"),
        ("ten", "10.1.2.3"),
        ("private-b", "172.16.9.9"),
        ("private-c", "192.168.7.7"),
        ("metadata", "169.254.169.254"),
        ("metadata-two", "100.100.100.200"),
        ("metadata-three", "168.63.129.16"),
        ("metadata-six", "fd00:ec2::254"),
        ("shared", "100.64.0.1"),
        ("unique-local", "fd12::1"),
        ("link-local", "fe80::1"),
        ("multicast", "224.0.0.1"),
        ("broadcast", "255.255.255.255"),
        ("own-range", "198.18.0.1"),
        ("the-host", lab::HOST),
        ("the-host6", "2001:db8::1"),
    ];
    let plan = Plan::new(allow(&["*.example"]));
    let lab = forbidden
        .iter()
        .fold(plan, |plan, (name, address)| {
            plan.name(&format!("{name}.example"), &[address])
        })
        .build();
    for (name, address) in forbidden {
        lab.inside(move || {
            assert_eq!(fate(&format!("{name}.example.:7")), Ending::Reset, "{name}");
        });
        let record = lab.record(&format!("{name}.example"), 7);
        assert_eq!(
            record.outcome,
            EgressOutcome::RefusedAddress,
            "{name} {address}"
        );
    }
    let told = lab.event().sentence();
    let expected =
        "egress: blocked loopback.example:7, it resolves to 127.0.0.1, which no sandbox may reach";
    assert_eq!(told, expected);
}

#[test]
fn a_network_that_the_deployment_opens_is_reached_if_the_policy_allows_the_host() {
    let lab = Plan::new(allow(&["inner.example"]))
        .name("inner.example", &["10.1.2.3"])
        .name("home.example", &[lab::HOST])
        .open("10.1.0.0/16")
        .build();
    lab.echo("10.1.2.3:7");
    lab.inside(|| {
        assert_eq!(
            said("inner.example.:7", b"in"),
            Ending::Closed(b"in".to_vec())
        );
        assert_eq!(lookup("home.example."), None);
        assert!(
            connect_to("10.1.2.3:7").is_err(),
            "not by address: no rule says so"
        );
    });
}

#[test]
fn an_opened_network_opens_neither_this_machine_nor_loopback() {
    let own = "10.1.9.9";
    let closed = [
        ("home.example", own),
        ("mapped.example", "::ffff:10.1.9.9"),
        ("translated.example", "64:ff9b::a01:909"),
        ("tunnelled.example", "2002:a01:909::1"),
        ("wide.example", lab::HOST),
        ("loopback.example", "127.0.0.1"),
        ("metadata.example", "169.254.169.254"),
    ];
    let plan = Plan::new(allow(&["*.example"]))
        .open("10.0.0.0/8")
        .open("0.0.0.0/0")
        .open("::/0");
    let lab = closed
        .iter()
        .fold(plan, |plan, (name, address)| plan.name(name, &[address]))
        .name("inner.example", &["10.1.2.3"])
        .name("back.example", &["10.1.7.7"])
        .build();
    lab.echo("10.1.2.3:7");
    lab.echo("169.254.169.254:7");
    let server = lab.host.run(|| {
        for line in [
            "addr add 10.1.9.9/32 dev up0",
            "route add local 10.1.7.7/32 dev lo",
        ] {
            let done = Command::new("ip").args(line.split(' ')).status();
            assert!(done.unwrap().success());
        }
        TcpListener::bind("0.0.0.0:7").unwrap()
    });
    server.set_nonblocking(true).unwrap();
    let names = closed.map(|(name, _)| name);
    for name in names.into_iter().chain(["back.example"]) {
        lab.inside(move || assert_eq!(fate(&format!("{name}.:7")), Ending::Reset, "{name}"));
        let outcome = lab.record(name, 7).outcome;
        assert_eq!(outcome, EgressOutcome::RefusedAddress, "{name}");
    }
    lab.inside(|| {
        assert_eq!(
            said("inner.example.:7", b"in"),
            Ending::Closed(b"in".to_vec())
        )
    });
}

#[test]
fn a_name_that_changes_its_address_gives_no_way_in_between_check_and_dial() {
    let lab = Plan::new(allow(&["flip.example"]))
        .name("flip.example", &["203.0.113.1"])
        .name("flip.example", &["127.0.0.1"])
        .name("flip.example", &["203.0.113.1"])
        .build();
    lab.echo("203.0.113.1:7");
    let host = lab.host.run(|| TcpListener::bind("127.0.0.1:7")).unwrap();
    host.set_nonblocking(true).unwrap();
    let endings = lab.inside(|| [1, 2, 3].map(|_| said("flip.example.:7", b"x")));
    let through = Ending::Closed(b"x".to_vec());
    assert!(endings[0] == through && endings[1] == Ending::Reset && endings[2] == through);
    assert_eq!(
        host.accept().unwrap_err().kind(),
        ErrorKind::WouldBlock,
        "the host's loopback was dialled"
    );
}

#[test]
fn of_mixed_addresses_only_the_public_ones_are_dialled() {
    let lab = Plan::new(allow(&["mixed.example"]))
        .name(
            "mixed.example",
            &["127.0.0.1", "203.0.113.2", "203.0.113.1"],
        )
        .build();
    // 203.0.113.2 is closed: the next one is tried.
    lab.echo("203.0.113.1:7");
    lab.inside(|| {
        assert_eq!(
            said("mixed.example.:7", b"x"),
            Ending::Closed(b"x".to_vec())
        )
    });
}

#[test]
fn an_address_that_routes_lead_back_to_this_machine_is_refused() {
    let lab = Plan::new(allow(&["back.example"]))
        .name("back.example", &["203.0.113.77"])
        .build();
    let host = lab.host.run(|| {
        let added = Command::new("ip")
            .args(["route", "add", "local", "203.0.113.77/32", "dev", "lo"])
            .status();
        assert!(added.unwrap().success());
        TcpListener::bind("0.0.0.0:7").unwrap()
    });
    lab.inside(|| assert_eq!(fate("back.example.:7"), Ending::Reset));
    assert_eq!(
        lab.record("back.example", 7).outcome,
        EgressOutcome::RefusedAddress
    );
    drop(host);
}
