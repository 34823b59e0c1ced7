//! The only name server a sandbox knows. It sends nothing on: an allowed name is answered with an address of ours, which
//! the gateway turns back into the name.

use std::{io, net::Ipv4Addr, sync::Arc};

use hickory_proto::{
    op::{Edns, Message, MessageType, OpCode, ResponseCode},
    rr::{DNSClass, Name, RData, Record, RecordType, rdata},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, UdpSocket},
    sync::Semaphore,
    time::timeout,
};

use super::{gateway::Shared, records::Count};
use crate::runtime::EgressOutcome;

/// Seconds a client may remember an address; the same for the sandbox's whole life, so only a courtesy.
const TTL: u32 = 60;
/// What we accept and send by UDP; our answers are far smaller.
const UDP_MAX: usize = 1232;

/// Answers questions by UDP for ever.
pub(super) async fn serve_udp(socket: UdpSocket, shared: Arc<Shared>) {
    let mut buffer = vec![0; 4096];
    loop {
        shared.questions.turn().await;
        // A reset from a client that has gone shows up here; it is not ours to fail for.
        let Ok((length, client)) = socket.recv_from(&mut buffer).await else {
            continue;
        };
        if let Some(answer) = answer(&buffer[..length], &shared) {
            let _ = socket.send_to(&answer, client).await;
        }
    }
}

/// Answers questions by TCP for ever.
pub(super) async fn serve_tcp(listener: TcpListener, shared: Arc<Shared>) {
    let places = Arc::new(Semaphore::new(shared.config.limits.dns_connections));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            super::gateway::pause_after_failed_accept().await;
            continue;
        };
        // Too many at once: the client sees the connection end, and asks again.
        let Ok(place) = places.clone().try_acquire_owned() else {
            continue;
        };
        let conversation = shared.clone();
        shared.spawn(async move {
            let _ = converse(stream, &conversation).await;
            drop(place);
        });
    }
}

async fn converse(mut stream: TcpStream, shared: &Shared) -> io::Result<()> {
    let patience = shared.config.limits.hello;
    let mut question = Vec::new();
    loop {
        let exchange = async {
            let length = stream.read_u16().await?;
            question.resize(usize::from(length), 0);
            stream.read_exact(&mut question).await?;
            shared.questions.turn().await;
            let Some(answer) = answer(&question, shared) else {
                return Err(io::ErrorKind::InvalidData.into());
            };
            let mut framed = u16::try_from(answer.len())
                .unwrap_or(u16::MAX)
                .to_be_bytes()
                .to_vec();
            framed.extend(answer);
            stream.write_all(&framed).await
        };
        timeout(patience, exchange).await??;
    }
}

/// The answer to a message; `None` when it deserves none (it is itself an answer, or no DNS at all).
fn answer(question: &[u8], shared: &Shared) -> Option<Vec<u8>> {
    let Ok(question) = Message::from_vec(question) else {
        return unreadable(question);
    };
    if question.metadata.message_type != MessageType::Query {
        return None;
    }
    let mut answer = Message::response(question.metadata.id, question.metadata.op_code);
    answer.metadata.recursion_desired = question.metadata.recursion_desired;
    answer.metadata.recursion_available = true;
    answer.metadata.checking_disabled = question.metadata.checking_disabled;
    answer.add_queries(question.queries.iter().cloned());
    let code = match (question.metadata.op_code, question.queries.as_slice()) {
        _ if question
            .edns
            .as_ref()
            .is_some_and(|edns| edns.version() > 0) =>
        {
            ResponseCode::BADVERS
        }
        (OpCode::Query, [query]) if query.query_class() == DNSClass::IN => {
            match lookup(query.name(), query.query_type(), shared) {
                Found::Address(address) => {
                    let data = RData::A(rdata::A(address));
                    answer.add_answer(Record::from_rdata(query.name().clone(), TTL, data));
                    ResponseCode::NoError
                }
                Found::OtherType => ResponseCode::NoError,
                Found::NoSuchName => ResponseCode::NXDomain,
                Found::TooMany => ResponseCode::ServFail,
            }
        }
        (OpCode::Query, [_]) => ResponseCode::Refused,
        (OpCode::Query, _) => ResponseCode::FormErr,
        _ => ResponseCode::NotImp,
    };
    answer.metadata.response_code = code;
    if let Some(asked) = &question.edns {
        let mut edns = Edns::new();
        edns.set_max_payload(UDP_MAX as u16);
        edns.set_dnssec_ok(asked.flags().dnssec_ok);
        edns.set_rcode_high((u16::from(code) >> 4) as u8);
        answer.set_edns(edns);
    }
    answer.to_vec().ok()
}

/// "Format error" to whatever has at least a header that says it is a question.
fn unreadable(question: &[u8]) -> Option<Vec<u8>> {
    let header = question.get(..12)?;
    if header[2] & 0x80 != 0 {
        return None;
    }
    let id = u16::from_be_bytes([header[0], header[1]]);
    Message::error_msg(id, OpCode::Query, ResponseCode::FormErr)
        .to_vec()
        .ok()
}

#[derive(Debug, PartialEq, Eq)]
enum Found {
    Address(Ipv4Addr),
    /// The name exists, but not with that type. Also for HTTPS records, so that no client finds a key to hide the TLS
    /// server name with.
    OtherType,
    NoSuchName,
    TooMany,
}

fn lookup(name: &Name, kind: RecordType, shared: &Shared) -> Found {
    let host = host(name);
    let shown = host
        .clone()
        .unwrap_or_else(|| name.to_ascii().to_ascii_lowercase());
    if let Some(host) = &host {
        if host == "localhost" || host.ends_with(".localhost") {
            return match kind {
                RecordType::A => Found::Address(Ipv4Addr::LOCALHOST),
                _ => Found::OtherType,
            };
        }
        if host == "arpa" || host.ends_with(".arpa") {
            return Found::NoSuchName;
        }
    }
    let verdict = host.as_deref().map(|host| shared.policy.verdict(host));
    let rule = verdict.and_then(|verdict| verdict.rule);
    let Some(host) = host.filter(|_| verdict.is_some_and(|verdict| verdict.allowed)) else {
        // Services (`_http._tcp.…`) are asked for by habit: their absence explains nothing.
        if !shown.starts_with('_') && shown != "." {
            let count = if kind == RecordType::A {
                Count::One
            } else {
                Count::Same
            };
            shared
                .ledger
                .record(&shown, 0, EgressOutcome::Denied, rule, "", count);
        }
        return Found::NoSuchName;
    };
    if kind != RecordType::A {
        return Found::OtherType;
    }
    match shared.names.address_of(&host) {
        Some(address) => Found::Address(address),
        None => {
            let detail = format!(
                "more than {} names were asked for",
                shared.config.limits.names
            );
            shared
                .ledger
                .record(&host, 0, EgressOutcome::Limit, rule, &detail, Count::One);
            Found::TooMany
        }
    }
}

/// A name as a host: lower case, no trailing dot. `None` for what cannot be one: other characters than letters, digits,
/// hyphen and underscore, or an ending that resolvers read as a number (`127.1`, `0x7f000001`).
fn host(name: &Name) -> Option<String> {
    let mut host = String::new();
    for label in name.iter() {
        if !label
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        {
            return None;
        }
        if !host.is_empty() {
            host.push('.');
        }
        host.extend(
            label
                .iter()
                .map(|byte| char::from(byte.to_ascii_lowercase())),
        );
    }
    let last = host.rsplit('.').next().unwrap_or_default();
    let number = last.bytes().all(|byte| byte.is_ascii_digit())
        || last
            .strip_prefix("0x")
            .is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit()));
    (!host.is_empty() && !number).then_some(host)
}
