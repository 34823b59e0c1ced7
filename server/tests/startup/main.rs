//! The built program: what ends it, in one sentence and with exit code 1, and what it leaves behind.

#![allow(
    clippy::unwrap_used,
    reason = "a helper that cannot go on ends the test"
)]

mod place;
mod secrets;

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    net::TcpListener,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use place::{Place, Server, fatal, get};

#[test]
fn a_taken_port_is_named_and_nothing_is_made() {
    let place = Place::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let sentence = fatal(&place.run(&[
        "serve",
        "--no-worker",
        "--listen",
        &format!("127.0.0.1:{port}"),
    ]));
    assert!(
        sentence.contains(&port) && sentence.contains("--listen"),
        "{sentence}"
    );
    assert!(!place.data().exists(), "nothing half-made");
}

#[test]
fn an_address_of_another_machine_is_named() {
    let sentence =
        fatal(&Place::new().run(&["serve", "--no-worker", "--listen", "192.0.2.1:3000"]));
    assert!(
        sentence.contains("192.0.2.1") && sentence.contains("--listen"),
        "{sentence}"
    );
}

#[test]
fn a_data_directory_that_cannot_be_written_is_named() {
    let place = Place::new();
    fs::write(place.dir.path().join("file"), "x").unwrap();
    let below_a_file = place.dir.path().join("file/data");
    for path in [below_a_file.to_str().unwrap(), "/proc/groundwork"] {
        let sentence = fatal(&place.run(&[
            "serve",
            "--no-worker",
            "--listen",
            "127.0.0.1:0",
            "--data",
            path,
        ]));
        assert!(
            sentence.contains(path) && sentence.contains("--data"),
            "{sentence}"
        );
    }
}

#[test]
fn a_volume_that_is_not_there_or_holds_the_data_is_named_and_nothing_is_made() {
    let place = Place::new();
    let settings = place.dir.path().join("groundwork.toml");
    let before = fs::read_to_string(&settings).unwrap();
    for (directory, words) in [
        (place.dir.path().join("absent"), "cannot be found"),
        (place.dir.path().to_owned(), "the data directory"),
    ] {
        let volume = format!("{before}[volumes.sets]\ndirectory = {directory:?}\n");
        fs::write(&settings, volume).unwrap();
        let sentence = fatal(&place.run(&["serve", "--no-worker", "--listen", "127.0.0.1:0"]));
        assert!(
            sentence.contains("volume sets") && sentence.contains(words),
            "{sentence}"
        );
        assert!(!place.data().exists(), "nothing half-made");
    }
}

#[test]
fn a_full_disk_is_named() {
    let place = Place::new();
    let small = place.dir.path().join("small");
    fs::create_dir(&small).unwrap();
    // A file system of two pages; needs root, like all of the product that this stands for.
    let mounted = Command::new("mount")
        .args([
            "-t",
            "tmpfs",
            "-o",
            "size=8k",
            "none",
            small.to_str().unwrap(),
        ])
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        eprintln!("skipped: mounting a small file system takes root");
        return;
    }
    fs::write(small.join("filling"), vec![0; 1 << 20]).unwrap_err();
    let output = place.run(&[
        "serve",
        "--no-worker",
        "--listen",
        "127.0.0.1:0",
        "--data",
        small.join("data").to_str().unwrap(),
    ]);
    let _ = Command::new("umount").arg(&small).status();
    let sentence = fatal(&output);
    assert!(sentence.contains("full"), "{sentence}");
}

#[test]
fn a_second_server_on_the_same_data_is_refused() {
    let place = Place::new();
    let _first = place.serve(&[]);
    let sentence = fatal(&place.run(&["serve", "--no-worker", "--listen", "127.0.0.1:0"]));
    assert!(sentence.contains("Another Groundwork server"), "{sentence}");
}

#[test]
fn a_database_that_cannot_be_used_is_named_and_left_alone() {
    let check = |make: &dyn Fn(&Path), expected: &str| {
        let place = Place::new();
        fs::create_dir(place.data()).unwrap();
        let file = place.data().join("groundwork.sqlite3");
        make(&file);
        let before = fs::read(&file).unwrap();
        let sentence = fatal(&place.run(&["serve", "--no-worker", "--listen", "127.0.0.1:0"]));
        assert!(sentence.contains(expected), "{expected}: {sentence}");
        assert_eq!(fs::read(&file).unwrap(), before, "{sentence}");
    };
    check(
        &|file| {
            fs::write(
                file,
                "not a database at all, but long enough to be looked at".repeat(100),
            )
            .unwrap()
        },
        "not a SQLite database",
    );
    check(
        &|file| {
            let place = Place::new();
            drop(place.serve(&[]).stop());
            let mut bytes = fs::read(place.data().join("groundwork.sqlite3")).unwrap();
            // The first page is whole, all others are gone bad.
            for byte in &mut bytes[4096..] {
                *byte ^= 0x5a;
            }
            fs::write(file, bytes).unwrap();
        },
        "damaged",
    );
}

#[test]
fn a_database_of_a_newer_version_is_named() {
    let place = Place::new();
    drop(place.serve(&[]).stop());
    let done = Command::new("python3")
        .args([
            "-c",
            "import sqlite3,sys; d=sqlite3.connect(sys.argv[1]); d.execute(\"insert into _sqlx_migrations (version, description, success, checksum, execution_time) values (9999, 'later', 1, x'00', 0)\"); d.commit()",
            place.data().join("groundwork.sqlite3").to_str().unwrap(),
        ])
        .status();
    if !done.is_ok_and(|status| status.success()) {
        eprintln!("skipped: python3 with sqlite3 is not there");
        return;
    }
    let sentence = fatal(&place.run(&["serve", "--no-worker", "--listen", "127.0.0.1:0"]));
    assert!(
        sentence.contains("newer") && sentence.contains("9999"),
        "{sentence}"
    );
}

#[test]
fn a_database_server_that_does_not_answer_is_named_without_its_password() {
    // Nobody listens there, and no system gives it to anybody who asks for any port.
    let url = "postgres://groundwork:hunter2@127.0.0.1:1/groundwork";
    let sentence = fatal(&Place::new().run(&[
        "serve",
        "--no-worker",
        "--listen",
        "127.0.0.1:0",
        "--database",
        url,
    ]));
    assert!(sentence.contains("does not answer"), "{sentence}");
    assert!(!sentence.contains("hunter2"), "{sentence}");
}

#[test]
fn wrong_settings_are_named() {
    let place = Place::new();
    let config = place.dir.path().join("wrong.toml");
    let check = |text: &str, expected: &str| {
        fs::write(&config, text).unwrap();
        let sentence = fatal(&place.run(&["serve", "--config", config.to_str().unwrap()]));
        assert!(sentence.contains(expected), "{expected}: {sentence}");
    };
    check("colour = \"red\"", "colour");
    check("[worker]\nspeed = 3", "speed");
    check("listen = 3", "line 1");
    check("log = \"[[\"", "log filter");
    check("site = \"/nowhere\"", "/nowhere");
    let missing = fatal(&place.run(&["serve", "--config", "/nowhere.toml"]));
    assert!(missing.contains("/nowhere.toml"), "{missing}");
    for (name, other) in [
        ("GROUNDWORK_ADMIN_EMAIL", "GROUNDWORK_ADMIN_PASSWORD"),
        ("GROUNDWORK_ADMIN_PASSWORD", "GROUNDWORK_ADMIN_EMAIL"),
    ] {
        let output = place
            .command(&["serve", "--no-worker"])
            .env(name, "x")
            .output()
            .unwrap();
        let sentence = fatal(&output);
        assert!(sentence.contains(&format!("{other} is not")), "{sentence}");
    }
}

#[test]
fn a_first_admin_that_cannot_be_made_is_explained() {
    let place = Place::new();
    let output = place
        .command(&["serve", "--no-worker", "--listen", "127.0.0.1:0"])
        .env("GROUNDWORK_ADMIN_EMAIL", "nobody")
        .env("GROUNDWORK_ADMIN_PASSWORD", "short")
        .output()
        .unwrap();
    let sentence = fatal(&output);
    assert!(
        sentence.contains("email") && sentence.contains("password"),
        "{sentence}"
    );
    assert!(!sentence.contains("short"), "{sentence}");
}

#[test]
fn without_a_runtime_the_worker_is_refused_and_the_console_is_offered() {
    let place = Place::new();
    fs::write(
        place.dir.path().join("groundwork.toml"),
        format!(
            "site = {:?}\n[runtime]\ncommand = \"/nowhere/crun\"\n",
            place.dir.path().join("site")
        ),
    )
    .unwrap();
    let sentence = fatal(&place.run(&["serve", "--listen", "127.0.0.1:0"]));
    assert!(sentence.contains("--no-worker"), "{sentence}");
    let doctor = place.run(&["doctor"]);
    let text = String::from_utf8(doctor.stdout).unwrap();
    assert_eq!(doctor.status.code(), Some(1), "{text}");
    assert!(
        text.contains("FAILED") && text.contains("OCI runtime"),
        "{text}"
    );
}

#[test]
fn the_setup_link_comes_until_the_first_admin_is_there() {
    let place = Place::new();
    let mut tokens = Vec::new();
    for _ in 0..2 {
        let mut server = place.serve(&[]);
        let mut line = String::new();
        server.lines.read_line(&mut line).unwrap();
        let token = line
            .trim()
            .split_once(&format!("http://{}/setup?token=", server.address));
        tokens.push(token.unwrap_or_else(|| panic!("{line}")).1.to_owned());
        let (code, log, took) = server.stop();
        assert_eq!(code, Some(0), "{log}");
        assert!(took < Duration::from_secs(20), "{took:?}");
        assert!(
            !log.contains(tokens.last().unwrap()),
            "tokens are not logged"
        );
        for line in log.lines() {
            let entry: serde_json::Value =
                serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
            assert!(
                entry["level"].is_string() && entry["timestamp"].is_string(),
                "{line}"
            );
        }
    }
    assert_ne!(tokens[0], tokens[1], "each start makes a link of its own");
    let mut server = place.serve(&[
        ("GROUNDWORK_ADMIN_EMAIL", "admin@example.com"),
        ("GROUNDWORK_ADMIN_PASSWORD", "correct horse battery"),
    ]);
    assert!(get(&server.address, "/healthz").starts_with("HTTP/1.1 200"));
    assert!(
        get(&server.address, "/readyz").starts_with("HTTP/1.1 503"),
        "there is no worker"
    );
    server.child.kill().unwrap();
    let mut rest = String::new();
    server.lines.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "", "no link once set up");
}

#[test]
fn the_operator_makes_members_and_keys_beside_the_server() {
    let place = Place::new();
    let developer = [
        "admin",
        "create-member",
        "--email",
        "dev@example.com",
        "--role",
        "developer",
    ];
    let refused = fatal(&place.run(&developer));
    assert!(refused.contains("must be an admin"), "{refused}");
    let admin = place.run(&[
        "admin",
        "create-member",
        "--email",
        "Admin@Example.com",
        "--role",
        "admin",
    ]);
    assert!(
        admin.status.success(),
        "{}",
        String::from_utf8_lossy(&admin.stderr)
    );
    let server = place.serve(&[]);
    assert!(place.run(&developer).status.success());
    let twice = fatal(&place.run(&developer));
    assert!(twice.contains("email"), "{twice}");
    let made = place.run(&[
        "admin",
        "create-api-key",
        "--email",
        "dev@example.com",
        "--role",
        "user",
    ]);
    let key = String::from_utf8(made.stdout).unwrap();
    let key = key.strip_suffix('\n').unwrap();
    assert!(
        key.starts_with("rma_") && key.len() == 47,
        "the key alone: {key:?}"
    );
    assert!(
        made.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    let nobody = fatal(&place.run(&[
        "admin",
        "create-api-key",
        "--email",
        "no@example.com",
        "--role",
        "user",
    ]));
    assert!(nobody.contains("No member has this address"), "{nobody}");
    let higher = fatal(&place.run(&[
        "admin",
        "create-api-key",
        "--email",
        "dev@example.com",
        "--role",
        "admin",
    ]));
    assert!(higher.contains("role"), "{higher}");
    let (code, log, _) = server.stop();
    assert_eq!(code, Some(0), "{log}");
}

#[test]
fn help_tells_every_option_and_hides_what_is_internal() {
    let text = |args: &[&str]| String::from_utf8(Place::new().run(args).stdout).unwrap();
    let serve = text(&["serve", "--help"]);
    for word in [
        "--listen",
        "GROUNDWORK_LISTEN",
        "127.0.0.1:3000",
        "--data",
        "GROUNDWORK_DATA",
        "--database",
        "GROUNDWORK_DATABASE",
        "--config",
        "--no-worker",
        "GROUNDWORK_ADMIN_EMAIL",
        "GROUNDWORK_ADMIN_PASSWORD",
    ] {
        assert!(serve.contains(word), "{word}: {serve}");
    }
    let all = text(&["--help"]);
    for word in ["serve", "admin", "runner-image", "doctor"] {
        assert!(all.contains(word), "{word}: {all}");
    }
    assert!(!all.contains("shim"), "{all}");
    let wrong = Place::new().run(&["serve", "--nonsense"]);
    assert_eq!(wrong.status.code(), Some(2));
}

#[test]
fn runner_images_are_listed() {
    let place = Place::new();
    let none = place.run(&["runner-image", "list"]);
    assert!(none.status.success() && none.stdout.is_empty());
    assert!(String::from_utf8_lossy(&none.stderr).contains("runner-image build"));
    let image = place.data().join("images/runner/small");
    fs::create_dir_all(image.join("rootfs")).unwrap();
    fs::write(
        image.join("image.json"),
        r#"{"reference":"groundwork/runner:small","digest":"sha256:00","size_bytes":3145728,"key":"k"}"#,
    )
    .unwrap();
    let one = place.run(&["runner-image", "list"]);
    assert_eq!(
        String::from_utf8(one.stdout).unwrap(),
        "groundwork/runner:small\tsha256:00\t3 MiB\n"
    );
}

#[test]
fn a_signal_while_the_runner_image_is_fetched_ends_the_server_in_order() {
    let place = Place::new();
    let registry = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = registry.local_addr().unwrap();
    let settings = place.dir.path().join("fetching.toml");
    let site = place.dir.path().join("site");
    let text = format!("site = {site:?}\n[runner]\nimage = \"{address}/runner:1\"\n");
    fs::write(&settings, text).unwrap();
    let mut child = place
        .command(&[
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--config",
            settings.to_str().unwrap(),
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap());
    // It asks, and is never answered.
    let (_held, _) = registry.accept().unwrap();
    let server = Server {
        child,
        address: String::new(),
        lines,
    };
    let (code, log, took) = server.stop();
    assert_eq!(code, Some(0), "{log}");
    assert!(took < Duration::from_secs(15), "{took:?}");
}
