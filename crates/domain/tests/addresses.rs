//! Addresses that no sandbox reaches, and ranges that a deployment opens (spec 1-domain, *Network policy*).
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use domain::network_policy::{Cidr, is_refused_address, may_be_reached};

#[test]
fn addresses_that_no_policy_opens() {
    for (address, refused) in [
        ("127.0.0.1", true),
        ("127.255.255.254", true),
        ("0.0.0.0", true),
        ("0.1.2.3", true),
        ("10.0.0.1", true),
        ("172.15.255.255", false),
        ("172.16.0.1", true),
        ("172.31.255.255", true),
        ("172.32.0.1", false),
        ("192.168.1.1", true),
        ("169.254.169.254", true),
        ("169.254.170.2", true),
        ("192.0.0.192", true),
        ("168.63.129.16", true),
        ("100.64.0.1", true),
        ("100.100.100.200", true),
        ("100.127.255.255", true),
        ("100.128.0.1", false),
        ("100.63.255.255", false),
        ("198.18.0.1", true),
        ("198.20.0.1", false),
        ("224.0.0.251", true),
        ("239.255.255.250", true),
        ("240.0.0.1", true),
        ("255.255.255.255", true),
        ("192.0.2.1", false),
        ("198.51.100.7", false),
        ("203.0.113.9", false),
        ("1.1.1.1", false),
        ("8.8.8.8", false),
        ("168.63.129.17", false),
        ("::", true),
        ("::1", true),
        ("::127.0.0.1", true),
        ("::ffff:127.0.0.1", true),
        ("::ffff:169.254.169.254", true),
        ("::ffff:10.1.2.3", true),
        ("::ffff:8.8.8.8", false),
        ("64:ff9b::7f00:1", true),
        ("64:ff9b::a9fe:a9fe", true),
        ("64:ff9b::808:808", false),
        ("64:ff9b:1::1", true),
        ("2002:7f00:1::", true),
        ("2002:c0a8:101::1", true),
        ("2002:808:808::1", false),
        ("2001::1", true),
        ("fc00::1", true),
        ("fd00:ec2::254", true),
        ("fe80::1", true),
        ("febf::1", true),
        ("fec0::1", true),
        ("ff02::1", true),
        ("100::1", true),
        ("2001:db8::1", false),
        ("2606:4700::1111", false),
        ("2a00:1450:4001::1", false),
    ] {
        assert_eq!(
            is_refused_address(address.parse().unwrap(), &[]),
            refused,
            "{address}"
        );
    }
}

fn ranges(texts: &[&str]) -> Vec<Cidr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn no_range_opens_loopback_link_local_metadata_or_multicast() {
    let everything = ranges(&["0.0.0.0/0", "::/0", "127.0.0.0/8", "169.254.169.254/32"]);
    for address in [
        "127.0.0.1",
        "127.9.9.9",
        "0.0.0.0",
        "169.254.169.254",
        "169.254.1.1",
        "168.63.129.16",
        "100.100.100.200",
        "192.0.0.192",
        "224.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "::ffff:127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::7f00:1",
        "2002:7f00:1::",
        "2002:a9fe:a9fe::1",
        "2001::1",
        "fe80::1",
        "ff02::1",
        "fd00:ec2::254",
        "fd20:ce::254",
    ] {
        let address = address.parse().unwrap();
        assert!(is_refused_address(address, &everything), "{address}");
        assert!(!may_be_reached(address, &everything, &[]), "{address}");
    }
    for address in [
        "10.1.2.3",
        "192.168.7.7",
        "100.64.0.1",
        "fd12::1",
        "64:ff9b::a01:203",
    ] {
        assert!(
            !is_refused_address(address.parse().unwrap(), &everything),
            "{address}"
        );
    }
}

#[test]
fn no_range_opens_the_deployments_own_addresses_in_any_form() {
    let opened = ranges(&["10.0.0.0/8", "fd00::/8", "64:ff9b::/96"]);
    let own = ["10.1.2.3", "fd12::7", "::ffff:203.0.113.9", "198.51.100.4"];
    let own = own.map(|address| address.parse().unwrap());
    for (address, reached) in [
        ("10.1.2.3", false),
        ("::ffff:10.1.2.3", false),
        ("64:ff9b::a01:203", false),
        ("2002:a01:203::1", false),
        ("fd12::7", false),
        ("203.0.113.9", false),
        ("64:ff9b::cb00:7109", false),
        ("2002:c633:6404::", false),
        ("10.1.2.4", true),
        ("64:ff9b::a01:204", true),
        ("203.0.113.10", true),
        ("fd12::8", true),
    ] {
        let found = may_be_reached(address.parse().unwrap(), &opened, &own);
        assert_eq!(found, reached, "{address}");
    }
}

#[test]
fn a_range_that_opens_nothing_is_told_from_one_that_holds_some_of_it() {
    for (range, nothing) in [
        ("127.0.0.0/8", true),
        ("127.0.0.1/32", true),
        ("169.254.0.0/16", true),
        ("169.254.169.254/32", true),
        ("168.63.129.16/32", true),
        ("0.0.0.0/8", true),
        ("224.0.0.0/4", true),
        ("::1/128", true),
        ("::ffff:127.0.0.0/104", true),
        ("fe80::/10", true),
        ("fd00:ec2::254/128", true),
        ("0.0.0.0/0", false),
        ("126.0.0.0/7", false),
        ("10.0.0.0/8", false),
        ("168.63.129.0/24", false),
        ("100.64.0.0/10", false),
        ("::/0", false),
        ("fd00::/8", false),
    ] {
        let parsed: Cidr = range.parse().unwrap();
        assert_eq!(parsed.opens_nothing(), nothing, "{range}");
    }
}

#[test]
fn a_configured_range_opens_just_itself() {
    let opened = ranges(&["10.20.0.0/16", "fd12::/16", "::ffff:172.16.0.0/108"]);
    for (address, refused) in [
        ("10.20.0.1", false),
        ("10.20.255.255", false),
        ("10.21.0.1", true),
        ("::ffff:10.20.1.1", false),
        ("64:ff9b::a14:101", false),
        ("fd12::1", false),
        ("fd13::1", true),
        ("172.20.0.1", false),
        ("127.0.0.1", true),
    ] {
        assert_eq!(
            is_refused_address(address.parse().unwrap(), &opened),
            refused,
            "{address}"
        );
    }
    for bad in [
        "10.0.0.0",
        "10.0.0.0/33",
        "::/129",
        "a/8",
        "10.0.0.0/-1",
        "10.0.0.0/8/8",
        "",
    ] {
        assert!(bad.parse::<Cidr>().is_err(), "{bad}");
    }
    assert_eq!(
        "10.20.0.0/16".parse::<Cidr>().unwrap().to_string(),
        "10.20.0.0/16"
    );
}
