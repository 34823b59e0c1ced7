use super::*;

fn vector16(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u16).to_be_bytes(), bytes].concat()
}

fn record(payload: &[u8]) -> Vec<u8> {
    [&[22, 3, 1], &vector16(payload)[..]].concat()
}

fn message(server: &str) -> Vec<u8> {
    let entry = [&[0][..], &vector16(server.as_bytes())].concat();
    let extensions = [&[0, 0][..], &vector16(&vector16(&entry))].concat();
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.extend([0, 0, 2, 0x13, 1, 1, 0]);
    body.extend(vector16(&extensions));
    [&[1], &(body.len() as u32).to_be_bytes()[1..], &body].concat()
}

fn names(server: &str, length: usize) -> Hello {
    Hello::Names {
        server: Some(server.into()),
        length,
    }
}

#[test]
fn a_hello_is_read_however_it_arrives() {
    let message = message("Host.Example.");
    let whole = record(&message);
    let in_two = [record(&message[..9]), record(&message[9..])].concat();
    let byte_by_byte = message
        .iter()
        .flat_map(|byte| record(&[*byte]))
        .collect::<Vec<_>>();
    for stream in [whole, in_two, byte_by_byte] {
        for length in 0..stream.len() {
            assert_eq!(hello(&stream[..length]), Hello::Incomplete, "{length}");
        }
        let followed = [&stream[..], b"more"].concat();
        assert_eq!(hello(&followed), names("host.example", stream.len()));
    }
}

#[test]
fn no_damage_makes_a_hello_panic_or_name_something_longer() {
    let good = record(&message("host.example"));
    for at in 0..good.len() {
        for value in 0..=255 {
            let mut damaged = good.clone();
            damaged[at] = value;
            if let Hello::Names { length, .. } = hello(&damaged) {
                assert_eq!(length, good.len());
            }
        }
    }
}

#[test]
fn a_server_name_is_one_that_a_host_can_have() {
    let longest = format!("{}a.example", "a.".repeat(122));
    let read = |server: &str| hello(&record(&message(server)));
    assert!(matches!(read(&longest), Hello::Names { server: Some(name), .. } if name == longest));
    assert!(matches!(read("2001:db8::1"), Hello::Names { .. }));
    for server in [
        format!("a{longest}"),
        format!("{}.example", "a".repeat(64)),
        "a".repeat(16_000),
        "a..example".into(),
        "not:an:address".into(),
        String::new(),
    ] {
        assert_eq!(read(&server), Hello::Refused(DAMAGED), "{server}");
    }
}

#[test]
fn a_hello_without_extensions_names_nothing() {
    let mut body = vec![3, 1];
    body.extend([7; 32]);
    body.extend([0, 0, 2, 0x13, 1, 1, 0]);
    let message = [&[1], &(body.len() as u32).to_be_bytes()[1..], &body].concat();
    let stream = record(&message);
    let length = stream.len();
    assert_eq!(
        hello(&stream),
        Hello::Names {
            server: None,
            length
        }
    );
}

#[test]
fn what_follows_a_hello_is_looked_at_until_the_handshake_goes_on() {
    let second = record(&message("host.example"));
    for (stream, expected) in [
        (&[][..], Next::More),
        (&[22, 3, 3, 0, 9], Next::More),
        (&[20, 3, 3, 0, 1], Next::More),
        (&[20, 3, 3, 0, 1, 1], Next::Pass(Between::Signal, 6)),
        (
            &[23, 3, 3, 0, 2, 9, 9, 9],
            Next::Pass(Between::EarlyData, 7),
        ),
        (&[22, 3, 3, 0, 2, 16, 0], Next::Beyond),
        // An alert in the clear, such as "the user has cancelled": servers overlook a warning.
        (&[21, 3, 3, 0, 2, 1], Next::More),
        (&[21, 3, 3, 0, 2, 1, 90], Next::Pass(Between::Signal, 7)),
        (&[21, 3, 3, 0, 2, 2, 40], Next::Pass(Between::Signal, 7)),
        // What no client sends here.
        (&[21, 3, 3, 0, 4, 1, 90, 1, 90], Next::Refused),
        (&[20, 3, 3, 0, 2, 1, 1], Next::Refused),
        (&[22, 3, 3, 0, 0], Next::Refused),
        (&[22, 3, 3, 0, 0, 22, 3, 3], Next::Refused),
        (&[23, 3, 3, 0, 0], Next::Refused),
        (&[24, 3, 3, 0, 3, 1, 0, 0], Next::Refused),
        (&[22, 2, 0, 0, 2, 1, 0], Next::Refused),
        (&[23, 3, 3, 0xff, 0xff], Next::Refused),
        (&second, Next::SecondHello),
        // As much of a hello as says nothing yet of its length, and one that is whole so far.
        (&[22, 3, 3, 0, 40, 1], Next::More),
        (&[22, 3, 3, 0, 1, 1], Next::SecondHello),
        (&[22, 3, 3, 0, 40, 1, 3], Next::SecondHello),
        // What looks like one and is longer than any: encrypted already.
        (&[22, 3, 3, 0, 40, 1, 4], Next::Beyond),
        (&[22, 3, 3, 0, 40, 1, 0xff, 0, 0], Next::Beyond),
    ] {
        assert_eq!(after_hello(stream), expected, "{stream:?}");
    }
}
