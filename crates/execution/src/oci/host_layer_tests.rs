use std::os::unix::fs::symlink;

use super::*;

fn base() -> tempfile::TempDir {
    let base = tempfile::tempdir().unwrap();
    fs::create_dir_all(base.path().join("etc/ssl/certs")).unwrap();
    fs::set_permissions(base.path().join("etc"), fs::Permissions::from_mode(0o751)).unwrap();
    fs::write(base.path().join(BUNDLE), "BASE\n").unwrap();
    base
}

fn settings(dir: &Path) -> HostSettings {
    fs::write(dir.join("own.crt"), "OWN\n").unwrap();
    HostSettings {
        ca_certificates: vec![dir.join("own.crt")],
        ..HostSettings::default()
    }
}

#[test]
fn the_bundle_is_the_images_with_the_operators_certificates() {
    let (base, work) = (base(), tempfile::tempdir().unwrap());
    let layer = ensure(
        &settings(work.path()),
        &[base.path().into()],
        &work.path().join("layer"),
    )
    .unwrap();
    assert_eq!(
        fs::read_to_string(layer.join(BUNDLE)).unwrap(),
        "BASE\nOWN\n"
    );
    assert_eq!(layer.join("etc").metadata().unwrap().mode() & 0o777, 0o751);
    assert_eq!(
        layer
            .join("etc/sudoers.d/60-groundwork")
            .metadata()
            .unwrap()
            .mode()
            & 0o777,
        0o440
    );
}

#[test]
fn certificates_of_a_saved_layer_stay_and_are_not_doubled() {
    let (base, saved, work) = (
        base(),
        base_with("BASE\nMINE\nOWN\n"),
        tempfile::tempdir().unwrap(),
    );
    let below = [saved.path().to_owned(), base.path().to_owned()];
    let layer = ensure(&settings(work.path()), &below, &work.path().join("layer")).unwrap();
    assert_eq!(
        fs::read_to_string(layer.join(BUNDLE)).unwrap(),
        "BASE\nMINE\nOWN\n"
    );
}

fn base_with(bundle: &str) -> tempfile::TempDir {
    let dir = base();
    fs::write(dir.path().join(BUNDLE), bundle).unwrap();
    fs::write(dir.path().join("etc/hosts"), "mine\n").unwrap();
    dir
}

#[test]
fn hosts_of_a_saved_layer_are_not_covered() {
    let (base, saved, work) = (base(), base_with(""), tempfile::tempdir().unwrap());
    let below = [saved.path().to_owned(), base.path().to_owned()];
    let layer = ensure(&HostSettings::default(), &below, &work.path().join("layer")).unwrap();
    assert!(!layer.join("etc/hosts").exists());
    let layer = ensure(
        &HostSettings::default(),
        &below[1..],
        &work.path().join("other"),
    )
    .unwrap();
    assert!(layer.join("etc/hosts").exists());
}

#[test]
fn a_symlink_in_a_saved_layer_leads_nowhere_on_the_host() {
    let (base, saved, work) = (
        base(),
        tempfile::tempdir().unwrap(),
        tempfile::tempdir().unwrap(),
    );
    fs::write(work.path().join("secret"), "SECRET").unwrap();
    fs::create_dir_all(saved.path().join("etc/ssl/certs")).unwrap();
    symlink(work.path().join("secret"), saved.path().join(BUNDLE)).unwrap();
    let below = [saved.path().to_owned(), base.path().to_owned()];
    let layer = ensure(&settings(work.path()), &below, &work.path().join("layer")).unwrap();
    assert_eq!(
        fs::read_to_string(layer.join(BUNDLE)).unwrap(),
        "BASE\nOWN\n"
    );
}

#[test]
fn the_key_follows_what_the_layer_is_made_from() {
    let work = tempfile::tempdir().unwrap();
    let plain = HostSettings::default();
    let first = key(&plain, "sha256:a", &[]).unwrap();
    assert_eq!(first, key(&plain, "sha256:a", &[]).unwrap());
    assert_ne!(first, key(&plain, "sha256:b", &[]).unwrap());
    assert_ne!(
        first,
        key(&plain, "sha256:a", &["sha256:c".into()]).unwrap()
    );
    let own = settings(work.path());
    let with = key(&own, "sha256:a", &[]).unwrap();
    assert_ne!(first, with);
    fs::write(work.path().join("own.crt"), "NEW\n").unwrap();
    assert_ne!(with, key(&own, "sha256:a", &[]).unwrap());
}
