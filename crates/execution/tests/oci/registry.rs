//! Images to a registry and back: a real one, on loopback.

use std::{
    collections::BTreeMap,
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
};

use execution::{
    images::{ImageContents, ImageStore, Login, RegistryError, push},
    runtime::Runtime,
};

use crate::support::{Bench, IMAGE, eventually, spec};

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
            ended || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
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
    bench.script(id, script, 60).await.unwrap().passed();
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
    let ran = pulled.script(id, look, 60).await.unwrap();
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
