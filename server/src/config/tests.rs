use super::*;

pub(super) fn settings(text: &str) -> Result<Settings, Fatal> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("groundwork.toml");
    std::fs::write(&path, text).unwrap();
    Settings::for_places(&Places {
        data: None,
        database: None,
        config: Some(path),
    })
}

fn refused(text: &str) -> String {
    settings(text).unwrap_err().sentence().to_owned()
}

#[test]
fn every_setting_of_the_file_is_honoured() {
    let got = settings(
        r#"
        listen = "0.0.0.0:8080"
        data = "/srv/groundwork"
        database = "postgres://groundwork@db/groundwork"
        public_url = "https://Groundwork.example.com/"
        trusted_proxies = ["10.0.0.0/8", "192.0.2.7"]
        site = "/usr/share/groundwork/site"
        log = "debug"
        [sign_in]
        idle_days = 3
        [rate_limit]
        key_per_second = 1
        key_burst = 2
        address_per_second = 3
        address_burst = 4
        [worker]
        enabled = false
        name = "one"
        capacity = 2
        session_slots = 5
        [runner]
        image = "groundwork/runner:small"
        [images]
        max_gib = 20
        [runtime]
        command = "/opt/bin/runc"
        [sandbox]
        ca_certificates = ["/etc/company.pem"]
        apt_conf = "Acquire::Retries 3;"
        env = { PIP_INDEX_URL = "https://mirror.example/simple" }
        files = { "etc/pip.conf" = "[global]" }
        open_networks = ["10.20.0.0/16"]
        own_addresses = ["203.0.113.9"]
        [compute]
        cpu_milli = 8000
        memory_mib = 16384
        "#,
    )
    .unwrap();
    assert_eq!(got.listen.to_string(), "0.0.0.0:8080");
    assert_eq!(got.images_max_bytes, Some(20 << 30));
    assert_eq!(got.data, Path::new("/srv/groundwork"));
    assert_eq!(
        got.database,
        Database::Postgres("postgres://groundwork@db/groundwork".to_owned())
    );
    assert_eq!(
        got.public_url.unwrap().base(),
        "https://groundwork.example.com"
    );
    assert_eq!(got.trusted_proxies.len(), 2);
    assert_eq!(got.site.unwrap(), Path::new("/usr/share/groundwork/site"));
    assert_eq!(got.log, "debug");
    assert_eq!(got.sign_in.idle, Duration::from_secs(3 * 86_400));
    assert_eq!(
        got.rate_limit,
        RateLimit {
            key_per_second: 1,
            key_burst: 2,
            address_per_second: 3,
            address_burst: 4
        }
    );
    assert_eq!(
        got.worker,
        Worker {
            enabled: false,
            name: Some("one".to_owned()),
            capacity: 2,
            session_slots: 5
        }
    );
    assert_eq!(got.runner_image, "groundwork/runner:small");
    assert_eq!(got.runtime, Path::new("/opt/bin/runc"));
    assert_eq!(got.runtime_kind, RuntimeKind::Runc);
    assert_eq!(
        got.sandbox.ca_certificates,
        [PathBuf::from("/etc/company.pem")]
    );
    assert_eq!(got.sandbox.apt_conf, "Acquire::Retries 3;");
    assert_eq!(got.sandbox.env.len() + got.sandbox.files.len(), 2);
    assert_eq!(got.open_networks, ["10.20.0.0/16".parse().unwrap()]);
    assert_eq!(got.own_addresses.len(), 1);
    assert_eq!(
        (got.machine.cpu_milli, got.machine.memory_mib),
        (8_000, 16_384)
    );
}

#[test]
fn defaults_need_no_file() {
    let got = Settings::for_places(&Places::default()).unwrap();
    assert_eq!(got.listen.to_string(), "127.0.0.1:3000");
    assert!(got.data.is_absolute() && got.data.ends_with("data"));
    assert_eq!(
        got.database,
        Database::Sqlite(got.data.join("groundwork.sqlite3"))
    );
    assert!(got.worker.enabled);
}

#[test]
fn a_wrong_file_is_refused_in_one_sentence_that_names_the_key() {
    for (text, expected) in [
        ("lissten = \"x\"", "lissten"),
        ("[worker]\nthreads = 3", "threads"),
        ("listen = \"nowhere\"", "line 1"),
        ("listen = ", "line 1"),
        ("[worker]\ncapacity = 0", "worker.capacity"),
        ("[worker]\nsession_slots = 0", "worker.session_slots"),
        ("[worker]\nsession_slots = 257", "worker.session_slots"),
        ("[worker]\ncapacity = \"two\"", "line 2"),
        ("[compute]\ncpu_milli = 250", "compute.cpu_milli"),
        ("[sign_in]\nidle_days = 91", "sign_in.idle_days"),
        ("[runtime]\ncommand = \"podman\"", "runtime.command"),
        (
            "[sandbox]\nopen_networks = [\"10.0.0.0\"]",
            "sandbox.open_networks",
        ),
        (
            "[sandbox]\nopen_networks = [\"10.0.0.0/8\", \"127.0.0.0/8\"]",
            "sandbox.open_networks holds 127.0.0.0/8",
        ),
        (
            "[sandbox]\nopen_networks = [\"169.254.169.254/32\"]",
            "never opened",
        ),
        ("trusted_proxies = [\"here\"]", "trusted_proxies"),
        ("public_url = \"groundwork.example.com\"", "public_url"),
        ("public_url = \"https://x.example/console\"", "public_url"),
        ("database = \"mysql://x\"", "database URL"),
    ] {
        let sentence = refused(text);
        assert!(sentence.contains(expected), "{text:?}: {sentence}");
        assert!(
            sentence.ends_with('.') && !sentence.contains('\n'),
            "{sentence}"
        );
    }
}

#[test]
fn a_database_url_with_a_password_is_never_repeated() {
    let places = Places {
        database: Some("mysql://root:hunter2@db/x".to_owned()),
        ..Places::default()
    };
    let sentence = Settings::for_places(&places)
        .unwrap_err()
        .sentence()
        .to_owned();
    assert!(!sentence.contains("hunter2"));
    let database = parse_database("postgres://root:hunter2@db/x").unwrap();
    assert!(!format!("{database:?}").contains("hunter2"));
}

#[test]
fn the_documented_file_is_read_and_every_key_is_in_it() {
    let docs = include_str!("../../../docs/configuration.md");
    let example = docs
        .split("```toml\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next())
        .unwrap();
    let read = File::parse(example).unwrap();
    // Every optional setting is shown: one that is missing from the example reads as `None`, or as empty.
    let shown = format!("{read:?}");
    assert!(
        !shown.contains("None") && !shown.contains("[]") && !shown.contains("{}"),
        "{shown}"
    );
}

#[test]
fn the_machines_own_certificates_are_trusted_unless_others_are_named() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["b.crt", "a.crt", "note.txt"] {
        std::fs::write(dir.path().join(name), "x").unwrap();
    }
    let names: Vec<_> = machine_certificates(dir.path());
    assert_eq!(names, [dir.path().join("a.crt"), dir.path().join("b.crt")]);
    assert!(machine_certificates(&dir.path().join("missing")).is_empty());
}

#[test]
fn host_groups_stand_in_place_of_their_namesakes_and_beside_the_others() {
    let groups =
        settings("[host_groups]\npypi = [\"pypi.mirror.example\"]\nours = [\"*.ours.example\"]\n")
            .unwrap()
            .host_groups;
    assert_eq!(groups.hosts("pypi"), ["pypi.mirror.example"]);
    assert_eq!(groups.hosts("ours"), ["*.ours.example"]);
    assert!(!groups.hosts("github").is_empty());
    let said = refused("[host_groups]\nours = [\"https://ours.example/\"]\n");
    assert!(
        said.contains("host_groups") && said.contains("ours[0]"),
        "{said}"
    );
}
