//! Signing in.

use std::{os::unix::fs::PermissionsExt, process::Stdio};

use tokio::io::AsyncWriteExt;

use crate::place::{Place, Ran};

async fn login(place: &Place, url: &str, key: &str) -> Ran {
    let mut command = place.bare(&["login", "--url", url, "--api-key-stdin"]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(key.as_bytes()).await.unwrap();
    drop(stdin);
    Ran::of(child.wait_with_output().await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_tried_stored_for_its_owner_alone_and_used() {
    let place = Place::open().await;
    let nothing = Ran::of(place.bare(&["env", "list"]).output().await.unwrap());
    nothing.failed("groundwork login");

    let said = login(&place, &place.url, &format!("{}\n", place.key))
        .await
        .ok();
    assert!(said.contains("org_") && !said.contains("rma_"), "{said}");
    let path = place
        .home
        .path()
        .join(".config/groundwork/credentials.toml");
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    place.app.environment("Stored", "").await;
    let listed = Ran::of(place.bare(&["env", "list"]).output().await.unwrap());
    assert!(listed.ok().contains("Stored"));

    // A stored key goes to its own server alone, and variables win.
    let elsewhere = place
        .bare(&["env", "list", "--url", "http://127.0.0.1:9"])
        .output()
        .await
        .unwrap();
    Ran::of(elsewhere).failed("groundwork login --url");
    let wrong = place
        .bare(&["env", "list"])
        .env("GROUNDWORK_API_KEY", format!("rma_{}", "x".repeat(43)))
        .output()
        .await
        .unwrap();
    Ran::of(wrong).failed("API key");

    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let open = Ran::of(place.bare(&["env", "list"]).output().await.unwrap());
    open.failed("chmod 600");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_key_or_server_is_named_and_nothing_is_stored() {
    let place = Place::open().await;
    let wrong = format!("rma_{}", "x".repeat(43));
    login(&place, &place.url, &wrong).await.failed("API key");
    login(&place, "http://127.0.0.1:9", &place.key)
        .await
        .failed("cannot be reached");
    login(&place, "groundwork", &place.key)
        .await
        .failed("no server's address");
    assert!(!place.home.path().join(".config").exists());
}
