//! Saving the prepared file system and starting from it.

use std::{fs, os::unix::fs::MetadataExt, process::Command};

use execution::{
    oci::OciRuntime,
    runtime::{Runtime, RuntimeError},
};

use crate::support::{Bench, HANGS, Small, spec};

const PREPARE: &str = r#"
echo hello >/workspace/file
sudo mkdir -p /opt/tool && sudo cp /bin/true /opt/tool/suid && sudo chmod 4755 /opt/tool/suid
sudo cp /usr/bin/python3.11 /usr/local/bin/capable
python3 - <<'END'
import struct, subprocess
value = struct.pack('<IIIII', 0x02000001, 1 << 10, 0, 0, 0)
open('/tmp/cap', 'wb').write(value)
END
sudo python3 -c "import os; os.setxattr('/usr/local/bin/capable', 'security.capability', open('/tmp/cap','rb').read())"
ln /workspace/file /workspace/second
ln -s file /workspace/link
sudo rm /etc/debian_version
sudo rm -r /etc/cron.daily && sudo mkdir /etc/cron.daily && sudo touch /etc/cron.daily/only
truncate -s 1G /workspace/sparse && echo end >>/workspace/sparse
mkfifo /workspace/fifo
python3 -c "import os; os.mkdir(b'/workspace/not-\xff-utf8')"
sudo chown daemon:1234 /workspace/link -h
mkdir /workspace/small && cd /workspace/small && seq 1 3000 | xargs touch
touch /tmp/scratch /var/tmp/scratch; sudo touch /run/gone
python3 -c "import socket; socket.socket(socket.AF_UNIX).bind('/workspace/socket')"
touch -d '2001-02-03 04:05:06' /workspace/old
"#;

const LOOK: &str = r#"
cat /workspace/file /workspace/second
stat -c '%h %U' /workspace/file
readlink /workspace/link; stat -c '%U %g' /workspace/link
stat -c '%a %U' /opt/tool/suid
python3 -c "import os; print(os.getxattr('/usr/local/bin/capable', 'security.capability').hex())"
capable -c "import socket; socket.socket().bind(('127.0.0.1', 0)); print('runs')"
test ! -e /etc/debian_version && echo whiteout
ls /etc/cron.daily
stat -c '%s' /workspace/sparse; tail -c 4 /workspace/sparse; test $(stat -c %b /workspace/sparse) -lt 100 && echo sparse
test -p /workspace/fifo && echo fifo
python3 -c "import os; print([n for n in os.listdir(b'/workspace') if b'utf8' in n])"
ls /workspace/small | wc -l
ls /tmp /var/tmp /run/gone 2>/dev/null | grep -c scratch || true
test ! -e /workspace/socket && echo no socket
stat -c %y /workspace/old
id -un; echo more >/workspace/more; sudo touch /etc/cron.daily/second
"#;

const SEEN: &str = "hello\nhello\n2 sandbox\nfile\ndaemon 1234\n4755 root\n0100000200040000000000000000000000000000\nruns\n\
whiteout\nonly\n1073741828\nend\nsparse\nfifo\n[b'not-\\xff-utf8']\n3000\n0\nno socket\n2001-02-03 04:05:06.000000000 +0000\nsandbox\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_saved_layer_holds_everything_the_script_made() {
    let bench = Bench::new();
    let first = spec();
    let id = bench.start(&first).await;
    bench.script(id, PREPARE, HANGS).await.unwrap().passed();
    let saved = bench.runtime.save_image(id).await.unwrap();
    assert_eq!(
        bench.runtime.save_image(id).await.unwrap(),
        saved,
        "saving twice gives the same layer"
    );
    bench.runtime.destroy(id).await.unwrap();
    let hex = saved.digest.strip_prefix("sha256:").unwrap();
    let layer = bench.layers().join(hex);
    let whiteout = fs::symlink_metadata(layer.join("etc/debian_version")).unwrap();
    assert_eq!((whiteout.rdev(), whiteout.uid()), (0, 0));
    assert!(
        saved.size_bytes > 5 << 20 && saved.size_bytes < 64 << 20,
        "{saved:?}"
    );
    assert!(saved.base_digest.starts_with("sha256:"));

    let mut second = spec();
    second.layers.push(saved.digest.clone());
    let id = bench.start(&second).await;
    assert_eq!(bench.script(id, LOOK, HANGS).await.unwrap().passed(), SEEN);
    let again = bench.runtime.save_image(id).await.unwrap();
    bench.runtime.destroy(id).await.unwrap();
    assert_ne!(again.digest, saved.digest);

    let mut third = spec();
    third.layers = vec![saved.digest, again.digest];
    let id = bench.start(&third).await;
    let out = bench
        .script(
            id,
            "cat /workspace/file /workspace/more; ls /etc/cron.daily\n",
            HANGS,
        )
        .await
        .unwrap()
        .passed();
    assert_eq!(out, "hello\nmore\nonly\nsecond\n");
    bench.runtime.destroy(id).await.unwrap();
    assert_eq!(
        fs::read_dir(bench.layers()).unwrap().count(),
        2,
        "no fragments"
    );
    bench.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn saving_ends_what_still_runs() {
    let bench = Bench::new();
    let first = spec();
    let id = bench.start(&first).await;
    let (sender, mut events) = tokio::sync::mpsc::channel(16);
    let script = execution::runtime::ScriptSpec {
        script: "echo kept >/workspace/kept\nsleep 1000\n".into(),
        timeout: std::time::Duration::from_secs(60),
    };
    let run = bench.runtime.run_script(id, &script, sender);
    let save = async {
        while let Some(event) = events.recv().await {
            if matches!(event, execution::runtime::Event::Marker { line: 2, .. }) {
                break;
            }
        }
        bench.runtime.save_image(id).await
    };
    let (end, saved) = tokio::join!(run, save);
    assert!(end.unwrap().cancelled);
    let layer = bench
        .layers()
        .join(saved.unwrap().digest.strip_prefix("sha256:").unwrap());
    assert_eq!(
        fs::read_to_string(layer.join("workspace/kept")).unwrap(),
        "kept\n"
    );
    bench.runtime.destroy(id).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_save_that_finds_no_room_leaves_nothing() {
    let bench = Bench::new();
    // The layers lie on a file system of 4 MiB.
    fs::create_dir_all(bench.layers()).unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"])
        .arg(bench.layers())
        .status();
    assert!(mounted.unwrap().success());
    let first = spec();
    let id = bench.start(&first).await;
    bench
        .script(id, "head -c 20M /dev/urandom >/workspace/big\n", HANGS)
        .await
        .unwrap()
        .passed();
    let refused = bench.runtime.save_image(id).await;
    let left = fs::read_dir(bench.layers()).unwrap().count();
    bench.runtime.destroy(id).await.unwrap();
    assert!(
        Command::new("umount")
            .arg(bench.layers())
            .status()
            .unwrap()
            .success()
    );
    assert!(
        matches!(&refused, Err(RuntimeError::Save { reason, .. }) if reason == "no_space"),
        "{refused:?}"
    );
    assert_eq!(left, 0);
    bench.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_layer_that_a_sandbox_uses_is_not_deleted_and_goes_with_the_last_one() {
    let bench = Bench::new();
    let first = spec();
    let id = bench.start(&first).await;
    bench
        .script(id, "echo kept >/workspace/kept\n", HANGS)
        .await
        .unwrap()
        .passed();
    let saved = bench.runtime.save_image(id).await.unwrap();
    bench.runtime.destroy(id).await.unwrap();
    assert_eq!(
        bench.runtime.saved_layers().await.unwrap(),
        std::slice::from_ref(&saved.digest)
    );
    assert!(
        !bench.runtime.delete_layer(&saved.digest).await.unwrap(),
        "just saved, and not reported yet"
    );
    // Another worker on the same images: it saved nothing.
    let next = OciRuntime::new(bench.runtime.config().clone()).unwrap();
    let mut second = spec();
    second.layers.push(saved.digest.clone());
    next.prepare(&second).await.unwrap();
    assert!(!next.delete_layer(&saved.digest).await.unwrap());
    next.destroy(second.id).await.unwrap();
    assert!(next.delete_layer(&saved.digest).await.unwrap());
    assert!(next.saved_layers().await.unwrap().is_empty());
    assert_eq!(fs::read_dir(bench.layers()).unwrap().count(), 0);
    second.id = crate::support::new_id();
    assert_eq!(
        next.prepare(&second).await,
        Err(RuntimeError::NoImage(saved.digest))
    );
    bench.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_that_was_cut_off_is_finished_at_the_next_start() {
    let bench = Bench::new();
    let half = bench.layers().join(format!("{}.removing", "a".repeat(64)));
    fs::create_dir_all(half.join("etc")).unwrap();
    bench.runtime.reclaim().await.unwrap();
    assert_eq!(fs::read_dir(bench.layers()).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_save_leaves_the_reserve_alone_and_keeps_nothing_by_halves() {
    let bench = Bench::with(|config| config.disk_reserve = 40 << 20);
    let small = Small::mount(&bench.layers(), "128M");
    let save = async |mebibytes: u32| {
        let id = bench.start(&spec()).await;
        let script = format!("head -c {mebibytes}M /dev/urandom >/workspace/data\n");
        bench.script(id, &script, HANGS).await.unwrap().passed();
        let saved = bench.runtime.save_image(id).await;
        bench.runtime.destroy(id).await.unwrap();
        saved
    };
    // There is room for it on the disk, but not besides the reserve.
    let refused = save(100).await;
    match &refused {
        Err(RuntimeError::Save { reason, message }) => {
            assert_eq!(reason, "no_space");
            assert!(message.contains("reserve"), "{message}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(fs::read_dir(bench.layers()).unwrap().count(), 0);
    assert!(small.used() < 1 << 20, "{}", small.used());
    // What fits is kept.
    let saved = save(30).await.unwrap();
    assert!(saved.size_bytes >= 30 << 20);
    assert_eq!(fs::read_dir(bench.layers()).unwrap().count(), 1);
    bench.assert_clean().await;
    drop(small);
}

/// Names of the host layers.
fn host_layers(state: &std::path::Path) -> Vec<String> {
    let entries = fs::read_dir(state.join("host-layers")).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.file_type().unwrap().is_dir())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn host_layers_go_with_the_images_that_they_were_made_for() {
    let bench = Bench::new();
    let id = bench.start(&spec()).await;
    bench
        .script(id, "echo x >/workspace/x\n", HANGS)
        .await
        .unwrap()
        .passed();
    let saved = bench.runtime.save_image(id).await.unwrap();
    bench.runtime.destroy(id).await.unwrap();
    let of_base = host_layers(&bench.state());
    assert_eq!(of_base.len(), 1);
    // Another process: to this one the layer is as good as new.
    let next = OciRuntime::new(bench.runtime.config().clone()).unwrap();
    let mut second = spec();
    second.layers = vec![saved.digest.clone()];
    next.prepare(&second).await.unwrap();
    assert_eq!(host_layers(&bench.state()).len(), 2);
    assert!(!next.delete_layer(&saved.digest).await.unwrap());
    assert_eq!(host_layers(&bench.state()).len(), 2, "it is in use");
    next.destroy(second.id).await.unwrap();
    assert!(next.delete_layer(&saved.digest).await.unwrap());
    assert_eq!(host_layers(&bench.state()), of_base);
    drop(next);
    bench.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn host_layers_that_no_sandbox_can_get_any_more_go_at_the_start() {
    let bench = Bench::new();
    bench.run("true\n").await.passed();
    let needed = host_layers(&bench.state());
    let dir = bench.state().join("host-layers");
    let note = |name: &str| dir.join(format!("{name}.over"));
    let known = fs::read_to_string(note(&needed[0])).unwrap();
    // Of an earlier version, without a note; for other settings; over an image that is gone; by halves.
    for name in ["unknown", "other-settings", "gone"] {
        fs::create_dir_all(dir.join(name).join("etc")).unwrap();
    }
    fs::write(note("other-settings"), &known).unwrap();
    fs::write(note("gone"), known.replace("sha256:", "sha256:0")).unwrap();
    fs::write(note("never-made"), &known).unwrap();
    fs::create_dir_all(dir.join("half.partial/etc")).unwrap();
    let id = bench.start(&spec()).await;
    bench.runtime.reclaim().await.unwrap();
    assert_eq!(host_layers(&bench.state()).len(), 5, "not under a sandbox");
    bench.runtime.destroy(id).await.unwrap();
    bench.runtime.reclaim().await.unwrap();
    assert_eq!(host_layers(&bench.state()), needed);
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 2);
    assert_eq!(bench.run("echo still\n").await.passed(), "still\n");
    bench.assert_clean().await;
}
