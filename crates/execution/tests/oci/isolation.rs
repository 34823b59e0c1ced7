//! What root inside a sandbox cannot do.

use execution::runtime::Runtime;

use crate::support::{Bench, HANGS, spec};

/// Each line prints `refused` or what went wrong.
const ATTEMPTS: &str = r#"
try() { local name=$1; shift; if "$@" >/dev/null 2>&1; then echo "$name: POSSIBLE"; else echo "$name: refused"; fi; }
try "user namespace" unshare -U true
try "user namespace as root" sudo unshare -U true
try "mount namespace as root" sudo unshare -m true
try "network namespace as root" sudo unshare -n true
try "mount" sudo mount -t tmpfs none /mnt
try "bind mount" sudo mount --bind /etc /mnt
try "remount" sudo mount -o remount,rw /run/ctl
try "device node" sudo mknod /workspace/disk b 8 0
try "kernel memory" sudo head -c 1 /dev/mem
try "loop device" sudo head -c 1 /dev/loop0
try "sysctl" sudo sh -c 'echo 1 >/proc/sys/kernel/panic'
try "core pattern" sudo sh -c 'echo x >/proc/sys/kernel/core_pattern'
try "sysrq" sudo sh -c 'echo h >/proc/sysrq-trigger'
try "kernel keys" sudo head -c 1 /proc/kcore
try "route" sudo ip route add 10.0.0.0/8 dev lo
try "address" sudo ip addr add 10.1.2.3/8 dev lo
try "interface" sudo ip link add dummy0 type dummy
try "chroot escape by pid 1" sudo ls /proc/1/root/workspace/../../work
try "init's pipe" sudo sh -c 'echo x >/proc/1/fd/0'
try "kill of init" bash -c 'kill -9 1; sleep 0.2; ! kill -0 1'
try "control directory" sudo touch /run/ctl/x
try "init binary" sudo sh -c 'echo >>/run/init'
try "swap" sudo swapon /workspace/x
try "host name" sudo hostname other
try "reboot" sudo reboot -f
try "clock" sudo date -s 2001-01-01
python3 - <<'END'
import socket, ctypes, os
def attempt(name, *args):
    try:
        socket.socket(*args); print(f'{name}: POSSIBLE')
    except OSError: print(f'{name}: refused')
attempt('vsock', 40, socket.SOCK_STREAM)
attempt('af_alg', 38, socket.SOCK_SEQPACKET)
attempt('packet', 17, socket.SOCK_RAW)
attempt('bluetooth', 31, socket.SOCK_RAW)
attempt('raw ipv4', socket.AF_INET, socket.SOCK_RAW, 1)
attempt('raw ipv6', socket.AF_INET6, socket.SOCK_RAW, 58)
libc = ctypes.CDLL(None, use_errno=True)
for name, number, args in [('bpf', 321, (0, 0, 0)), ('perf_event_open', 298, (0, 0, -1, -1, 0)), ('io_uring', 425, (8, 0)),
        ('userfaultfd', 323, (0,)), ('keyctl', 250, (0, -3, 0)), ('setns', 308, (0, 0)), ('open_by_handle_at', 304, (0, 0, 0)),
        ('clone3', 435, (0, 0)), ('fsopen', 430, (b'tmpfs', 0)), ('syslog', 103, (3, 0, 0)), ('kexec', 246, (0, 0, 0, 0)),
        ('init_module', 175, (0, 0, 0)), ('clone newuser', 56, (0x10000011, 0, 0, 0, 0))]:
    result = libc.syscall(number, *args)
    error = ctypes.get_errno()
    print(f'{name}: ' + ('refused' if result == -1 and error in (1, 38) else f'POSSIBLE {result} {error}'))
    if result == 0 and name == 'clone newuser': os._exit(0)
END
sudo python3 - <<'END'
import socket
for name, args in [('raw ipv4 as root', (socket.AF_INET, socket.SOCK_RAW, 1)), ('packet as root', (17, socket.SOCK_RAW)),
        ('vsock as root', (40, socket.SOCK_STREAM))]:
    try:
        socket.socket(*args); print(f'{name}: POSSIBLE')
    except OSError: print(f'{name}: refused')
END
"#;

#[tokio::test(flavor = "multi_thread")]
async fn root_inside_gains_nothing() {
    let bench = Bench::new();
    let spec = spec();
    let id = bench.start(&spec).await;
    let ran = bench.script(id, ATTEMPTS, HANGS).await.unwrap();
    let out = ran.passed();
    let wrong: Vec<&str> = out
        .lines()
        .filter(|line| !line.ends_with(": refused"))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}\n{}", ran.stderr());
    assert!(out.lines().count() > 45, "{out}");
    bench.runtime.destroy(id).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_the_host_is_seen() {
    let bench = Bench::new();
    let script = r#"
ls -A / | tr '\n' ' '; echo
ls /dev | tr '\n' ' '; echo
awk '{print $5}' /proc/self/mountinfo | sort | tr '\n' ' '; echo
cat /proc/self/cgroup | cut -d: -f3 | sort -u
ps -e -o comm= | sort -u | tr '\n' ' '; echo
ls /sys /run | tr '\n' ' '; echo
cat /proc/self/uid_map | tr -s ' '
cat /proc/self/mountinfo
ip -o link | wc -l
ulimit -c
sudo ls -A /home /root /workspace | tr '\n' ' '; echo
"#;
    let ran = bench.run(script).await;
    let out = ran.passed();
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(
        lines[0],
        "bin boot dev etc home lib lib64 media mnt opt proc root run sbin srv sys tmp usr var workspace "
    );
    assert_eq!(
        lines[1],
        "core fd full null ptmx pts random shm stderr stdin stdout tty urandom zero "
    );
    for mount in lines[2].split_whitespace() {
        assert!(
            mount == "/"
                || ["/proc", "/dev", "/run"]
                    .iter()
                    .any(|dir| mount.starts_with(dir)),
            "{mount} in {}",
            lines[2]
        );
    }
    assert_eq!(lines[3], "/", "the cgroup's path on the host: {out}");
    assert!(
        lines[4]
            .split_whitespace()
            .all(|name| ["awk", "bash", "init", "ps", "sort", "tr"].contains(&name)),
        "{}",
        lines[4]
    );
    assert!(
        !out.contains("groundwork") && !out.contains("/var/lib/"),
        "{out}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn no_way_leads_out_of_a_closed_network() {
    let bench = Bench::new();
    let listener = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = format!(
        r#"
for host in 127.0.0.1 169.254.169.254 10.0.0.1 192.168.0.1 1.1.1.1 '[::1]' '[2606:4700:4700::1111]'; do
  if curl -sS -m 5 -o /dev/null "http://$host:{port}/" 2>/dev/null; then echo "$host: POSSIBLE"; else echo "$host: refused"; fi
done
curl -sS -m 5 -o /dev/null http://example.com/ 2>/dev/null || echo "name: refused"
ping -c 1 -W 1 1.1.1.1 >/dev/null 2>&1 || echo "ping: refused"
python3 -c "
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
try: s.sendto(b'x', ('1.1.1.1', 123)); print('udp: POSSIBLE')
except OSError: print('udp: refused')
l = socket.socket(); l.bind(('127.0.0.1', 80)); l.listen(); c = socket.create_connection(('127.0.0.1', 80)); print('own port 80: works')
"
"#
    );
    let ran = bench.run(&script).await;
    let out = ran.passed();
    assert!(!out.contains("POSSIBLE"), "{out}");
    assert_eq!(
        out.lines()
            .filter(|line| line.ends_with(": refused"))
            .count(),
        10,
        "{out}"
    );
    assert!(out.ends_with("own port 80: works\n"), "{out}");
}

#[tokio::test(flavor = "multi_thread")]
async fn sandboxes_have_ranges_of_ids_of_their_own() {
    let bench = Bench::with(|config| config.base_uid = 1_200_000_000);
    let (first, second) = (spec(), spec());
    bench.start(&first).await;
    bench.start(&second).await;
    let mut maps = Vec::new();
    for id in [first.id, second.id] {
        let ran = bench
            .script(id, "cat /proc/self/uid_map\n", HANGS)
            .await
            .unwrap();
        maps.push(ran.passed().split_whitespace().nth(1).unwrap().to_owned());
    }
    maps.sort();
    assert_eq!(maps, ["1200000000", "1200065536"]);
    bench.runtime.destroy(first.id).await.unwrap();
    bench.runtime.destroy(second.id).await.unwrap();
}
