//! What every script finds.

use std::os::unix::fs::PermissionsExt;

use execution::runtime::{Runtime, RuntimeError, SandboxSpec};

use crate::support::{Bench, HANGS, spec};

#[tokio::test(flavor = "multi_thread")]
async fn a_script_runs_and_its_output_arrives() {
    let bench = Bench::new();
    let wanted = SandboxSpec {
        disk_mib: 1_024,
        ..spec()
    };
    let id = bench.start(&wanted).await;
    let ran = bench.script(id, "echo out\necho err >&2\n", HANGS).await;
    let ran = ran.unwrap();
    bench.runtime.destroy(id).await.unwrap();
    assert_eq!(ran.passed(), "out\n");
    assert_eq!(ran.stderr(), "err\n");
    assert!(
        ran.end.disk_size > 900 << 20 && ran.end.memory_peak > 0,
        "{:?}",
        ran.end
    );
    bench.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn exit_codes_come_from_wait() {
    let bench = Bench::new();
    for (script, code) in [
        ("exit 3\n", 3),
        ("true\nfalse\n", 1),
        ("no-such-command\n", 127),
        ("kill -9 $$\n", 137),
        ("kill -TERM $$\n", 143),
        ("yes | head -1\n", 141),
        ("bash -c 'kill -SEGV $$'\n", 139),
        ("exec bash -c 'exit 6'\n", 6),
    ] {
        assert_eq!(bench.run(script).await.end.exit_code, code, "{script}");
    }
    bench.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_script_is_the_user_sandbox_in_the_workspace() {
    let bench = Bench::new();
    let mut spec = spec();
    spec.env_vars.insert(
        "MY_VAR".into(),
        "two words \"quoted\" $x\nand a line".into(),
    );
    spec.env_vars.insert("TZ".into(), "Europe/Berlin".into());
    let id = bench.start(&spec).await;
    let script = r#"
id -u; id -g; id -un; pwd; echo "$HOME"; hostname
echo "$LANG $TZ"
printf '%s\n' "$MY_VAR"
sudo -n id -u
sudo -n bash -c 'printf "%s\n" "$MY_VAR"; echo "$HOME"'
bash -lc 'printf "%s\n" "$MY_VAR"'
env -i bash -c 'echo "clean: ${MY_VAR-}"'
wc -c </dev/stdin
touch /workspace/a /home/sandbox/b /tmp/c /dev/shm/d /run/user-may-not 2>/dev/null || echo refused
cat /proc/1/comm
getent hosts sandbox | tr -s ' '
ls -ld /proc/1/root 2>/dev/null || true
case "$PATH" in /workspace/.venv/bin:*) echo venv first;; esac
test ! -e /sys/kernel && echo no sysfs
echo to-stderr >/dev/stderr
echo via-stdout >/dev/stdout
sudo -n sh -c 'echo root-via-stdout >/dev/stdout'
"#;
    let ran = bench.script(id, script, HANGS).await.unwrap();
    let expected = "1000\n1000\nsandbox\n/workspace\n/home/sandbox\nsandbox\nC.UTF-8 Europe/Berlin\n\
two words \"quoted\" $x\nand a line\n0\ntwo words \"quoted\" $x\nand a line\n/root\n\
two words \"quoted\" $x\nand a line\nclean: \n0\nrefused\ninit\n127.0.1.1 sandbox\nvenv first\nno sysfs\n\
via-stdout\nroot-via-stdout\n";
    let out = ran.passed();
    let out: String = out
        .lines()
        .filter(|line| !line.contains("/proc/1/root"))
        .map(|line| format!("{line}\n"))
        .collect();
    assert_eq!(out, expected, "{}", ran.stderr());
    assert_eq!(ran.stderr(), "to-stderr\n");
    bench.runtime.destroy(id).await.unwrap();
    bench.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_virtual_environment_in_the_workspace_is_used_from_the_next_line_on() {
    let bench = Bench::new();
    let script = "python3 -m venv --without-pip /workspace/.venv\npython -c 'import sys; print(sys.prefix)'\nbash -lc 'command -v python'\n";
    assert_eq!(
        bench.run(script).await.passed(),
        "/workspace/.venv\n/workspace/.venv/bin/python\n"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_of_the_environment_lie_in_no_file_of_the_host() {
    let bench = Bench::new();
    let mut spec = spec();
    spec.env_vars
        .insert("SECRET".into(), "s3cr3t-in-a-file".into());
    let id = bench.start(&spec).await;
    let ran = bench.script(id, "echo ${#SECRET}\n", HANGS).await.unwrap();
    assert_eq!(ran.passed(), "16\n");
    let found = std::process::Command::new("grep")
        .args([
            "-rIl",
            "--devices=skip",
            "--exclude=disk.img",
            "s3cr3t-in-a-file",
        ])
        .arg(bench.state())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&found.stdout), "");
    bench.runtime.destroy(id).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_package_is_installed_from_a_local_file_with_sudo() {
    let bench = Bench::new();
    let script = r#"
mkdir -p /tmp/p/DEBIAN /tmp/p/usr/local/bin
printf 'Package: hello-groundwork\nVersion: 1\nArchitecture: all\nMaintainer: x <x@example.com>\nDescription: x\n' >/tmp/p/DEBIAN/control
printf '#!/bin/sh\nset -e\nchown daemon:daemon /usr/local/bin/hello-groundwork\n' >/tmp/p/DEBIAN/postinst
chmod 755 /tmp/p/DEBIAN/postinst
printf '#!/bin/sh\necho installed\n' >/tmp/p/usr/local/bin/hello-groundwork
chmod 755 /tmp/p/usr/local/bin/hello-groundwork
dpkg-deb --build --root-owner-group /tmp/p /tmp/hello.deb >/dev/null
sudo apt-get install -y /tmp/hello.deb >/tmp/log 2>&1 || { cat /tmp/log; exit 1; }
hello-groundwork
stat -c %U /usr/local/bin/hello-groundwork
"#;
    assert_eq!(bench.run(script).await.passed(), "installed\ndaemon\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_given_is_refused_before_anything_is_made() {
    let bench = Bench::new();
    let mut privileged = spec();
    privileged.privileged = true;
    assert!(matches!(
        bench.runtime.prepare(&privileged).await,
        Err(RuntimeError::Unsupported(_))
    ));
    let mut no_image = spec();
    no_image.runner_image = "groundwork/runner:none".into();
    assert_eq!(
        bench.runtime.prepare(&no_image).await,
        Err(RuntimeError::NoImage("groundwork/runner:none".into()))
    );
    for digest in ["sha256:../../etc", &format!("sha256:{}", "a".repeat(64))] {
        let mut no_layer = spec();
        no_layer.layers.push(digest.to_owned());
        assert_eq!(
            bench.runtime.prepare(&no_layer).await,
            Err(RuntimeError::NoImage(digest.to_owned()))
        );
    }
    bench.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn prepare_stop_and_destroy_may_be_repeated() {
    let bench = Bench::new();
    let spec = spec();
    bench.runtime.stop(spec.id).await.unwrap();
    bench.runtime.destroy(spec.id).await.unwrap();
    bench.start(&spec).await;
    bench.start(&spec).await;
    bench.runtime.stop(spec.id).await.unwrap();
    bench.runtime.stop(spec.id).await.unwrap();
    let ran = bench.script(spec.id, "echo never\n", HANGS).await.unwrap();
    assert!(ran.end.cancelled && ran.events.is_empty(), "{ran:?}");
    bench.runtime.destroy(spec.id).await.unwrap();
    bench.runtime.destroy(spec.id).await.unwrap();
    let gone = bench.script(spec.id, "echo never\n", HANGS).await;
    assert!(matches!(gone, Err(RuntimeError::Lost(_))), "{gone:?}");
    bench.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operators_settings_are_seen_and_only_those() {
    let dir = tempfile::tempdir().unwrap();
    let certificate = dir.path().join("own.crt");
    std::fs::write(
        &certificate,
        "-----BEGIN CERTIFICATE-----\nOWN\n-----END CERTIFICATE-----\n",
    )
    .unwrap();
    std::fs::set_permissions(&certificate, std::fs::Permissions::from_mode(0o600)).unwrap();
    let bench = Bench::with(|config| {
        config.host.ca_certificates.push(certificate);
        config.host.apt_conf = "Acquire::Check-Valid-Until \"false\";\n".into();
        config.host.env.insert("UV_LINK_MODE".into(), "copy".into());
        config
            .host
            .files
            .insert("etc/pip.conf".into(), "[global]\n".into());
    });
    let script = r#"
grep -c OWN "$SSL_CERT_FILE"
grep -c BEGIN "$SSL_CERT_FILE" | awk '{print ($1 > 50) ? "many" : "few"}'
cat /usr/local/share/ca-certificates/*.crt | grep -c OWN
sudo sh -c 'echo $SSL_CERT_FILE $UV_LINK_MODE'
apt-config dump | grep -E 'Error-Mode|Check-Valid-Until'
cat /etc/pip.conf /etc/resolv.conf
stat -c '%a %U' /etc /etc/sudoers.d /etc/sudoers.d/60-groundwork /etc/ssl/certs
"#;
    let out = bench.run(script).await.passed();
    assert_eq!(
        out,
        "1\nmany\n1\n/etc/ssl/certs/ca-certificates.crt copy\n\
         APT::Update::Error-Mode \"any\";\nAcquire::Check-Valid-Until \"false\";\n\
         [global]\nnameserver 198.18.0.1\noptions ndots:1 timeout:2 attempts:2\n\
         755 root\n755 root\n440 root\n755 root\n"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_machine_passes_its_checks() {
    let bench = Bench::new();
    let checks = bench.runtime.check().await;
    let failed: Vec<_> = checks
        .iter()
        .filter(|check| check.state == execution::runtime::CheckState::Failed)
        .collect();
    assert!(failed.is_empty(), "{failed:?}");
    assert!(checks.len() >= 10, "{checks:?}");
    let bad = Bench::with(|config| config.runtime = "no-such-runtime".into());
    let checks = bad.runtime.check().await;
    let check = checks
        .iter()
        .find(|check| check.name == "OCI runtime")
        .unwrap();
    assert_eq!(check.state, execution::runtime::CheckState::Failed);
    assert!(check.mend.contains("crun"), "{check:?}");
}
