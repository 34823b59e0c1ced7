//! Whether names and connections are answered, asked from inside the namespace.

use std::{
    io,
    net::{SocketAddrV4, TcpStream, UdpSocket},
    time::Duration,
};

use tokio::io::AsyncReadExt;

use super::{DNS_PORT, GATEWAY_PORT, GATEWAY4};

/// `localhost A`: answered by the responder itself, never recorded.
const QUESTION: &[u8] =
    b"\x47\x57\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x09localhost\x00\x00\x01\x00\x01";

/// Sockets of the namespace's thread. No connection: the gateway has reset it already, so it answers.
pub(super) fn sockets() -> io::Result<(UdpSocket, Option<TcpStream>)> {
    let dns = UdpSocket::bind((std::net::Ipv4Addr::LOCALHOST, 0))?;
    dns.connect(SocketAddrV4::new(GATEWAY4, DNS_PORT))?;
    dns.set_nonblocking(true)?;
    let gateway = SocketAddrV4::new(GATEWAY4, GATEWAY_PORT).into();
    let tcp = match TcpStream::connect_timeout(&gateway, Duration::from_secs(1)) {
        Ok(stream) => Some(stream),
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => None,
        Err(error) => return Err(error),
    };
    if let Some(tcp) = &tcp {
        tcp.set_nonblocking(true)?;
    }
    Ok((dns, tcp))
}

/// Waits for the DNS responder's answer, and for the gateway to reset a connection that goes nowhere.
pub(super) async fn answered(dns: UdpSocket, tcp: Option<TcpStream>) -> io::Result<()> {
    let dns = tokio::net::UdpSocket::from_std(dns)?;
    let mut answer = [0_u8; 512];
    loop {
        // Sent before the responder listens, a question waits in its socket; asking again covers a full one.
        dns.send(QUESTION).await?;
        match tokio::time::timeout(Duration::from_millis(250), dns.recv(&mut answer)).await {
            Ok(received) => {
                received?;
                break;
            }
            Err(_) => continue,
        }
    }
    let Some(tcp) = tcp else { return Ok(()) };
    let mut tcp = tokio::net::TcpStream::from_std(tcp)?;
    match tcp.read(&mut answer).await {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(()),
        Err(error) => Err(error),
    }
}
