//! Reads the server name out of a TLS hello, strictly: what is unclear is refused.

use domain::network_policy::normalise_host;

/// Longest hello that is read, in bytes of the stream.
pub(super) const HELLO_MAX: usize = 16 * 1024;
const RECORD_HEADER: usize = 5;
/// Most payload of a record: 2^14 and what encryption may add.
const RECORD_MAX: usize = 16_384 + 2_048;
const CHANGE_CIPHER_SPEC: u8 = 20;
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const APPLICATION_DATA: u8 = 23;
const CLIENT_HELLO: u8 = 1;
/// From this on in the first byte of its length, a hello has 256 KiB and more: twice what the most patient of the TLS
/// libraries in use reads of one.
const HELLO_TOP_NONE: u8 = 4;
const EXTENSION_SERVER_NAME: u16 = 0;
/// Encrypted client hello, and its predecessor: the name that counts is inside.
const EXTENSION_HIDDEN_NAME: [u16; 2] = [0xfe0d, 0xffce];

/// What a stream begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Hello {
    /// Nothing wrong yet, but not all there.
    Incomplete,
    /// A client hello of this many bytes (records included) that names this server.
    Names {
        /// Lower case, no trailing dot; `None`: the hello names none.
        server: Option<String>,
        /// Bytes of the stream that it takes.
        length: usize,
    },
    /// Not a hello we can judge, and why.
    Refused(&'static str),
}

/// Reads the hello at the start of a stream.
pub(super) fn hello(stream: &[u8]) -> Hello {
    let mut message = Vec::new();
    let mut at = 0;
    loop {
        let Some(header) = stream.get(at..at + RECORD_HEADER) else {
            let begun = stream.get(at..).unwrap_or_default();
            let plausible = begun
                .iter()
                .zip([HANDSHAKE, 3])
                .all(|(have, want)| *have == want);
            return match (plausible, stream.len() < HELLO_MAX) {
                (true, true) => Hello::Incomplete,
                (true, false) => Hello::Refused("the TLS hello is too long"),
                (false, _) => Hello::Refused("this is not TLS"),
            };
        };
        let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
        if header[0] != HANDSHAKE || header[1] != 3 || length == 0 || length > RECORD_MAX {
            return Hello::Refused("this is not TLS");
        }
        at += RECORD_HEADER;
        let end = at + length;
        message.extend_from_slice(&stream[at..end.min(stream.len())]);
        let wanted = match message.as_slice() {
            [CLIENT_HELLO, a, b, c, ..] => {
                4 + (usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c))
            }
            [other, ..] if *other != CLIENT_HELLO => {
                return Hello::Refused("this is not a TLS hello");
            }
            _ => 4,
        };
        if wanted > HELLO_MAX || end > HELLO_MAX {
            return Hello::Refused("the TLS hello is too long");
        }
        if end > stream.len() {
            return Hello::Incomplete;
        }
        at = end;
        if message.len() > wanted {
            return Hello::Refused("the TLS hello is damaged");
        }
        if message.len() == wanted && wanted > 4 {
            return match server_name(&message[4..]) {
                Ok(server) => Hello::Names { server, length: at },
                Err(why) => Hello::Refused(why),
            };
        }
    }
}

const DAMAGED: &str = "the TLS hello is damaged";

fn server_name(body: &[u8]) -> Result<Option<String>, &'static str> {
    let mut body = Reader(body);
    body.take(2 + 32).ok_or(DAMAGED)?;
    body.vector8().ok_or(DAMAGED)?;
    body.vector16().ok_or(DAMAGED)?;
    body.vector8().ok_or(DAMAGED)?;
    if body.0.is_empty() {
        return Ok(None);
    }
    let mut extensions = Reader(body.vector16().ok_or(DAMAGED)?);
    if !body.0.is_empty() {
        return Err(DAMAGED);
    }
    let mut server = None;
    while !extensions.0.is_empty() {
        let kind = extensions.number16().ok_or(DAMAGED)?;
        let value = extensions.vector16().ok_or(DAMAGED)?;
        if EXTENSION_HIDDEN_NAME.contains(&kind) {
            return Err("an encrypted client hello hides the server's name");
        }
        if kind == EXTENSION_SERVER_NAME {
            if server.is_some() {
                return Err(DAMAGED);
            }
            server = Some(only_name(value).ok_or(DAMAGED)?);
        }
    }
    Ok(server)
}

/// The one host name of a server name extension: one that a host can have, so never a long one.
fn only_name(value: &[u8]) -> Option<String> {
    let mut value = Reader(value);
    let mut list = Reader(value.vector16()?);
    if list.take(1)? != [0] {
        return None;
    }
    let name = list.vector16()?;
    if !value.0.is_empty() || !list.0.is_empty() {
        return None;
    }
    let name = std::str::from_utf8(name).ok()?;
    let name = name.strip_suffix('.').unwrap_or(name);
    let plain = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':'));
    (plain && normalise_host(name).is_some()).then(|| name.to_ascii_lowercase())
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }
    fn number16(&mut self) -> Option<u16> {
        self.take(2)
            .map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    }
    fn vector8(&mut self) -> Option<&'a [u8]> {
        let length = self.take(1)?[0];
        self.take(usize::from(length))
    }
    fn vector16(&mut self) -> Option<&'a [u8]> {
        let length = self.number16()?;
        self.take(usize::from(length))
    }
}

/// What comes in a client's stream after its first hello.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Next {
    /// Not enough bytes to tell.
    More,
    /// A record of so many bytes after which a second hello may still come.
    Pass(Between, usize),
    /// A second hello (the server asked for another key) starts here: judge it like the first.
    SecondHello,
    /// The handshake went on: nothing readable follows.
    Beyond,
    /// No client sends this before its handshake is protected, and a server that overlooked it could be told of another
    /// host behind it.
    Refused,
}

/// A record between two hellos.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Between {
    /// Early data, of which there can be much.
    EarlyData,
    /// A change of cipher or an alert, of which there are few.
    Signal,
}

/// Looks at the start of what follows the first hello.
pub(super) fn after_hello(stream: &[u8]) -> Next {
    let [kind, major, _, high, low, rest @ ..] = stream else {
        return Next::More;
    };
    let length = usize::from(u16::from_be_bytes([*high, *low]));
    if *major != 3 || length == 0 || length > RECORD_MAX {
        return Next::Refused;
    }
    let between = match (*kind, length) {
        (HANDSHAKE, _) => {
            return match rest {
                // Encrypted already (TLS 1.2, resumed), one in 256 begins with the same byte: as a hello it would be longer
                // than any server takes.
                [CLIENT_HELLO, top, ..] if *top >= HELLO_TOP_NONE => Next::Beyond,
                [CLIENT_HELLO, _, ..] => Next::SecondHello,
                [] | [CLIENT_HELLO] if rest.len() < length => Next::More,
                [CLIENT_HELLO] => Next::SecondHello,
                _ => Next::Beyond,
            };
        }
        (APPLICATION_DATA, _) => Between::EarlyData,
        // Neither is of another length in the clear.
        (CHANGE_CIPHER_SPEC, 1) | (ALERT, 2) => Between::Signal,
        _ => return Next::Refused,
    };
    match rest.len() >= length {
        true => Next::Pass(between, RECORD_HEADER + length),
        false => Next::More,
    }
}

#[cfg(test)]
#[path = "tls_tests.rs"]
mod tests;
