//! What never reaches the log (spec 1-domain, *Log*).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]
#![cfg(feature = "redaction")]

use std::{borrow::Cow, sync::Arc, time::Instant};

use domain::{
    redaction::{LineRedactor, MASK, Redactor, Secret},
    setup_run::Stream,
};
use proptest::prelude::*;

const SECRET: &str = "s3cr3t/V+lue=&ok";

fn redactor(secrets: &[&str]) -> Redactor {
    Redactor::new(secrets.iter().copied())
}

/// Tokens are put together here, so that no scanner of this repository takes them for real ones.
fn token(prefix: &str, length: usize) -> String {
    let body: String = "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0z"
        .chars()
        .cycle()
        .take(length)
        .collect();
    format!("{prefix}{body}")
}

#[test]
fn a_value_is_masked_in_every_form_it_is_printed_in() {
    let redactor = redactor(&[SECRET, "pass word \"quoted\""]);
    for (line, masked) in [
        ("TOKEN=s3cr3t/V+lue=&ok", "TOKEN=***"),
        ("as3cr3t/V+lue=&okb", "a***b"),
        ("s3cr3t/V+lue=&oks3cr3t/V+lue=&ok", "***"),
        ("?q=s3cr3t%2FV%2Blue%3D%26ok&x", "?q=***&x"),
        ("?q=s3cr3t%2fV%2blue%3d%26ok&x", "?q=***&x"),
        ("?q=s3cr3t/V%2Blue%3D%26ok&x", "?q=***&x"),
        ("?p=pass+word+%22quoted%22", "?p=***"),
        ("?p=pass%20word%20%22quoted%22", "?p=***"),
        (r#"{"p":"pass word \"quoted\""}"#, r#"{"p":"***"}"#),
        (
            "\u{1b}[31ms3cr3t/V+lue=&ok\u{1b}[0m",
            "\u{1b}[31m***\u{1b}[0m",
        ),
        ("s3cr3t/V+lue=&o", "s3cr3t/V+lue=&o"),
        ("nothing here", "nothing here"),
        ("", ""),
    ] {
        assert_eq!(redactor.redact(line), masked, "{line}");
    }
    assert!(matches!(redactor.redact("plain"), Cow::Borrowed(_)));
}

/// As the usual tools encode.
fn base64(bytes: &[u8], url: bool) -> String {
    let alphabet = if url {
        b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    } else {
        b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    };
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let mut group = [0_u8; 3];
        group[..chunk.len()].copy_from_slice(chunk);
        let group = u32::from_be_bytes([0, group[0], group[1], group[2]]);
        for index in 0..4 {
            if index <= chunk.len() {
                text.push(char::from(
                    alphabet[(group >> (18 - 6 * index)) as usize & 63],
                ));
            } else {
                text.push('=');
            }
        }
    }
    text
}

#[test]
fn base64_is_masked_wherever_the_value_begins() {
    let redactor = redactor(&[SECRET]);
    for before in 0..7 {
        for after in 0..4 {
            for url in [false, true] {
                let clear = format!("{}{SECRET}{}", "u".repeat(before), "v".repeat(after));
                let line = format!("Authorization {}", base64(clear.as_bytes(), url));
                let masked = redactor.redact(&line);
                assert!(masked.contains(MASK), "{before} {after}: {masked}");
                let left = masked.replace(MASK, "").len() - "Authorization ".len();
                assert!(
                    left <= (before + after) * 4 / 3 + 6,
                    "{before} {after}: {masked}"
                );
            }
        }
    }
}

#[test]
fn each_line_of_a_value_is_masked_and_what_is_too_short_is_not() {
    let key = "first line of it\n  second line of it  \nab\n\nthird line of it\n";
    let redactor = redactor(&[key, "short", "true"]);
    for line in ["first line of it", "second line of it", "third line of it"] {
        assert_eq!(redactor.redact(&format!("> {line} <")), "> *** <");
    }
    for line in ["ab", "true", "short", ""] {
        assert_eq!(redactor.redact(line), line);
    }
    assert_eq!(
        redactor
            .redact(r#"{"k":"first line of it\n  second line of it  \nab\n\nthird line of it"}"#),
        r#"{"k":"***"}"#
    );
    // `base64` breaks its output into lines.
    let long: String = token("", 200);
    let redactor = Redactor::new([long.as_str()]);
    for width in [57, 48] {
        for chunk in long.as_bytes().chunks(width) {
            let line = base64(chunk, false);
            assert!(redactor.redact(&line).starts_with(MASK), "{line}");
        }
    }
}

#[test]
fn user_information_in_urls_is_masked() {
    let redactor = redactor(&[]);
    for (line, masked) in [
        (
            "git clone https://user:pa55@git.example/a.git",
            "git clone https://***@git.example/a.git",
        ),
        ("https://token@git.example", "https://***@git.example"),
        ("https://a:p@ss@git.example/x", "https://***@git.example/x"),
        (
            "postgres://u:p@db:5432/x and https://v:w@b",
            "postgres://***@db:5432/x and https://***@b",
        ),
        (
            "proxy=http://u:p@10.0.0.1:3128",
            "proxy=http://***@10.0.0.1:3128",
        ),
        (
            "https://git.example/@scope/name",
            "https://git.example/@scope/name",
        ),
        (
            "https://git.example/?mail=a@b.example",
            "https://git.example/?mail=a@b.example",
        ),
        ("https://git.example:8080/a", "https://git.example:8080/a"),
        ("mail to a@b.example", "mail to a@b.example"),
        ("git@git.example:a/b.git", "git@git.example:a/b.git"),
    ] {
        assert_eq!(redactor.redact(line), masked);
    }
}

#[test]
fn the_shapes_of_well_known_tokens_are_masked() {
    let redactor = redactor(&[]);
    let jwt = format!(
        "{}.{}.{}",
        token("eyJ", 20),
        token("eyJ", 30),
        token("", 43)
    );
    for token in [
        token("ghp_", 36),
        token("gho_", 36),
        token("ghu_", 36),
        token("ghs_", 36),
        token("ghr_", 76),
        token("github_pat_", 82),
        token("glpat-", 20),
        token("gldt-", 20),
        token("glrt-", 20),
        token("xoxb-", 40),
        token("xoxp-", 40),
        token("xoxe.xoxp-", 60),
        token("xapp-1-", 40),
        format!("AKIA{}", "ABCDEFGH23456723"),
        format!("ASIA{}", "ABCDEFGH23456723"),
        token("npm_", 36),
        token("pypi-AgEIcHlwaS5vcmc", 80),
        jwt.clone(),
        token("rma_", 43),
    ] {
        for (before, after) in [
            ("", ""),
            ("export T=", ""),
            ("'", "'"),
            ("(", "),"),
            ("a ", " b"),
        ] {
            assert_eq!(
                redactor.redact(&format!("{before}{token}{after}")),
                format!("{before}***{after}")
            );
        }
    }
    let value = token("", 40);
    for (line, masked) in [
        (
            format!("Authorization: Bearer {value}"),
            "Authorization: Bearer ***".to_owned(),
        ),
        (
            format!("authorization: basic {value}"),
            "authorization: basic ***".to_owned(),
        ),
        (
            format!("> AUTHORIZATION: {value}"),
            "> AUTHORIZATION: ***".to_owned(),
        ),
        (
            format!("curl -H 'Authorization: token {value}' x"),
            "curl -H 'Authorization: token ***' x".to_owned(),
        ),
        (
            format!("{{\"authorization\":\"Bearer {value}\"}}"),
            "{\"authorization\":\"Bearer ***\"}".to_owned(),
        ),
        (
            format!("PRIVATE-TOKEN: {value}"),
            "PRIVATE-TOKEN: ***".to_owned(),
        ),
        (
            format!("using bearer {value}"),
            "using bearer ***".to_owned(),
        ),
        (
            format!("aws_secret_access_key = {value}"),
            "aws_secret_access_key = ***".to_owned(),
        ),
        (
            format!("AWS_SECRET_ACCESS_KEY={value}"),
            "AWS_SECRET_ACCESS_KEY=***".to_owned(),
        ),
        (
            format!("\"SecretAccessKey\": \"{value}\""),
            "\"SecretAccessKey\": \"***\"".to_owned(),
        ),
        (
            format!("//npm.example/:_authToken={value}"),
            "//npm.example/:_authToken=***".to_owned(),
        ),
        (
            format!("https://hooks.slack.com/services/{value}"),
            "https://hooks.slack.com/services/***".to_owned(),
        ),
    ] {
        assert_eq!(redactor.redact(&line), masked);
    }
    for line in [
        "ghp_short",
        "npm_config_registry=https://npm.example",
        "pypi-simple and pypi-server-with-a-long-name",
        "the bearer of news",
        "AKIASHORT",
        "glpat-x",
        "xoxb-",
        "rma_x",
        "eyJ",
        "bearer token expired",
        "Collecting npm_lifecycle_event",
        "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        "sha512-aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zaB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0z==",
        "commit 0123456789abcdef0123456789abcdef01234567",
        "019a0000-0000-7000-8000-000000000001",
    ] {
        assert_eq!(redactor.redact(line), line);
    }
}

fn lines(redactor: &mut LineRedactor, stream: Stream, text: &str) -> String {
    text.lines()
        .map(|line| redactor.line(stream, line).into_owned())
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn private_keys_are_masked_over_their_lines() {
    let begin = |name: &str| format!("-----BEGIN {name}-----");
    let end = |name: &str| format!("-----END {name}-----");
    let body = token("", 64);
    let mut redactor = LineRedactor::new(Arc::new(redactor(&[])));
    for name in [
        "RSA PRIVATE KEY",
        "PRIVATE KEY",
        "OPENSSH PRIVATE KEY",
        "EC PRIVATE KEY",
        "ENCRYPTED PRIVATE KEY",
        "PGP PRIVATE KEY BLOCK",
    ] {
        let text = format!(
            "before\n{}\nProc-Type: 4,ENCRYPTED\n\n{body}\n  {body}\n{}\nafter",
            begin(name),
            end(name)
        );
        let masked = format!(
            "before\n{}\n***\n\n***\n***\n{}\nafter",
            begin(name),
            end(name)
        );
        assert_eq!(lines(&mut redactor, Stream::Stdout, &text), masked);
    }
    let one = format!(
        "k='{}\\n{body}\\n{}' x",
        begin("PRIVATE KEY"),
        end("PRIVATE KEY")
    );
    assert_eq!(
        redactor.line(Stream::Stdout, &one),
        format!("k='{}***{}' x", begin("PRIVATE KEY"), end("PRIVATE KEY"))
    );
    for public in ["PUBLIC KEY", "CERTIFICATE"] {
        let text = format!("{}\n{body}\n{}", begin(public), end(public));
        assert_eq!(lines(&mut redactor, Stream::Stdout, &text), text);
    }
}

#[test]
fn a_key_is_followed_in_its_own_stream_and_looking_does_not_move_it() {
    let body = token("", 64);
    let begin = format!("-----BEGIN {}-----", "PRIVATE KEY");
    let mut redactor = LineRedactor::new(Arc::new(redactor(&[])));
    assert_eq!(redactor.peek(Stream::Stdout, &begin), begin);
    assert_eq!(redactor.peek(Stream::Stdout, &body), body);
    redactor.line(Stream::Stdout, &begin);
    assert_eq!(redactor.peek(Stream::Stdout, &body), MASK);
    assert_eq!(redactor.line(Stream::Stderr, &body), body);
    assert_eq!(redactor.line(Stream::Stdout, &body), MASK);
}

#[test]
fn a_begin_without_an_end_does_not_hide_the_log() {
    let begin = format!("-----BEGIN {}-----", "PRIVATE KEY");
    let mut redactor = LineRedactor::new(Arc::new(redactor(&[])));
    redactor.line(Stream::Stdout, &begin);
    assert_eq!(
        redactor.line(Stream::Stdout, "Now installing the packages"),
        "Now installing the packages"
    );
    assert_eq!(redactor.line(Stream::Stdout, "word"), "word");
    redactor.line(Stream::Stdout, &begin);
    let shown = (0..1_000)
        .filter(|_| redactor.line(Stream::Stdout, "word") == "word")
        .count();
    assert_eq!(shown, 600);
}

#[test]
fn an_open_line_is_shown_as_far_as_it_is_safe() {
    let redactor = redactor(&[SECRET, "abcabcabcabc"]);
    assert_eq!(redactor.hold_back() + 1, redactor.longest());
    let github = token("ghp_", 10);
    for (text, shown) in [
        ("working...", "working..."),
        ("Continue? [Y/n] ", "Continue? [Y/n] "),
        ("Password:", "Password:"),
        ("50% ----------", "50% ----------"),
        ("value s3cr3t/V", "value "),
        ("value s3cr3t/V+lue=&ok.", "value s3cr3t/V+lue=&ok."),
        ("value s3cr3t/x", "value s3cr3t/x"),
        ("x abcabcabcabc", "x "),
        ("see https://user:pa", "see "),
        ("see https://git.example/x", "see https://git.example/x"),
        ("Authorization: Bearer abc", ""),
        ("ok -----BEGIN RSA PRI", "ok "),
        ("é s3cr3t", "é "),
        ("", ""),
    ] {
        assert_eq!(&text[..redactor.safe_len(text)], shown, "{text}");
    }
    let text = format!("token {github}");
    assert_eq!(redactor.safe_len(&text), 6);
}

#[test]
fn a_secret_has_no_form_for_people() {
    let secret = Secret::new(SECRET.to_owned());
    assert_eq!(secret.expose(), SECRET);
}

#[test]
fn long_lines_and_many_secrets_take_linear_time() {
    let secrets: Vec<String> = (0..200).map(|i| token(&format!("k{i}-"), 40)).collect();
    let redactor = Redactor::new(secrets.iter().map(String::as_str));
    let begun = Instant::now();
    for text in [
        "a",
        "ab ",
        "eyJ",
        "https://",
        "ghp_",
        "-----BEGIN ",
        "a@",
        "=",
        "Bearer ",
        "k1-aB3d",
    ] {
        let line = text.repeat(64 * 1024 / text.len());
        let _ = redactor.redact(&line);
        let _ = redactor.safe_len(&line);
    }
    // Generous: what is quadratic takes minutes here.
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
}

proptest! {
    #[test]
    fn wherever_an_open_line_is_parted_no_secret_shows(
        before in "[a-z ]{0,12}",
        after in "[a-z ]{0,12}",
        which in 0..4_usize,
        cut in 0..80_usize,
    ) {
        let secrets = [SECRET.to_owned(), "abcabcabcabc".to_owned(), token("ghp_", 36), format!("https://{}@x.example/", "user:hunter2")];
        let redactor = Redactor::new(secrets[..2].iter().map(String::as_str));
        let hidden = ["s3cr3t/V+lue=&ok", "abcabcabcabc", &secrets[2][4..], "hunter2"][which];
        let whole = format!("{before} {} {after}", secrets[which]);
        let cut = cut.min(whole.len());
        let safe = redactor.cut_len(&whole[..cut]);
        let shown = format!("{}{}", redactor.redact(&whole[..safe]), redactor.redact(&whole[safe..]));
        prop_assert!(!shown.contains(hidden), "{shown}");
        // Not even half of it.
        prop_assert!(!shown.contains(&hidden[..hidden.len() / 2]), "{shown}");
    }

    #[test]
    fn masking_twice_is_once(line in "[ -~]{0,60}") {
        let redactor = Redactor::new([SECRET]);
        let once = redactor.redact(&line).into_owned();
        prop_assert_eq!(redactor.redact(&once).into_owned(), once);
    }
}
