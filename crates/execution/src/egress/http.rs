//! Reads HTTP/1 requests, strictly: what two readers could take in two ways is refused, so that the far side sees the same
//! `Host` that was judged, in every request of a connection.

use domain::network_policy::normalise_host;

/// Longest head of a message.
pub(super) const HEAD_MAX: usize = 32 * 1024;
const LINE_MAX: usize = 4 * 1024;

/// A request's head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request {
    /// Lower case, without port and trailing dot; an IPv6 address without brackets.
    pub host: String,
    /// Bytes of the head.
    pub length: usize,
    pub body: Body,
    /// The answer has no body.
    pub head_only: bool,
    /// The client asks to speak WebSocket from here on.
    pub upgrade: bool,
}

/// The end of a head in a stream: the number of bytes up to and with the empty line.
pub(super) fn head_length(stream: &[u8]) -> Option<usize> {
    stream
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .map(|at| at + 4)
}

const NOT_HTTP: &str = "this is not an HTTP/1 request";

/// Reads the request at the start of a stream: `Ok(None)` while its head is incomplete.
pub(super) fn request(stream: &[u8]) -> Result<Option<Request>, &'static str> {
    let Some(length) = head_length(stream) else {
        let begun = stream.first().is_none_or(u8::is_ascii_uppercase);
        return match (begun, stream.len() < HEAD_MAX) {
            (true, true) => Ok(None),
            (true, false) => Err("the head of the HTTP request is too long"),
            (false, _) => Err(NOT_HTTP),
        };
    };
    if length > HEAD_MAX {
        return Err("the head of the HTTP request is too long");
    }
    let mut lines = lines(&stream[..length]).ok_or(NOT_HTTP)?.into_iter();
    let line = lines.next().ok_or(NOT_HTTP)?;
    let mut words = line.split(|byte| *byte == b' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(NOT_HTTP);
    };
    if method.is_empty()
        || !method.iter().all(|byte| is_token(*byte))
        || !target.iter().all(u8::is_ascii_graphic)
    {
        return Err(NOT_HTTP);
    }
    let http11 = match version {
        b"HTTP/1.1" => true,
        b"HTTP/1.0" => false,
        b"HTTP/2.0" => return Err("HTTP/2 without TLS cannot be checked request by request"),
        _ => return Err(NOT_HTTP),
    };
    let mut fields = Fields::default();
    for line in lines {
        fields.take(line)?;
    }
    let host = host_of(fields.host.ok_or("the HTTP request has no Host")?)?;
    if let Some(named) = named_by_target(target)?
        && named != host
    {
        return Err("the HTTP request names two hosts");
    }
    let body = match (fields.chunked, fields.length) {
        (true, Some(_)) => return Err("the HTTP request gives its length twice"),
        (true, None) if !http11 => return Err("an HTTP/1.0 request has no chunks"),
        (true, None) => Body::Size(Vec::new()),
        (false, Some(length)) => Body::Plain(length),
        (false, None) => Body::Plain(0),
    };
    if fields.upgrade && body != Body::Plain(0) {
        return Err("an HTTP upgrade has no body");
    }
    Ok(Some(Request {
        host,
        length,
        body,
        head_only: method == b"HEAD",
        upgrade: fields.upgrade,
    }))
}

#[derive(Default)]
struct Fields<'a> {
    host: Option<&'a [u8]>,
    length: Option<u64>,
    chunked: bool,
    upgrade: bool,
}

impl<'a> Fields<'a> {
    fn take(&mut self, line: &'a [u8]) -> Result<(), &'static str> {
        let (name, value) =
            field(line).ok_or("the HTTP request has a field that makes no sense")?;
        if name.eq_ignore_ascii_case(b"host") {
            if self.host.replace(value).is_some() {
                return Err("the HTTP request has two Hosts");
            }
        } else if name.eq_ignore_ascii_case(b"content-length") {
            let length = number(value, 10).ok_or("the HTTP request's length makes no sense")?;
            if self.length.replace(length).is_some() {
                return Err("the HTTP request gives its length twice");
            }
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            if self.chunked || !value.eq_ignore_ascii_case(b"chunked") {
                return Err("the HTTP request has a transfer encoding other than chunked");
            }
            self.chunked = true;
        } else if name.eq_ignore_ascii_case(b"upgrade") {
            if !value.eq_ignore_ascii_case(b"websocket") {
                return Err("an HTTP upgrade to something other than WebSocket cannot be checked");
            }
            self.upgrade = true;
        }
        Ok(())
    }
}

/// The lines of a head without their ends and without the empty one; `None` when a bare CR, LF or NUL is among them.
fn lines(head: &[u8]) -> Option<Vec<&[u8]>> {
    let text = head.strip_suffix(b"\r\n\r\n")?;
    let mut lines = Vec::new();
    for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
        lines.push(line);
        if index > 0 {
            let before = lines.len() - 2;
            lines[before] = lines[before].strip_suffix(b"\r")?;
        }
    }
    lines
        .iter()
        .all(|line| !line.iter().any(|byte| matches!(byte, b'\r' | 0)))
        .then_some(lines)
}

/// A field's name and trimmed value. No white space before the colon, no continued lines.
fn field(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    let valid = !name.is_empty() && name.iter().all(|byte| is_token(*byte));
    valid.then(|| (name, value.trim_ascii()))
}

const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        )
}

fn number(text: &[u8], radix: u32) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let digits = (1..=15).contains(&text.len()) && text.chars().all(|c| c.is_digit(radix));
    digits
        .then(|| u64::from_str_radix(text, radix).ok())
        .flatten()
}

/// The host of a `Host` field or of a target's authority: an address, or a name that a host can have, so never a long one.
fn host_of(value: &[u8]) -> Result<String, &'static str> {
    const BAD: &str = "the HTTP request's Host makes no sense";
    let text = std::str::from_utf8(value).map_err(|_| BAD)?;
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (inside, after) = rest.split_once(']').ok_or(BAD)?;
            inside.parse::<std::net::Ipv6Addr>().map_err(|_| BAD)?;
            (inside, after)
        }
        None => {
            let end = text.find(':').unwrap_or(text.len());
            let (host, port) = text.split_at(end);
            let plain = host
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'));
            if !plain {
                return Err(BAD);
            }
            (host.strip_suffix('.').unwrap_or(host), port)
        }
    };
    let port_fits = match port.strip_prefix(':') {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_digit()),
        None => port.is_empty(),
    };
    if !port_fits || normalise_host(host).is_none() {
        return Err(BAD);
    }
    Ok(host.to_ascii_lowercase())
}

/// The host that a request's target names; `None` for a path.
fn named_by_target(target: &[u8]) -> Result<Option<String>, &'static str> {
    if target.starts_with(b"/") || target == b"*" {
        return Ok(None);
    }
    let scheme_end = b"http://".len();
    match target.get(..scheme_end) {
        Some(scheme) if scheme.eq_ignore_ascii_case(b"http://") => {
            let rest = &target[scheme_end..];
            let end = rest
                .iter()
                .position(|byte| matches!(byte, b'/' | b'?' | b'#'))
                .unwrap_or(rest.len());
            host_of(&rest[..end]).map(Some)
        }
        _ => Err("a tunnel through an HTTP proxy cannot be checked"),
    }
}

/// What is left of a message's body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Body {
    /// So many bytes.
    Plain(u64),
    /// Chunks: the size line so far.
    Size(Vec<u8>),
    /// Chunks: so many bytes of one, with the line end behind it.
    Chunk(u64),
    /// Chunks: after the last, the line so far of the closing fields.
    Trailer(Vec<u8>),
}

impl Body {
    /// Whether it has ended.
    pub(super) const fn ended(&self) -> bool {
        matches!(self, Self::Plain(0))
    }

    /// Takes bytes of a stream that belong to the body, and says how many did.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<usize, &'static str> {
        const BAD: &str = "the HTTP message's chunks make no sense";
        let mut taken = 0;
        while taken < bytes.len() && !self.ended() {
            let rest = &bytes[taken..];
            let closing = matches!(self, Self::Trailer(_));
            match self {
                Self::Plain(left) => {
                    let step = at_most(*left, rest);
                    *left -= step as u64;
                    taken += step;
                }
                Self::Chunk(left) => {
                    let step = at_most(*left, rest);
                    if !chunk_end_fits(*left, &rest[..step]) {
                        return Err(BAD);
                    }
                    *left -= step as u64;
                    taken += step;
                    if *left == 0 {
                        *self = Self::Size(Vec::new());
                    }
                }
                Self::Size(line) | Self::Trailer(line) => {
                    let byte = rest[0];
                    taken += 1;
                    line.push(byte);
                    if line.len() > LINE_MAX {
                        return Err(BAD);
                    }
                    if byte != b'\n' {
                        continue;
                    }
                    let text = line.strip_suffix(b"\r\n").ok_or(BAD)?;
                    if text.iter().any(|byte| matches!(byte, b'\r' | 0)) {
                        return Err(BAD);
                    }
                    *self = match (closing, text) {
                        (true, []) => Self::Plain(0),
                        (true, _) => Self::Trailer(Vec::new()),
                        (false, size) => match number(size, 16).ok_or(BAD)? {
                            0 => Self::Trailer(Vec::new()),
                            size => Self::Chunk(size + 2),
                        },
                    };
                }
            }
        }
        Ok(taken)
    }
}

/// How many of `bytes` belong to what has so many left.
fn at_most(left: u64, bytes: &[u8]) -> usize {
    usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len())
}

/// Whether those of `bytes` that are the line end behind a chunk are one; `left` bytes were to come, two of them the end.
fn chunk_end_fits(left: u64, bytes: &[u8]) -> bool {
    bytes
        .iter()
        .enumerate()
        .all(|(index, byte)| match left - index as u64 {
            2 => *byte == b'\r',
            1 => *byte == b'\n',
            _ => true,
        })
}

/// An answer's head, read with more patience: it is the far side's, and nothing is decided by it but where it redirects to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Response {
    pub status: u16,
    pub length: usize,
    /// The host of an absolute `Location` of a redirect.
    pub redirects_to: Option<String>,
    /// `None`: the body ends with the connection.
    pub body: Option<Body>,
}

/// Reads an answer at the start of a stream: `None` while its head is incomplete.
pub(super) fn response(stream: &[u8], to_head: bool) -> Result<Option<Response>, ()> {
    let Some(length) = head_length(stream) else {
        return if stream.len() < HEAD_MAX {
            Ok(None)
        } else {
            Err(())
        };
    };
    let mut lines = lines(&stream[..length]).ok_or(())?.into_iter();
    let line = lines.next().ok_or(())?;
    if !line.starts_with(b"HTTP/1.") {
        return Err(());
    }
    let status = line
        .get(9..12)
        .and_then(|digits| number(digits, 10))
        .ok_or(())? as u16;
    let (mut location, mut content_length, mut chunked) = (None, None, false);
    for (name, value) in lines.filter_map(field) {
        if name.eq_ignore_ascii_case(b"location") {
            location = Some(value);
        } else if name.eq_ignore_ascii_case(b"content-length") {
            content_length = Some(number(value, 10).ok_or(())?);
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            chunked = value.to_ascii_lowercase().ends_with(b"chunked");
        }
    }
    let body = match status {
        100..=199 | 204 | 304 => Some(Body::Plain(0)),
        _ if to_head => Some(Body::Plain(0)),
        _ if chunked => Some(Body::Size(Vec::new())),
        _ => content_length.map(Body::Plain),
    };
    Ok(Some(Response {
        status,
        length,
        redirects_to: location
            .filter(|_| (300..400).contains(&status))
            .and_then(location_host),
        body,
    }))
}

fn location_host(value: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(value).ok()?;
    let after_scheme = match text.split_once("//") {
        Some(("" | "http:" | "https:" | "HTTP:" | "HTTPS:", rest)) => rest,
        _ => return None,
    };
    let authority = after_scheme.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?;
    host_of(host.as_bytes()).ok()
}

#[cfg(test)]
#[path = "http_tests.rs"]
mod tests;
