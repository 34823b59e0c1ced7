use super::*;

fn host(head: &str) -> Result<String, &'static str> {
    match request(head.as_bytes()) {
        Ok(Some(request)) => Ok(request.host),
        Ok(None) => Ok("incomplete".into()),
        Err(why) => Err(why),
    }
}

#[test]
fn a_request_names_its_host() {
    let longest = format!("{}a.example", "a.".repeat(122));
    assert_eq!(longest.len(), 253);
    let label = format!("{}.example", "a".repeat(64));
    for (value, expected) in [
        ("example.org", Some("example.org")),
        ("EXAMPLE.org.", Some("example.org")),
        ("example.org:8080", Some("example.org")),
        ("example.org:", Some("example.org")),
        ("1.2.3.4:80", Some("1.2.3.4")),
        ("[2001:DB8::1]:80", Some("2001:db8::1")),
        ("", None),
        (":80", None),
        ("[::1", None),
        ("[::1]x", None),
        ("example.org:8o", None),
        ("a@example.org", None),
        ("a b", None),
        ("a,b", None),
        ("a/b", None),
        ("exämple.org", None),
        ("a..example", None),
        (&longest, Some(longest.as_str())),
        (&format!("a{longest}"), None),
        (&label, None),
        (&"a.".repeat(4_096), None),
    ] {
        let found = host(&format!("GET / HTTP/1.1\r\nHost: {value}\r\n\r\n"));
        assert_eq!(found.ok().as_deref(), expected, "{value}");
    }
}

#[test]
fn a_head_is_incomplete_until_its_empty_line() {
    let head = "GET /x?y=z HTTP/1.1\r\nHost: example.org\r\nAccept: */*\r\n\r\n";
    for length in 0..head.len() {
        assert_eq!(host(&head[..length]).unwrap(), "incomplete", "{length}");
    }
    let parsed = request(format!("{head}rest").as_bytes()).unwrap().unwrap();
    assert_eq!((parsed.length, parsed.body), (head.len(), Body::Plain(0)));
}

#[test]
fn a_body_ends_at_the_same_byte_however_it_arrives() {
    let chunked = b"5\r\nhello\r\nA\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\nNEXT";
    for (body, stream, expected) in [
        (Body::Plain(5), &b"helloNEXT"[..], 5),
        (Body::Size(Vec::new()), &chunked[..], chunked.len() - 4),
    ] {
        for step in 1..stream.len() {
            let (mut body, mut at) = (body.clone(), 0);
            while !body.ended() {
                let end = (at + step).min(stream.len());
                at += body.take(&stream[at..end]).unwrap();
            }
            assert_eq!(at, expected, "in steps of {step}");
        }
    }
}

#[test]
fn a_redirect_names_a_host_only_when_it_is_absolute() {
    for (location, expected) in [
        ("https://files.example/x", Some("files.example")),
        ("http://Files.Example:8080", Some("files.example")),
        ("//cdn.example/x", Some("cdn.example")),
        ("https://user:pass@files.example/", Some("files.example")),
        ("/path//double", None),
        ("ftp://files.example/", None),
        ("relative", None),
    ] {
        let head = format!("HTTP/1.1 301 Moved\r\nLocation: {location}\r\n\r\n");
        let found = response(head.as_bytes(), false).unwrap().unwrap();
        assert_eq!(found.redirects_to.as_deref(), expected, "{location}");
        assert_eq!(found.body, None);
        let ok = head.replace("301 Moved", "200 OK");
        assert_eq!(
            response(ok.as_bytes(), false)
                .unwrap()
                .unwrap()
                .redirects_to,
            None
        );
    }
}
