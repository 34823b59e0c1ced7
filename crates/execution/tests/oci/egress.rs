//! The egress gateway as a sandbox sees it, with the clients that setup scripts use.

use std::{path::PathBuf, time::Duration};

use domain::{host_groups::HostGroups, limits::RUN_HOSTS_MAX, network_policy::NetworkPolicy};
use execution::{
    oci::OciConfig,
    runtime::{EgressOutcome, Event, Runtime},
};

use crate::support::{Bench, HANGS, Ran, spec};

/// This machine may stand behind a proxy with a certificate authority of its own.
fn with_the_machines_certificates(config: &mut OciConfig) {
    let local = std::fs::read_dir("/usr/local/share/ca-certificates");
    config.host.ca_certificates = local
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "crt"))
        .collect::<Vec<PathBuf>>();
}

const INSTALL: &str = "uv venv --seed /workspace/.venv
uv pip install --python /workspace/.venv/bin/python 'requests==2.32.3'
python -c 'import requests; print(requests.__version__)'
";

async fn run_with(policy: NetworkPolicy, script: &str) -> Ran {
    let bench = Bench::with(with_the_machines_certificates);
    let mut spec = spec();
    spec.network_policy = policy;
    let id = bench.start(&spec).await;
    let ran = bench.script(id, script, HANGS).await.unwrap();
    bench.runtime.destroy(id).await.unwrap();
    bench.assert_clean().await;
    ran
}

fn notes(ran: &Ran) -> Vec<String> {
    ran.events
        .iter()
        .filter_map(|event| match event {
            Event::System { text } if text.starts_with("egress: ") => Some(text.clone()),
            _ => None,
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_python_package_installs_with_only_its_two_hosts_allowed() {
    let groups = HostGroups::built_in();
    let ran = run_with(groups.policy(&["pypi"]), INSTALL).await;
    assert!(ran.passed().ends_with("2.32.3\n"), "{}", ran.stdout());
    assert_eq!(notes(&ran), Vec::<String>::new());
    for (index, host) in groups.hosts("pypi").iter().enumerate() {
        let met = ran.end.egress.iter().find(|met| met.host == *host);
        let met = met.unwrap_or_else(|| panic!("{host} is not in {:?}", ran.end.egress));
        assert_eq!(
            (met.port, met.outcome, met.rule),
            (443, EgressOutcome::Allowed, Some(index))
        );
    }
}

/// Asks the sandbox's name server for many names, each until it is answered: what its socket does not hold is lost.
const THOUSANDS: &str = r#"cat >/workspace/ask.py <<'END'
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect(('198.18.0.1', 53)); s.settimeout(2)
for n in range(11000):
    number = n.to_bytes(2, 'big')
    asked = number + b'\1\0\0\1\0\0\0\0\0\0\6n%05d\7example\0\0\1\0\1' % n
    answer = b''
    while answer[:2] != number:
        try:
            if not answer: s.send(asked)
            answer = s.recv(512)
        except TimeoutError: answer = b''
END
python3 /workspace/ask.py
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_script_that_asks_for_more_names_than_are_kept_ends_and_says_how_many_were_left_out() {
    let ran = run_with(NetworkPolicy::no_access(), THOUSANDS).await;
    ran.passed();
    assert_eq!(ran.end.egress.len(), RUN_HOSTS_MAX);
    let told = notes(&ran);
    let last = told.last().map(String::as_str).unwrap_or_default();
    assert!(
        last.ends_with("more attempts at other hosts are not listed"),
        "{last}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn with_one_host_missing_the_install_fails_fast_and_the_block_is_told_before_the_end() {
    let groups = HostGroups::built_in();
    let NetworkPolicy::Rules(rules) = groups.policy(&["pypi"]) else {
        panic!("a group is a list of rules");
    };
    let missing = rules[1].host_glob.clone();
    let ran = run_with(NetworkPolicy::Rules(vec![rules[0].clone()]), INSTALL).await;
    assert_ne!(ran.end.exit_code, 0);
    assert!(
        ran.end.failed_line > 0 && ran.end.failed_line <= 2,
        "{:?}",
        ran.end
    );
    assert!(
        ran.end.last_line_for < Duration::from_secs(15),
        "{:?}",
        ran.end.last_line_for
    );
    assert_eq!(
        notes(&ran),
        [format!("egress: blocked {missing}, no rule allows it")]
    );
    let block = ran
        .end
        .egress
        .iter()
        .find(|met| met.host == missing)
        .unwrap();
    assert!(block.outcome == EgressOutcome::Denied && !block.allowed && block.port == 0);
    assert!(matches!(
        ran.events.last(),
        Some(Event::Output { .. } | Event::Egress(_))
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_access_nothing_is_reached_also_by_root_and_each_try_is_told() {
    let script = "! curl -sS --max-time 5 https://blocked.example/
! curl -sS --max-time 5 http://203.0.113.7:8080/
! curl -sS --max-time 5 'http://[2001:db8::7]/'
! sudo curl -sS --max-time 5 http://169.254.169.254/latest/meta-data/
! timeout 5 bash -c 'echo x >/dev/udp/203.0.113.7/123'
! sudo ip route replace default dev lo
! sudo ip addr add 203.0.113.7/32 dev lo
! sudo ip link set lo down
! sudo sysctl -w net.ipv4.ip_forward=1
! sudo nsenter -t 1 -n true
! sudo unshare -n true
! unshare -Urn true
! sudo python3 -c 'import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3)'
! python3 -c 'import socket; socket.socket(40, socket.SOCK_STREAM)'
! sudo python3 -c 'import socket; socket.socket().setsockopt(socket.SOL_SOCKET, 36, 1)'
! ping -c1 -W1 203.0.113.7
python3 -m http.server -b 127.0.0.1 8000 >/dev/null 2>&1 &
for try in {1..50}; do curl -fsS http://localhost:8000/ >/dev/null 2>&1 && break; sleep 0.1; done
curl -fsS http://localhost:8000/ >/dev/null
";
    let ran = run_with(NetworkPolicy::no_access(), script).await;
    ran.passed();
    let mut told = notes(&ran);
    told.sort();
    assert_eq!(
        told,
        [
            "egress: blocked 169.254.169.254:80, no rule allows it",
            "egress: blocked 203.0.113.7:123, only TCP and our DNS leave a sandbox",
            "egress: blocked 203.0.113.7:8080, no rule allows it",
            "egress: blocked [2001:db8::7]:80, no rule allows it",
            "egress: blocked blocked.example, no rule allows it",
        ]
    );
    assert!(ran.end.egress.iter().all(|met| !met.allowed));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unrestricted_sandbox_still_reaches_no_private_address_and_not_this_machine() {
    let listener = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let own: Vec<std::net::Ipv4Addr> = nix::ifaddrs::getifaddrs()
        .unwrap()
        .filter_map(|interface| Some(interface.address?.as_sockaddr_in()?.ip()))
        .filter(|address| !address.is_loopback())
        .collect();
    let mut script = String::new();
    for address in &own {
        script.push_str(&format!(
            "! curl -sS --max-time 5 http://{address}:{port}/\n"
        ));
    }
    script.push_str("! curl -sS --max-time 5 http://169.254.169.254/\n");
    let ran = run_with(NetworkPolicy::Unrestricted, &script).await;
    ran.passed();
    for address in own {
        let met = ran
            .end
            .egress
            .iter()
            .find(|met| met.host == address.to_string());
        assert_eq!(
            met.unwrap().outcome,
            EgressOutcome::RefusedAddress,
            "{address}"
        );
    }
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "this machine was reached");
}

/// A hint names a host that was refused while the failing command ran, so an attempt must not count for the next one.
#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_stands_before_the_marker_of_the_statement_after_it() {
    const LINES: u32 = 60;
    let script: String = (1..=LINES)
        .map(|line| format!("getent hosts h{line}.example || true\n"))
        .collect();
    let ran = run_with(NetworkPolicy::no_access(), &script).await;
    ran.passed();
    let (mut at, mut seen) = (0, 0);
    for event in &ran.events {
        match event {
            Event::Marker { line, .. } => at = *line,
            Event::Egress(event) => {
                assert_eq!(event.host, format!("h{at}.example"));
                seen += u32::from(event.count == 1);
            }
            _ => {}
        }
    }
    assert_eq!(seen, LINES);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_client_gives_up_on_a_blocked_host_within_seconds() {
    let script = "python3 -m venv --without-pip /tmp/venv
blocked() { local begun=$SECONDS; ! \"$@\"; echo \"$1 $((SECONDS - begun))\"; }
blocked uv pip install --python /tmp/venv/bin/python requests==2.32.3
blocked git clone https://code.example/x.git
blocked curl -sS https://files.example/
blocked sudo apt-get update
python3 -m venv /workspace/.venv
blocked pip install requests==2.32.3
";
    let ran = run_with(NetworkPolicy::no_access(), script).await;
    let out = ran.passed();
    for client in ["uv", "git", "curl", "sudo", "pip"] {
        let took = out
            .lines()
            .find_map(|line| line.strip_prefix(&format!("{client} ")));
        let seconds: u32 = took
            .and_then(|took| took.parse().ok())
            .unwrap_or_else(|| panic!("{client}: {out}"));
        // Starting Python twice on a busy machine takes many of them; without our settings these clients try for minutes.
        assert!(seconds <= 20, "{client} took {seconds} s");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn apt_installs_over_plain_http_whose_every_host_is_judged() {
    let bench = Bench::with(|config| {
        with_the_machines_certificates(config);
        // Mirrors of test machines may be frozen.
        config.host.apt_conf = "Acquire::Check-Valid-Until \"false\";".into();
    });
    let mut spec = spec();
    spec.network_policy = HostGroups::built_in().policy(&["debian"]);
    let id = bench.start(&spec).await;
    let script = "sudo apt-get update\nsudo apt-get install -y --no-install-recommends hello file\nhello\nfile /bin/sh\n";
    let ran = bench.script(id, script, HANGS).await.unwrap();
    bench.runtime.destroy(id).await.unwrap();
    assert!(ran.passed().contains("Hello, world!"), "{}", ran.stdout());
    assert_eq!(notes(&ran), Vec::<String>::new());
}
