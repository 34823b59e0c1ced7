//! What answers inside the namespace: accepts connections, judges them, and passes them on.

use std::{
    io,
    net::SocketAddr,
    os::fd::AsFd,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use domain::network_policy::CompiledPolicy;
use nix::sys::socket::{getsockopt, setsockopt, sockopt};
use tokio::{
    io::unix::AsyncFd,
    net::{TcpListener, TcpStream, UdpSocket},
    sync::{Semaphore, mpsc},
    time::timeout,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    EgressConfig, EgressEvent, EgressOutcome, GATEWAY4, GATEWAY6,
    dial::{DialLimits, Dialer, NoConnection, Resolver, Target},
    dns, http_gate,
    names::{self, Names},
    network::Sockets,
    nflog::Nflog,
    pace::Pace,
    pump::{Activity, Crowd, Pump, both},
    records::{Count, Ledger},
    ruleset::Tried,
    tls_gate,
};

/// Answers for one sandbox. Dropping it ends every connection and closes the network.
pub struct Gateway {
    _ends: DropGuard,
}

/// What all tasks of one sandbox's gateway share.
pub(super) struct Shared {
    pub(super) config: Arc<EgressConfig>,
    pub(super) policy: CompiledPolicy,
    pub(super) names: Arc<Names>,
    pub(super) ledger: Arc<Ledger>,
    dialer: Dialer,
    pub(super) questions: Pace,
    connections: Pace,
    pub(super) crowd: Crowd,
    ending: CancellationToken,
}

impl Shared {
    /// Runs `work` until it or the gateway ends.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let ending = self.ending.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = ending.cancelled() => {}
                () = work => {}
            }
        });
    }

    fn restricted(&self) -> bool {
        !self.config.policy.is_unrestricted()
    }
}

impl Gateway {
    pub(super) fn start(
        sockets: Sockets,
        config: Arc<EgressConfig>,
        names: Arc<Names>,
        ledger: Arc<Ledger>,
        resolver: Arc<dyn Resolver>,
        events: mpsc::Sender<EgressEvent>,
    ) -> io::Result<Self> {
        let Sockets {
            dns_udp,
            dns_tcp,
            tcp4,
            tcp6,
            nflog,
        } = sockets;
        dns_udp.set_nonblocking(true)?;
        for listener in [&dns_tcp, &tcp4].into_iter().chain(&tcp6) {
            listener.set_nonblocking(true)?;
        }
        let ending = CancellationToken::new();
        let ends = ending.clone().drop_guard();
        let shared = Arc::new(Shared {
            policy: CompiledPolicy::new(&config.policy),
            dialer: Dialer::new(
                resolver,
                config.opened.clone(),
                config.own_addresses.clone(),
                DialLimits {
                    lookups: config.limits.lookups,
                    lookup: config.limits.lookup,
                    dial: config.limits.dial,
                },
            ),
            questions: Pace::new(config.limits.questions_per_second),
            connections: Pace::new(config.limits.connections_per_second),
            crowd: Crowd::new(),
            config,
            names,
            ledger,
            ending,
        });

        shared.ledger.announce_to(events);
        if let Some(nflog) = nflog {
            shared.spawn(hear_refusals(nflog.listen()?, shared.clone()));
        }
        shared.spawn(dns::serve_udp(
            UdpSocket::from_std(dns_udp)?,
            shared.clone(),
        ));
        shared.spawn(dns::serve_tcp(
            TcpListener::from_std(dns_tcp)?,
            shared.clone(),
        ));
        for listener in [Some(tcp4), tcp6].into_iter().flatten() {
            shared.spawn(accept(TcpListener::from_std(listener)?, shared.clone()));
        }
        Ok(Self { _ends: ends })
    }
}

/// An accept fails when descriptors run out; they come back when connections end.
pub(super) async fn pause_after_failed_accept() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}

/// Tells at once of what the kernel refuses.
async fn hear_refusals(nflog: AsyncFd<Nflog>, shared: Arc<Shared>) {
    while let Ok(mut ready) = nflog.readable().await {
        // When more was refused than the socket holds, the sets in the kernel still know of it.
        if let Ok(Ok(all)) = ready.try_io(|nflog| nflog.get_ref().read()) {
            for tried in all {
                note_refusal(
                    &tried,
                    &shared.config,
                    &shared.names,
                    &shared.ledger,
                    Count::Same,
                );
            }
        }
    }
}

/// Writes down what the kernel refused, by name where the address stands for one.
pub(super) fn note_refusal(
    tried: &Tried,
    config: &EgressConfig,
    names: &Names,
    ledger: &Ledger,
    count: Count,
) {
    let host = match names.name_of(tried.address) {
        Some(name) => name.to_string(),
        None => tried.address.to_canonical().to_string(),
    };
    // The kernel lets no UDP through, and TCP by address only where a rule could allow some.
    let (outcome, rule) = match tried.udp {
        true => (EgressOutcome::Protocol, None),
        false => (EgressOutcome::Denied, config.policy.verdict(&host).rule),
    };
    ledger.record(&host, tried.port, outcome, rule, "", count);
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let places = Arc::new(Semaphore::new(shared.config.limits.connections));
    loop {
        shared.connections.turn().await;
        let Ok((client, _)) = listener.accept().await else {
            pause_after_failed_accept().await;
            continue;
        };
        // From here on a client that is dropped sees a reset, never a clean end: also when this process dies.
        reset_on_close(&client, true);
        let Some((target, port)) = destination(&client, &shared) else {
            continue;
        };
        let Ok(place) = places.clone().try_acquire_owned() else {
            let detail = format!(
                "more than {} connections at once",
                shared.config.limits.connections
            );
            let limit = EgressOutcome::Limit;
            shared
                .ledger
                .record(&target.host(), port, limit, None, &detail, Count::One);
            continue;
        };
        shared.crowd.connections.fetch_add(1, Ordering::Relaxed);
        let leave = Leave(shared.clone());
        let connection = Connection {
            host: target.host(),
            target,
            port,
            shared: shared.clone(),
        };
        shared.spawn(async move {
            connection.serve(client).await;
            drop((place, leave));
        });
    }
}

/// Counts a connection out, however it ends.
struct Leave(Arc<Shared>);

impl Drop for Leave {
    fn drop(&mut self) {
        self.0.crowd.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Where the sandbox meant to go; `None` when it dialled the gateway itself or an address that stands for nothing.
fn destination(client: &TcpStream, shared: &Shared) -> Option<(Target, u16)> {
    let dialled = original_destination(client).ok()?;
    let address = dialled.ip().to_canonical();
    if address == GATEWAY4 || address == GATEWAY6 {
        return None;
    }
    match shared.names.name_of(address) {
        Some(name) => Some((Target::Name(name), dialled.port())),
        None if names::is_ours(address) => {
            let detail = "this address stands for no name";
            let host = address.to_string();
            shared.ledger.record(
                &host,
                dialled.port(),
                EgressOutcome::Denied,
                None,
                detail,
                Count::One,
            );
            None
        }
        None => Some((Target::Address(address), dialled.port())),
    }
}

/// The destination before the kernel sent the connection to us.
fn original_destination(client: &TcpStream) -> io::Result<SocketAddr> {
    if client.local_addr()?.is_ipv4() {
        let found = getsockopt(client, sockopt::OriginalDst)?;
        let address = u32::from_be(found.sin_addr.s_addr);
        let address = std::net::Ipv4Addr::from(address);
        Ok(SocketAddr::from((address, u16::from_be(found.sin_port))))
    } else {
        let found = getsockopt(client, sockopt::Ip6tOriginalDst)?;
        let address = std::net::Ipv6Addr::from(found.sin6_addr.s6_addr);
        Ok(SocketAddr::from((address, u16::from_be(found.sin6_port))))
    }
}

/// With `abrupt`, closing the socket resets the connection, so that the peer cannot take a cut for an end.
fn reset_on_close(socket: &impl AsFd, abrupt: bool) {
    let linger = libc::linger {
        l_onoff: i32::from(abrupt),
        l_linger: 0,
    };
    let _ = setsockopt(socket, sockopt::Linger, &linger);
}

/// No waiting for more bytes, and a peer that has vanished is noticed.
fn tune(stream: &TcpStream) {
    let _ = stream.set_nodelay(true);
    let _ = setsockopt(stream, sockopt::KeepAlive, &true);
    let _ = setsockopt(stream, sockopt::TcpKeepIdle, &60);
    let _ = setsockopt(stream, sockopt::TcpKeepInterval, &15);
    let _ = setsockopt(stream, sockopt::TcpKeepCount, &4);
}

/// A connection that the sandbox made.
pub(super) struct Connection {
    pub(super) target: Target,
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) shared: Arc<Shared>,
}

/// What is read of a connection before it is passed on.
enum Opening {
    /// Nothing: servers may speak first.
    Unread,
    Tls(tls_gate::Opening),
    Http(http_gate::Opening),
}

impl Connection {
    async fn serve(self, mut client: TcpStream) {
        let verdict = self.shared.policy.verdict(&self.host);
        if !verdict.allowed {
            self.record(&self.host, EgressOutcome::Denied, verdict.rule, "");
            return;
        }
        let patience = self.shared.config.limits.hello;
        // An unrestricted policy has nothing to ask of what is inside.
        let opening = match self.port {
            443 if self.shared.restricted() => {
                timeout(patience, tls_gate::open(&mut client, &self))
                    .await
                    .map(|opened| opened.map(Opening::Tls))
            }
            80 if self.shared.restricted() => {
                timeout(patience, http_gate::open(&mut client, &self))
                    .await
                    .map(|opened| opened.map(Opening::Http))
            }
            _ => Ok(Some(Opening::Unread)),
        };
        let opening = match opening {
            Ok(Some(opening)) => opening,
            Ok(None) => return,
            Err(_) => {
                self.mismatch("the client did not say in time which server it wants");
                return;
            }
        };
        let mut upstream = match self.shared.dialer.dial(&self.target, self.port).await {
            Ok(upstream) => upstream,
            Err(NoConnection::Refused(why)) => {
                return self.record(
                    &self.host,
                    EgressOutcome::RefusedAddress,
                    verdict.rule,
                    &why,
                );
            }
            Err(NoConnection::Failed(why)) => {
                return self.record(
                    &self.host,
                    EgressOutcome::UpstreamFailed,
                    verdict.rule,
                    &why,
                );
            }
        };
        self.record(&self.host, EgressOutcome::Allowed, verdict.rule, "");
        reset_on_close(&upstream, true);
        tune(&client);
        tune(&upstream);
        if self
            .relay(opening, &mut client, &mut upstream)
            .await
            .is_ok()
        {
            reset_on_close(&client, false);
            reset_on_close(&upstream, false);
        }
    }

    async fn relay(
        &self,
        opening: Opening,
        client: &mut TcpStream,
        upstream: &mut TcpStream,
    ) -> io::Result<()> {
        let (mut from_client, mut to_client) = client.split();
        let (mut from_upstream, mut to_upstream) = upstream.split();
        let activity = Activity::new();
        let limits = &self.shared.config.limits;
        let mut up = Pump {
            from: &mut from_client,
            to: &mut to_upstream,
            activity: &activity,
            crowd: &self.shared.crowd,
        };
        let mut down = Pump {
            from: &mut from_upstream,
            to: &mut to_client,
            activity: &activity,
            crowd: &self.shared.crowd,
        };
        match opening {
            Opening::Unread => both(up.copy(), down.copy(), &activity, limits).await,
            Opening::Tls(opening) => {
                let up = tls_gate::pass(&mut up, opening, self);
                both(up, down.copy(), &activity, limits).await
            }
            Opening::Http(opening) => {
                let exchange = http_gate::Exchange::new();
                let up = http_gate::requests(&mut up, opening, self, &exchange);
                let down = http_gate::responses(&mut down, self, &exchange);
                both(up, down, &activity, limits).await
            }
        }
    }

    /// Whether the policy lets the client ask for `name` over this connection; if not, that is written down.
    pub(super) fn admits(&self, name: &str) -> bool {
        if name == self.host {
            return true;
        }
        let verdict = self.shared.policy.verdict(name);
        let detail = format!("asked for over a connection to {}", self.host);
        let outcome = match verdict.allowed {
            true => EgressOutcome::Allowed,
            false => EgressOutcome::Denied,
        };
        self.record(name, outcome, verdict.rule, &detail);
        verdict.allowed
    }

    /// Writes down that the client's words cannot be judged.
    pub(super) fn mismatch(&self, why: &str) {
        let rule = self.shared.policy.verdict(&self.host).rule;
        self.record(&self.host, EgressOutcome::Mismatch, rule, why);
    }

    fn record(&self, host: &str, outcome: EgressOutcome, rule: Option<usize>, detail: &str) {
        self.shared
            .ledger
            .record(host, self.port, outcome, rule, detail, Count::One);
    }
}
