//! Connections through the gateway, and every other way out. Needs root and nftables.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod lab;

use std::{
    io::{ErrorKind, Read, Write},
    net::{Shutdown, TcpListener, UdpSocket},
    process::Command,
    sync::mpsc::channel,
    time::{Duration, Instant},
};

use domain::network_policy::NetworkPolicy;
use execution::egress::EgressOutcome;
use lab::{
    Ending, PATIENCE, Place, Plan, allow, begun, connect, connect_to, echo_lab, ending, fate,
    lookup, said,
};

#[test]
fn an_allowed_name_is_reached_on_any_port_and_told_once() {
    let lab = echo_lab(allow(&["good.example"]));
    lab.server("203.0.113.1:22", |mut stream| {
        let _ = stream.write_all(b"SSH-2.0-banner\r\n");
        let _ = stream.read(&mut [0; 16]);
    });
    let payload: Vec<u8> = (0..3_000_000_u32).map(|n| n as u8).collect();
    let sent = payload.clone();
    let (told, banner) = lab.inside(move || {
        let mut stream = connect("good.example.", 7);
        let mut writer = stream.try_clone().unwrap();
        let writing = std::thread::spawn(move || {
            writer.write_all(&sent).unwrap();
            writer.shutdown(Shutdown::Write).unwrap();
        });
        let told = ending(&mut stream);
        writing.join().unwrap();
        let mut banner = [0; 16];
        // The server speaks first.
        connect("good.example.", 22)
            .read_exact(&mut banner)
            .unwrap();
        (told, banner)
    });
    assert_eq!(told, Ending::Closed(payload));
    assert_eq!(&banner, b"SSH-2.0-banner\r\n");
    let event = lab.event();
    assert_eq!(
        (event.host.as_str(), event.port, event.outcome),
        ("good.example", 7, EgressOutcome::Allowed)
    );
    assert_eq!(event.rule, Some(0));
    lab.inside(|| {
        assert_eq!(
            said("good.example.:7", b"again"),
            Ending::Closed(b"again".to_vec())
        )
    });
    assert_eq!(lab.record("good.example", 7).count, 2);
    assert_eq!(
        lab.asked().len(),
        3,
        "the host's resolver is asked at each connection"
    );
}

#[test]
fn a_name_keeps_its_half_close_in_both_directions() {
    let lab = echo_lab(allow(&["good.example"]));
    lab.server("203.0.113.1:9", |mut stream| {
        stream.write_all(b"farewell").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).unwrap();
        assert_eq!(heard, b"still here");
    });
    lab.inside(|| {
        let mut stream = connect("good.example.", 9);
        assert_eq!(ending(&mut stream), Ending::Closed(b"farewell".to_vec()));
        stream.write_all(b"still here").unwrap();
    });
}

#[test]
fn a_closed_or_unknown_far_side_is_a_reset_and_no_block() {
    let lab = Plan::new(NetworkPolicy::Unrestricted)
        .name("good.example", &["203.0.113.1"])
        .name("empty.example", &[])
        .build();
    lab.inside(|| {
        assert_eq!(fate("good.example.:81"), Ending::Reset);
        assert_eq!(fate("unknown.example.:81"), Ending::Reset);
        assert_eq!(fate("empty.example.:81"), Ending::Reset);
    });
    for host in ["good.example", "unknown.example", "empty.example"] {
        let record = lab.record(host, 81);
        assert!(
            record.outcome == EgressOutcome::UpstreamFailed && record.allowed,
            "{record:?}"
        );
    }
    let told = lab.event().sentence();
    assert!(
        told.starts_with("egress: could not reach good.example:81, "),
        "{told}"
    );
}

#[test]
fn a_far_side_that_breaks_off_is_a_reset_and_never_a_clean_end() {
    let lab = echo_lab(allow(&["good.example"]));
    lab.server("203.0.113.1:9", |mut stream| {
        stream.write_all(b"half of the file").unwrap();
        let _ = stream.read(&mut [0; 1]);
        // Closing with unread bytes in the socket resets the connection.
    });
    lab.inside(|| {
        let mut stream = connect("good.example.", 9);
        stream.write_all(b"more than one byte").unwrap();
        let mut first = [0; 16];
        stream.read_exact(&mut first).unwrap();
        assert_eq!(ending(&mut stream), Ending::Reset);
    });
}

#[test]
fn the_gateway_itself_and_addresses_without_a_name_are_no_way_out() {
    let lab = echo_lab(allow(&["good.example", "203.0.113.1"]));
    lab.inside(|| {
        for target in [
            "198.18.0.1:15001",
            "[fd67:726f:756e:64::1]:15001",
            "198.18.77.7:7",
        ] {
            assert_eq!(fate(target), Ending::Reset, "{target}");
        }
        assert!(connect_to("198.18.0.1:80").is_err());
    });
    assert_eq!(lab.record("198.18.77.7", 7).outcome, EgressOutcome::Denied);
}

#[test]
fn bulk_transfers_end_as_their_far_side_ends_them() {
    const SIZE: usize = 32 << 20;
    let lab = echo_lab(allow(&["good.example"]));
    for (port, clean) in [(20, true), (21, false)] {
        lab.server(&format!("203.0.113.1:{port}"), move |mut stream| {
            stream.read_exact(&mut [0; 1]).unwrap();
            let block: Vec<u8> = (0..1 << 20).map(|n: u32| (n >> 3) as u8).collect();
            for _ in 0..SIZE >> 20 {
                stream.write_all(&block).unwrap();
            }
            if clean {
                stream.shutdown(Shutdown::Write).unwrap();
                let _ = stream.read(&mut [0; 16]);
            }
            // Otherwise the unread byte makes the close a reset.
        });
    }
    lab.inside(|| {
        let mut clean = connect("good.example.", 20);
        clean.write_all(b"g").unwrap();
        let Ending::Closed(all) = ending(&mut clean) else {
            panic!("reset")
        };
        assert_eq!(all.len(), SIZE);
        assert!(
            all.iter()
                .enumerate()
                .all(|(n, byte)| *byte == ((n & 0xf_ffff) >> 3) as u8)
        );
        let mut cut = connect("good.example.", 21);
        cut.write_all(b"go").unwrap();
        assert_eq!(ending(&mut cut), Ending::Reset);
    });
}

#[test]
fn when_the_gateway_ends_everything_is_closed_and_stays_closed() {
    let mut lab = echo_lab(NetworkPolicy::Unrestricted);
    let mut open = lab.inside(|| {
        let mut open = connect("good.example.", 7);
        open.write_all(b"x").unwrap();
        open.read_exact(&mut [0; 1]).unwrap();
        open
    });
    lab.gateway = None;
    lab.runtime.take().unwrap().shutdown_timeout(PATIENCE);
    lab.inside(move || {
        assert_eq!(
            ending(&mut open),
            Ending::Reset,
            "a connection under way is cut, not ended"
        );
        let fake = "198.18.1.0:7";
        let targets = [fake, "198.18.0.1:53", "203.0.113.1:7", "[2001:db8:1::1]:7"];
        // A process that another test starts at this moment has our sockets until its program begins.
        let end = Instant::now() + PATIENCE;
        while targets.iter().any(|target| connect_to(target).is_ok()) {
            assert!(Instant::now() < end, "something listens");
            std::thread::sleep(Duration::from_millis(2));
        }
        for target in targets {
            let error = connect_to(target).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{target}");
        }
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.connect("198.18.0.1:53").unwrap();
        let _ = socket.send(b"x");
        assert_eq!(
            socket.recv(&mut [0; 16]).unwrap_err().kind(),
            ErrorKind::ConnectionRefused
        );
    });
}

#[test]
fn root_of_another_user_namespace_changes_nothing() {
    let lab = echo_lab(allow(&["good.example"]));
    let elsewhere = Place::new();
    for command in [
        "nft flush ruleset",
        "ip link set lo down",
        "ip addr add 203.0.113.99/32 dev lo",
        "ip route replace unreachable 203.0.113.0/24",
        "ip link add x0 type veth peer name x1",
        "sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward'",
        "python3 -c 'import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3)'",
        "python3 -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)'",
        "python3 -c 'import socket; socket.socket().setsockopt(1, 36, 7)'",
    ] {
        let status = lab.inside(move || {
            Command::new("unshare")
                .args(["--user", "--map-root-user", "sh", "-c", command])
                .output()
                .unwrap()
        });
        assert!(!status.status.success(), "{command} succeeded");
        // The command itself is good: whoever owns a namespace can do it there.
        let control =
            elsewhere.run(move || Command::new("sh").args(["-c", command]).output().unwrap());
        assert!(control.status.success(), "{command} does not work at all");
    }
    lab.inside(|| {
        assert_eq!(said("good.example.:7", b"x"), Ending::Closed(b"x".to_vec()));
        assert!(connect_to("203.0.113.1:7").is_err());
    });
}

#[test]
fn slow_and_silent_peers_are_ended_in_time() {
    let lab = Plan::new(allow(&["good.example"]))
        .name("good.example", &["203.0.113.1"])
        .limits(|limits| {
            limits.hello = Duration::from_millis(300);
            limits.idle = Duration::from_millis(600);
            limits.half_open = Duration::from_millis(300);
        })
        .build();
    lab.echo("203.0.113.1:7");
    lab.server("203.0.113.1:10", |stream| {
        let _ = channel::<()>().1.recv_timeout(PATIENCE);
        drop(stream);
    });
    lab.inside(|| {
        // No hello, half a hello.
        assert_eq!(fate("good.example.:443"), Ending::Reset);
        let half = &lab::hello(Some("good.example"), &[])[..20];
        assert_eq!(begun("good.example.:443", half), Ending::Reset);
        // Half a head.
        let head = b"GET / HTTP/1.1\r\nHost: good";
        assert_eq!(begun("good.example.:80", head), Ending::Reset);
        // Nothing moves.
        assert_eq!(fate("good.example.:7"), Ending::Reset);
        // One side has ended, the other never does.
        assert_eq!(said("good.example.:10", b""), Ending::Reset);
        // The far side does not read: our memory is bounded, and so is the wait.
        let mut stuffed = connect("good.example.", 10);
        stuffed.set_write_timeout(Some(PATIENCE)).unwrap();
        let block = vec![0; 1 << 20];
        let stuck = (0..10_000)
            .find_map(|_| stuffed.write_all(&block).err())
            .unwrap();
        assert!(
            matches!(
                stuck.kind(),
                ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
            ),
            "{stuck}"
        );
        // DNS over TCP that never asks.
        assert_eq!(fate("198.18.0.1:53"), Ending::Closed(Vec::new()));
    });
    assert_eq!(
        lab.record("good.example", 443).outcome,
        EgressOutcome::Mismatch
    );
}

#[test]
fn connections_beyond_the_limit_are_reset_until_others_end() {
    let lab = Plan::new(allow(&["good.example"]))
        .name("good.example", &["203.0.113.1"])
        .limits(|limits| limits.connections = 3)
        .build();
    lab.echo("203.0.113.1:7");
    lab.inside(|| {
        let open = || {
            let address = format!("{}:7", lookup("good.example.").unwrap());
            let mut stream = connect_to(&address)?;
            stream.write_all(b"x")?;
            stream.read_exact(&mut [0; 1]).map(|()| stream)
        };
        let held: Vec<_> = (0..3).map(|_| open().unwrap()).collect();
        assert!(open().is_err());
        drop(held);
        let end = Instant::now() + PATIENCE;
        while open().is_err() {
            assert!(Instant::now() < end, "no place came back");
        }
    });
    let outcomes: Vec<_> = lab
        .network
        .report()
        .records
        .into_iter()
        .map(|record| record.outcome)
        .collect();
    assert_eq!(outcomes, [EgressOutcome::Allowed, EgressOutcome::Limit]);
}

#[test]
fn the_sandbox_has_its_own_loopback_and_no_other_sandbox() {
    let one = echo_lab(NetworkPolicy::Unrestricted);
    let other = echo_lab(NetworkPolicy::Unrestricted);
    let server = other.inside(|| TcpListener::bind("0.0.0.0:80")).unwrap();
    server.set_nonblocking(true).unwrap();
    one.inside(|| {
        let own = TcpListener::bind("127.0.0.1:81").unwrap();
        connect_to("127.0.0.1:81").unwrap();
        drop(own);
        assert!(connect_to("127.0.0.1:80").is_err());
        assert!(connect_to("198.18.0.1:80").is_err());
    });
    assert_eq!(server.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
}
