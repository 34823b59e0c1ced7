//! What runs in the sandbox's network: small clients of DNS, TCP and TLS.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket},
};

use hickory_proto::{
    op::{Edns, Message, MessageType, OpCode, Query, ResponseCode},
    rr::{Name, RData, RecordType},
};

use super::PATIENCE;

/// A DNS question.
pub fn question(name: &str, kind: RecordType) -> Message {
    let mut message = Message::new(4711, MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(Name::from_ascii(name).unwrap(), kind));
    let mut edns = Edns::new();
    edns.set_max_payload(1232);
    message.set_edns(edns);
    message
}

/// Asks by UDP, in the namespace of the calling thread.
pub fn ask_udp(server: &str, message: &[u8]) -> io::Result<Vec<u8>> {
    let server: SocketAddr = server.parse().unwrap();
    let socket = UdpSocket::bind(if server.is_ipv4() {
        "0.0.0.0:0"
    } else {
        "[::]:0"
    })?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.connect(server)?;
    socket.send(message)?;
    let mut answer = vec![0; 4096];
    let length = socket.recv(&mut answer)?;
    answer.truncate(length);
    Ok(answer)
}

/// Asks by TCP.
pub fn ask_tcp(server: &str, message: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&server.parse().unwrap(), PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(&(message.len() as u16).to_be_bytes())?;
    stream.write_all(message)?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut answer = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut answer)?;
    Ok(answer)
}

/// The answer of the sandbox's name server, by UDP.
pub fn dns(name: &str, kind: RecordType) -> Message {
    let answer = ask_udp("198.18.0.1:53", &question(name, kind).to_vec().unwrap()).unwrap();
    Message::from_vec(&answer).unwrap()
}

/// The address that stands for a name.
pub fn lookup(name: &str) -> Option<Ipv4Addr> {
    let answer = dns(name, RecordType::A);
    match answer.metadata.response_code {
        ResponseCode::NoError => answer.answers.iter().find_map(|record| match &record.data {
            RData::A(address) => Some(address.0),
            _ => None,
        }),
        ResponseCode::NXDomain => None,
        other => panic!("{name}: {other}"),
    }
}

/// Connects by name.
pub fn connect(name: &str, port: u16) -> TcpStream {
    let address = lookup(name).unwrap_or_else(|| panic!("{name} is not known"));
    connect_to(&SocketAddr::from((address, port)).to_string()).unwrap()
}

/// Connects by address.
pub fn connect_to(address: &str) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address.parse().unwrap(), PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// How a connection ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ending {
    Reset,
    Closed(Vec<u8>),
}

/// Reads to the end.
pub fn ending(stream: &mut TcpStream) -> Ending {
    let mut all = Vec::new();
    match stream.read_to_end(&mut all) {
        Ok(_) => Ending::Closed(all),
        Err(error) if error.kind() == ErrorKind::ConnectionReset => Ending::Reset,
        Err(error) => panic!("neither an end nor a reset: {error}"),
    }
}

/// Connects, to `address:port` or `name.:port`, says nothing and reads to the end. A reset can come before the connection
/// is seen to stand.
pub fn fate(target: &str) -> Ending {
    talk(target, b"", false)
}

/// Connects, sends `bytes`, ends its side, and reads to the end.
pub fn said(target: &str, bytes: &[u8]) -> Ending {
    talk(target, bytes, true)
}

/// Connects, sends `bytes`, keeps its side open, and reads to the end. A reset may come before all is sent.
pub fn begun(target: &str, bytes: &[u8]) -> Ending {
    talk(target, bytes, false)
}

fn talk(target: &str, bytes: &[u8], end: bool) -> Ending {
    let (host, port) = target.rsplit_once(':').unwrap();
    let address = match host.strip_suffix('.') {
        Some(_) => {
            let address = lookup(host).unwrap_or_else(|| panic!("{host} is not known"));
            format!("{address}:{port}")
        }
        None => target.to_owned(),
    };
    match connect_to(&address) {
        Ok(mut stream) => tell(&mut stream, bytes, end),
        Err(error) if error.kind() == ErrorKind::ConnectionReset => Ending::Reset,
        Err(error) => panic!("{target}: {error}"),
    }
}

/// Sends `bytes`, ends its side, and reads to the end. A reset may come before all is sent.
pub fn say(stream: &mut TcpStream, bytes: &[u8]) -> Ending {
    tell(stream, bytes, true)
}

fn tell(stream: &mut TcpStream, bytes: &[u8], end: bool) -> Ending {
    match stream.write_all(bytes) {
        Ok(()) => {}
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
            ) =>
        {
            return Ending::Reset;
        }
        Err(error) => panic!("{error}"),
    }
    if end {
        let _ = stream.shutdown(std::net::Shutdown::Write);
    }
    ending(stream)
}

/// A TLS hello that names `server`, with further extensions.
pub fn hello(server: Option<&str>, more: &[(u16, &[u8])]) -> Vec<u8> {
    fn vector16(bytes: &[u8]) -> Vec<u8> {
        [&(bytes.len() as u16).to_be_bytes(), bytes].concat()
    }
    let mut extensions = Vec::new();
    if let Some(server) = server {
        let entry = [&[0][..], &vector16(server.as_bytes())].concat();
        extensions.extend([0, 0]);
        extensions.extend(vector16(&vector16(&entry)));
    }
    for (kind, value) in more {
        extensions.extend(kind.to_be_bytes());
        extensions.extend(vector16(value));
    }
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.push(0);
    body.extend([0, 2, 0x13, 1, 1, 0]);
    body.extend(vector16(&extensions));
    let length = (body.len() as u32).to_be_bytes();
    let message = [&[1], &length[1..], &body].concat();
    record(22, &message)
}

/// A TLS record.
pub fn record(kind: u8, payload: &[u8]) -> Vec<u8> {
    [
        &[kind, 3, 1],
        &(payload.len() as u16).to_be_bytes()[..],
        payload,
    ]
    .concat()
}
