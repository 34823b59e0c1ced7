//! Port 443: the server name in the TLS hello is judged before anything is passed on.

use std::io;

use tokio::{io::AsyncReadExt, net::TcpStream};

use super::{
    dial::Target,
    gateway::Connection,
    pump::Pump,
    tls::{self, Between, Hello, Next},
};

/// Early data beyond which no server asks for a second hello.
const EARLY_MAX: usize = 256 * 1024;
/// Changes of cipher and alerts beyond which no server waits for the handshake to go on.
const SIGNALS_MAX: usize = 16;

/// What was read of the client: its hello, and perhaps some of what follows.
pub(super) struct Opening {
    read: Vec<u8>,
    hello: usize,
}

/// Reads the hello and judges it; `None` when the connection must end.
pub(super) async fn open(client: &mut TcpStream, connection: &Connection) -> Option<Opening> {
    let mut read = Vec::with_capacity(4 * 1024);
    loop {
        match judged(&read, connection) {
            Ok(Some(hello)) => return Some(Opening { read, hello }),
            Ok(None) => {}
            Err(_) => return None,
        }
        match client.read_buf(&mut read).await {
            Ok(0) | Err(_) => return None,
            Ok(_) => {}
        }
    }
}

/// The length of the hello at the start of `stream`, when it is all there and the policy admits its server.
fn judged(stream: &[u8], connection: &Connection) -> io::Result<Option<usize>> {
    let refused = || Err(io::ErrorKind::PermissionDenied.into());
    match tls::hello(stream) {
        Hello::Incomplete => Ok(None),
        Hello::Names {
            server: Some(server),
            length,
        } if connection.admits(&server) => Ok(Some(length)),
        Hello::Names {
            server: Some(_), ..
        } => refused(),
        // A client that dials an address has no name to say.
        Hello::Names {
            server: None,
            length,
        } if matches!(connection.target, Target::Address(_)) => Ok(Some(length)),
        Hello::Names { server: None, .. } => {
            connection.mismatch("the TLS hello names no server");
            refused()
        }
        Hello::Refused(why) => {
            connection.mismatch(why);
            refused()
        }
    }
}

/// Passes the client's side on. A server may ask for a second hello (for another key), which could name another server
/// than the first, so it is judged as well.
pub(super) async fn pass(
    pump: &mut Pump<'_, '_>,
    opening: Opening,
    connection: &Connection,
) -> io::Result<()> {
    let Opening { mut read, hello } = opening;
    pump.write(&read[..hello]).await?;
    read.drain(..hello);
    let (mut early, mut signals) = (0, 0);
    while early < EARLY_MAX {
        let next = tls::after_hello(&read);
        let ready = match next {
            Next::Beyond => break,
            Next::Pass(Between::EarlyData, length) => {
                early += length;
                Some(length)
            }
            Next::Pass(Between::Signal, length) if signals < SIGNALS_MAX => {
                signals += 1;
                Some(length)
            }
            Next::Pass(Between::Signal, _) | Next::Refused => {
                connection.mismatch("what follows the TLS hello is no handshake");
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            Next::SecondHello => judged(&read, connection)?,
            Next::More => None,
        };
        match ready {
            Some(length) => {
                pump.write(&read[..length]).await?;
                read.drain(..length);
                if next == Next::SecondHello {
                    break;
                }
            }
            None if pump.read_more(&mut read).await? == 0 => {
                pump.write(&read).await?;
                return pump.end().await;
            }
            None => {}
        }
    }
    pump.write(&read).await?;
    drop(read);
    pump.copy().await
}
