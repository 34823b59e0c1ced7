//! Measures a connection through the egress gateway to a server in a network namespace of its own, beside a direct one to
//! the same server and one over loopback (no sandbox may reach this machine, so that the gateway's cannot be that):
//! `egress_throughput [MIB] [ROUNDS]`. Needs root, nftables and iproute2. Fails when the median through the gateway is under
//! 0.4 of the one over loopback (spec 4-execution, *Egress*).
#![allow(clippy::print_stdout)]

use std::{
    io::{self, Read, Write},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs},
    process::{Command, ExitCode},
    sync::{Arc, mpsc::channel},
    thread,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use domain::network_policy::NetworkPolicy;
use execution::egress::{EgressConfig, Network, Resolver};
use nix::sched::{CloneFlags, unshare};
use tokio::sync::mpsc;

const BLOCK: usize = 256 * 1024;
/// Any port but 53, 80 and 443.
const NAME: &str = "server.example";

/// The server's address, and ours on the way to it.
const THERE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 2);
const HERE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);

/// Every name is the server.
struct There;

#[async_trait]
impl Resolver for There {
    async fn resolve(&self, _host: &str) -> io::Result<Vec<IpAddr>> {
        Ok(vec![IpAddr::V4(THERE)])
    }
}

fn ip(line: &str) -> io::Result<()> {
    let status = Command::new("ip").args(line.split(' ')).status()?;
    match status.success() {
        true => Ok(()),
        false => Err(io::Error::other(format!("ip {line}: {status}"))),
    }
}

/// Puts this thread, and what it starts, into a network namespace that is joined to another with the server in it.
fn with_a_server(bytes: usize) -> io::Result<SocketAddr> {
    let (place, placed) = channel();
    let (joined, join) = channel::<()>();
    let far = thread::spawn(move || -> io::Result<SocketAddr> {
        unshare(CloneFlags::CLONE_NEWNET)?;
        let (process, thread) = (std::process::id(), nix::unistd::gettid());
        let namespace = format!("/proc/{process}/task/{thread}/ns/net");
        place.send(namespace).map_err(io::Error::other)?;
        join.recv().map_err(io::Error::other)?;
        ip(&format!("addr add {THERE}/24 dev far0"))?;
        ip("link set far0 up")?;
        server(THERE, bytes)
    });
    unshare(CloneFlags::CLONE_NEWNET)?;
    let namespace = placed.recv().map_err(io::Error::other)?;
    ip("link set lo up")?;
    ip(&format!(
        "link add near0 type veth peer name far0 netns {namespace}"
    ))?;
    ip(&format!("addr add {HERE}/24 dev near0"))?;
    ip("link set near0 up")?;
    joined.send(()).map_err(io::Error::other)?;
    far.join()
        .map_err(|_| io::Error::other("the server's thread panicked"))?
}

/// Sends so many bytes to whoever connects, after a byte of theirs; one byte back first.
fn server(at: Ipv4Addr, bytes: usize) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((at, 0))?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        let block = vec![7; BLOCK];
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut sent = 0;
            if stream.read_exact(&mut [0; 1]).is_err() {
                continue;
            }
            while sent < bytes {
                match stream.write(&block[..BLOCK.min(bytes - sent)]) {
                    Ok(written @ 1..) => sent += written,
                    _ => break,
                }
            }
        }
    });
    Ok(address)
}

/// CPU time of this process: client, server and gateway.
fn cpu() -> f64 {
    let now = nix::time::ClockId::CLOCK_PROCESS_CPUTIME_ID.now();
    now.map_or(0.0, |now| Duration::from(now).as_secs_f64())
}

/// Time to connect and hear the first byte, bytes per second of all, and CPU seconds per GiB.
fn download(address: SocketAddr, bytes: usize) -> io::Result<(Duration, f64, f64)> {
    let used = cpu();
    let mut buffer = vec![0; BLOCK];
    let begun = Instant::now();
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(&[1])?;
    let mut heard = stream.read(&mut buffer)?;
    let first = begun.elapsed();
    while heard < bytes {
        match stream.read(&mut buffer)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => heard += read,
        }
    }
    let rate = bytes as f64 / begun.elapsed().as_secs_f64();
    Ok((
        first,
        rate,
        (cpu() - used) / (bytes as f64 / f64::from(1 << 30)),
    ))
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> io::Result<ExitCode> {
    let mut numbers = std::env::args()
        .skip(1)
        .filter_map(|word| word.parse::<usize>().ok());
    let bytes = numbers.next().unwrap_or(512) << 20;
    let rounds = numbers.next().unwrap_or(20);
    let address = with_a_server(bytes)?;
    let near = server(Ipv4Addr::LOCALHOST, bytes)?;

    let network = Network::create(EgressConfig::new(NetworkPolicy::Unrestricted))?;
    let runtime = tokio::runtime::Runtime::new()?;
    let (events, _told) = mpsc::channel(1_024);
    let _context = runtime.enter();
    let _gateway = network.serve(Arc::new(There), events)?;
    runtime.block_on(network.ready(Duration::from_secs(5)))?;
    let port = address.port();
    // The host's resolver configuration leads to our name server inside.
    let inside =
        network.run_in(move || (NAME, port).to_socket_addrs().map(|mut found| found.next()))??;
    let inside = inside.ok_or(io::ErrorKind::NotFound)?;

    let (mut loopback, mut direct, mut through) = (Vec::new(), Vec::new(), Vec::new());
    let (mut direct_first, mut through_first) = (Vec::new(), Vec::new());
    println!(
        "round   loopback MiB/s   direct MiB/s   gateway MiB/s   direct first byte   gateway first byte   direct CPU/GiB   gateway CPU/GiB"
    );
    for round in 1..=rounds {
        let (_, rate_near, _) = download(near, bytes)?;
        let (first, rate, used) = download(address, bytes)?;
        let (first_inside, rate_inside, used_inside) =
            network.run_in(move || download(inside, bytes))??;
        let [mib_near, mib, mib_inside] =
            [rate_near, rate, rate_inside].map(|rate| rate / 1_048_576.0);
        let (micros, micros_inside) = (first.as_micros(), first_inside.as_micros());
        println!(
            "{round:>5}   {mib_near:>14.0}   {mib:>12.0}   {mib_inside:>13.0}   {micros:>14} us   {micros_inside:>15} us   {used:>12.2} s   {used_inside:>13.2} s"
        );
        loopback.push(mib_near);
        direct.push(mib);
        through.push(mib_inside);
        direct_first.push(micros as f64);
        through_first.push(micros_inside as f64);
    }
    let [loopback, direct, through] =
        [&mut loopback, &mut direct, &mut through].map(|all| median(all));
    let ratio = through / loopback;
    println!(
        "  p50   {loopback:>14.0}   {direct:>12.0}   {through:>13.0}   {:>14.0} us   {:>15.0} us   {ratio:.2} of loopback, {:.2} of direct",
        median(&mut direct_first),
        median(&mut through_first),
        through / direct
    );
    Ok(if ratio >= 0.4 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
