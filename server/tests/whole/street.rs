//! A street: two network namespaces of the test's own, one with the machine that runs sandboxes and one with servers that
//! these reach by name, and nothing else. The gateway and the clients are the real ones; only the names lead here.

use std::{
    collections::HashMap,
    fs,
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, Sender, channel},
    },
    thread,
};

use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
};

/// Where all its servers are; the product is told to open this network.
const ADDRESS: &str = "10.99.0.1";
/// The machine's address on the street.
const MACHINE: &str = "10.99.0.2";
/// What the settings file says of it.
pub const SETTINGS: &str =
    "\n[sandbox]\nopen_networks = [\"10.99.0.0/16\"]\nca_certificates = []\n";

/// Called before an answer is given.
pub type Gate = Arc<dyn Fn() + Send + Sync>;

/// Servers by host name: each a directory of files.
#[derive(Clone)]
pub struct Street {
    dir: PathBuf,
    asked: Arc<Mutex<Vec<String>>>,
    gates: Arc<Mutex<HashMap<String, Gate>>>,
}

impl Street {
    /// Directory of a host's files.
    pub fn host(&self, host: &str) -> PathBuf {
        let dir = self.dir.join(host);
        fs::create_dir_all(&dir).unwrap();
        dir
    }

    /// Writes a file of a host.
    pub fn put(&self, host: &str, path: &str, bytes: impl AsRef<[u8]>) {
        let path = self.host(host).join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// Has every request to a host wait for this first.
    pub fn gate(&self, host: &str, gate: impl Fn() + Send + Sync + 'static) {
        let mut gates = self.gates.lock().unwrap();
        gates.insert(host.to_owned(), Arc::new(gate));
    }

    /// How often a host was asked for anything.
    pub fn asked(&self, host: &str) -> usize {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|name| *name == host).count()
    }

    /// Makes a namespace, waits until it is joined to the street, and serves from it.
    fn stand(&self, place: &Sender<String>, join: &Receiver<()>, opened: &Sender<()>) {
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        let (process, thread) = (std::process::id(), nix::unistd::gettid());
        let namespace = format!("/proc/{process}/task/{thread}/ns/net");
        place.send(namespace).unwrap();
        join.recv().unwrap();
        ip(&[
            "link set lo up".to_owned(),
            format!("addr add {ADDRESS}/24 dev house0"),
            "link set house0 up".to_owned(),
        ]);
        self.serve();
        opened.send(()).unwrap();
    }

    fn serve(&self) {
        let listener = TcpListener::bind((ADDRESS, 80)).unwrap();
        let street = self.clone();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let street = street.clone();
                thread::spawn(move || street.answer(&stream));
            }
        });
    }

    /// One request a connection; who goes away is no concern of ours.
    fn answer(&self, stream: &TcpStream) -> Option<()> {
        let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
        let request = lines.next()?;
        let heads: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
        let host = heads.iter().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("host").then(|| value.trim())
        })?;
        self.asked.lock().unwrap().push(host.to_owned());
        let gate = self.gates.lock().unwrap().get(host).cloned();
        if let Some(gate) = gate {
            gate();
        }
        let (method, target) = request.split_once(' ')?;
        let path = target.split([' ', '?']).next()?.trim_start_matches('/');
        let found = if path.contains("..") {
            None
        } else {
            read(&self.dir.join(host).join(path))
        };
        let (status, kind, bytes) = match found {
            Some((kind, bytes)) => ("200 OK", kind, bytes),
            None => ("404 Not Found", "text/plain", b"not here\n".to_vec()),
        };
        let moved = fs::read_to_string(self.dir.join(host).join(format!("{path}.moved")));
        let (status, more) = match moved {
            Ok(to) => ("302 Found", format!("location: {to}\r\n")),
            Err(_) => (status, String::new()),
        };
        let mut out = stream;
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n{more}connection: close\r\n\r\n",
            bytes.len()
        );
        out.write_all(head.as_bytes()).ok()?;
        if method != "HEAD" {
            out.write_all(&bytes).ok()?;
        }
        Some(())
    }
}

/// A file, or a directory's index, with its media type.
fn read(path: &Path) -> Option<(&'static str, Vec<u8>)> {
    let path = if path.is_dir() {
        ["index.html", "index.json"]
            .map(|name| path.join(name))
            .into_iter()
            .find(|index| index.is_file())?
    } else {
        path.to_owned()
    };
    let kind = match path.extension().and_then(|extension| extension.to_str()) {
        Some("html") => "text/html",
        Some("json") => "application/json",
        _ => "application/octet-stream",
    };
    Some((kind, fs::read(path).ok()?))
}

/// Runs `work` on a street on which these names are known. What it starts (threads, programs) stands there too.
pub fn on_a_street(names: &[&str], work: impl FnOnce(&Street) + Send + 'static) {
    assert!(
        nix::unistd::geteuid().is_root(),
        "these tests make sandboxes and must run as root"
    );
    let dir = tempfile::tempdir().unwrap();
    let mut hosts = "127.0.0.1 localhost\n".to_owned();
    for name in names {
        hosts.push_str(&format!("{ADDRESS} {name}\n"));
    }
    let table = dir.path().join("hosts");
    fs::write(&table, hosts).unwrap();
    let street = Street {
        dir: dir.path().join("street"),
        asked: Arc::default(),
        gates: Arc::default(),
    };
    // Namespaces are a thread's own: the other tests of this process stay where they are.
    let living = thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS).unwrap();
        let none: Option<&str> = None;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_SLAVE, none).unwrap();
        mount(Some(&table), "/etc/hosts", none, MsFlags::MS_BIND, none).unwrap();
        let (place, placed) = channel();
        let (joined, join) = channel();
        let (opened, open) = channel();
        let far = street.clone();
        thread::spawn(move || far.stand(&place, &join, &opened));
        let namespace: String = placed.recv().unwrap();
        ip(&[
            "link set lo up".to_owned(),
            format!("link add street0 type veth peer name house0 netns {namespace}"),
            format!("addr add {MACHINE}/24 dev street0"),
            "link set street0 up".to_owned(),
        ]);
        joined.send(()).unwrap();
        open.recv().unwrap();
        work(&street);
    });
    if let Err(panic) = living.join() {
        std::panic::resume_unwind(panic);
    }
    drop(dir);
}

/// Changes the network of the thread's namespace.
fn ip(lines: &[String]) {
    for line in lines {
        run(Command::new("ip").args(line.split(' ')));
    }
}

/// Runs a program of this machine that succeeds.
pub fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}
