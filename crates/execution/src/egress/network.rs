//! The namespace, and the thread that lives in it.

use std::{
    io,
    net::{SocketAddrV4, SocketAddrV6, TcpListener, UdpSocket},
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
    time::Duration,
};

use nix::sched::{CloneFlags, unshare};
use tokio::sync::mpsc;

use super::{
    DNS_PORT, EgressConfig, EgressEvent, EgressReport, GATEWAY_PORT, GATEWAY4, GATEWAY6, Gateway,
    dial::Resolver,
    gateway::note_refusal,
    names::Names,
    netlink::Netlink,
    nflog::Nflog,
    probe,
    records::{Count, Ledger},
    ruleset,
};

type Job = Box<dyn FnOnce() + Send>;

/// A network namespace that has only loopback, whose names and connections are answered by us. It ends when this, the
/// [`Gateway`] and the last process inside are gone; its rules outlive the gateway, so that it fails closed.
pub struct Network {
    jobs: SyncSender<Job>,
    sockets: Mutex<Option<Sockets>>,
    config: Arc<EgressConfig>,
    nft: PathBuf,
    ledger: Arc<Ledger>,
    names: Arc<Names>,
}

/// What listens inside; made in the namespace, and of it for ever.
pub(super) struct Sockets {
    pub(super) dns_udp: UdpSocket,
    pub(super) dns_tcp: TcpListener,
    pub(super) tcp4: TcpListener,
    pub(super) tcp6: Option<TcpListener>,
    pub(super) nflog: Option<Nflog>,
}

impl Network {
    /// Makes a namespace that is closed from its first moment: nothing but its own loopback can be reached until
    /// [`Network::serve`] answers. Takes about 10 ms and blocks; call it beside the making of the disk. The thread
    /// inherits the mount namespace of the caller, so make that first.
    ///
    /// # Errors
    /// When the caller may not make a namespace (not root), or nftables is missing or refuses the rules; the message
    /// says which.
    pub fn create(config: EgressConfig) -> io::Result<Self> {
        let (jobs, inbox) = sync_channel::<Job>(16);
        let (ready, made) = sync_channel(1);
        let nft = config.nft.clone();
        let address_dials = config.address_dials();
        thread::Builder::new().name("egress-netns".into()).spawn({
            let nft = nft.clone();
            move || live(&nft, address_dials, &ready, &inbox)
        })?;
        let sockets = made
            .recv()
            .map_err(|_| io::Error::other("the namespace's thread died"))??;
        Ok(Self {
            jobs,
            sockets: Mutex::new(Some(sockets)),
            ledger: Arc::new(Ledger::new(&config.limits)),
            names: Arc::new(Names::new(config.limits.names)),
            config: Arc::new(config),
            nft,
        })
    }

    /// Runs `work` in the namespace and returns what it returns. A process that it starts inherits the namespace. Work is
    /// done one after the other on one thread that lives as long as this value does (so a parent-death signal set on
    /// it means this value's end): start a child here, but wait for it elsewhere.
    ///
    /// # Errors
    /// When the work panics.
    pub fn run_in<T, F>(&self, work: F) -> io::Result<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let (done, result) = sync_channel(1);
        let job: Job = Box::new(move || {
            let _ = done.send(catch_unwind(AssertUnwindSafe(work)));
        });
        self.jobs
            .send(job)
            .map_err(|_| io::Error::other("the namespace's thread is gone"))?;
        match result.recv() {
            Ok(Ok(value)) => Ok(value),
            _ => Err(io::Error::other("work in the namespace panicked")),
        }
    }

    /// Starts to answer names and connections, on the current tokio runtime, whose threads must be in the host's network
    /// namespace: connections go out from there. Each host and port met for the first time is told to `events` before the client has
    /// its answer; what the channel has no room for is not told, but reported.
    /// Dropping what is returned ends all of it, and the namespace is closed again.
    ///
    /// # Errors
    /// When called a second time, or outside a runtime with IO.
    pub fn serve(
        &self,
        resolver: Arc<dyn Resolver>,
        events: mpsc::Sender<EgressEvent>,
    ) -> io::Result<Gateway> {
        let sockets = self
            .sockets
            .lock()
            .ok()
            .and_then(|mut sockets| sockets.take())
            .ok_or_else(|| io::Error::other("this network is served already"))?;
        Gateway::start(
            sockets,
            self.config.clone(),
            self.names.clone(),
            self.ledger.clone(),
            resolver,
            events,
        )
    }

    /// Waits until names and connections are answered.
    ///
    /// # Errors
    /// `TimedOut` when they are not within `within`.
    pub async fn ready(&self, within: Duration) -> io::Result<()> {
        let (dns, tcp) = self.run_in(probe::sockets)??;
        tokio::time::timeout(within, probe::answered(dns, tcp))
            .await
            .map_err(|_| {
                io::Error::new(
                    io::ErrorKind::TimedOut,
                    "the egress gateway does not answer in the sandbox's network",
                )
            })?
    }

    /// What was asked for so far, in order of first attempt, with what the kernel refused. Blocks for some milliseconds.
    pub fn report(&self) -> EgressReport {
        let nft = self.nft.clone();
        match self.run_in(move || ruleset::tried(&nft)) {
            Ok(Ok(all)) => {
                for tried in &all {
                    let count = Count::AtLeast(tried.packets);
                    note_refusal(tried, &self.config, &self.names, &self.ledger, count);
                }
            }
            Ok(Err(error)) | Err(error) => {
                tracing::warn!(%error, "refused addresses cannot be read")
            }
        }
        self.ledger.report()
    }
}

/// The namespace's thread: makes it, then does what it is given until the [`Network`] is gone.
fn live(
    nft: &std::path::Path,
    address_dials: bool,
    ready: &SyncSender<io::Result<Sockets>>,
    inbox: &Receiver<Job>,
) {
    let made = make(nft, address_dials);
    let failed = made.is_err();
    if ready.send(made).is_err() || failed {
        return;
    }
    while let Ok(job) = inbox.recv() {
        job();
    }
}

fn step<T, E: Into<io::Error>>(what: &str, result: Result<T, E>) -> io::Result<T> {
    result.map_err(|error| {
        let error = error.into();
        io::Error::new(error.kind(), format!("{what}: {error}"))
    })
}

fn make(nft: &std::path::Path, address_dials: bool) -> io::Result<Sockets> {
    step(
        "cannot make a network namespace (needs root)",
        unshare(CloneFlags::CLONE_NEWNET),
    )?;
    // Rules first: nothing inside is ever up without them.
    let logs = ruleset::load(nft, address_dials)?;
    let mut netlink = step("rtnetlink", Netlink::open())?;
    step("loopback", netlink.loopback_up())?;
    step("address", netlink.add_address4(GATEWAY4))?;
    step("default route", netlink.default_route4(GATEWAY4))?;
    // A kernel without IPv6 is as closed for it as can be.
    let ipv6 = netlink.add_address6(GATEWAY6).is_ok()
        && netlink.local_route6(GATEWAY6).is_ok()
        && netlink.default_route6().is_ok();
    // Root inside owns no part of this namespace, so low ports and ping would be refused to it.
    step(
        "ip_unprivileged_port_start",
        std::fs::write("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0"),
    )?;
    step(
        "ping_group_range",
        std::fs::write("/proc/sys/net/ipv4/ping_group_range", "0 2147483647"),
    )?;
    let tcp6 = match ipv6 {
        true => Some(step(
            "gateway, IPv6",
            TcpListener::bind(SocketAddrV6::new(GATEWAY6, GATEWAY_PORT, 0, 0)),
        )?),
        false => None,
    };
    Ok(Sockets {
        dns_udp: step(
            "DNS, UDP",
            UdpSocket::bind(SocketAddrV4::new(GATEWAY4, DNS_PORT)),
        )?,
        dns_tcp: step(
            "DNS, TCP",
            TcpListener::bind(SocketAddrV4::new(GATEWAY4, DNS_PORT)),
        )?,
        tcp4: step(
            "gateway",
            TcpListener::bind(SocketAddrV4::new(GATEWAY4, GATEWAY_PORT)),
        )?,
        tcp6,
        nflog: if logs { Nflog::open().ok() } else { None },
    })
}
