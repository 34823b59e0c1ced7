//! A PostgreSQL server for the tests: the one that `GROUNDWORK_TEST_POSTGRES` names (a URL with the right to create
//! databases), or else a temporary one of this test process, gone when the process is.

#![allow(dead_code, reason = "shared by several test programs")]

use std::{
    fs,
    io::ErrorKind,
    net::TcpListener,
    os::unix::{
        fs::{MetadataExt, chown},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

/// URL of the server's maintenance database; keeps the process that stops a temporary server.
struct Server {
    url: String,
    _stopper: Option<Child>,
}

/// A new, empty database; its URL.
pub fn fresh_database() -> String {
    static SERVER: OnceLock<Server> = OnceLock::new();
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let server = SERVER.get_or_init(|| match std::env::var("GROUNDWORK_TEST_POSTGRES") {
        Ok(url) => Server {
            url,
            _stopper: None,
        },
        Err(_) => start(),
    });
    let name = format!(
        "groundwork_test_{}_{}",
        std::process::id(),
        NUMBER.fetch_add(1, Ordering::Relaxed)
    );
    query(&server.url, &format!("CREATE DATABASE {name}"));
    with_database(&server.url, &name)
}

/// Runs a statement from outside; what it printed.
pub fn query(url: &str, sql: &str) -> String {
    let psql = programs().map_or_else(|| PathBuf::from("psql"), |bin| bin.join("psql"));
    let output = succeed(
        Command::new(psql)
            .args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align"])
            .args(["--dbname", url, "--command", sql])
            .stdin(Stdio::null()),
    );
    String::from_utf8(output.stdout).unwrap()
}

/// The URL with another database.
pub fn with_database(url: &str, name: &str) -> String {
    let (base, query) = url
        .split_once('?')
        .map_or((url, None), |(b, q)| (b, Some(q)));
    let start = base.find("://").map_or(0, |at| at + 3);
    let end = base[start..].find('/').map_or(base.len(), |at| start + at);
    match query {
        Some(query) => format!("{}/{name}?{query}", &base[..end]),
        None => format!("{}/{name}", &base[..end]),
    }
}

fn start() -> Server {
    let bin = programs().expect(
        "PostgreSQL is not installed here: install it (Debian: the package postgresql), \
         or name a server in GROUNDWORK_TEST_POSTGRES",
    );
    let directory = tempfile::Builder::new()
        .prefix("groundwork-postgres-")
        .tempdir()
        .unwrap()
        .keep();
    let user = unprivileged();
    if let Some((uid, gid)) = user {
        chown(&directory, Some(uid), Some(gid)).unwrap();
    }
    let run = |program: &Path| {
        let mut command = Command::new(program);
        command.current_dir(&directory).stdin(Stdio::null());
        if let Some((uid, gid)) = user {
            command.uid(uid).gid(gid);
        }
        command
    };
    let password = directory.join("password");
    fs::write(&password, "test").unwrap();
    if let Some((uid, gid)) = user {
        chown(&password, Some(uid), Some(gid)).unwrap();
    }
    succeed(
        run(&bin.join("initdb"))
            .args(["--no-sync", "-E", "UTF8", "--locale=C", "-U", "groundwork"])
            .args(["-A", "scram-sha-256", "--pwfile"])
            .arg(&password)
            .arg("-D")
            .arg(directory.join("data")),
    );
    // A port that is free when asked for may be another's before the server has it: then the next one is tried.
    let port = (0..5)
        .find_map(|_| {
            let port = free_port();
            started(&run, &bin, &directory, port).then_some(port)
        })
        .expect("PostgreSQL starts");
    // Its standard input ends with this process, however this process ends.
    let stopper = run(Path::new("/bin/sh"))
        .arg("-c")
        .arg("read -r _; \"$0\" -m immediate -D \"$1/data\" stop; cd /; rm -rf \"$1\"")
        .arg(bin.join("pg_ctl"))
        .arg(&directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap();
    Server {
        url: format!("postgres://groundwork:test@127.0.0.1:{port}/postgres"),
        _stopper: Some(stopper),
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .unwrap()
        .port()
}

/// Starts the server on a port; whether it runs.
fn started(run: &dyn Fn(&Path) -> Command, bin: &Path, directory: &Path, port: u16) -> bool {
    let settings = format!(
        "-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories={} -c fsync=off \
         -c synchronous_commit=off -c full_page_writes=off -c max_connections=300",
        directory.display()
    );
    // The server must not inherit the pipes that a caller waits on: its words go to a file.
    run(&bin.join("pg_ctl"))
        .arg("-w")
        .arg("-D")
        .arg(directory.join("data"))
        .arg("-l")
        .arg(directory.join("log"))
        .args(["-o", &settings, "start"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap()
        .success()
}

/// The directory with `initdb` and `pg_ctl`: Debian's newest, or one on the PATH.
fn programs() -> Option<PathBuf> {
    let mut candidates: Vec<PathBuf> = match fs::read_dir("/usr/lib/postgresql") {
        Ok(versions) => versions
            .flatten()
            .map(|version| version.path().join("bin"))
            .collect(),
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        Err(error) => panic!("/usr/lib/postgresql cannot be read: {error}"),
    };
    candidates.sort();
    candidates.reverse();
    candidates.extend(std::env::split_paths(
        &std::env::var_os("PATH").unwrap_or_default(),
    ));
    candidates
        .into_iter()
        .find(|bin| bin.join("initdb").is_file() && bin.join("pg_ctl").is_file())
}

/// PostgreSQL refuses to run as root: then the user to run it as.
fn unprivileged() -> Option<(u32, u32)> {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").unwrap();
    let find = |name: &str| {
        users.lines().find_map(|line| {
            let mut fields = line.split(':');
            (fields.next()? == name).then_some(())?;
            let uid = fields.nth(1)?.parse().ok()?;
            Some((uid, fields.next()?.parse().ok()?))
        })
    };
    Some(
        find("postgres")
            .or_else(|| find("nobody"))
            .expect("running as root needs a user postgres or nobody for PostgreSQL"),
    )
}

fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?} failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    output
}
