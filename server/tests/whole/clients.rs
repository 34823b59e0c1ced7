//! The package clients that setup scripts use: blocked, told which host, allowed as the console's button does it, and
//! then through. Each talks to a server of its own protocol on the test's street.

use std::{fs, process::Command, time::Duration};

use serde_json::{Value, json};

use crate::{
    place::Place,
    running::{Running, text},
    street::{SETTINGS, Street, on_a_street, run},
};

/// Seconds that a client may take to give up on a blocked host.
const GIVES_UP_WITHIN: f64 = 20.0;
const EMAIL: &str = "admin@example.com";
const PASSWORD: &str = "correct horse battery staple";

struct Client {
    name: &'static str,
    script: &'static str,
    /// In the order in which it meets them: with each it gets one further.
    hosts: &'static [&'static str],
    /// Fills its servers.
    fill: fn(&Street),
}

const CLIENTS: [Client; 6] = [
    Client {
        name: "pip",
        script: "python3 -m venv /workspace/.venv
pip install --index-url http://simple.pip.example/ --trusted-host simple.pip.example --trusted-host files.pip.example greeting==1.0
test \"$(python -c 'import greeting; print(greeting.WORD)')\" = hello
",
        hosts: &["simple.pip.example", "files.pip.example"],
        fill: |street| python_index(street, "simple.pip.example", "files.pip.example"),
    },
    Client {
        name: "uv",
        script: "uv venv /workspace/.venv
uv pip install --python /workspace/.venv/bin/python --index-url http://simple.uv.example/ greeting==1.0
test \"$(python -c 'import greeting; print(greeting.WORD)')\" = hello
",
        hosts: &["simple.uv.example", "files.uv.example"],
        fill: |street| python_index(street, "simple.uv.example", "files.uv.example"),
    },
    Client {
        name: "npm",
        script: "mkdir /workspace/app
cd /workspace/app
npm install --no-audit --no-fund --registry http://registry.npm.example/ greeting@1.0.0
test \"$(node -p 'require(\"greeting\")')\" = hello
",
        hosts: &["registry.npm.example", "files.npm.example"],
        fill: npm_registry,
    },
    Client {
        name: "apt",
        script: "sudo rm -rf /etc/apt/sources.list.d
echo 'deb [trusted=yes] http://packages.apt.example ./' | sudo tee /etc/apt/sources.list
sudo apt-get update
sudo apt-get install -y --no-install-recommends greeting
test \"$(greeting)\" = hello
",
        hosts: &["packages.apt.example"],
        fill: apt_repository,
    },
    Client {
        name: "git",
        script: "git clone http://code.git.example/greeting.git /workspace/greeting
test \"$(cat /workspace/greeting/word)\" = hello
",
        hosts: &["code.git.example"],
        fill: git_repository,
    },
    Client {
        name: "curl",
        script: "curl -fsSL -o /workspace/word http://moved.curl.example/word
test \"$(cat /workspace/word)\" = hello
",
        // The second is met by a redirect of the first.
        hosts: &["moved.curl.example", "files.curl.example"],
        fill: |street| {
            street.put("moved.curl.example", "word.moved", "http://files.curl.example/word");
            street.put("files.curl.example", "word", "hello\n");
        },
    },
];

fn python_index(street: &Street, index: &str, files: &str) {
    let wheel = "greeting-1.0-py3-none-any.whl";
    let make = "import sys, zipfile
with zipfile.ZipFile(sys.argv[1], 'w') as wheel:
    wheel.writestr('greeting.py', 'WORD = \"hello\"\\n')
    info = 'greeting-1.0.dist-info/'
    wheel.writestr(info + 'METADATA', 'Metadata-Version: 2.1\\nName: greeting\\nVersion: 1.0\\n')
    wheel.writestr(info + 'WHEEL', 'Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
    wheel.writestr(info + 'RECORD', 'greeting.py,,\\n' + ''.join(info + name + ',,\\n' for name in ['METADATA', 'WHEEL', 'RECORD']))
";
    run(Command::new("python3")
        .args(["-c", make])
        .arg(street.host(files).join(wheel)));
    let page = format!(
        "<!DOCTYPE html><html><body><a href=\"http://{files}/{wheel}\">{wheel}</a></body></html>\n"
    );
    street.put(index, "greeting/index.html", page);
}

fn npm_registry(street: &Street) {
    let dir = tempfile::tempdir().unwrap();
    let package = dir.path().join("package");
    fs::create_dir(&package).unwrap();
    let about = json!({"name": "greeting", "version": "1.0.0", "main": "index.js"});
    fs::write(package.join("package.json"), about.to_string()).unwrap();
    fs::write(package.join("index.js"), "module.exports = 'hello';\n").unwrap();
    let target = street.host("files.npm.example").join("greeting-1.0.0.tgz");
    run(Command::new("tar")
        .arg("-C")
        .arg(dir.path())
        .arg("-czf")
        .arg(target)
        .arg("package"));
    let mut version = about;
    version["dist"] = json!({"tarball": "http://files.npm.example/greeting-1.0.0.tgz"});
    let packument = json!({
        "name": "greeting", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version},
    });
    street.put(
        "registry.npm.example",
        "greeting/index.json",
        packument.to_string(),
    );
}

fn apt_repository(street: &Street) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("greeting");
    fs::create_dir_all(root.join("DEBIAN")).unwrap();
    fs::create_dir_all(root.join("usr/bin")).unwrap();
    let control = "Package: greeting\nVersion: 1.0\nArchitecture: all\nMaintainer: Nobody <nobody@example.com>\nDescription: says hello\n";
    fs::write(root.join("DEBIAN/control"), control).unwrap();
    let program = root.join("usr/bin/greeting");
    fs::write(&program, "#!/bin/sh\necho hello\n").unwrap();
    fs::set_permissions(
        &program,
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    let host = street.host("packages.apt.example");
    let file = host.join("greeting.deb");
    run(Command::new("dpkg-deb")
        .args(["--root-owner-group", "--build"])
        .arg(&root)
        .arg(&file));
    let digest = |path: &std::path::Path| {
        let output = Command::new("sha256sum").arg(path).output().unwrap();
        String::from_utf8(output.stdout).unwrap()[..64].to_owned()
    };
    let size = |path: &std::path::Path| fs::metadata(path).unwrap().len();
    let packages = format!(
        "{control}Filename: ./greeting.deb\nSize: {}\nSHA256: {}\n\n",
        size(&file),
        digest(&file)
    );
    street.put("packages.apt.example", "Packages", packages);
    let list = host.join("Packages");
    let release = format!(
        "Date: Sat, 01 Jan 2022 00:00:00 UTC\nSuite: test\nSHA256:\n {} {} Packages\n",
        digest(&list),
        size(&list)
    );
    street.put("packages.apt.example", "Release", release);
}

fn git_repository(street: &Street) {
    let dir = tempfile::tempdir().unwrap();
    let git = |args: &[&str], at: &std::path::Path| {
        let who = [
            "-c",
            "user.name=Nobody",
            "-c",
            "user.email=nobody@example.com",
        ];
        run(Command::new("git")
            .args(who)
            .args(args)
            .current_dir(at)
            .env("HOME", dir.path()));
    };
    let work = dir.path().join("work");
    fs::create_dir(&work).unwrap();
    git(&["init", "-q", "-b", "main"], &work);
    fs::write(work.join("word"), "hello\n").unwrap();
    git(&["add", "word"], &work);
    git(&["commit", "-q", "-m", "A word"], &work);
    let bare = street.host("code.git.example").join("greeting.git");
    git(
        &["clone", "-q", "--bare", ".", bare.to_str().unwrap()],
        &work,
    );
    git(&["update-server-info"], &bare);
}

#[test]
fn each_package_client_is_blocked_within_seconds_and_goes_on_when_its_host_is_allowed_with_one_click()
 {
    let names: Vec<&str> = CLIENTS
        .iter()
        .flat_map(|client| client.hosts)
        .copied()
        .collect();
    on_a_street(&names, |street| {
        for client in &CLIENTS {
            (client.fill)(street);
        }
        let place = Place::new().with_images();
        place.configure(SETTINGS);
        let server = Running::start(
            &place,
            &[
                ("GROUNDWORK_ADMIN_EMAIL", EMAIL),
                ("GROUNDWORK_ADMIN_PASSWORD", PASSWORD),
            ],
        );
        let made = place.run(&[
            "admin",
            "create-api-key",
            "--email",
            EMAIL,
            "--role",
            "admin",
        ]);
        assert!(made.status.success(), "{made:?}");
        let key = String::from_utf8(made.stdout).unwrap().trim().to_owned();
        let cookie = server.sign_in(EMAIL, PASSWORD);
        // An organization may have four runs in flight.
        for clients in CLIENTS.chunks(3) {
            std::thread::scope(|scope| {
                for client in clients {
                    let (server, key, cookie) = (&server, &key, &cookie);
                    scope.spawn(move || blocked_then_allowed(client, street, server, key, cookie));
                }
            });
        }
    });
}

fn blocked_then_allowed(
    client: &Client,
    street: &Street,
    server: &Running,
    key: &str,
    cookie: &str,
) {
    let body = json!({
        "name": client.name, "setup": {"script": client.script}, "pvc_size_gi": 1,
        "network_policy": {"version": "v1", "rules": []},
    });
    let environment = text(
        &server.ask("POST", "/environments", key, &body),
        "environment_id",
    );
    let runs = format!("/environments/{environment}/setup-runs");
    let mut run = text(&server.ask("POST", &runs, key, &json!({})), "setup_run_id");
    for host in client.hosts {
        let ended = server.ended(key, &environment, &run, Duration::from_secs(120));
        let why = format!("{}, {host} not allowed yet: {ended:#}", client.name);
        assert_eq!(ended["status"], "failed", "{why}");
        assert_eq!(ended["failure_code"], "environment_setup_failed", "{why}");
        assert_eq!(ended["hint_code"], "egress_blocked", "{why}");
        assert!(text(&ended, "hint").contains(host), "{why}");
        let record = |of: &str| {
            let run = format!("/groundwork/v1/environments/{environment}/setup-runs/{run}");
            server.ask("GET", &format!("{run}/{of}"), key, &Value::Null)
        };
        let times = record("timings");
        let lines = times["lines"].as_array().unwrap();
        let line = lines
            .iter()
            .find(|line| line["line"] == ended["failed_line"]);
        let took = line.and_then(|line| line["seconds"].as_f64());
        assert!(
            took.is_some_and(|took| took < GIVES_UP_WITHIN),
            "{times:#}\n{why}"
        );
        assert_eq!(street.asked(host), 0, "{why}");
        let met = record("egress");
        let denied = |met: &&Value| met["host"] == *host && met["outcome"] == "denied";
        assert!(
            met["hosts"]
                .as_array()
                .unwrap()
                .iter()
                .any(|met| denied(&met)),
            "{why}\n{met:#}"
        );
        // What the button "Allow HOST and test again" sends.
        let once = format!("{run}-allow");
        let fields = [
            ("environment_id", environment.as_str()),
            ("host", host),
            ("then_test", "true"),
            ("key", &once),
        ];
        let answer = server.post("/fn/allow-host", cookie, &fields);
        let allowed: Value = serde_json::from_str(&answer.body).unwrap();
        run = text(&allowed, "started");
    }
    let ended = server.ended(key, &environment, &run, Duration::from_secs(120));
    assert_eq!(ended["status"], "succeeded", "{}: {ended:#}", client.name);
    for host in client.hosts {
        assert!(street.asked(host) > 0, "{}: {host}", client.name);
    }
}
