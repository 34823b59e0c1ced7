//! Hostile and honest layers.

use std::os::unix::fs::MetadataExt;

use tar::{Builder, Header};

use super::*;

/// A layer under construction.
struct Layer(Builder<Vec<u8>>);

impl Layer {
    fn new() -> Self {
        Self(Builder::new(Vec::new()))
    }

    /// An entry whose name is written as it is, however odd.
    fn raw(mut self, kind: EntryType, name: &str, link: &str, data: &[u8], uid: u64) -> Self {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(0o4755);
        header.set_uid(uid);
        header.set_gid(0);
        header.set_mtime(1_000_000);
        header.set_size(data.len() as u64);
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.as_old_mut().linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_cksum();
        self.0.append(&header, data).unwrap();
        self
    }

    fn file(self, name: &str, data: &str) -> Self {
        self.raw(EntryType::Regular, name, "", data.as_bytes(), 0)
    }

    fn dir(self, name: &str) -> Self {
        self.raw(EntryType::Directory, name, "", b"", 0)
    }

    fn link(self, kind: EntryType, name: &str, to: &str) -> Self {
        self.raw(kind, name, to, b"", 0)
    }

    fn symlink(self, name: &str, to: &str) -> Self {
        self.link(EntryType::Symlink, name, to)
    }

    fn attribute(mut self, name: &str, value: &[u8]) -> Self {
        self.0.append_pax_extensions([(name, value)]).unwrap();
        self
    }

    fn bytes(self) -> Vec<u8> {
        self.0.into_inner().unwrap()
    }
}

/// A place to unpack into, with something beside it that must stay as it is.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("root")).unwrap();
        fs::create_dir(dir.path().join("outside")).unwrap();
        fs::write(dir.path().join("outside/secret"), "untouched").unwrap();
        Self { dir }
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("root")
    }

    fn unpack(&self, layers: Vec<Layer>) -> io::Result<Unpacker> {
        let mut unpacker = Unpacker::new(&self.root())?;
        for layer in layers {
            unpacker.layer(&layer.bytes()[..])?;
        }
        Ok(unpacker)
    }

    fn untouched(&self) {
        let outside = self.dir.path().join("outside");
        assert_eq!(
            fs::read_to_string(outside.join("secret")).unwrap(),
            "untouched"
        );
        let meta = fs::metadata(outside.join("secret")).unwrap();
        assert_eq!((meta.nlink(), meta.mode() & 0o7000), (1, 0));
        assert_eq!(fs::read_dir(outside).unwrap().count(), 1);
        assert_eq!(fs::read_dir(self.dir.path()).unwrap().count(), 2);
    }
}

#[test]
fn nothing_outside_the_directory_is_touched_whatever_the_entries_say() {
    let outside = |place: &Place| place.dir.path().join("outside").display().to_string();
    type Attack = fn(String) -> Vec<Layer>;
    let attacks: Vec<(&str, Attack)> = vec![
        ("a path with ..", |_| {
            vec![Layer::new().file("../outside/new", "x")]
        }),
        ("a path with .. in the middle", |_| {
            vec![Layer::new().file("a/../../outside/new", "x")]
        }),
        ("an absolute path", |outside| {
            vec![Layer::new().file(&format!("{outside}/new"), "x")]
        }),
        ("a file through an absolute symlink", |outside| {
            vec![Layer::new().symlink("a", &outside).file("a/new", "x")]
        }),
        ("a file through a relative symlink", |_| {
            vec![Layer::new().symlink("a", "../outside").file("a/new", "x")]
        }),
        ("a file over a symlink", |outside| {
            vec![
                Layer::new()
                    .symlink("a", &format!("{outside}/secret"))
                    .file("a", "x"),
            ]
        }),
        ("a symlink of an earlier layer", |outside| {
            vec![
                Layer::new().symlink("a", &outside),
                Layer::new().dir("a/b").file("a/secret", "x"),
            ]
        }),
        ("a hard link to the outside", |outside| {
            vec![Layer::new().link(EntryType::Link, "a", &format!("{outside}/secret"))]
        }),
        ("a hard link with ..", |_| {
            vec![Layer::new().link(EntryType::Link, "a", "../outside/secret")]
        }),
        ("a hard link through a symlink", |outside| {
            vec![
                Layer::new()
                    .symlink("s", &outside)
                    .link(EntryType::Link, "a", "s/secret"),
            ]
        }),
        ("a hard link to a symlink, written through", |outside| {
            vec![
                Layer::new()
                    .symlink("s", &format!("{outside}/secret"))
                    .link(EntryType::Link, "a", "s")
                    .file("a", "x"),
            ]
        }),
        ("a whiteout through a symlink", |outside| {
            vec![
                Layer::new().symlink("a", &outside),
                Layer::new().file("a/.wh.secret", ""),
            ]
        }),
        ("an opaque marker through a symlink", |outside| {
            vec![
                Layer::new().symlink("a", &outside),
                Layer::new().file("a/.wh..wh..opq", ""),
            ]
        }),
        ("a whiteout of ..", |_| {
            vec![Layer::new().dir("a").file("a/.wh...", "")]
        }),
        ("a whiteout of .", |_| {
            vec![Layer::new().dir("a").file("a/.wh..", "")]
        }),
        ("a directory over a symlink, with a mode", |outside| {
            vec![
                Layer::new()
                    .symlink("a", &outside)
                    .dir("a")
                    .file("a/new", "x"),
            ]
        }),
        ("a symlink to a process's root", |_| {
            vec![
                Layer::new()
                    .symlink("a", "/proc/self/root")
                    .file("a/tmp/groundwork-escape", "x"),
            ]
        }),
    ];
    for (name, attack) in attacks {
        let place = Place::new();
        let layers = attack(outside(&place));
        // Refused, or done inside: both are fine.
        let _ = place.unpack(layers);
        place.untouched();
        assert!(!Path::new("/tmp/groundwork-escape").exists(), "{name}");
    }
}

#[test]
fn ids_of_the_host_device_nodes_and_trusted_attributes_do_not_come_in() {
    let place = Place::new();
    for uid in [65_536, 200_000, u64::from(u32::MAX)] {
        let layer = Layer::new().raw(EntryType::Regular, "a", "", b"", uid);
        assert!(place.unpack(vec![layer]).is_err(), "{uid}");
    }
    let capability = {
        let mut value = vec![1, 0, 0, 2];
        value.resize(20, 0);
        value
    };
    let mut foreign = vec![1, 0, 0, 3];
    foreign.resize(24, 0);
    let layer = Layer::new()
        .link(EntryType::Char, "null", "")
        .link(EntryType::Block, "disk", "")
        .attribute("SCHILY.xattr.trusted.overlay.redirect", b"/etc")
        .file("redirected", "x")
        .attribute("SCHILY.xattr.trusted.overlay.opaque", b"y")
        .dir("opaque")
        .attribute("SCHILY.xattr.security.capability", &foreign)
        .file("of-another-namespace", "x")
        .attribute("SCHILY.xattr.security.capability", &capability)
        .file("capable", "x");
    let unpacker = place.unpack(vec![layer]).unwrap();
    assert_eq!(unpacker.devices, 2);
    assert!(!place.root().join("null").exists());
    let names = |name: &str| {
        crate::shim::copy::kept_attributes(&place.root().join(name))
            .unwrap()
            .into_iter()
            .map(|(name, _)| name.into_string().unwrap())
            .collect::<Vec<_>>()
    };
    assert!(names("redirected").is_empty());
    assert!(names("opaque").is_empty());
    assert!(names("of-another-namespace").is_empty());
    assert_eq!(names("capable"), ["security.capability"]);
}

/// A header as it is in an archive, whatever its size says.
fn head(kind: EntryType, size: u64, change: impl FnOnce(&mut Header)) -> Vec<u8> {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_path("name").unwrap();
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(size);
    change(&mut header);
    header.set_cksum();
    header.as_bytes().to_vec()
}

/// A file that holds nothing and appears to be of this size.
fn hole(size: u64) -> Vec<u8> {
    head(EntryType::GNUSparse, 0, |header| {
        let gnu = header.as_gnu_mut().unwrap();
        let number = |field: &mut [u8; 12], value: u64| {
            // As GNU tar writes what does not fit as text.
            *field = [0; 12];
            field[0] = 0x80;
            field[4..].copy_from_slice(&value.to_be_bytes());
        };
        number(&mut gnu.realsize, size);
        number(&mut gnu.sparse[0].offset, size);
        number(&mut gnu.sparse[0].numbytes, 0);
    })
}

#[test]
fn what_is_small_on_its_way_and_endless_here_is_refused_at_once() {
    const ENDLESS: u64 = 1 << 40;
    let (headers, file) = (HEADERS_MAX, FILE_MAX);
    let attacks: Vec<(&str, Vec<u8>, &str)> = vec![
        (
            "attributes",
            head(EntryType::XHeader, ENDLESS, |_| ()),
            "headers",
        ),
        (
            "attributes for all",
            head(EntryType::XGlobalHeader, ENDLESS, |_| ()),
            "GiB",
        ),
        (
            "a long name",
            head(EntryType::GNULongName, ENDLESS, |_| ()),
            "headers",
        ),
        (
            "a long link",
            head(EntryType::GNULongLink, ENDLESS, |_| ()),
            "headers",
        ),
        (
            "a name just too long",
            head(EntryType::GNULongName, headers, |_| ()),
            "headers",
        ),
        ("a file of holes", hole(1 << 60), "GiB"),
        (
            "a file of zeros",
            head(EntryType::Regular, file + 1, |_| ()),
            "GiB",
        ),
        (
            "a directory with contents",
            head(EntryType::Directory, ENDLESS, |_| ()),
            "GiB",
        ),
        (
            "a link with contents",
            head(EntryType::Symlink, ENDLESS, |_| ()),
            "GiB",
        ),
    ];
    for (name, archive, words) in attacks {
        let place = Place::new();
        let mut unpacker = Unpacker::new(&place.root()).unwrap();
        let mut read = 0_u64;
        let bomb = Counted(Read::chain(&archive[..], io::repeat(0)), &mut read);
        let refused = unpacker.layer(bomb).unwrap_err();
        assert_eq!(
            refused.kind(),
            io::ErrorKind::InvalidData,
            "{name}: {refused}"
        );
        assert!(refused.to_string().contains(words), "{name}: {refused}");
        assert!(read < 4 << 20, "{name}: {read} bytes were read");
        place.untouched();
    }
}

/// Counts what is read.
struct Counted<'a, R>(R, &'a mut u64);

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.0.read(buffer)?;
        *self.1 += count as u64;
        Ok(count)
    }
}

#[test]
fn holes_of_many_files_are_counted_together() {
    let place = Place::new();
    let mut unpacker = Unpacker::new(&place.root()).unwrap();
    unpacker.left = 10 << 20;
    let archive = hole(4 << 20).repeat(3);
    let refused = unpacker.layer(&archive[..]).unwrap_err();
    assert!(refused.to_string().contains("unpacked"), "{refused}");
    let mut unpacker = Unpacker::new(&place.root()).unwrap();
    unpacker.left = 12 << 20;
    unpacker.layer(&archive[..]).unwrap();
    let meta = fs::metadata(place.root().join("name")).unwrap();
    assert_eq!((meta.len(), meta.blocks()), (4 << 20, 0));
}

#[test]
fn entries_without_contents_count_as_what_they_take_on_the_disk() {
    let place = Place::new();
    let mut layer = Layer::new();
    for number in 0..100 {
        layer = layer.dir(&format!("d{number}"));
        layer = layer.file(&format!("f{number}"), "x");
    }
    // The first entry made it look, and it has counted from there.
    let counted = place.unpack(vec![layer]).unwrap().unlooked;
    assert_eq!(counted, ENTRY * (199 + 100));
}

#[test]
fn layers_lie_over_each_other_with_whiteouts_and_opaque_directories() {
    let place = Place::new();
    let base = Layer::new()
        .dir("usr")
        .dir("usr/lib")
        .symlink("lib", "usr/lib")
        .file("gone", "x")
        .dir("emptied")
        .file("emptied/old", "x")
        .file("replaced", "old")
        .link(EntryType::Link, "twin", "replaced")
        .dir("becomes-file")
        .file("becomes-file/x", "x");
    let above = Layer::new()
        .file(".wh.gone", "")
        .file("emptied/new", "y")
        .file("emptied/.wh..wh..opq", "")
        .file("lib/through-link", "z")
        .file("replaced", "new")
        .file(".wh.replaced", "")
        .file("becomes-file", "f");
    place.unpack(vec![base, above]).unwrap();
    let read = |name: &str| fs::read_to_string(place.root().join(name)).ok();
    assert_eq!(read("gone"), None);
    assert_eq!(
        (read("emptied/old"), read("emptied/new").as_deref()),
        (None, Some("y"))
    );
    assert_eq!(read("usr/lib/through-link").as_deref(), Some("z"));
    assert_eq!(
        read("replaced").as_deref(),
        Some("new"),
        "a layer does not hide its own"
    );
    assert_eq!(read("twin").as_deref(), Some("old"));
    assert_eq!(read("becomes-file").as_deref(), Some("f"));
    let meta = fs::metadata(place.root().join("twin")).unwrap();
    assert_eq!((meta.mode() & 0o7777, meta.mtime()), (0o4755, 1_000_000));
}

#[test]
fn what_sandboxes_need_is_made_or_named() {
    let place = Place::new();
    let bare = place
        .unpack(vec![Layer::new().file("bin/bash", "x")])
        .unwrap();
    let why = super::super::needs::prepare(&bare).unwrap_err().to_string();
    assert!(why.contains("sudo"), "{why}");
    let image = place
        .unpack(vec![
            Layer::new()
                .file("usr/bin/bash", "x")
                .symlink("bin", "usr/bin")
                .file("usr/bin/sudo", "x")
                .symlink("proc", "/etc")
                .symlink("workspace", "/etc")
                .file(
                    "etc/passwd",
                    "root:x:0:0::/root:/bin/sh\nubuntu:x:1000:1000::/home/ubuntu:/bin/sh\n",
                )
                .file("etc/group", "root:x:0:\nubuntu:x:1000:\nusers:x:100:\n"),
        ])
        .unwrap();
    let made = super::super::needs::prepare(&image).unwrap();
    assert_eq!(
        made,
        ["made the user sandbox (1000), which takes the place of ubuntu"]
    );
    assert!(super::super::needs::prepare(&image).unwrap().is_empty());
    let passwd = image.text("etc/passwd").unwrap();
    assert_eq!(
        passwd,
        "root:x:0:0::/root:/bin/sh\nsandbox:x:1000:1000::/home/sandbox:/bin/bash\n"
    );
    assert_eq!(
        image.text("etc/group").unwrap(),
        "root:x:0:\nusers:x:100:\nsandbox:x:1000:\n"
    );
    let workspace = fs::metadata(place.root().join("workspace")).unwrap();
    assert_eq!(workspace.uid(), 1000);
}
