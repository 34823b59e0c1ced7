//! The sandbox's only name server. Needs root and nftables.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod lab;

use domain::network_policy::NetworkPolicy;
use execution::egress::EgressOutcome;
use hickory_proto::{
    op::{Message, ResponseCode},
    rr::{Name, RecordType},
};
use lab::{Ending, Plan, allow, ask_tcp, ask_udp, begun, dns, hello, lookup, question, rules};

#[test]
fn a_name_is_answered_by_rule_and_never_sent_on() {
    use RecordType::{A, AAAA, HTTPS, MX, SRV, TXT};
    use ResponseCode::{NXDomain, NoError};
    let lab = Plan::new(allow(&["good.example", "*.wide.example"])).build();
    // Name, type, code, whether an address is in the answer.
    let table = [
        ("good.example.", A, NoError, true),
        ("GOOD.Example.", A, NoError, true),
        ("a.b.wide.example.", A, NoError, true),
        ("good.example.", AAAA, NoError, false),
        ("good.example.", HTTPS, NoError, false),
        ("good.example.", TXT, NoError, false),
        ("good.example.", SRV, NoError, false),
        ("wide.example.", A, NXDomain, false),
        ("bad.example.", A, NXDomain, false),
        ("bad.example.", TXT, NXDomain, false),
        ("bad.example.", MX, NXDomain, false),
        ("secret-data.attacker.example.", TXT, NXDomain, false),
        ("_http._tcp.bad.example.", SRV, NXDomain, false),
        ("1.0.18.198.in-addr.arpa.", RecordType::PTR, NXDomain, false),
        ("localhost.", A, NoError, true),
        ("a.localhost.", A, NoError, true),
        ("localhost.", AAAA, NoError, false),
    ];
    for by_tcp in [false, true] {
        for (name, kind, code, addressed) in table {
            let asked = question(name, kind);
            let bytes = asked.to_vec().unwrap();
            let answer = lab.inside(move || match by_tcp {
                true => ask_tcp("198.18.0.1:53", &bytes),
                false => ask_udp("198.18.0.1:53", &bytes),
            });
            let answer = Message::from_vec(&answer.unwrap()).unwrap();
            assert_eq!(answer.metadata.response_code, code, "{name} {kind}");
            assert_eq!(!answer.answers.is_empty(), addressed, "{name} {kind}");
            assert_eq!(answer.metadata.id, asked.metadata.id);
            assert_eq!(
                answer.queries[0].name.to_ascii(),
                name,
                "the case of the question is kept"
            );
            assert_eq!(
                answer.edns.as_ref().map(|edns| edns.max_payload()),
                Some(1232)
            );
        }
    }
    assert!(lab.asked().is_empty(), "a name was sent on");
    let recorded: Vec<_> = lab
        .network
        .report()
        .records
        .into_iter()
        .map(|record| (record.host, record.outcome))
        .collect();
    let denied = [
        "wide.example",
        "bad.example",
        "secret-data.attacker.example",
    ];
    assert_eq!(
        recorded,
        denied.map(|host| (host.to_owned(), EgressOutcome::Denied))
    );
}

#[test]
fn a_block_is_told_at_once_and_counted_by_address_lookups() {
    let lab = Plan::new(rules(&[("evil.example", false), ("*", true)])).build();
    for kind in [
        RecordType::A,
        RecordType::AAAA,
        RecordType::A,
        RecordType::AAAA,
    ] {
        lab.inside(move || dns("evil.example.", kind));
    }
    assert_eq!(
        lab.event().sentence(),
        "egress: blocked evil.example, rules[0] denies it"
    );
    let record = lab.record("evil.example", 0);
    assert_eq!((record.count, record.rule), (2, Some(0)));
    assert!(lab.sentences().is_empty(), "the same block is told once");
}

#[test]
fn a_block_that_comes_again_later_is_told_again_with_its_count() {
    let lab = Plan::new(allow(&[]))
        .limits(|limits| limits.tell_again = std::time::Duration::ZERO)
        .build();
    for _ in 0..3 {
        lab.inside(|| lookup("evil.example."));
    }
    assert_eq!([1, 2, 3].map(|_| lab.event().count), [1, 2, 3]);
}

#[test]
fn what_cannot_be_a_host_is_no_name_even_when_every_name_is_allowed() {
    let lab = Plan::new(NetworkPolicy::Unrestricted).build();
    let odd: [&[&[u8]]; 7] = [
        &[b"1", b"2", b"3", b"4"],
        &[b"127", b"1"],
        &[b"0x7f000001"],
        &[b"2130706433"],
        &[b"a.b", b"example"],
        &[b"sp ace", b"example"],
        &[b"\0", b"example"],
    ];
    for labels in odd {
        let mut asked = question("x.", RecordType::A);
        asked.queries[0].name = Name::from_labels(labels.iter().copied()).unwrap();
        let bytes = asked.to_vec().unwrap();
        let answer = lab
            .inside(move || ask_udp("198.18.0.1:53", &bytes))
            .unwrap();
        let code = Message::from_vec(&answer).unwrap().metadata.response_code;
        assert_eq!(code, ResponseCode::NXDomain, "{labels:?}");
    }
}

#[test]
fn a_name_that_is_longer_than_a_host_can_be_is_refused_and_never_kept() {
    let lab = Plan::new(allow(&["*"]))
        .name("good.example", &["203.0.113.1"])
        .build();
    lab.echo("203.0.113.1:443");
    lab.echo("203.0.113.1:80");
    for length in [254, 8_192, 15_000] {
        let name = format!("{}a", "a.".repeat(length / 2));
        let request = format!("GET / HTTP/1.1\r\nHost: {name}\r\n\r\n");
        lab.inside(move || {
            let ending = begun("good.example.:443", &hello(Some(&name), &[]));
            assert_eq!(ending, Ending::Reset, "{length}");
            let ending = begun("good.example.:80", request.as_bytes());
            assert_eq!(ending, Ending::Reset, "{length}");
        });
    }
    for (port, why) in [
        (443, "the TLS hello is damaged"),
        (80, "the HTTP request's Host makes no sense"),
    ] {
        let record = lab.record("good.example", port);
        assert_eq!(record.outcome, EgressOutcome::Mismatch, "{port}");
        assert_eq!(record.detail, why);
    }
    let hosts = lab
        .network
        .report()
        .records
        .into_iter()
        .map(|record| record.host);
    assert!(hosts.into_iter().all(|host| host == "good.example"));
}

#[test]
fn every_other_name_server_is_ours_too() {
    let lab = Plan::new(allow(&["good.example"])).build();
    for by_tcp in [false, true] {
        for (name, code) in [
            ("good.example.", ResponseCode::NoError),
            ("bad.example.", ResponseCode::NXDomain),
        ] {
            let answer = lab.inside(move || {
                let bytes = question(name, RecordType::A).to_vec().unwrap();
                match by_tcp {
                    true => ask_tcp("203.0.113.1:53", &bytes),
                    false => ask_udp("203.0.113.1:53", &bytes),
                }
            });
            let answer = Message::from_vec(&answer.unwrap()).unwrap();
            assert_eq!(
                answer.metadata.response_code, code,
                "{name} by TCP {by_tcp}"
            );
        }
    }
    lab.inside(|| {
        let bytes = question("good.example.", RecordType::A).to_vec().unwrap();
        assert!(
            ask_udp("[2001:db8:1::1]:53", &bytes).is_err(),
            "no name server over IPv6"
        );
        assert!(
            ask_tcp("[2001:db8:1::1]:53", &bytes).is_err(),
            "no name server over IPv6"
        );
    });
    assert!(lab.asked().is_empty());
}

#[test]
fn damaged_and_odd_messages_are_answered_or_dropped_and_harm_nothing() {
    let lab = Plan::new(allow(&["good.example"])).build();
    lab.inside(|| {
        let good = question("good.example.", RecordType::A).to_vec().unwrap();
        let ask = |bytes: &[u8]| {
            let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.connect("198.18.0.1:53").unwrap();
            socket.send(bytes).unwrap();
        };
        for length in 0..good.len() {
            ask(&good[..length]);
        }
        for at in 0..good.len() {
            let mut bytes = good.clone();
            bytes[at] ^= 0xff;
            ask(&bytes);
        }
        ask(&[0xff; 4096]);
    });
    let code = |change: fn(&mut Message)| {
        let mut message = question("good.example.", RecordType::A);
        change(&mut message);
        let bytes = message.to_vec().unwrap();
        let answer = lab
            .inside(move || ask_udp("198.18.0.1:53", &bytes))
            .unwrap();
        Message::from_vec(&answer).unwrap().metadata.response_code
    };
    assert_eq!(code(|_| {}), ResponseCode::NoError);
    assert_eq!(
        code(|m| m.metadata.op_code = hickory_proto::op::OpCode::Update),
        ResponseCode::NotImp
    );
    assert_eq!(
        code(|m| m.queries[0].query_class = hickory_proto::rr::DNSClass::CH),
        ResponseCode::Refused
    );
    assert_eq!(
        code(|m| m.queries.push(m.queries[0].clone())),
        ResponseCode::FormErr
    );
    assert_eq!(
        code(|m| {
            m.edns.as_mut().unwrap().set_version(1);
        }),
        ResponseCode::BADSIG,
        "number 16, which means a bad version here"
    );
}

#[test]
fn ten_thousand_names_each_have_their_address() {
    let lab = Plan::new(allow(&["*.example"])).build();
    let addresses = lab.inside(|| {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect("198.18.0.1:53").unwrap();
        socket.set_read_timeout(Some(lab::PATIENCE)).unwrap();
        let mut addresses = std::collections::HashSet::new();
        let mut answer = [0; 512];
        for round in 0..2 {
            for n in 0..10_000 {
                let asked = question(&format!("n{n}.example."), RecordType::A)
                    .to_vec()
                    .unwrap();
                socket.send(&asked).unwrap();
                let length = socket.recv(&mut answer).unwrap();
                let message = Message::from_vec(&answer[..length]).unwrap();
                let new = addresses.insert(message.answers[0].data.to_string());
                assert_eq!(new, round == 0, "n{n}");
            }
        }
        addresses
    });
    assert_eq!(addresses.len(), 10_000);
}

#[test]
fn ten_thousand_denied_names_are_bounded_and_the_rest_only_counted() {
    let lab = Plan::new(allow(&[]))
        .limits(|limits| limits.records = 100)
        .build();
    lab.inside(|| {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect("198.18.0.1:53").unwrap();
        socket.set_read_timeout(Some(lab::PATIENCE)).unwrap();
        for n in 0..10_000 {
            let asked = question(&format!("n{n}.example."), RecordType::A)
                .to_vec()
                .unwrap();
            socket.send(&asked).unwrap();
            socket.recv(&mut [0; 512]).unwrap();
        }
    });
    let report = lab.network.report();
    assert_eq!((report.records.len(), report.beyond_limit), (100, 9_900));
    assert!(lab.asked().is_empty());
}

#[test]
fn names_beyond_the_limit_fail_and_say_so() {
    let lab = Plan::new(allow(&["*.example"]))
        .limits(|limits| limits.names = 2)
        .build();
    lab.inside(|| {
        assert!(lookup("a.example.").is_some());
        assert!(lookup("b.example.").is_some());
        let third = dns("c.example.", RecordType::A);
        assert_eq!(third.metadata.response_code, ResponseCode::ServFail);
        assert!(lookup("a.example.").is_some());
    });
    let told = lab.event().sentence();
    assert_eq!(
        told,
        "egress: blocked c.example, more than 2 names were asked for"
    );
}

#[test]
fn two_hundred_rules_are_asked_in_order() {
    let mut list: Vec<(String, bool)> = (0..198)
        .map(|n| (format!("h{n}.example"), n % 2 == 0))
        .collect();
    list.push(("*.example".into(), false));
    list.push(("*".into(), true));
    let list: Vec<(&str, bool)> = list
        .iter()
        .map(|(glob, allow)| (glob.as_str(), *allow))
        .collect();
    let lab = Plan::new(rules(&list)).build();
    lab.inside(|| {
        for n in 0..198 {
            assert_eq!(
                lookup(&format!("h{n}.example.")).is_some(),
                n % 2 == 0,
                "{n}"
            );
        }
        assert!(lookup("other.example.").is_none());
        assert!(lookup("other.test.").is_some());
    });
    assert_eq!(lab.record("h197.example", 0).rule, Some(197));
    assert_eq!(lab.record("other.example", 0).rule, Some(198));
}
