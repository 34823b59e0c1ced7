//! Attempts of one sandbox to use up what the machine has only once, and to make much of little.

use std::time::{Duration, Instant};

use domain::process::{Command, PtySize};
use execution::{
    images::{ImageContents, bytes_on_disk},
    runtime::Runtime,
};

use crate::support::{Bench, HANGS, argv, spec};

/// Takes pseudo-terminals with several processes, as the user and as root, and says how many there were.
const TERMINALS: &str = r#"
cat >/workspace/take.py <<'END'
import os, sys, time
taken = 0
for process in range(8):
    read, write = os.pipe()
    if os.fork() == 0:
        count = 0
        try:
            for _ in range(1000):
                os.open('/dev/ptmx', os.O_RDWR | os.O_NOCTTY); count += 1
        except OSError: pass
        os.write(write, str(count).encode()); time.sleep(1000)
    taken += int(os.read(read, 100))
print('taken', taken, flush=True)
time.sleep(1000)
END
python3 /workspace/take.py >/workspace/first &
until grep -q taken /workspace/first; do sleep 0.1; done
cat /workspace/first
sudo python3 /workspace/take.py
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_that_takes_every_terminal_leaves_those_of_others() {
    let bench = Bench::new();
    let greedy = bench.start(&spec()).await;
    let mut talk = bench.talk(greedy, crate::support::sh(TERMINALS));
    talk.until("taken").await;
    talk.until("taken 0").await;
    let taken: u32 = talk
        .heard
        .stdout()
        .lines()
        .filter_map(|line| line.strip_prefix("taken ")?.parse::<u32>().ok())
        .sum();
    assert!((100..=256).contains(&taken), "{taken}");
    let other = bench.start(&spec()).await;
    let command = Command {
        pty: Some(PtySize { rows: 24, cols: 80 }),
        ..argv(&["tty"])
    };
    // Its input stays open: a terminal that is closed hangs up.
    let mut shown = bench.talk(other, command);
    shown.until("/dev/pts/").await;
    for id in [greedy, other] {
        bench.runtime.destroy(id).await.unwrap();
    }
    drop((talk, shown));
    bench.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_are_large_only_in_name_are_saved_as_the_little_they_are_and_not_exported() {
    let bench = Bench::new();
    let first = spec();
    let id = bench.start(&first).await;
    let script = "for n in 1 2 3; do truncate -s 15T /workspace/huge$n; echo end >>/workspace/huge$n; done\n\
        ln /workspace/huge1 /workspace/again\n";
    bench.script(id, script, HANGS).await.unwrap().passed();
    let begun = Instant::now();
    let saved = bench.runtime.save_image(id).await.unwrap();
    bench.runtime.destroy(id).await.unwrap();
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "saved in {:?}",
        begun.elapsed()
    );
    assert!(saved.size_bytes < 4 << 20, "{saved:?}");
    let layer = bench
        .layers()
        .join(saved.digest.strip_prefix("sha256:").unwrap());
    assert!(bytes_on_disk(&layer).unwrap() < 4 << 20);

    let out = tempfile::tempdir().unwrap();
    let target = out.path().join("image");
    let contents = ImageContents {
        layers: vec![layer],
        history: vec!["a script".to_owned()],
        created: "1970-01-01T00:00:00Z".to_owned(),
        labels: Default::default(),
        tag: "test".to_owned(),
    };
    let begun = Instant::now();
    let exporting = tokio::task::spawn_blocking({
        let target = target.clone();
        move || contents.export(&target, &mut |_| {}).map(drop)
    });
    let refused = exporting.await.unwrap().unwrap_err().to_string();
    assert!(
        refused.contains("/workspace/huge") || refused.contains("/workspace/again"),
        "{refused}"
    );
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "it is refused, not read: 45 TiB take days"
    );
    assert!(!target.exists(), "nothing half-made");

    let mut second = spec();
    second.layers.push(saved.digest);
    let id = bench.start(&second).await;
    let look =
        "stat -c %s /workspace/huge2; tail -c 4 /workspace/huge2; stat -c %h /workspace/again";
    assert_eq!(
        bench.sh(id, look).await.passed(),
        "16492674416644\nend\n2\n"
    );
    bench.runtime.destroy(id).await.unwrap();
}

/// Doors of the kernel's netlink that are no business of a sandbox: news of the host's devices among them.
const NETLINK: &str = r#"
cat >/workspace/doors.py <<'END'
import socket
for number in list(range(0, 32)):
    try:
        socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, number).close()
        print(number, end=' ')
    except OSError: pass
END
python3 /workspace/doors.py
sudo python3 /workspace/doors.py
"#;

#[tokio::test(flavor = "multi_thread")]
async fn of_the_kernels_netlink_only_the_doors_that_programs_need_are_open() {
    let bench = Bench::new();
    let out = bench.run(NETLINK).await.passed();
    for number in out.split_whitespace() {
        // Routes (addresses of one's own), sockets (`ss`), and the audit that `sudo` asks for and is refused.
        assert!(["0", "4", "9"].contains(&number), "{out}");
    }
    assert!(
        out.split_whitespace()
            .filter(|number| *number == "0")
            .count()
            == 2,
        "{out}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_table_of_mounts_tells_nothing_of_where_things_lie_on_the_host() {
    let bench = Bench::new();
    let out = bench
        .run("cat /proc/self/mountinfo /proc/self/mounts; sudo cat /proc/1/mountinfo || true\n")
        .await;
    let text = out.passed();
    for part in [
        bench.state().display().to_string(),
        "groundwork-test".to_owned(),
    ] {
        assert!(!text.contains(&part), "{text}");
    }
}
