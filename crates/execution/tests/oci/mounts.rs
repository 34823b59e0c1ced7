//! Volumes and files of the machine in a sandbox: what it can do with them, and what an image or a script cannot make of them.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use execution::{
    oci::{OciConfig, Volume},
    runtime::{MountSource, Runtime, RuntimeError, SandboxMount, SandboxSpec},
};

use crate::support::{Bench, HANGS, spec};

/// Owner of the writable volume on the machine.
const OWNER: u32 = 4_321;

/// A machine with the volumes `sets` (read-only) and `out` (writable).
struct Machine {
    bench: Bench,
    dir: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let dir = tempfile::Builder::new()
            .prefix("volumes-")
            .tempdir_in("/var/lib/groundwork-test")
            .unwrap();
        for name in ["sets", "out"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        chown(dir.path().join("out"), Some(OWNER), Some(OWNER)).unwrap();
        fs::write(dir.path().join("sets/table.csv"), "a,b\n1,2\n").unwrap();
        let volume = |name: &str, writable| Volume {
            name: name.to_owned(),
            directory: dir.path().join(name),
            writable,
        };
        let volumes = vec![volume("sets", false), volume("out", true)];
        let bench = Bench::with(|config: &mut OciConfig| config.volumes = volumes);
        Self { bench, dir }
    }

    fn sets(&self) -> PathBuf {
        self.dir.path().join("sets")
    }

    fn out(&self) -> PathBuf {
        self.dir.path().join("out")
    }
}

fn mounting(mounts: &[(&str, &str)]) -> SandboxSpec {
    SandboxSpec {
        mounts: mounts
            .iter()
            .map(|(name, path)| SandboxMount {
                source: MountSource::Volume((*name).to_owned()),
                path: (*path).to_owned(),
            })
            .collect(),
        ..spec()
    }
}

fn refusal(result: Result<(), RuntimeError>) -> String {
    match result {
        Err(RuntimeError::Mount(text)) => text,
        other => panic!("{other:?}"),
    }
}

/// A saved layer that holds what `fill` makes.
fn layer(bench: &Bench, letter: &str, fill: impl FnOnce(&Path)) -> String {
    let name = letter.repeat(64);
    let dir = bench.layers().join(&name);
    fs::create_dir_all(&dir).unwrap();
    fill(&dir);
    format!("sha256:{name}")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_volume_is_read_by_two_sandboxes_and_written_by_neither() {
    let machine = Machine::new();
    let bench = &machine.bench;
    fs::create_dir(machine.sets().join("private")).unwrap();
    fs::write(machine.sets().join("private/key"), "of root").unwrap();
    for path in ["private", "private/key"] {
        let mode = fs::Permissions::from_mode(0o700);
        fs::set_permissions(machine.sets().join(path), mode).unwrap();
    }
    let mounts = [("sets", "/workspace/data"), ("sets", "/mnt/deep/er/data")];
    let (first, second) = (mounting(&mounts), mounting(&mounts));
    for spec in [&first, &second] {
        bench.start(spec).await;
    }
    let look = r#"cat data/table.csv
cmp data/table.csv /mnt/deep/er/data/table.csv
! cat data/private/key 2>/dev/null
stat -c '%U %a' /workspace/data/table.csv /mnt/deep /mnt/deep/er
for f in data/new data/table.csv /mnt/deep/er/data/new; do
  if sudo sh -c "echo x >>$f" 2>/dev/null; then echo "WROTE $f"; fi
done
sudo rm -f data/table.csv 2>/dev/null || true
sudo chmod 777 data 2>/dev/null && echo CHANGED
sudo mount -o remount,rw,bind /workspace/data 2>/dev/null && echo REMOUNTED
sudo umount /workspace/data 2>/dev/null && echo UNMOUNTED
sudo umount -l /workspace/data 2>/dev/null && echo UNMOUNTED
sudo touch -d yesterday data/table.csv 2>/dev/null && echo TOUCHED
grep -c ' /workspace/data .*ro,.*nosuid,.*nodev' /proc/self/mountinfo
echo done"#;
    for spec in [&first, &second] {
        let seen = bench.sh(spec.id, look).await.passed();
        assert_eq!(
            seen, "a,b\n1,2\nroot 644\nroot 755\nroot 755\n1\ndone\n",
            "{seen}"
        );
    }
    // What the machine changes is seen.
    fs::write(machine.sets().join("later"), "news").unwrap();
    let seen = bench.sh(first.id, "cat /workspace/data/later").await;
    assert_eq!(seen.passed(), "news");
    for spec in [first, second] {
        bench.runtime.destroy(spec.id).await.unwrap();
    }
    bench.assert_clean().await;
    let text = fs::read_to_string(machine.sets().join("table.csv")).unwrap();
    assert_eq!(text, "a,b\n1,2\n");
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains("volumes-"), "{mounts}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_sandbox_writes_to_a_volume_belongs_to_its_owner_and_never_to_root() {
    let machine = Machine::new();
    let bench = &machine.bench;
    fs::write(machine.out().join("of-root"), "x").unwrap();
    fs::write(machine.out().join("of-owner"), "x").unwrap();
    chown(machine.out().join("of-owner"), Some(OWNER), Some(OWNER)).unwrap();
    let spec = mounting(&[("out", "/workspace/out")]);
    let id = bench.start(&spec).await;
    let script = r#"cd out; stat -c %U . of-owner
echo mine >mine; mkdir dir; echo more >>of-owner; mv of-owner moved
sudo sh -c 'echo x >by-root; cp /bin/bash shell; chmod 4755 shell'
cp /bin/bash own-shell; chmod 6755 own-shell
sudo -u nobody touch by-nobody 2>/dev/null && echo ANYBODY
sudo sh -c 'echo x >>of-root' 2>/dev/null && echo ROOTS
sudo chown root mine; sudo chown sandbox mine
stat -c '%U %n' by-root mine moved; ./shell -pc 'echo $EUID'
echo done"#;
    let seen = bench.sh(id, script).await.passed();
    assert_eq!(
        seen, "sandbox\nsandbox\nroot by-root\nsandbox mine\nsandbox moved\n1000\ndone\n",
        "set-user-ID counts for nothing"
    );
    bench.runtime.destroy(id).await.unwrap();
    let owner = |name: &str| {
        let found = fs::symlink_metadata(machine.out().join(name)).unwrap();
        (found.uid(), found.gid())
    };
    for name in ["mine", "dir", "moved", "own-shell"] {
        assert_eq!(owner(name), (OWNER, OWNER), "{name}");
    }
    for name in ["by-root", "shell"] {
        assert_eq!(owner(name), (2_000_000_000, 2_000_000_000), "{name}");
    }
    assert_eq!(owner("of-root"), (0, 0));
    assert_eq!(
        fs::read_to_string(machine.out().join("moved")).unwrap(),
        "xmore\n"
    );
    // The next sandbox, with another range of ids, sees the same owners.
    let spec = mounting(&[("out", "/mnt/again")]);
    let other = bench.start(&mounting(&[])).await;
    let id = bench.start(&spec).await;
    let look = "stat -c %U mine by-root; echo again >>mine; sudo sh -c 'echo again >>by-root'";
    let seen = bench.sh(id, &format!("cd /mnt/again; {look}")).await;
    assert_eq!(seen.passed(), "sandbox\nroot\n");
    for id in [id, other] {
        bench.runtime.destroy(id).await.unwrap();
    }
    bench.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn set_user_id_files_and_devices_in_a_volume_are_of_no_use() {
    let machine = Machine::new();
    let bench = &machine.bench;
    let made = Command::new("sh")
        .arg("-c")
        .arg("cp /bin/sh suid && chmod 4755 suid && mknod -m 666 null c 1 3 && mknod -m 666 disk b 7 0 && echo '#!/bin/sh\necho ran' >tool && chmod 755 tool")
        .current_dir(machine.sets())
        .status()
        .unwrap();
    assert!(made.success());
    let id = bench.start(&mounting(&[("sets", "/mnt/sets")])).await;
    let script = r#"cd /mnt/sets; ./tool; test -u suid && echo has the bit
cp /usr/bin/id /tmp/; ./suid -pc 'echo $(id -u)'
echo x 2>/dev/null >null || echo no device
sudo sh -c 'echo x >null' 2>/dev/null || echo no device for root
sudo head -c1 disk 2>/dev/null || echo no disk"#;
    let seen = bench.sh(id, script).await;
    assert_eq!(
        seen.stdout(),
        "ran\nhas the bit\n1000\nno device\nno device for root\nno disk\n"
    );
    bench.runtime.destroy(id).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_where_a_mount_belongs_leads_nowhere() {
    let machine = Machine::new();
    let bench = &machine.bench;
    let victim = machine.dir.path().join("victim");
    fs::create_dir(&victim).unwrap();
    // In an image: the directory itself, one above it, and one of the top.
    type Make = fn(&Path, &Path);
    let links: [(&str, &str, &str, Make); 4] = [
        (
            "a",
            "/workspace/data",
            "/workspace/data is a link",
            |dir, to| {
                fs::create_dir(dir.join("workspace")).unwrap();
                symlink(to, dir.join("workspace/data")).unwrap();
            },
        ),
        (
            "b",
            "/workspace/data",
            "/workspace/data is a link",
            |dir, _| {
                fs::create_dir(dir.join("workspace")).unwrap();
                symlink("/etc", dir.join("workspace/data")).unwrap();
            },
        ),
        (
            "c",
            "/workspace/data/set",
            "/workspace is a link",
            |dir, to| {
                symlink(to, dir.join("workspace")).unwrap();
            },
        ),
        ("d", "/mnt/data", "/mnt is a link", |dir, _| {
            symlink("../../../../etc", dir.join("mnt")).unwrap();
        }),
    ];
    for (letter, path, words, make) in links {
        let layer = layer(bench, letter, |dir| make(dir, &victim));
        let mut spec = mounting(&[("sets", path)]);
        spec.layers.push(layer);
        let text = refusal(bench.runtime.prepare(&spec).await);
        assert!(
            text.contains(words) && text.contains("volume:sets") && text.contains(path),
            "{text}"
        );
        bench.assert_clean().await;
    }
    // By a script, for the next start from what it left.
    let mut spec = mounting(&[]);
    spec.keep_disk = true;
    let id = bench.start(&spec).await;
    bench.sh(id, "ln -s /etc /workspace/data").await.passed();
    bench.runtime.suspend(id).await.unwrap();
    spec.mounts = mounting(&[("out", "/workspace/data")]).mounts;
    let text = refusal(bench.runtime.prepare(&spec).await);
    assert!(text.contains("/workspace/data is a link"), "{text}");
    // The disk is kept, and goes on without the mount.
    spec.mounts.clear();
    bench.start(&spec).await;
    let seen = bench
        .sh(id, "readlink /workspace/data; ls /etc/passwd")
        .await;
    assert_eq!(seen.passed(), "/etc\n/etc/passwd\n");
    bench.runtime.destroy(id).await.unwrap();
    assert_eq!(fs::read_dir(&victim).unwrap().count(), 0);
    assert_eq!(fs::read_dir(machine.out()).unwrap().count(), 0);
    bench.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mount_point_that_is_moved_away_takes_nothing_of_the_machine_along() {
    let machine = Machine::new();
    let bench = &machine.bench;
    let id = bench
        .start(&mounting(&[("out", "/workspace/a/data")]))
        .await;
    let script = "cd /workspace; echo x >a/data/kept; mv a b; ln -s / a; sudo rm -rf b 2>/dev/null || true\ntest -d b/data && echo busy\n";
    let ran = bench.script(id, script, HANGS).await.unwrap();
    assert_eq!(ran.passed(), "busy\n");
    let saved = bench.runtime.save_image(id).await.unwrap();
    bench.runtime.destroy(id).await.unwrap();
    bench.assert_clean().await;
    assert!(machine.out().is_dir());
    let layer = bench
        .layers()
        .join(saved.digest.strip_prefix("sha256:").unwrap());
    assert_eq!(
        fs::read_dir(layer.join("workspace/b/data"))
            .unwrap()
            .count(),
        0
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_saved_image_holds_nothing_of_a_mount_and_a_session_sees_it_again_after_each_stop() {
    let machine = Machine::new();
    let bench = &machine.bench;
    let mounts = [("sets", "/workspace/data"), ("out", "/mnt/out")];
    let id = bench.start(&mounting(&mounts)).await;
    let script = "cp data/table.csv own.csv\ncp own.csv /mnt/out/copy.csv\n";
    bench.script(id, script, HANGS).await.unwrap().passed();
    let saved = bench.runtime.save_image(id).await.unwrap();
    bench.runtime.destroy(id).await.unwrap();
    let layer = bench
        .layers()
        .join(saved.digest.strip_prefix("sha256:").unwrap());
    assert!(layer.join("workspace/own.csv").is_file());
    for place in ["workspace/data", "mnt/out"] {
        assert_eq!(
            fs::read_dir(layer.join(place)).unwrap().count(),
            0,
            "{place}"
        );
    }
    let session = SandboxSpec {
        layers: vec![saved.digest],
        keep_disk: true,
        ..mounting(&mounts)
    };
    for round in 0..2 {
        let id = bench.start(&session).await;
        let look = "cat own.csv data/table.csv /mnt/out/copy.csv; echo more >>/mnt/out/log";
        let seen = bench.sh(id, look).await.passed();
        assert_eq!(seen, "a,b\n1,2\n".repeat(3), "round {round}");
        bench.runtime.suspend(id).await.unwrap();
    }
    bench.runtime.destroy(session.id).await.unwrap();
    let log = fs::read_to_string(machine.out().join("log")).unwrap();
    assert_eq!(log, "more\nmore\n");
    bench.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_that_cannot_be_given_is_named() {
    let machine = Machine::new();
    let bench = &machine.bench;
    let text = refusal(
        bench
            .runtime
            .prepare(&mounting(&[("other", "/mnt/a")]))
            .await,
    );
    assert!(text.contains("volume:other any more"), "{text}");
    fs::remove_dir_all(machine.sets()).unwrap();
    chown(machine.out(), Some(0), Some(0)).unwrap();
    for name in ["sets", "out"] {
        let text = refusal(bench.runtime.prepare(&mounting(&[(name, "/mnt/a")])).await);
        assert!(
            text.contains(&format!("volume:{name}")) && text.contains("worker's log"),
            "{text}"
        );
        assert!(!text.contains("/var/lib"), "no path of the machine: {text}");
    }
    let failed: Vec<String> = bench
        .runtime
        .check()
        .await
        .into_iter()
        .filter(|check| check.state == execution::runtime::CheckState::Failed)
        .map(|check| format!("{}: {}", check.name, check.found))
        .collect();
    assert_eq!(failed.len(), 2, "{failed:?}");
    assert!(failed[0].starts_with("volume sets: "), "{failed:?}");
    assert!(failed[1].contains("belongs to root"), "{failed:?}");
    bench.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_read_only_and_stays_when_its_name_on_the_machine_goes() {
    let machine = Machine::new();
    let bench = &machine.bench;
    let file = machine.dir.path().join("fetched");
    fs::write(&file, "content").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).unwrap();
    let mut spec = mounting(&[]);
    spec.mounts = ["/workspace/model.bin", "/mnt/new/model.bin"]
        .map(|path| SandboxMount {
            source: MountSource::File {
                at: file.clone(),
                from: "https://example.com/model.bin".into(),
            },
            path: path.into(),
        })
        .to_vec();
    let id = bench.start(&spec).await;
    fs::remove_file(&file).unwrap();
    let script = r#"cat model.bin /mnt/new/model.bin; echo
stat -c '%U %a %s' model.bin
sudo sh -c 'echo x >model.bin' 2>/dev/null && echo WROTE
sudo rm model.bin 2>/dev/null && echo REMOVED
sudo chmod 666 model.bin 2>/dev/null && echo CHANGED
cp model.bin copy; echo done
"#;
    let seen = bench.sh(id, script).await;
    assert_eq!(seen.passed(), "contentcontent\nroot 444 7\ndone\n");
    let saved = bench.runtime.save_image(id).await.unwrap();
    bench.runtime.destroy(id).await.unwrap();
    let layer = bench
        .layers()
        .join(saved.digest.strip_prefix("sha256:").unwrap());
    assert_eq!(
        fs::read_to_string(layer.join("workspace/copy")).unwrap(),
        "content"
    );
    assert_eq!(
        fs::metadata(layer.join("workspace/model.bin"))
            .unwrap()
            .len(),
        0
    );
    // A directory is in the way of a file.
    fs::write(&file, "content").unwrap();
    spec.id = crate::support::new_id();
    spec.mounts.truncate(1);
    spec.layers.push(self::layer(bench, "e", |dir| {
        fs::create_dir_all(dir.join("workspace/model.bin")).unwrap();
    }));
    let text = refusal(bench.runtime.prepare(&spec).await);
    assert!(text.contains("https://example.com/model.bin"), "{text}");
    assert!(
        text.contains("/workspace/model.bin is not a file"),
        "{text}"
    );
    bench.assert_clean().await;
}
