//! A layer that holds everything odd, packed and unpacked again.

use std::{
    os::unix::fs::{MetadataExt, symlink},
    process::Command,
};

use super::{super::unpack::Unpacker, *};
use crate::shim::{copy, sys::set_attribute};

/// A saved layer as sandboxes make them.
fn layer(dir: &Path) {
    fs::create_dir_all(dir.join("etc/emptied")).unwrap();
    fs::write(dir.join("etc/file"), "text\n").unwrap();
    fs::hard_link(dir.join("etc/file"), dir.join("etc/second")).unwrap();
    symlink("file", dir.join("etc/link")).unwrap();
    fs::create_dir(dir.join(format!("etc/{}", "long".repeat(40)))).unwrap();
    fs::write(dir.join(format!("etc/{0}/{0}", "long".repeat(40))), "far").unwrap();
    let odd = std::ffi::OsStr::from_bytes(b"not-\xff-utf8");
    fs::write(dir.join(odd), "odd").unwrap();
    for (name, attribute, value) in [
        ("etc/emptied", c"trusted.overlay.opaque", "y"),
        ("etc/file", c"trusted.overlay.origin", "x"),
        ("etc/file", c"user.note", "kept"),
    ] {
        set_attribute(&dir.join(name), attribute, value.as_bytes()).unwrap();
    }
    for (program, args) in [
        ("mknod", vec!["etc/deleted", "c", "0", "0"]),
        ("mkfifo", vec!["etc/fifo"]),
        ("truncate", vec!["-s", "3M", "etc/sparse"]),
        ("chown", vec!["1000:1234", "etc/link", "-h"]),
        ("chmod", vec!["4755", "etc/file"]),
        ("touch", vec!["-d", "2001-02-03 04:05:06.789", "etc/file"]),
        ("touch", vec!["-d", "1960-02-03", "etc/sparse"]),
    ] {
        let status = Command::new(program).args(&args).current_dir(dir).status();
        assert!(status.unwrap().success(), "{program} {args:?}");
    }
}

use std::os::unix::ffi::OsStrExt;

fn contents(layers: Vec<PathBuf>) -> ImageContents {
    ImageContents {
        history: layers.iter().map(|_| "a layer".to_owned()).collect(),
        layers,
        created: "2026-01-02T03:04:05Z".to_owned(),
        labels: BTreeMap::new(),
        tag: "latest".to_owned(),
    }
}

fn every_file(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for name in ["index.json", "oci-layout"] {
        found.insert(PathBuf::from(name), fs::read(dir.join(name)).unwrap());
    }
    for entry in fs::read_dir(dir.join("blobs/sha256")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(dir).unwrap().to_owned();
        found.insert(name, fs::read(path).unwrap());
    }
    found
}

#[test]
fn exporting_twice_and_from_a_copy_gives_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let saved = dir.path().join("layer");
    layer(&saved);
    let image = contents(vec![saved.clone()]);
    let first = dir.path().join("first");
    let layout = image.export(&first, &mut |_| {}).unwrap();
    assert!(layout.left_out.is_empty(), "{:?}", layout.left_out);
    let copied = dir.path().join("copied");
    copy::tree(&saved, &copied, &mut |_| Ok(())).unwrap();
    let second = dir.path().join("second");
    let again = contents(vec![copied]).export(&second, &mut |_| {}).unwrap();
    assert_eq!(again, layout);
    assert_eq!(every_file(&first), every_file(&second));
    for (digest, size) in &layout.blobs {
        let blob = fs::read(blob_path(&first, digest)).unwrap();
        assert_eq!(blob.len() as u64, *size);
        assert_eq!(
            *digest,
            format!("sha256:{}", hex::encode(Sha256::digest(blob)))
        );
    }
    let archives: Vec<Vec<u8>> = ["a.tar", "b.tar"]
        .into_iter()
        .map(|name| {
            let path = dir.path().join(name);
            image.export(&path, &mut |_| {}).unwrap();
            fs::read(path).unwrap()
        })
        .collect();
    assert_eq!(archives[0], archives[1]);
    let refused = image.export(&first, &mut |_| {}).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(
        fs::read_dir(dir.path()).unwrap().count(),
        6,
        "nothing half-made is left"
    );
}

#[test]
fn an_exported_layer_says_what_the_saved_one_says() {
    let dir = tempfile::tempdir().unwrap();
    let (base, saved) = (dir.path().join("base"), dir.path().join("layer"));
    fs::create_dir_all(base.join("etc/emptied")).unwrap();
    fs::write(base.join("etc/emptied/old"), "x").unwrap();
    fs::write(base.join("etc/deleted"), "x").unwrap();
    layer(&saved);
    let out = dir.path().join("layout");
    let layout = contents(vec![base, saved])
        .export(&out, &mut |_| {})
        .unwrap();
    let root = dir.path().join("root");
    fs::create_dir(&root).unwrap();
    let mut unpacker = Unpacker::new(&root).unwrap();
    for (digest, _) in &layout.blobs[..2] {
        let file = File::open(blob_path(&out, digest)).unwrap();
        unpacker
            .layer(flate2::read::MultiGzDecoder::new(file))
            .unwrap();
    }
    assert!(!root.join("etc/deleted").exists());
    assert_eq!(fs::read_dir(root.join("etc/emptied")).unwrap().count(), 0);
    let file = fs::metadata(root.join("etc/file")).unwrap();
    assert_eq!((file.nlink(), file.mode() & 0o7777), (2, 0o4755));
    let names: Vec<_> = copy::kept_attributes(&root.join("etc/file"))
        .unwrap()
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(names, ["user.note"]);
    let link = fs::symlink_metadata(root.join("etc/link")).unwrap();
    assert_eq!((link.uid(), link.gid()), (1000, 1234));
    let sparse = fs::metadata(root.join("etc/sparse")).unwrap();
    assert_eq!((sparse.len(), sparse.blocks()), (3 << 20, 0));
    let far = root.join(format!("etc/{0}/{0}", "long".repeat(40)));
    assert_eq!(fs::read_to_string(far).unwrap(), "far");
    let odd = root.join(std::ffi::OsStr::from_bytes(b"not-\xff-utf8"));
    assert_eq!(fs::read_to_string(odd).unwrap(), "odd");
    // GNU tar reads it, too, with the fractions of seconds.
    let listing = Command::new("tar")
        .args(["--full-time", "-tvzf"])
        .arg(blob_path(&out, &layout.blobs[1].0))
        .env("TZ", "UTC")
        .output()
        .unwrap();
    let listing = String::from_utf8_lossy(&listing.stdout).into_owned();
    assert!(listing.contains("2001-02-03 04:05:06.789"), "{listing}");
    assert!(
        listing.contains("etc/.wh.deleted") && listing.contains("etc/emptied/.wh..wh..opq"),
        "{listing}"
    );
}

#[test]
fn a_file_whose_name_would_hide_others_is_left_out_and_named() {
    let dir = tempfile::tempdir().unwrap();
    let saved = dir.path().join("layer");
    fs::create_dir_all(saved.join("etc")).unwrap();
    fs::write(saved.join("etc/.wh.passwd"), "").unwrap();
    fs::create_dir(saved.join(".wh..wh..opq")).unwrap();
    let layout = contents(vec![saved])
        .export(&dir.path().join("layout"), &mut |_| {})
        .unwrap();
    assert_eq!(
        layout.left_out,
        [
            PathBuf::from(".wh..wh..opq"),
            PathBuf::from("etc/.wh.passwd")
        ]
    );
}

#[test]
fn an_export_into_a_directory_of_others_takes_nothing_over_and_lets_nobody_in() {
    let dir = tempfile::tempdir().unwrap();
    let theirs = dir.path().join("theirs");
    fs::create_dir(&theirs).unwrap();
    fs::write(theirs.join("file"), "untouched").unwrap();
    // What one could guess, laid out before.
    let guessed = dir.path().join("shared");
    fs::create_dir(&guessed).unwrap();
    for name in [
        format!(".groundwork-image.{}.partial", std::process::id()),
        ".groundwork-image.partial.XXXXXX".to_owned(),
        ".groundwork-image.partial".to_owned(),
    ] {
        symlink(&theirs, guessed.join(name)).unwrap();
    }
    let before = fs::read_dir(&guessed).unwrap().count();
    let names: Vec<PathBuf> = (0..3)
        .map(|_| {
            let work = Scratch::new(&guessed).unwrap();
            let meta = fs::symlink_metadata(&work.path).unwrap();
            assert!(meta.is_dir());
            assert_eq!(meta.mode() & 0o7777, 0o700);
            work.path.clone()
        })
        .collect();
    assert!(names[0] != names[1] && names[1] != names[2], "{names:?}");
    let saved = dir.path().join("layer");
    fs::create_dir(&saved).unwrap();
    contents(vec![saved])
        .export(&guessed.join("image"), &mut |_| {})
        .unwrap();
    assert_eq!(
        fs::read_dir(&guessed).unwrap().count(),
        before + 1,
        "nothing is left but the image"
    );
    assert_eq!(fs::read_dir(&theirs).unwrap().count(), 1);
    assert_eq!(
        fs::read_to_string(theirs.join("file")).unwrap(),
        "untouched"
    );
}

#[test]
fn what_a_killed_process_left_of_an_image_is_cleared_and_what_is_worked_on_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let worked_on = Scratch::new(dir.path()).unwrap();
    let left = dir.path().join(".groundwork-image.partial.aaaaaa");
    fs::create_dir_all(left.join("image/rootfs")).unwrap();
    fs::create_dir(dir.path().join("an-image")).unwrap();
    assert_eq!(Scratch::clear(dir.path()).unwrap(), [left]);
    assert!(worked_on.path.exists() && dir.path().join("an-image").exists());
    assert_eq!(Scratch::clear(dir.path()).unwrap(), [] as [PathBuf; 0]);
}
