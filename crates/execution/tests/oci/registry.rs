//! Images to a registry and back: a real one, on loopback.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use execution::{
    images::{ImageContents, ImageStore, Login, RegistryError, push},
    runtime::Runtime,
};

use sha2::{Digest, Sha256};

use crate::support::{Bench, HANGS, IMAGE, Small, eventually, spec};

/// Debian's registry, with a directory of its own.
struct Registry {
    process: Child,
    port: u16,
    _dir: tempfile::TempDir,
}

impl Registry {
    async fn start() -> Self {
        // A port that is free when asked for may be another's before the registry has it: then it is tried again.
        for _ in 0..5 {
            if let Some(registry) = Self::try_start().await {
                return registry;
            }
        }
        panic!("the registry finds no free port");
    }

    async fn try_start() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let config = dir.path().join("config.yml");
        let text = format!(
            "version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {}}}}}\nhttp: {{addr: \"127.0.0.1:{port}\"}}\n",
            dir.path().join("data").display()
        );
        std::fs::write(&config, text).unwrap();
        let process = Command::new("docker-registry")
            .arg("serve")
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("these tests need docker-registry (scripts/deps.sh test)");
        let mut registry = Self {
            process,
            port,
            _dir: dir,
        };
        let mut ended = false;
        eventually("the registry listens or ends", async || {
            ended = registry.process.try_wait().unwrap().is_some();
            ended || TcpStream::connect(("127.0.0.1", port)).is_ok()
        })
        .await;
        (!ended).then_some(registry)
    }

    fn reference(&self, name: &str) -> String {
        format!("127.0.0.1:{}/{name}", self.port)
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn contents(layers: Vec<std::path::PathBuf>) -> ImageContents {
    ImageContents {
        history: layers.iter().map(|_| "a layer".to_owned()).collect(),
        layers,
        created: "2026-01-02T03:04:05Z".to_owned(),
        labels: BTreeMap::new(),
        tag: "latest".to_owned(),
    }
}

async fn send(contents: ImageContents, reference: &str, scratch: &Path) -> String {
    push(contents, reference, &Login::Anonymous, scratch, |_| {})
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_setup_image_pushed_and_pulled_is_a_runner_image_that_runs_scripts() {
    let registry = Registry::start().await;
    let bench = Bench::new();
    let first = spec();
    let id = bench.start(&first).await;
    let script = "echo prepared >/workspace/file\nsudo rm /etc/debian_version\nsudo cp /bin/true /opt/suid\nsudo chmod 4755 /opt/suid\n";
    bench.script(id, script, HANGS).await.unwrap().passed();
    let saved = bench.runtime.save_image(id).await.unwrap();
    bench.runtime.destroy(id).await.unwrap();

    let images = bench.runtime.config().images.clone();
    let layers = vec![
        images.rootfs(IMAGE).unwrap().unwrap(),
        images.layer_dir(&saved.digest).unwrap(),
    ];
    let scratch = tempfile::tempdir_in("/var/lib/groundwork-test").unwrap();
    let reference = registry.reference("team/setup:1");
    let digest = send(contents(layers), &reference, scratch.path()).await;

    let pulled = Bench::with(|config| config.images = ImageStore::new(scratch.path()));
    let images = pulled.runtime.config().images.clone();
    let mut steps = Vec::new();
    let image = images
        .pull_runner(&reference, &Login::Anonymous, |step| {
            steps.push(step.to_owned())
        })
        .await
        .unwrap();
    assert_eq!(image.digest, digest);
    assert!(steps.len() >= 5, "{steps:?}");
    let mode = std::fs::metadata(scratch.path().join("runner")).unwrap();
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&mode.permissions()) & 0o777,
        0o700,
        "programs of sandboxes are within no user's reach"
    );
    let again = images
        .pull_runner(&reference, &Login::Anonymous, |_| {})
        .await
        .unwrap();
    assert_eq!(again, image);
    assert_eq!(
        pulled
            .runtime
            .runner_image_digest(&reference)
            .await
            .unwrap(),
        Some(digest)
    );

    let mut second = spec();
    second.runner_image.clone_from(&reference);
    let id = pulled.start(&second).await;
    let look = "cat /workspace/file; stat -c '%a %U' /opt/suid; test ! -e /etc/debian_version && echo gone; id -un; sudo id -un; echo more >>/workspace/file\n";
    let ran = pulled.script(id, look, HANGS).await.unwrap();
    assert_eq!(ran.passed(), "prepared\n4755 root\ngone\nsandbox\nroot\n");
    pulled.runtime.destroy(id).await.unwrap();
    pulled.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_runner_image_is_refused_and_nothing_is_left() {
    let registry = Registry::start().await;
    let dir = tempfile::tempdir().unwrap();
    let empty = dir.path().join("layer");
    std::fs::create_dir_all(empty.join("bin")).unwrap();
    std::fs::write(empty.join("bin/tool"), "x").unwrap();
    let reference = registry.reference("bare:1");
    send(contents(vec![empty]), &reference, dir.path()).await;
    let images = ImageStore::new(dir.path().join("images"));
    let refused = images
        .pull_runner(&reference, &Login::Anonymous, |_| {})
        .await;
    assert!(
        matches!(&refused, Err(RegistryError::Image { why, .. }) if why.contains("bash")),
        "{refused:?}"
    );
    assert_eq!(
        std::fs::read_dir(dir.path().join("images/runner"))
            .unwrap()
            .count(),
        0
    );
    assert_eq!(images.runner_image(&reference).unwrap(), None);
    let absent = images
        .pull_runner(&registry.reference("none:1"), &Login::Anonymous, |_| {})
        .await;
    assert!(
        matches!(absent, Err(RegistryError::Registry { .. })),
        "{absent:?}"
    );
}

/// What a hostile registry says to each request.
type Answers = BTreeMap<String, Vec<u8>>;

/// A registry that keeps to nothing: it answers as it is told, and with zeros for ever after what `endless` holds.
fn hostile(answers: Answers, endless: Option<String>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // Ends with the test's process.
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let (answers, endless) = (answers.clone(), endless.clone());
            std::thread::spawn(move || answer(&client, &answers, endless.as_deref()));
        }
    });
    port
}

fn answer(client: &TcpStream, answers: &Answers, endless: Option<&str>) -> Option<()> {
    let mut lines = BufReader::new(client).lines();
    let request = lines.next()?.ok()?;
    while !lines.next()?.ok()?.is_empty() {}
    let path = request.split(' ').nth(1)?;
    let mut client = client;
    let Some(body) = answers.get(path) else {
        let status = if path == "/v2/" {
            "200 OK"
        } else {
            "404 Not Found"
        };
        let text = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        return client.write_all(text.as_bytes()).ok();
    };
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/vnd.oci.image.manifest.v1+json\r\nConnection: close\r\n\r\n";
    client.write_all(head.as_bytes()).ok()?;
    client.write_all(body).ok()?;
    while endless == Some(path) {
        client.write_all(&[0; 64 * 1024]).ok()?;
    }
    Some(())
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(bytes)))
}

/// Pulls an image of one layer that lies about itself in a way; the refusal.
async fn lie(store: &Path, change: &str) -> RegistryError {
    let layer = vec![0; 1024];
    let config = format!(
        r#"{{"os":"linux","architecture":"amd64","rootfs":{{"type":"layers","diff_ids":["{}"]}}}}"#,
        digest(if change == "contents" {
            b"others"
        } else {
            &layer
        })
    );
    let part = |kind: &str, bytes: &[u8], name: &str| {
        let size = match change.strip_prefix(name) {
            Some(" said to be larger") => bytes.len() as i64 + 1,
            Some(" said to be smaller") => bytes.len() as i64 - 1,
            Some(" said to be huge") => 1 << 60,
            Some(" said to be negative") => -1,
            _ => bytes.len() as i64,
        };
        let mut named = digest(bytes);
        if change.strip_prefix(name) == Some(" of another digest") {
            named = digest(b"others");
        }
        let json = format!(r#"{{"mediaType":"{kind}","digest":"{named}","size":{size}}}"#);
        (json, format!("/v2/team/image/blobs/{named}"))
    };
    let (config_part, config_path) = part(
        "application/vnd.oci.image.config.v1+json",
        config.as_bytes(),
        "a configuration",
    );
    let (layer_part, layer_path) =
        part("application/vnd.oci.image.layer.v1.tar", &layer, "a layer");
    let manifest = format!(
        r#"{{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{config_part},"layers":[{layer_part}]}}"#
    );
    let endless = match change {
        "a configuration without end" => Some(config_path.clone()),
        "a layer without end" => Some(layer_path.clone()),
        _ => None,
    };
    let answers = Answers::from([
        (
            "/v2/team/image/manifests/1".to_owned(),
            manifest.into_bytes(),
        ),
        (config_path, config.into_bytes()),
        (layer_path, layer),
    ]);
    let port = hostile(answers, endless);
    let images = ImageStore::new(store);
    let reference = format!("127.0.0.1:{port}/team/image:1");
    let pulling = images.pull_runner(&reference, &Login::Anonymous, |_| {});
    let refused = tokio::time::timeout(Duration::from_secs(30), pulling).await;
    let refused = refused.unwrap_or_else(|_| panic!("{change}: it does not end"));
    assert_eq!(images.runner_image(&reference).unwrap(), None, "{change}");
    refused.expect_err(change)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_sends_other_or_more_than_it_announces_is_refused_and_nothing_is_left() {
    let dir = tempfile::tempdir_in("/var/lib/groundwork-test").unwrap();
    let store = dir.path().join("images");
    for (change, words) in [
        ("a configuration without end", "sends more"),
        ("a configuration said to be smaller", "sends more"),
        ("a configuration said to be larger", "sends less"),
        ("a configuration said to be huge", "at most"),
        ("a configuration said to be negative", "at most"),
        ("a configuration of another digest", "digest"),
        ("a layer without end", "sends more"),
        ("a layer said to be smaller", "sends more"),
        ("a layer said to be larger", "sends less"),
        ("a layer said to be huge", "at most"),
        ("a layer said to be negative", "at most"),
        ("a layer of another digest", "digest"),
        ("contents", "its configuration says"),
    ] {
        let refused = lie(&store, change).await.to_string();
        assert!(refused.contains(words), "{change}: {refused}");
        let left = std::fs::read_dir(store.join("runner"))
            .into_iter()
            .flatten();
        assert_eq!(left.count(), 0, "{change}");
    }
    // The same image, honest, comes to where its contents are looked at.
    let honest = lie(&store, "nothing").await.to_string();
    assert!(honest.contains("bash"), "{honest}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_is_not_fetched_onto_a_disk_that_it_would_fill() {
    let dir = tempfile::tempdir().unwrap();
    let small = Small::mount(&dir.path().join("images"), "64M");
    let refused = lie(&dir.path().join("images"), "nothing").await;
    assert!(
        matches!(&refused, RegistryError::Io(error) if error.raw_os_error() == Some(libc::ENOSPC)),
        "{refused:?}"
    );
    assert!(small.used() < 1 << 20);
}
