//! Whether names and connections are answered, asked from inside the namespace.

use std::{
    io,
    net::{SocketAddrV4, UdpSocket},
    time::Duration,
};

use tokio::io::AsyncReadExt;

use super::{DNS_PORT, GATEWAY_PORT, GATEWAY4};

/// `localhost A`: answered by the responder itself, never recorded.
const QUESTION: &[u8] =
    b"\x47\x57\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x09localhost\x00\x00\x01\x00\x01";

/// Sockets of the namespace's thread.
pub(super) fn sockets() -> io::Result<(UdpSocket, std::net::TcpStream)> {
    let dns = UdpSocket::bind((std::net::Ipv4Addr::LOCALHOST, 0))?;
    dns.connect(SocketAddrV4::new(GATEWAY4, DNS_PORT))?;
    dns.set_nonblocking(true)?;
    let tcp = std::net::TcpStream::connect_timeout(
        &SocketAddrV4::new(GATEWAY4, GATEWAY_PORT).into(),
        Duration::from_secs(1),
    )?;
    tcp.set_nonblocking(true)?;
    Ok((dns, tcp))
}

/// Waits for the DNS responder's answer, and for the gateway to reset a connection that goes nowhere.
pub(super) async fn answered(dns: UdpSocket, tcp: std::net::TcpStream) -> io::Result<()> {
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
    let mut tcp = tokio::net::TcpStream::from_std(tcp)?;
    match tcp.read(&mut answer).await {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(()),
        Err(error) => Err(error),
    }
}
