//! Globs and verdicts (spec 1-domain, *Network policy*).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use domain::{
    host_groups::HostGroups,
    network_policy::{
        CompiledPolicy, HostGlob, NetworkPolicy, Rule, RuleAction, Verdict, normalise_host,
    },
};
use proptest::prelude::*;
use serde_json::json;

fn rule(host_glob: &str, action: RuleAction) -> Rule {
    Rule {
        host_glob: host_glob.to_owned(),
        action,
    }
}

fn matches(glob: &str, host: &str) -> bool {
    let policy = NetworkPolicy::Rules(vec![rule(glob, RuleAction::Allow)]);
    let verdict = policy.verdict(host);
    assert_eq!(CompiledPolicy::new(&policy).verdict(host), verdict);
    verdict.allowed
}

#[test]
fn what_a_glob_matches() {
    for (glob, hosts, others) in [
        (
            "example.com",
            vec!["example.com", "EXAMPLE.com", "example.com."],
            vec![
                "a.example.com",
                "badexample.com",
                "example.com.evil.test",
                "example.co",
                "",
            ],
        ),
        ("Example.COM.", vec!["example.com"], vec!["example.com.."]),
        (
            "*.example.com",
            vec![
                "a.example.com",
                "a.b.example.com",
                "A.EXAMPLE.COM.",
                "-.example.com",
            ],
            vec![
                "example.com",
                "badexample.com",
                ".example.com",
                "a.example.com.evil.test",
            ],
        ),
        (
            "*",
            vec!["example.com", "localhost", "1.2.3.4", "::1", "a_b.c"],
            vec!["", "a b", "a/b", "a..b"],
        ),
        ("*.*", vec!["a.b", "a.b.c", "1.2.3.4"], vec!["localhost"]),
        ("**", vec!["ab", "a.b"], vec!["a"]),
        ("a*", vec!["ab", "a.b"], vec!["a", "ba"]),
        ("*a", vec!["ba", "b.a", "aa"], vec!["a", "ab"]),
        (
            "a*b*c",
            vec!["axbyc", "a.b.c", "aabbcc", "abbbc"],
            vec!["abc", "axbc", "acb"],
        ),
        (
            "objects-*.example.com",
            vec!["objects-eu.example.com", "objects-eu.1.example.com"],
            vec!["objects-.example.com", "objects.example.com"],
        ),
        (
            "bücher.example",
            vec![
                "bücher.example",
                "BÜCHER.example",
                "xn--bcher-kva.example",
                "XN--BCHER-KVA.EXAMPLE.",
            ],
            vec!["bucher.example"],
        ),
        ("xn--bcher-kva.example", vec!["bücher.example"], vec![]),
        (
            "*.bücher.example",
            vec!["a.bücher.example", "a.xn--bcher-kva.example"],
            vec!["bücher.example"],
        ),
        (
            "faß.example",
            vec!["xn--fa-hia.example"],
            vec!["fass.example"],
        ),
        ("my_service.example", vec!["my_service.example"], vec![]),
        (
            "10.0.0.1",
            vec!["10.0.0.1", "::ffff:10.0.0.1"],
            vec!["10.0.0.10", "110.0.0.1", "10.0.0.1.example"],
        ),
        ("10.0.0.*", vec!["10.0.0.1", "10.0.0.255"], vec!["10.0.1.1"]),
        (
            "2001:DB8:0:0::1",
            vec!["2001:db8::1", "[2001:db8::1]", "2001:0db8:0000::0001"],
            vec!["2001:db8::2", "2001:db8::10"],
        ),
        ("[2001:db8::1]", vec!["2001:db8::1"], vec![]),
        ("::ffff:10.0.0.1", vec!["10.0.0.1"], vec![]),
    ] {
        for host in hosts {
            assert!(matches(glob, host), "{glob} should match {host}");
        }
        for host in others {
            assert!(!matches(glob, host), "{glob} should not match {host}");
        }
    }
}

#[test]
fn what_is_no_glob_says_how_to_write_it() {
    let long_label = format!("{}.example", "a".repeat(64));
    let long = format!("{}example", "a.".repeat(130));
    for (glob, word) in [
        ("", "such as"),
        (
            "https://github.com",
            "host alone, without https://: github.com.",
        ),
        ("https://github.com:443/a", ": github.com."),
        ("https://", "host alone"),
        ("github.com/org", "path"),
        ("github.com?q", "path"),
        ("github.com#a", "path"),
        ("a\\b", "path"),
        ("github.com:443", "port"),
        ("*:443", "port"),
        ("[::1]:443", "port"),
        ("[1.2.3.4]", "port"),
        ("git@github.com", "user"),
        (" github.com", "white space"),
        ("github.com\n", "white space"),
        ("a b.example", "white space"),
        ("a\u{0}b", "white space"),
        ("a..b", "empty part"),
        (".example.com", "empty part"),
        ("*..example.com", "empty part"),
        (".", "empty part"),
        ("..", "empty part"),
        ("1.2.3", "IPv4"),
        ("256.1.1.1", "IPv4"),
        ("10.0.0.0/8", "path"),
        ("exa$mple.com", "'$'"),
        ("a,b", "','"),
        ("b*ü.example", "xn--"),
        ("%2e.example", "'%'"),
        (&long_label, "63"),
        (&long, "253"),
    ] {
        let error = HostGlob::parse(glob).expect_err(glob);
        assert!(
            error.0.contains(word),
            "{glob:?}: {error} does not say {word:?}"
        );
    }
}

#[test]
fn the_first_match_decides_and_the_rest_is_blocked() {
    use RuleAction::{Allow, Deny};
    let policy = NetworkPolicy::Rules(vec![
        rule("secret.example.com", Deny),
        rule("*.example.com", Allow),
        rule("secret.example.com", Allow),
        rule("example.org", Allow),
        rule("*", Deny),
        rule("example.net", Allow),
    ]);
    let compiled = CompiledPolicy::new(&policy);
    for (host, allowed, decided_by) in [
        ("secret.example.com", false, Some(0)),
        ("a.example.com", true, Some(1)),
        ("example.org", true, Some(3)),
        ("example.com", false, Some(4)),
        ("example.net", false, Some(4)),
        ("not a host", false, None),
    ] {
        let verdict = Verdict {
            allowed,
            rule: decided_by,
        };
        assert_eq!(policy.verdict(host), verdict, "{host}");
        assert_eq!(compiled.verdict(host), verdict, "{host}");
    }
    let closed = NetworkPolicy::no_access();
    let open = NetworkPolicy::Unrestricted;
    for host in ["example.com", "1.2.3.4", "", "a b"] {
        let blocked = Verdict {
            allowed: false,
            rule: None,
        };
        let allowed = Verdict {
            allowed: true,
            rule: None,
        };
        assert_eq!(
            (closed.verdict(host), open.verdict(host)),
            (blocked, allowed)
        );
        assert_eq!(CompiledPolicy::new(&closed).verdict(host), blocked);
        assert_eq!(CompiledPolicy::new(&open).verdict(host), allowed);
    }
}

#[test]
fn a_saved_glob_that_cannot_be_read_opens_nothing() {
    let policy = NetworkPolicy::Rules(vec![
        rule("a.example", RuleAction::Allow),
        rule("not a glob", RuleAction::Deny),
        rule("*", RuleAction::Allow),
    ]);
    for (host, allowed, decided_by) in [("a.example", true, Some(0)), ("b.example", false, Some(1))]
    {
        let verdict = Verdict {
            allowed,
            rule: decided_by,
        };
        assert_eq!(policy.verdict(host), verdict);
        assert_eq!(CompiledPolicy::new(&policy).verdict(host), verdict);
    }
}

#[test]
fn closed_means_that_no_rule_allows() {
    assert!(NetworkPolicy::no_access().is_closed());
    assert!(NetworkPolicy::Rules(vec![rule("*", RuleAction::Deny)]).is_closed());
    assert!(!NetworkPolicy::Rules(vec![rule("a.example", RuleAction::Allow)]).is_closed());
    assert!(!NetworkPolicy::Unrestricted.is_closed());
}

#[test]
fn json_is_read_and_written_alike() {
    for value in [
        json!({}),
        json!({"version": "v1", "rules": []}),
        json!({"version": "v1", "rules": [
            {"match": {"host_glob": "*.Example.com"}, "action": {"type": "deny"}},
            {"match": {"host_glob": "*"}, "action": {"type": "allow"}},
        ]}),
    ] {
        assert_eq!(
            NetworkPolicy::from_json(&value, "p").unwrap().to_json(),
            value
        );
    }
    let issues = NetworkPolicy::from_json(
        &json!({"version": "v1", "rules": [[], {"match": 1, "action": {"type": 3}}]}),
        "p",
    )
    .unwrap_err();
    let paths: Vec<_> = issues.0.iter().map(|issue| issue.path.as_str()).collect();
    assert_eq!(
        paths,
        ["p.rules[0]", "p.rules[1].match", "p.rules[1].action.type"]
    );
}

#[test]
fn two_hundred_rules_answer_ten_thousand_names_alike() {
    let rules: Vec<Rule> = (0..200)
        .map(|i| match i % 4 {
            0 => rule(&format!("h{i}.example"), RuleAction::Allow),
            1 => rule(&format!("*.d{i}.example"), RuleAction::Deny),
            2 => rule(&format!("a*.d{i}.example"), RuleAction::Allow),
            _ => rule(&format!("h{}.example", i - 3), RuleAction::Deny),
        })
        .collect();
    let compiled = CompiledPolicy::new(&NetworkPolicy::Rules(rules));
    let allowed = (0..10_000)
        .filter(|i| {
            compiled.verdict(&format!("h{i}.example")).allowed
                || compiled.verdict(&format!("ab.d{i}.example")).allowed
        })
        .count();
    assert_eq!(allowed, 100);
}

#[test]
fn the_built_in_host_groups_are_those_of_the_spec() {
    let groups = HostGroups::built_in();
    let names: Vec<_> = groups.0.keys().map(String::as_str).collect();
    assert_eq!(names, ["crates", "debian", "github", "npm", "pypi"]);
    assert_eq!(groups.check(), Ok(()));
    assert!(groups.0.values().all(|hosts| !hosts.is_empty()));
    for host in [
        "github.com",
        "api.github.com",
        "codeload.github.com",
        "objects.githubusercontent.com",
        "github-cloud.s3.amazonaws.com",
    ] {
        assert!(groups.policy(&["github"]).verdict(host).allowed, "{host}");
        assert!(
            !groups
                .policy(&["npm", "pypi", "nothing"])
                .verdict(host)
                .allowed,
            "{host}"
        );
    }
    let bad = HostGroups(
        [(
            "mirror".to_owned(),
            vec!["a.example".to_owned(), "https://b".to_owned()],
        )]
        .into(),
    );
    assert_eq!(bad.check().unwrap_err().0[0].path, "mirror[1]");
}

/// The written meaning of a glob, as plainly as it can be said.
fn slow_match(pattern: &[u8], text: &[u8]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some((b'*', rest)) => (1..=text.len()).any(|taken| slow_match(rest, &text[taken..])),
        Some((c, rest)) => text.first() == Some(c) && slow_match(rest, &text[1..]),
    }
}

proptest! {
    #[test]
    fn a_glob_matches_as_written(glob in "[ab*]{1,4}(\\.[ab*]{1,3}){0,2}", host in "[ab]{1,4}(\\.[ab]{1,3}){0,3}") {
        prop_assert_eq!(matches(&glob, &host), slow_match(glob.as_bytes(), host.as_bytes()));
    }

    #[test]
    fn the_verdict_is_that_of_the_first_match(
        globs in prop::collection::vec(("[ab*]{1,2}(\\.[ab*]{1,2}){0,2}", any::<bool>()), 0..12),
        host in "[ab]{1,2}(\\.[ab]{1,2}){0,2}",
    ) {
        let rules: Vec<Rule> = globs
            .iter()
            .map(|(glob, allow)| rule(glob, if *allow { RuleAction::Allow } else { RuleAction::Deny }))
            .collect();
        let first = rules.iter().position(|rule| slow_match(rule.host_glob.as_bytes(), host.as_bytes()));
        let expected = Verdict {
            allowed: first.is_some_and(|index| rules[index].action == RuleAction::Allow),
            rule: first,
        };
        let policy = NetworkPolicy::Rules(rules);
        prop_assert_eq!(policy.verdict(&host), expected);
        prop_assert_eq!(CompiledPolicy::new(&policy).verdict(&host), expected);
    }

    #[test]
    fn normalising_a_glob_or_a_host_twice_is_once(text in "\\PC{0,20}") {
        if let Ok(glob) = HostGlob::parse(&text) {
            prop_assert_eq!(HostGlob::parse(glob.as_str()).unwrap(), glob);
        }
        if let Some(host) = normalise_host(&text) {
            prop_assert_eq!(normalise_host(&host).unwrap().into_owned(), host.as_ref());
        }
    }
}
