use std::os::unix::fs::PermissionsExt;

use super::*;

fn copy(from: &Path, to: &Path) -> io::Result<Copied> {
    tree(from, to, &mut |_| Ok(()))
}

fn sample(dir: &Path) -> PathBuf {
    let root = dir.join("root");
    fs::create_dir_all(root.join("a/b")).unwrap();
    fs::write(root.join("a/file"), "content").unwrap();
    fs::hard_link(root.join("a/file"), root.join("a/b/linked")).unwrap();
    symlink("../nowhere", root.join("a/link")).unwrap();
    fs::write(
        root.join(OsString::from_vec(b"not-\xff-utf8".to_vec())),
        "x",
    )
    .unwrap();
    settle(&root);
    root
}

/// Gives everything the same time, so that trees made one after the other are equal.
fn settle(root: &Path) {
    let status = std::process::Command::new("find")
        .arg(root)
        .args(["-exec", "touch", "-h", "-d", "2020-01-01", "{}", "+"])
        .status();
    assert!(status.unwrap().success());
}

#[test]
fn the_same_tree_has_the_same_digest_wherever_it_lies() {
    let dir = tempfile::tempdir().unwrap();
    let root = sample(dir.path());
    let first = copy(&root, &dir.path().join("one")).unwrap();
    let second = copy(&dir.path().join("one"), &dir.path().join("two")).unwrap();
    assert_eq!(first, second);
    assert_eq!(first.bytes, 8);
    let inode = |path: &str| {
        fs::metadata(dir.path().join("two").join(path))
            .unwrap()
            .ino()
    };
    assert_eq!(inode("a/file"), inode("a/b/linked"));
}

#[test]
fn every_difference_changes_the_digest() {
    let dir = tempfile::tempdir().unwrap();
    let plain = {
        let root = sample(&dir.path().join("plain"));
        copy(&root, &dir.path().join("plain-copy")).unwrap().digest
    };
    type Change = fn(&Path);
    let changes: [(&str, Change); 7] = [
        ("content", |root| {
            fs::write(root.join("a/file"), "c0ntent").unwrap()
        }),
        ("mode", |root| {
            fs::set_permissions(root.join("a/file"), fs::Permissions::from_mode(0o4755)).unwrap();
        }),
        ("owner", |root| {
            std::os::unix::fs::lchown(root.join("a/link"), Some(1), None).unwrap()
        }),
        ("name", |root| {
            fs::rename(root.join("a/b"), root.join("a/c")).unwrap()
        }),
        ("link's target", |root| {
            fs::remove_file(root.join("a/link")).unwrap();
            symlink("elsewhere", root.join("a/link")).unwrap();
        }),
        ("a link that is a copy", |root| {
            fs::remove_file(root.join("a/b/linked")).unwrap();
            fs::copy(root.join("a/file"), root.join("a/b/linked")).unwrap();
        }),
        ("length by a hole", |root| {
            OpenOptions::new()
                .write(true)
                .open(root.join("a/file"))
                .unwrap()
                .set_len(5000)
                .unwrap();
        }),
    ];
    for (number, (what, change)) in changes.into_iter().enumerate() {
        let root = sample(&dir.path().join(number.to_string()));
        change(&root);
        settle(&root);
        let changed = copy(&root, &dir.path().join(format!("{number}-copy")))
            .unwrap()
            .digest;
        assert_ne!(changed, plain, "{what}");
    }
}

#[test]
fn how_a_file_was_laid_out_does_not_matter_and_zeroes_become_holes() {
    let dir = tempfile::tempdir().unwrap();
    let mut digests = Vec::new();
    for written in [true, false] {
        let root = dir.path().join(written.to_string());
        fs::create_dir(&root).unwrap();
        let file = File::create(root.join("file")).unwrap();
        if written {
            file.write_all_at(&vec![0; 3 << 20], 0).unwrap();
        }
        file.write_all_at(b"end", (3 << 20) - 3).unwrap();
        drop(file);
        settle(&root);
        let target = dir.path().join(format!("{written}-copy"));
        let copied = copy(&root, &target).unwrap();
        assert_eq!(copied.bytes, 4096);
        let meta = fs::metadata(target.join("file")).unwrap();
        assert_eq!(meta.len(), 3 << 20);
        assert!(meta.blocks() * 512 <= 16 * 1024, "{}", meta.blocks());
        digests.push(copied.digest);
    }
    assert_eq!(digests[0], digests[1]);
}

#[test]
fn sockets_are_left_out_and_pipes_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    fs::create_dir(&root).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
    nix::unistd::mkfifo(&root.join("fifo"), Mode::from_bits_truncate(0o640)).unwrap();
    copy(&root, &dir.path().join("copy")).unwrap();
    let names: Vec<_> = fs::read_dir(dir.path().join("copy"))
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert_eq!(names, ["fifo"]);
}

#[test]
fn a_copy_tells_what_it_takes_and_ends_when_there_is_no_room_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    fs::create_dir(&root).unwrap();
    for name in ["a", "b", "c"] {
        fs::write(root.join(name), vec![b'x'; 3 * CHUNK]).unwrap();
    }
    let mut told = 0;
    let copied = tree(&root, &dir.path().join("whole"), &mut |bytes| {
        told += bytes;
        Ok(())
    });
    let copied = copied.unwrap();
    assert_eq!(told, copied.bytes + 3 * PAGE as u64);
    let mut left = 4 * CHUNK as u64;
    let ended = tree(&root, &dir.path().join("part"), &mut |bytes| {
        left = left
            .checked_sub(bytes)
            .ok_or_else(|| io::Error::from_raw_os_error(libc::ENOSPC))?;
        Ok(())
    });
    assert_eq!(ended.unwrap_err().raw_os_error(), Some(libc::ENOSPC));
    assert!(!dir.path().join("part/c").exists());
}
