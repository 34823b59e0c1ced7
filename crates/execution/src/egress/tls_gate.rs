//! Port 443: the server name in the TLS hello is judged before anything is passed on.

use std::io;

use tokio::{io::AsyncReadExt, net::TcpStream};

use super::{
    dial::Target,
    gateway::Connection,
    pump::Pump,
    tls::{self, Hello, Next},
};

/// Early data beyond which no server asks for a second hello.
const EARLY_MAX: usize = 256 * 1024;

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
    let mut passed = 0;
    while passed < EARLY_MAX {
        let ready = match tls::after_hello(&read) {
            Next::Beyond => break,
            Next::Pass(length) => Some(length),
            Next::SecondHello => judged(&read, connection)?,
            Next::More => None,
        };
        match ready {
            Some(length) => {
                let second = matches!(tls::after_hello(&read), Next::SecondHello);
                pump.write(&read[..length]).await?;
                read.drain(..length);
                passed += length;
                if second {
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
