//! Disks that outlive their sandbox, and what a session's sandbox is asked besides commands.

use std::fs;

use domain::{ids::SandboxId, process::Sample};
use execution::{
    oci::OciRuntime,
    runtime::{Runtime, RuntimeError, SandboxSpec},
};
use nix::sys::signal::{Signal, kill};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{
    faults,
    support::{Bench, eventually, sh, spec},
};

fn session() -> SandboxSpec {
    SandboxSpec {
        keep_disk: true,
        ..spec()
    }
}

const FILL: &str = r#"set -e
echo work >/workspace/file; echo home >~/file; sudo sh -c 'echo root >/etc/own'
sudo rm /etc/debian_version; sudo chmod 1711 /opt; ln /workspace/file /workspace/second
sudo cp /bin/true /usr/local/bin/suid; sudo chmod 4755 /usr/local/bin/suid
mkdir many; (cd many; seq 1 500 | xargs touch); echo scratch >/tmp/scratch
python3 -c "import os; os.mkdir(b'/workspace/not-\xff-utf8')"
"#;

const LOOK: &str = r#"cat /workspace/file ~/file /etc/own /tmp/scratch
stat -c '%h %U' /workspace/second; stat -c '%a %U' /usr/local/bin/suid /opt
test ! -e /etc/debian_version && echo deleted; ls many | wc -l
python3 -c "import os; print([n for n in os.listdir(b'/workspace') if b'utf8' in n])""#;

const SEEN: &str = "work\nhome\nroot\nscratch\n2 sandbox\n4755 root\n1711 root\ndeleted\n500\n[b'not-\\xff-utf8']\n";

async fn assert_kept(bench: &Bench, id: SandboxId) {
    assert_eq!(bench.runtime.suspended().await.unwrap(), [id]);
    assert!(!bench.runtime.is_running(id).await.unwrap());
    assert_eq!(bench.runtime.leftovers().await.unwrap(), []);
    let dir = bench.state().join("sandboxes").join(id.to_string());
    let mut left: Vec<String> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    left.sort();
    assert_eq!(left, ["disk.img", "kept.json"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspended_sandbox_goes_on_where_it_was() {
    let bench = Bench::new();
    let spec = session();
    let id = bench.start(&spec).await;
    assert_eq!(bench.runtime.suspended().await.unwrap(), []);
    bench.sh(id, FILL).await.passed();
    let mut talk = bench.talk(id, sh("echo up; sleep 1000"));
    talk.until("up").await;
    bench.runtime.suspend(id).await.unwrap();
    assert!(matches!(talk.done().await, Err(RuntimeError::Lost(_))));
    assert_kept(&bench, id).await;
    bench.runtime.suspend(id).await.unwrap();
    assert_kept(&bench, id).await;
    for round in 0..3 {
        bench.start(&spec).await;
        assert_eq!(bench.runtime.suspended().await.unwrap(), []);
        assert_eq!(bench.sh(id, LOOK).await.passed(), SEEN, "round {round}");
        assert_eq!(
            bench.sh(id, "pgrep sleep; ls -A /dev/shm").await.stdout(),
            ""
        );
        bench.runtime.suspend(id).await.unwrap();
    }
    bench.runtime.destroy(id).await.unwrap();
    assert_eq!(bench.runtime.suspended().await.unwrap(), []);
    bench.assert_clean().await;
    // What was not to be kept is not.
    let other = bench.start(&crate::support::spec()).await;
    bench.runtime.suspend(other).await.unwrap();
    bench.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kept_disk_survives_the_end_of_its_shim_its_worker_and_the_reclaim() {
    let bench = Bench::new();
    let spec = session();
    let id = bench.start(&spec).await;
    bench.sh(id, FILL).await.passed();
    kill(faults::shim(id), Signal::SIGKILL).unwrap();
    eventually("the shim is missed", async || {
        !bench.runtime.is_running(id).await.unwrap()
    })
    .await;
    assert_eq!(bench.runtime.suspended().await.unwrap(), [id]);
    // The same worker takes it up again.
    bench.start(&spec).await;
    assert_eq!(bench.sh(id, LOOK).await.passed(), SEEN);
    // Another one, because the first was killed, with the shim and the OCI runtime.
    bench
        .sh(id, "echo later >/workspace/later; sync")
        .await
        .passed();
    let crun = std::process::Command::new("pgrep")
        .args(["-f", &format!("crun .*{id}$")])
        .output()
        .unwrap();
    for pid in String::from_utf8_lossy(&crun.stdout).lines() {
        kill(
            nix::unistd::Pid::from_raw(pid.parse().unwrap()),
            Signal::SIGKILL,
        )
        .unwrap();
    }
    kill(faults::shim(id), Signal::SIGKILL).unwrap();
    let next = OciRuntime::new(bench.runtime.config().clone()).unwrap();
    next.reclaim().await.unwrap();
    assert_eq!(next.leftovers().await.unwrap(), []);
    assert_eq!(next.suspended().await.unwrap(), [id]);
    drop(next);
    bench.runtime.suspend(id).await.unwrap();
    assert_kept(&bench, id).await;
    bench.start(&spec).await;
    assert_eq!(bench.sh(id, LOOK).await.passed(), SEEN);
    assert_eq!(bench.sh(id, "cat later").await.passed(), "later\n");
    bench.runtime.destroy(id).await.unwrap();
    bench.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_starts_ends_a_session_and_keeps_its_disk() {
    let bench = Bench::new();
    let spec = session();
    let id = bench.start(&spec).await;
    bench.sh(id, FILL).await.passed();
    // The first worker's socket is still open: its shim is alive, and is ended all the same.
    let next = OciRuntime::new(bench.runtime.config().clone()).unwrap();
    let found = next.suspended().await.unwrap();
    assert_eq!(found, [id], "an earlier worker's is about to end, not lost");
    next.reclaim().await.unwrap();
    assert_eq!(next.suspended().await.unwrap(), [id]);
    eventually("the first worker knows", async || {
        !bench.runtime.is_running(id).await.unwrap()
    })
    .await;
    next.prepare(&spec).await.unwrap();
    assert!(next.is_running(id).await.unwrap());
    next.destroy(id).await.unwrap();
    bench.runtime.destroy(id).await.unwrap();
    bench.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_gone_leaves_a_disk_with_everything_on_it() {
    let mut bench = Bench::new();
    let spec = session();
    let id = bench.start(&spec).await;
    bench.sh(id, FILL).await.passed();
    let shim = faults::shim(id);
    // Its sockets end, as those of a killed process do.
    let config = bench.runtime.config().clone();
    bench.runtime = std::sync::Arc::new(OciRuntime::new(config).unwrap());
    bench.runtime.reclaim().await.unwrap();
    // A process that is ending has no command line any more, and is a process still for a moment.
    eventually("the shim has ended", async || {
        kill(shim, None).is_err() || zombie(shim)
    })
    .await;
    assert_kept(&bench, id).await;
    bench.start(&spec).await;
    assert_eq!(bench.sh(id, LOOK).await.passed(), SEEN);
    bench.runtime.destroy(id).await.unwrap();
    bench.assert_clean().await;
}

/// Whether a process has ended and only waits to be reaped by its parent: this test.
fn zombie(pid: nix::unistd::Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ")
        .next()
        .is_some_and(|rest| rest.starts_with('Z'))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_journal_is_replayed_and_a_damaged_disk_is_told() {
    let bench = Bench::new();
    let spec = session();
    let id = bench.start(&spec).await;
    bench.sh(id, FILL).await.passed();
    // What a power cut leaves: the image as it is at this moment, in use.
    bench.sh(id, "sync; echo unsynced >late").await.passed();
    let dir = bench.state().join("sandboxes").join(id.to_string());
    let image = dir.join("disk.img");
    let copy = bench.state().join("copy.img");
    let copied = std::process::Command::new("cp")
        .args(["--sparse=always"])
        .args([&image, &copy])
        .status()
        .unwrap();
    assert!(copied.success());
    bench.runtime.suspend(id).await.unwrap();
    fs::rename(&copy, &image).unwrap();
    bench.start(&spec).await;
    assert_eq!(bench.sh(id, LOOK).await.passed(), SEEN);
    bench.runtime.suspend(id).await.unwrap();
    // Nonsense instead of a file system.
    fs::write(&image, vec![0x5a; 8 << 20]).unwrap();
    let refused = bench.runtime.prepare(&spec).await;
    assert!(
        matches!(&refused, Err(RuntimeError::Other(text)) if text.contains("damaged")),
        "{refused:?}"
    );
    assert_kept(&bench, id).await;
    bench.runtime.destroy(id).await.unwrap();
    bench.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_fails_leaves_a_kept_disk_and_no_fragment_of_a_new_one() {
    let bench = Bench::new();
    let mut spec = session();
    spec.layers = vec![format!("sha256:{}", "0".repeat(64))];
    assert!(matches!(
        bench.runtime.prepare(&spec).await,
        Err(RuntimeError::NoImage(_))
    ));
    bench.assert_clean().await;
    spec.layers.clear();
    spec.disk_mib = 1 << 30;
    assert!(matches!(
        bench.runtime.prepare(&spec).await,
        Err(RuntimeError::Capacity(_))
    ));
    bench.assert_clean().await;
    spec.disk_mib = 1_024;
    let id = bench.start(&spec).await;
    bench.sh(id, FILL).await.passed();
    bench.runtime.suspend(id).await.unwrap();
    let broken = OciRuntime::new({
        let mut config = bench.runtime.config().clone();
        config.runtime = "/bin/false".into();
        config
    })
    .unwrap();
    assert!(broken.prepare(&spec).await.is_err());
    assert_kept(&bench, id).await;
    bench.start(&spec).await;
    assert_eq!(bench.sh(id, LOOK).await.passed(), SEEN);
    bench.runtime.destroy(id).await.unwrap();
    bench.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sample_tells_what_is_used() {
    let bench = Bench::new();
    let spec = SandboxSpec {
        disk_mib: 1_024,
        ..session()
    };
    let id = bench.start(&spec).await;
    let before = bench.runtime.sample(id).await.unwrap();
    assert_eq!(before.memory_limit, 1 << 30);
    assert!(
        before.disk_size > 900 << 20 && before.disk_size <= 1 << 30,
        "{before:?}"
    );
    let hold = "head -c 100M /dev/urandom >/workspace/big; sync
python3 -c 'import time; x = bytearray(200 << 20); [None for i in range(10**7)]; print(\"held\", flush=True); time.sleep(1000)'";
    let mut talk = bench.talk(id, sh(hold));
    talk.until("held").await;
    let after = bench.runtime.sample(id).await.unwrap();
    let more = |of: fn(&Sample) -> u64| of(&after).saturating_sub(of(&before));
    assert!(more(|s| s.cpu_millis) > 50, "{before:?} {after:?}");
    assert!(
        (190 << 20..330 << 20).contains(&more(|s| s.memory_used)),
        "{before:?} {after:?}"
    );
    assert!(
        (100_000_000..120 << 20).contains(&more(|s| s.disk_used)),
        "{before:?} {after:?}"
    );
    assert_eq!(more(|s| s.processes), 1);
    bench.runtime.destroy(id).await.unwrap();
}

/// Serves what `socat` would, on one port, once for each connection: repeats a line.
const ECHO: &str = r#"
import socket, sys, threading
s = socket.socket(socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind((sys.argv[1], int(sys.argv[2]))); s.listen(64)
print('listening', flush=True)
def serve(c):
    while True:
        data = c.recv(65536)
        if not data: break
        c.sendall(data)
    c.sendall(b'bye'); c.close()
while True:
    threading.Thread(target=serve, args=(s.accept()[0],)).start()
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_port_inside_can_be_connected_to() {
    let bench = Bench::new();
    let (first, second) = (bench.start(&session()).await, bench.start(&session()).await);
    for (address, port) in [("127.0.0.1", 8_000), ("0.0.0.0", 8_001), ("::1", 8_002)] {
        let mut server = crate::support::argv(&["python3", "-c", ECHO, address]);
        server.argv.push(port.to_string());
        let mut talk = bench.talk(first, server);
        talk.until("listening").await;
        let through = (0..8).map(|number| {
            let bench = &bench;
            async move {
                let mut tunnel = bench.runtime.connect(first, port).await.unwrap();
                let text = vec![number; 300_000];
                let (mut read, mut write) = tokio::io::split(&mut tunnel);
                let sending = async {
                    write.write_all(&text).await.unwrap();
                    write.shutdown().await.unwrap();
                };
                let mut got = Vec::new();
                tokio::join!(sending, async { read.read_to_end(&mut got).await.unwrap() });
                assert_eq!(got.len(), 300_003);
                assert!(got.ends_with(b"bye"));
            }
        });
        futures::future::join_all(through).await;
        let elsewhere = bench.runtime.connect(second, port).await.err();
        assert_eq!(
            elsewhere,
            Some(RuntimeError::Refused(port)),
            "another sandbox's port"
        );
        talk.send(domain::process::Input::Kill).await;
        talk.done().await.unwrap();
        assert_eq!(
            bench.runtime.connect(first, port).await.err(),
            Some(RuntimeError::Refused(port))
        );
    }
    bench.runtime.destroy(first).await.unwrap();
    assert!(matches!(
        bench.runtime.connect(first, 8_000).await.err(),
        Some(RuntimeError::Lost(_))
    ));
    bench.runtime.destroy(second).await.unwrap();
    bench.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_sessions_never_see_each_other() {
    let bench = Bench::new();
    let (first, second) = (bench.start(&session()).await, bench.start(&session()).await);
    let serve = "python3 - <<'END'
import socket, time
held = []
for kind, address in [(socket.AF_UNIX, '\\0groundwork-test'), (socket.AF_UNIX, '/tmp/socket'), (socket.AF_INET, ('0.0.0.0', 9000))]:
    s = socket.socket(kind); s.bind(address); s.listen(); held.append(s)
open('/dev/shm/secret', 'w').write('x'); open('/tmp/secret', 'w').write('x'); open('/workspace/secret', 'w').write('x')
print('serving', flush=True); time.sleep(1000)
END";
    let mut talk = bench.talk(first, sh(serve));
    talk.until("serving").await;
    let look = "python3 - <<'END'
import socket, os, subprocess
for kind, address in [(socket.AF_UNIX, '\\0groundwork-test'), (socket.AF_UNIX, '/tmp/socket'), (socket.AF_INET, ('127.0.0.1', 9000)), (socket.AF_INET, ('198.18.0.1', 9000))]:
    s = socket.socket(kind); s.settimeout(5)
    try: s.connect(address); print('CONNECTED', address)
    except OSError as e: print(type(e).__name__)
for path in ['/dev/shm/secret', '/tmp/secret', '/workspace/secret']: print(os.path.exists(path))
print(sum(1 for p in os.listdir('/proc') if p.isdigit() and b'groundwork-test' in open(f'/proc/{p}/cmdline', 'rb').read()))
print(open('/proc/net/unix').read().count('groundwork-test'))
END";
    let seen = "ConnectionRefusedError\nFileNotFoundError\nConnectionRefusedError\nConnectionRefusedError\nFalse\nFalse\nFalse\n";
    let out = bench.sh(second, look).await.passed();
    assert!(out.starts_with(seen), "{out}");
    assert!(out.ends_with("0\n"), "{out}");
    // The same processes of one session do see each other.
    let own = bench
        .sh(first, "ls /workspace/secret /tmp/secret; pgrep -c python3")
        .await
        .passed();
    assert_eq!(own, "/tmp/secret\n/workspace/secret\n1\n");
    for id in [first, second] {
        bench.runtime.destroy(id).await.unwrap();
    }
    bench.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_starts_from_a_saved_image_whatever_its_size() {
    let bench = Bench::new();
    let made = bench.start(&spec()).await;
    bench.sh(made, FILL).await.passed();
    bench.sh(made, "head -c 60M /dev/urandom >/opt/big 2>/dev/null || sudo head -c 60M /dev/urandom | sudo tee /opt/big >/dev/null").await.passed();
    let saved = bench.runtime.save_image(made).await.unwrap();
    bench.runtime.destroy(made).await.unwrap();
    let spec = SandboxSpec {
        layers: vec![saved.digest.clone()],
        ..session()
    };
    let started = std::time::Instant::now();
    let id = bench.start(&spec).await;
    assert!(
        started.elapsed() < std::time::Duration::from_secs(10),
        "{:?}",
        started.elapsed()
    );
    let out = bench
        .sh(id, &LOOK.replace(" /tmp/scratch", ""))
        .await
        .passed();
    assert_eq!(out, SEEN.replace("scratch\n", ""));
    bench
        .sh(id, "rm /workspace/file; echo changed >~/file")
        .await
        .passed();
    bench.runtime.suspend(id).await.unwrap();
    // What the disk was made over is not what the caller says now, but what it was.
    let later = SandboxSpec {
        layers: Vec::new(),
        ..spec.clone()
    };
    bench.start(&later).await;
    let out = bench
        .sh(
            id,
            "cat ~/file /etc/own second; ls -l /opt/big | cut -d' ' -f5; ls file",
        )
        .await;
    assert_eq!(
        (out.code(), out.stdout()),
        (2, "changed\nroot\nwork\n62914560\n".into())
    );
    bench.runtime.suspend(id).await.unwrap();
    // A runner image that was built again is another one.
    let note = bench
        .state()
        .join("sandboxes")
        .join(id.to_string())
        .join("kept.json");
    let text = fs::read_to_string(&note).unwrap();
    fs::write(&note, text.replace(&saved.base_digest, "sha256:other")).unwrap();
    let refused = bench.runtime.prepare(&spec).await;
    assert_eq!(refused, Err(RuntimeError::NoImage("sha256:other".into())));
    fs::write(&note, text).unwrap();
    let needed = bench.runtime.delete_layer(&saved.digest).await;
    assert!(!needed.unwrap(), "a kept disk lies over it");
    let layer = bench
        .layers()
        .join(saved.digest.strip_prefix("sha256:").unwrap());
    fs::rename(&layer, layer.with_extension("gone")).unwrap();
    assert!(matches!(
        bench.runtime.prepare(&spec).await,
        Err(RuntimeError::NoImage(_))
    ));
    assert_kept(&bench, id).await;
    bench.runtime.destroy(id).await.unwrap();
    bench.assert_clean().await;
}
