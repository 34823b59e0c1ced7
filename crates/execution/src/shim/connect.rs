//! Connections from outside to a port inside.

use std::{io, time::Duration};

use tokio::{
    net::{TcpSocket, TcpStream},
    time::timeout,
};

use super::sandbox::Sandbox;
use crate::runtime::RuntimeError;

/// How long a connection to the sandbox's loopback may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// Connects to a port of the sandbox's loopback.
///
/// # Errors
/// [`RuntimeError::Refused`] when nothing listens there.
pub async fn connect(sandbox: &Sandbox, port: u16) -> Result<TcpStream, RuntimeError> {
    let failed =
        |error: io::Error| RuntimeError::Other(format!("connecting to port {port}: {error}"));
    if sandbox.container.is_gone() {
        return Err(sandbox.lost());
    }
    type Make = fn() -> io::Result<TcpSocket>;
    let families: [(Make, std::net::IpAddr); 2] = [
        (TcpSocket::new_v4, std::net::Ipv4Addr::LOCALHOST.into()),
        (TcpSocket::new_v6, std::net::Ipv6Addr::LOCALHOST.into()),
    ];
    for (make, address) in families {
        let network = sandbox.network.clone();
        // Where a socket is made, there it is for ever.
        let made = tokio::task::spawn_blocking(move || network.run_in(make)).await;
        let socket = made
            .map_err(io::Error::other)
            .and_then(|made| made)
            .and_then(|made| made)
            .map_err(failed)?;
        match timeout(CONNECT_LIMIT, socket.connect((address, port).into())).await {
            Ok(Ok(stream)) => {
                // A relay must not add delay of its own.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            Ok(Err(error)) => return Err(failed(error)),
            Err(_) => return Err(failed(io::ErrorKind::TimedOut.into())),
        }
    }
    Err(RuntimeError::Refused(port))
}
