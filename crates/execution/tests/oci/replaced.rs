//! A runner image that another one takes the place of while something stands on it.

use std::{
    fs::{self, File},
    path::Path,
    process::Command,
    time::{Duration, SystemTime},
};

use execution::{
    images::{ImageStore, RunnerImage, Variant},
    oci::OciRuntime,
    runtime::{Runtime, RuntimeError, SandboxSpec},
};

use crate::support::{Bench, IMAGE, images_dir, spec};

fn image(digit: char) -> RunnerImage {
    RunnerImage {
        reference: IMAGE.to_owned(),
        digest: format!("sha256:{}", String::from(digit).repeat(64)),
        size_bytes: 1,
        key: String::from(digit),
    }
}

/// Makes the tests' image, with this digit in a file of it, the runner image of the store.
fn build(images: &Path, digit: char) {
    let store = ImageStore::new(images);
    let from = images.join("runner/small.partial");
    fs::create_dir_all(&from).unwrap();
    let rootfs = ImageStore::new(images_dir())
        .rootfs(IMAGE)
        .unwrap()
        .unwrap();
    // Links to the same files: the image is read only, and copying it takes long.
    let copied = Command::new("cp")
        .arg("-al")
        .arg(rootfs)
        .arg(from.join("rootfs"))
        .status();
    assert!(copied.unwrap().success());
    fs::write(from.join("rootfs/etc/which"), String::from(digit)).unwrap();
    store
        .adopt_runner(Variant::Small, &from, &image(digit))
        .unwrap();
    for entry in fs::read_dir(images.join("runner")).unwrap() {
        let note = entry.unwrap().path().join("image.json");
        if let Ok(file) = File::options().write(true).open(note) {
            // Images that were completed just now are left alone.
            let before = SystemTime::UNIX_EPOCH + Duration::from_secs(3_600);
            file.set_modified(before).unwrap();
        }
    }
}

/// A store of its own with the image `1`, a bench on it, and a session to start.
fn over_the_first_image() -> (tempfile::TempDir, Bench, SandboxSpec) {
    let own = tempfile::Builder::new()
        .prefix("replaced-")
        .tempdir_in("/var/lib/groundwork-test")
        .unwrap();
    build(own.path(), '1');
    let bench = Bench::with(|config| config.images = ImageStore::new(own.path()));
    let session = SandboxSpec {
        keep_disk: true,
        ..spec()
    };
    (own, bench, session)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_and_a_kept_disk_go_on_over_the_runner_image_they_were_made_from() {
    let (own, bench, session) = over_the_first_image();
    let kept = bench.start(&session).await;
    bench.sh(kept, "echo work >/workspace/file").await.passed();
    bench.runtime.suspend(kept).await.unwrap();
    let running = bench.start(&spec()).await;

    build(own.path(), '2');
    assert_eq!(
        bench.runtime.saved_layers().await.unwrap(),
        [image('1').digest]
    );
    assert!(
        !bench
            .runtime
            .delete_layer(&image('1').digest)
            .await
            .unwrap()
    );
    // Files that it had not read before.
    let look = "cat /etc/which; grep -c . /etc/adduser.conf >/dev/null && python3 -c 'import json; print(json.dumps(1))'";
    assert_eq!(bench.sh(running, look).await.passed(), "11\n");
    bench.start(&session).await;
    let look = "cat /etc/which /workspace/file";
    assert_eq!(bench.sh(kept, look).await.passed(), "1work\n");
    bench.runtime.suspend(kept).await.unwrap();
    let new = bench.start(&spec()).await;
    assert_eq!(bench.sh(new, "cat /etc/which").await.passed(), "2");
    bench.runtime.destroy(new).await.unwrap();

    bench.runtime.destroy(running).await.unwrap();
    let next = OciRuntime::new(bench.runtime.config().clone()).unwrap();
    assert!(
        !next.delete_layer(&image('1').digest).await.unwrap(),
        "a disk is kept"
    );
    drop(next);
    bench.start(&session).await;
    assert_eq!(bench.sh(kept, look).await.passed(), "1work\n");
    bench.runtime.destroy(kept).await.unwrap();
    assert!(
        bench
            .runtime
            .delete_layer(&image('1').digest)
            .await
            .unwrap()
    );
    assert_eq!(bench.runtime.saved_layers().await.unwrap(), [""; 0]);
    assert_eq!(bench.sh_in_new("cat /etc/which").await, "2");
    bench.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_over_an_image_that_is_gone_is_refused_and_stays() {
    let (own, bench, session) = over_the_first_image();
    let kept = bench.start(&session).await;
    bench.runtime.suspend(kept).await.unwrap();
    build(own.path(), '2');
    // By hand: the product does not.
    ImageStore::new(own.path())
        .delete_layer(&image('1').digest)
        .unwrap();
    assert_eq!(
        bench.runtime.prepare(&session).await,
        Err(RuntimeError::NoImage(image('1').digest))
    );
    assert_eq!(bench.runtime.suspended().await.unwrap(), [kept]);
    bench.runtime.destroy(kept).await.unwrap();
    bench.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn layers_lie_over_the_runner_image_that_they_were_made_on_or_nowhere() {
    let (own, bench, _) = over_the_first_image();
    let made = bench.start(&spec()).await;
    bench.sh(made, "echo own >~/file").await.passed();
    let saved = bench.runtime.save_image(made).await.unwrap();
    bench.runtime.destroy(made).await.unwrap();
    assert_eq!(saved.base_digest, image('1').digest);
    let over = || SandboxSpec {
        layers: vec![saved.digest.clone()],
        base_digest: Some(saved.base_digest.clone()),
        ..spec()
    };
    let look = "cat /etc/which ~/file";
    build(own.path(), '2');
    let id = bench.start(&over()).await;
    assert_eq!(bench.sh(id, look).await.passed(), "1own\n");
    let first = &saved.base_digest;
    assert!(!bench.runtime.delete_layer(first).await.unwrap(), "used");
    bench.runtime.destroy(id).await.unwrap();
    assert!(bench.runtime.delete_layer(first).await.unwrap());
    let refused = bench.runtime.prepare(&over()).await;
    assert_eq!(refused, Err(RuntimeError::NoImage(first.clone())));
    bench.assert_clean().await;
}
