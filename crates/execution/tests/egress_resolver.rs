//! The host's own resolver, as the gateway asks it. Needs root.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{
    net::UdpSocket,
    path::Path,
    process::Command,
    sync::{Arc, Mutex},
    thread,
};

use execution::egress::{Resolver, SystemResolver};
use hickory_proto::{
    op::{Message, ResponseCode},
    rr::{RData, Record, RecordType, rdata::A},
};
use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
};

/// A name server on this address that knows one host, and remembers what it was asked.
fn name_server(address: &str) -> Arc<Mutex<Vec<String>>> {
    let socket = UdpSocket::bind(address).unwrap();
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = asked.clone();
    thread::spawn(move || {
        let mut buffer = [0; 4_096];
        while let Ok((length, client)) = socket.recv_from(&mut buffer) {
            let question = Message::from_vec(&buffer[..length]).unwrap();
            let query = question.queries[0].clone();
            let name = query.name().to_ascii();
            let mut answer = Message::response(question.metadata.id, question.metadata.op_code);
            answer.add_queries([query.clone()]);
            match (name.as_str(), query.query_type()) {
                ("db.corp.example.", RecordType::A) => {
                    let data = RData::A(A("192.0.2.7".parse().unwrap()));
                    answer.add_answer(Record::from_rdata(query.name().clone(), 60, data));
                }
                ("db.corp.example.", _) => {}
                _ => answer.metadata.response_code = ResponseCode::NXDomain,
            }
            kept.lock().unwrap().push(name);
            socket.send_to(&answer.to_vec().unwrap(), client).unwrap();
        }
    });
    asked
}

#[test]
fn a_name_is_looked_up_as_it_is_and_never_in_the_hosts_search_domains() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let files = [
        (
            file("hosts", "192.0.2.5 listed.example short\n"),
            "/etc/hosts",
        ),
        (
            file(
                "resolv.conf",
                "search corp.example\nnameserver 127.0.0.1\noptions timeout:1 attempts:1\n",
            ),
            "/etc/resolv.conf",
        ),
        (
            file("nsswitch.conf", "hosts: files dns\n"),
            "/etc/nsswitch.conf",
        ),
    ];
    // Namespaces are a thread's own, and what it starts has them, too.
    let looked_up = thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS)
            .expect("this test must run as root");
        let none: Option<&str> = None;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_SLAVE, none).unwrap();
        for (from, to) in &files {
            if Path::new(to).exists() {
                mount(Some(from), *to, none, MsFlags::MS_BIND, none).unwrap();
            }
        }
        let up = Command::new("ip")
            .args(["link", "set", "lo", "up"])
            .status();
        assert!(up.unwrap().success());
        let asked = name_server("127.0.0.1:53");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let names = [
            "db.corp.example",
            "db",
            "no.such",
            "listed.example",
            "short",
        ];
        let found = names.map(|name| {
            let found = runtime.block_on(SystemResolver.resolve(name));
            found.map_or_else(|_| "none".to_owned(), |found| format!("{found:?}"))
        });
        let asked = asked.lock().unwrap().clone();
        (found, asked)
    });
    let (found, mut asked) = looked_up.join().unwrap();
    assert_eq!(
        found,
        ["[192.0.2.7]", "none", "none", "[192.0.2.5]", "[192.0.2.5]"]
    );
    asked.sort();
    asked.dedup();
    assert_eq!(asked, ["db.", "db.corp.example.", "no.such."]);
}
