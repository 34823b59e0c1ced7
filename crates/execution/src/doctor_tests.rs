//! What is said of machines that the one of the tests is not: each test lays what it needs over the machine's files, in a mount
//! namespace of its own.

use super::*;
use crate::shim::cgroup::{MOUNT, tests::over};

#[test]
fn swap_is_warned_of_where_it_is_on_and_cannot_be_limited() {
    over("tmpfs", || {
        let cgroup = |name: &str| Path::new(MOUNT).join(name);
        for controller in ["memory", "cpu", "cpuacct", "pids", "devices"] {
            fs::create_dir(cgroup(controller)).unwrap();
        }
        let table = cgroup("swaps");
        let has = |devices: &str| {
            let text = format!("Filename\tType\tSize\tUsed\tPriority\n{devices}");
            fs::write(&table, text).unwrap();
        };
        has("");
        let none: Option<&str> = None;
        mount(Some(&table), "/proc/swaps", none, MsFlags::MS_BIND, none).unwrap();
        let said = || {
            let checks = cgroups();
            let (name, state) = (&checks[0].name, checks[0].state);
            assert_eq!((name.as_str(), state), ("cgroups", CheckState::Ok));
            checks.into_iter().find(|check| check.name == "swap")
        };
        assert!(said().is_none(), "there is no swap");

        has("/dev/vdb\tpartition\t1048572\t0\t-2\n");
        let check = said().unwrap();
        assert_eq!(check.state, CheckState::Warning);
        assert_eq!(check.found, "swap is on and cannot be limited");
        assert!(check.mend.contains("swapaccount=1"), "{}", check.mend);

        fs::write(cgroup("memory/memory.memsw.limit_in_bytes"), "1\n").unwrap();
        assert!(said().is_none(), "swap can be limited");
    });
}

/// The checks of a stand-in for the OCI runtime that says this of itself.
fn said_of(kind: RuntimeKind, version: &str) -> Vec<Check> {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("stand-in");
    // A process of its own writes it: while one of ours had it open for writing, it could not be started.
    let made = Command::new("sh")
        .args([
            "-c",
            "printf '#!/bin/sh\\ncat <<END\\n%s\\nEND\\n' \"$2\" >\"$1\" && chmod 755 \"$1\"",
            "sh",
        ])
        .arg(&program)
        .arg(version)
        .status();
    assert!(made.unwrap().success());
    let images = crate::images::ImageStore::new(dir.path());
    let shim = (PathBuf::new(), Vec::new());
    let mut config = OciConfig::new(dir.path().to_owned(), images, shim);
    config.runtime = program;
    config.runtime_kind = kind;
    runtime(&config)
}

#[test]
fn an_oci_runtime_that_would_not_confine_sandboxes_is_refused() {
    let crun = |features: &str| format!("crun version 1.14\ncommit: 0\nspec: 1.0.0\n{features}");
    let runc = |more: &str| format!("runc version 1.1.5\nspec: 1.0.2-dev\ngo: go1.19.8{more}");
    let cases = [
        (
            RuntimeKind::Crun,
            crun("+SYSTEMD +SELINUX +APPARMOR +CAP +SECCOMP +EBPF +YAJL"),
            "",
        ),
        (RuntimeKind::Crun, crun("+CAP +SECCOMP"), ""),
        (
            RuntimeKind::Crun,
            crun("+SYSTEMD +CAP +EBPF +YAJL"),
            "crun was built without SECCOMP",
        ),
        (
            RuntimeKind::Crun,
            crun("+SYSTEMD +SECCOMP +YAJL"),
            "crun was built without CAP",
        ),
        (
            RuntimeKind::Crun,
            crun("+CAPS -CAP -SECCOMP"),
            "crun was built without SECCOMP and CAP",
        ),
        (
            RuntimeKind::Crun,
            crun("features: +SECCOMP +CAP"),
            "crun was built without SECCOMP and CAP",
        ),
        (
            RuntimeKind::Crun,
            crun(""),
            "crun was built without SECCOMP and CAP",
        ),
        (RuntimeKind::Runc, runc("\nlibseccomp: 2.5.4"), ""),
        (
            RuntimeKind::Runc,
            runc(""),
            "runc was built without libseccomp",
        ),
    ];
    for (kind, version, refused) in cases {
        let checks = said_of(kind, &version);
        assert_eq!(checks.len(), 2, "{version}");
        assert_eq!(checks[0].found, version.lines().next().unwrap());
        assert_eq!(checks[0].state, CheckState::Ok, "{version}");
        let confinement = &checks[1];
        if refused.is_empty() {
            assert_eq!(confinement.state, CheckState::Ok, "{version}");
        } else {
            assert_eq!(confinement.state, CheckState::Failed, "{version}");
            assert_eq!(confinement.found, refused);
            let mend = format!("apt-get install {}", kind.program());
            assert!(confinement.mend.contains(&mend), "{}", confinement.mend);
        }
    }
    // Another program than it is said to be.
    let checks = said_of(RuntimeKind::Crun, &runc("\nlibseccomp: 2.5.4"));
    assert_eq!(checks.len(), 1);
    assert_eq!(checks[0].state, CheckState::Failed);
    assert!(
        checks[0].found.ends_with("is not crun"),
        "{}",
        checks[0].found
    );
}
