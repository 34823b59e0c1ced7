//! A small internet of network namespaces on this machine: a host with the gateway, a sandbox's network behind it, and a
//! far side with servers, private and metadata addresses among them. Nothing outside of it is touched.
#![allow(dead_code)]

use std::{
    collections::HashMap,
    io::{self, Read, Write},
    net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream},
    process::Command,
    sync::{
        Arc, Mutex,
        mpsc::{Sender, channel},
    },
    thread,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use domain::network_policy::{NetworkPolicy, Rule, RuleAction};
use execution::egress::{EgressConfig, EgressEvent, Gateway, Limits, Network, Resolver};
use tokio::sync::mpsc;

mod client;

pub use client::*;

/// How long anything in these tests may take.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Addresses of the far side, all of them really reachable from the host.
pub const FAR: [&str; 12] = [
    "203.0.113.1",
    "203.0.113.2",
    "10.1.2.3",
    "172.16.9.9",
    "192.168.7.7",
    "169.254.169.254",
    "100.64.0.1",
    "100.100.100.200",
    "168.63.129.16",
    "2001:db8:1::1",
    "fd00:ec2::254",
    "fd12::1",
];
/// The host's own address on its way out.
pub const HOST: &str = "192.0.2.1";

type Job = Box<dyn FnOnce() + Send>;

/// A thread in a network namespace of its own.
pub struct Place {
    jobs: Sender<Job>,
    path: String,
}

impl Place {
    pub fn new() -> Self {
        assert!(
            nix::unistd::geteuid().is_root(),
            "this test makes network namespaces and must run as root"
        );
        let (jobs, inbox) = channel::<Job>();
        let (tell, told) = channel();
        thread::spawn(move || {
            nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).expect("a network namespace");
            let path = format!(
                "/proc/{}/task/{}/ns/net",
                std::process::id(),
                nix::unistd::gettid()
            );
            tell.send(path).unwrap();
            for job in inbox {
                job();
            }
        });
        Self {
            jobs,
            path: told.recv().unwrap(),
        }
    }

    /// Runs `work` there.
    pub fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let (tell, told) = channel();
        let job = Box::new(move || {
            let _ = tell.send(work());
        });
        self.jobs.send(job).unwrap();
        told.recv().expect("the work did not panic")
    }

    fn ip(&self, lines: Vec<String>) {
        self.run(move || {
            for line in lines {
                let output = Command::new("ip").args(line.split(' ')).output().unwrap();
                let message = String::from_utf8_lossy(&output.stderr).into_owned();
                assert!(output.status.success(), "ip {line}: {message}");
            }
        });
    }

    /// Waits until these IPv6 addresses are reached here: the kernel makes an address first and its route later.
    fn has(&self, addresses: Vec<&'static str>) {
        let wanted: Vec<String> = addresses
            .iter()
            .map(|address| {
                let octets = address.parse::<Ipv6Addr>().unwrap().octets();
                octets.map(|octet| format!("{octet:02x}")).concat()
            })
            .collect();
        self.run(move || {
            let end = Instant::now() + PATIENCE;
            loop {
                let routes = std::fs::read_to_string("/proc/thread-self/net/ipv6_route").unwrap();
                let local = |line: &&str| {
                    let flags = line.split_whitespace().nth(8);
                    flags.is_some_and(|flags| flags.starts_with('8'))
                };
                let there: Vec<&str> = routes.lines().filter(local).collect();
                if wanted
                    .iter()
                    .all(|address| there.iter().any(|line| line.starts_with(address)))
                {
                    return;
                }
                assert!(Instant::now() < end, "no routes to {wanted:?} in {routes}");
                thread::sleep(Duration::from_millis(2));
            }
        });
    }
}

/// A resolver that knows a table, and remembers what it was asked.
#[derive(Default)]
pub struct Table {
    /// For each name what each further lookup answers; the last answer stays.
    pub names: Mutex<HashMap<String, Vec<Vec<IpAddr>>>>,
    pub asked: Mutex<Vec<String>>,
}

#[async_trait]
impl Resolver for Table {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        self.asked.lock().unwrap().push(host.to_owned());
        let mut names = self.names.lock().unwrap();
        match names.get_mut(host) {
            Some(answers) if answers.len() > 1 => Ok(answers.remove(0)),
            Some(answers) => Ok(answers[0].clone()),
            None => Err(io::Error::other("no such name")),
        }
    }
}

/// What to build.
pub struct Plan {
    config: EgressConfig,
    table: Table,
}

pub fn rules(rules: &[(&str, bool)]) -> NetworkPolicy {
    let rule = |(glob, allow): &(&str, bool)| Rule {
        host_glob: (*glob).to_owned(),
        action: if *allow {
            RuleAction::Allow
        } else {
            RuleAction::Deny
        },
    };
    NetworkPolicy::Rules(rules.iter().map(rule).collect())
}

pub fn allow(globs: &[&str]) -> NetworkPolicy {
    rules(&globs.iter().map(|glob| (*glob, true)).collect::<Vec<_>>())
}

impl Plan {
    pub fn new(policy: NetworkPolicy) -> Self {
        Self {
            config: EgressConfig::new(policy),
            table: Table::default(),
        }
    }
    pub fn name(self, name: &str, addresses: &[&str]) -> Self {
        let addresses = addresses
            .iter()
            .map(|address| address.parse().unwrap())
            .collect();
        let mut names = self.table.names.lock().unwrap();
        names.entry(name.to_owned()).or_default().push(addresses);
        drop(names);
        self
    }
    pub fn open(mut self, range: &str) -> Self {
        self.config.opened.push(range.parse().unwrap());
        self
    }
    pub fn limits(mut self, change: impl FnOnce(&mut Limits)) -> Self {
        change(&mut self.config.limits);
        self
    }
    pub fn build(self) -> Lab {
        Lab::new(self)
    }
}

/// The whole of it.
pub struct Lab {
    pub host: Place,
    pub far: Place,
    pub network: Arc<Network>,
    pub table: Arc<Table>,
    pub gateway: Option<Gateway>,
    pub runtime: Option<tokio::runtime::Runtime>,
    events: Mutex<mpsc::Receiver<EgressEvent>>,
}

impl Lab {
    fn new(plan: Plan) -> Self {
        let (host, far) = (Place::new(), Place::new());
        host.ip(vec![
            "link set lo up".into(),
            format!("link add up0 type veth peer name down0 netns {}", far.path),
            format!("addr add {HOST}/24 dev up0"),
            "addr add 2001:db8::1/64 dev up0 nodad".into(),
            "link set up0 up".into(),
        ]);
        let mut lines = vec![
            "link set lo up".to_owned(),
            "addr add 192.0.2.2/24 dev down0".into(),
            "addr add 2001:db8::2/64 dev down0 nodad".into(),
            "link set down0 up".into(),
        ];
        lines.extend(FAR.map(|address| match address.contains(':') {
            true => format!("addr add {address}/128 dev lo nodad"),
            false => format!("addr add {address}/32 dev lo"),
        }));
        far.ip(lines);
        host.ip(vec![
            "route add default via 192.0.2.2".into(),
            "-6 route add default via 2001:db8::2".into(),
        ]);
        host.has(vec!["2001:db8::1"]);
        let far_six = FAR.into_iter().filter(|address| address.contains(':'));
        far.has(far_six.chain(["2001:db8::2"]).collect());

        let table = Arc::new(plan.table);
        let (network, gateway, runtime, events) = host.run({
            let table = table.clone();
            move || {
                let network = Arc::new(Network::create(plan.config).expect("a sandbox's network"));
                // Its threads inherit the namespace of this one.
                let runtime = tokio::runtime::Builder::new_multi_thread()
                    .worker_threads(2)
                    .enable_all()
                    .build()
                    .unwrap();
                let (tell, told) = mpsc::channel(20_000);
                let gateway = {
                    let _context = runtime.enter();
                    network.serve(table, tell).unwrap()
                };
                runtime
                    .block_on(network.ready(PATIENCE))
                    .expect("the gateway answers");
                (network, gateway, runtime, told)
            }
        });
        Self {
            host,
            far,
            network,
            table,
            gateway: Some(gateway),
            runtime: Some(runtime),
            events: Mutex::new(events),
        }
    }

    /// Runs `work` in the sandbox's network.
    pub fn inside<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        self.network
            .run_in(work)
            .expect("the work inside did not panic")
    }

    /// The names that the resolver was asked for.
    pub fn asked(&self) -> Vec<String> {
        self.table.asked.lock().unwrap().clone()
    }

    /// The next event, at once or soon.
    pub fn event(&self) -> EgressEvent {
        let mut events = self.events.lock().unwrap();
        let end = Instant::now() + PATIENCE;
        loop {
            match events.try_recv() {
                Ok(event) => return event,
                Err(_) if Instant::now() < end => thread::sleep(Duration::from_millis(2)),
                Err(error) => panic!("no event: {error}"),
            }
        }
    }

    /// As sentences, the events up to now.
    pub fn sentences(&self) -> Vec<String> {
        let mut events = self.events.lock().unwrap();
        std::iter::from_fn(|| events.try_recv().ok())
            .map(|event| event.sentence())
            .collect()
    }

    /// The one record of a host and port, at once or soon: a client may see its connection end before the gateway has
    /// written down why.
    pub fn record(&self, host: &str, port: u16) -> EgressEvent {
        let is_it = |record: &&EgressEvent| record.host == host && record.port == port;
        let end = Instant::now() + PATIENCE;
        let all = loop {
            let all = self.network.report().records;
            if all.iter().any(|record| is_it(&record)) {
                break all;
            }
            assert!(
                Instant::now() < end,
                "no record of {host}:{port} in {all:#?}"
            );
            thread::sleep(Duration::from_millis(2));
        };
        let mut found = all.iter().filter(is_it);
        let record = found.next().expect("it was there just now");
        assert!(
            found.next().is_none(),
            "several records of {host}:{port} in {all:#?}"
        );
        record.clone()
    }

    /// A server on the far side that handles each connection on a thread of its own.
    pub fn server(&self, address: &str, handle: impl Fn(TcpStream) + Send + Sync + 'static) {
        let address: SocketAddr = address.parse().unwrap();
        let listener = self.far.run(move || TcpListener::bind(address)).unwrap();
        serve(listener, handle);
    }

    /// A server that says back what it hears, and ends when the client does.
    pub fn echo(&self, address: &str) {
        self.server(address, echo);
    }
}

pub fn serve(listener: TcpListener, handle: impl Fn(TcpStream) + Send + Sync + 'static) {
    let handle = Arc::new(handle);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let handle = handle.clone();
            thread::spawn(move || handle(stream));
        }
    });
}

pub fn echo(mut stream: TcpStream) {
    let mut buffer = [0; 64 * 1024];
    while let Ok(read @ 1..) = stream.read(&mut buffer) {
        if stream.write_all(&buffer[..read]).is_err() {
            return;
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.gateway = None;
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A lab with an echo on port 7 of `good.example`.
pub fn echo_lab(policy: NetworkPolicy) -> Lab {
    let lab = Plan::new(policy)
        .name("good.example", &["203.0.113.1"])
        .name("bad.example", &["203.0.113.2"])
        .build();
    lab.echo("203.0.113.1:7");
    lab
}
