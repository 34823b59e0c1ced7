//! Port 80: the `Host` of every request of a connection is judged before the request is passed on, and redirects are noted,
//! so that a host that is refused later can be explained.

use std::{
    collections::VecDeque,
    io,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::{io::AsyncReadExt, net::TcpStream, sync::oneshot, time::timeout};

use super::{
    gateway::Connection,
    http::{self, Body, Request},
    pump::Pump,
};

/// Requests that may be under way at once on one connection.
const PIPELINE_MAX: usize = 128;
const READ: usize = 32 * 1024;

/// What was read of the client: the head of its first request, and perhaps more.
pub(super) struct Opening {
    read: Vec<u8>,
    request: Request,
}

/// Requests whose answers are still to come, oldest first; shared by the two directions.
pub(super) struct Exchange {
    /// `None`: the answers are not followed any more.
    waiting: Mutex<Option<VecDeque<Waiting>>>,
}

struct Waiting {
    host: String,
    head_only: bool,
    upgrade: Option<oneshot::Sender<bool>>,
}

impl Exchange {
    /// The exchange at the start of a connection.
    pub(super) fn new() -> Self {
        Self {
            waiting: Mutex::new(Some(VecDeque::new())),
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Option<VecDeque<Waiting>>> {
        // Nothing in here panics half-way through a change.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request is about to be passed on. What is told is whether the far side took the upgrade; nothing ever, when its
    /// answers cannot be followed.
    fn asked(&self, request: &Request) -> io::Result<Option<oneshot::Receiver<bool>>> {
        let (tell, told) = oneshot::channel();
        if let Some(waiting) = self.waiting().as_mut() {
            if waiting.len() >= PIPELINE_MAX {
                return Err(refused());
            }
            waiting.push_back(Waiting {
                host: request.host.clone(),
                head_only: request.head_only,
                upgrade: request.upgrade.then_some(tell),
            });
        }
        Ok(request.upgrade.then_some(told))
    }

    /// Answers are not followed any more: whoever waits for an upgrade waits in vain.
    fn close(&self) {
        *self.waiting() = None;
    }
}

fn refused() -> io::Error {
    io::ErrorKind::PermissionDenied.into()
}

/// The request at the start of `stream`, when its head is all there and the policy admits its host.
fn judged(stream: &[u8], connection: &Connection) -> io::Result<Option<Request>> {
    match http::request(stream) {
        Ok(None) => Ok(None),
        Ok(Some(request)) if connection.admits(&request.host) => Ok(Some(request)),
        Ok(Some(_)) => Err(refused()),
        Err(why) => {
            connection.mismatch(why);
            Err(refused())
        }
    }
}

/// Reads the first request's head and judges it; `None` when the connection must end.
pub(super) async fn open(client: &mut TcpStream, connection: &Connection) -> Option<Opening> {
    let mut read = Vec::with_capacity(4 * 1024);
    loop {
        match judged(&read, connection) {
            Ok(Some(request)) => return Some(Opening { read, request }),
            Ok(None) => {}
            Err(_) => return None,
        }
        match client.read_buf(&mut read).await {
            Ok(0) | Err(_) => return None,
            Ok(_) => {}
        }
    }
}

/// Passes the client's requests on, each after it was judged.
pub(super) async fn requests(
    pump: &mut Pump<'_, '_>,
    opening: Opening,
    connection: &Connection,
    exchange: &Exchange,
) -> io::Result<()> {
    let Opening {
        mut read,
        mut request,
    } = opening;
    loop {
        let told = exchange.asked(&request)?;
        pump.write(&read[..request.length]).await?;
        read.drain(..request.length);
        pass_body(pump, &mut read, request.body, connection).await?;
        if let Some(told) = told {
            // Until the far side has answered it is open what the next bytes mean.
            if told.await.map_err(|_| refused())? {
                pump.write(&read).await?;
                return pump.copy().await;
            }
        }
        request = match next_request(pump, &mut read, connection).await? {
            Some(request) => request,
            None => return pump.end().await,
        };
    }
}

async fn pass_body(
    pump: &mut Pump<'_, '_>,
    read: &mut Vec<u8>,
    mut body: Body,
    connection: &Connection,
) -> io::Result<()> {
    while !body.ended() {
        if read.is_empty() {
            read.reserve(READ);
            if pump.read_more(read).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let taken = body.take(read).map_err(|why| {
            connection.mismatch(why);
            refused()
        })?;
        pump.write(&read[..taken]).await?;
        read.drain(..taken);
    }
    Ok(())
}

/// The next request of the connection; `None` at its end. A client may wait before it, but not in the midst of its head.
async fn next_request(
    pump: &mut Pump<'_, '_>,
    read: &mut Vec<u8>,
    connection: &Connection,
) -> io::Result<Option<Request>> {
    if read.is_empty() && pump.read_more(read).await? == 0 {
        return Ok(None);
    }
    let rest = async {
        loop {
            if let Some(request) = judged(read, connection)? {
                return Ok(Some(request));
            }
            if pump.read_more(read).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    };
    timeout(connection.shared.config.limits.hello, rest).await?
}

/// Where the far side's stream stands.
enum Answer {
    /// In a head: the bytes of it so far.
    Head(Vec<u8>),
    Body(Body),
    /// Not to be followed any more.
    Opaque,
}

/// Passes the far side's answers on as they come, and reads along.
pub(super) async fn responses(
    pump: &mut Pump<'_, '_>,
    connection: &Connection,
    exchange: &Exchange,
) -> io::Result<()> {
    let mut answer = Answer::Head(Vec::new());
    let mut read = Vec::with_capacity(READ);
    loop {
        read.clear();
        if pump.read_more(&mut read).await? == 0 {
            exchange.close();
            return pump.end().await;
        }
        answer = follow(answer, &read, connection, exchange);
        pump.write(&read).await?;
        if matches!(answer, Answer::Opaque) {
            exchange.close();
            return pump.copy().await;
        }
    }
}

fn follow(
    mut answer: Answer,
    mut bytes: &[u8],
    connection: &Connection,
    exchange: &Exchange,
) -> Answer {
    loop {
        answer = match answer {
            Answer::Opaque => return Answer::Opaque,
            Answer::Body(mut body) => match body.take(bytes) {
                Err(_) => return Answer::Opaque,
                Ok(taken) => {
                    bytes = &bytes[taken..];
                    match body.ended() {
                        true => Answer::Head(Vec::new()),
                        false => return Answer::Body(body),
                    }
                }
            },
            Answer::Head(mut head) => {
                if bytes.is_empty() {
                    return Answer::Head(head);
                }
                let before = head.len();
                head.extend_from_slice(&bytes[..bytes.len().min(http::HEAD_MAX)]);
                match answered(&head, connection, exchange) {
                    Ok(None) => return Answer::Head(head),
                    Ok(Some((length, Some(body)))) => {
                        bytes = &bytes[length - before..];
                        Answer::Body(body)
                    }
                    Ok(Some((_, None))) | Err(()) => return Answer::Opaque,
                }
            }
        };
    }
}

/// Takes note of an answer whose head is all there: its length, and the body that follows (`None`: the rest of the stream).
fn answered(
    head: &[u8],
    connection: &Connection,
    exchange: &Exchange,
) -> Result<Option<(usize, Option<Body>)>, ()> {
    let mut waiting = exchange.waiting();
    let waiting = waiting.as_mut().ok_or(())?;
    let asked = waiting.front().ok_or(())?;
    let Some(response) = http::response(head, asked.head_only)? else {
        return Ok(None);
    };
    if let Some(to) = &response.redirects_to {
        connection.shared.ledger.redirected(&asked.host, to);
    }
    let provisional = (100..200).contains(&response.status) && response.status != 101;
    if provisional {
        return Ok(Some((response.length, response.body)));
    }
    let switched = response.status == 101;
    if let Some(tell) = waiting.pop_front().and_then(|asked| asked.upgrade) {
        let _ = tell.send(switched);
    }
    let body = response.body.filter(|_| !switched);
    Ok(Some((response.length, body)))
}
