//! Compiles the sandbox's PID 1 (`src/init`) into a static program that the library carries inside itself.

use std::{env, path::PathBuf, process::Command};

fn main() {
    println!("cargo::rerun-if-changed=src/init");
    println!("cargo::rerun-if-changed=build.rs");
    let variable = |name: &str| env::var(name).unwrap_or_default();
    let out = PathBuf::from(variable("OUT_DIR")).join("groundwork-init");
    let status = Command::new(variable("RUSTC"))
        .args([
            "--edition=2024",
            "--crate-name=groundwork_init",
            "--crate-type=bin",
        ])
        .args([
            "-Copt-level=s",
            "-Cpanic=abort",
            "-Cstrip=symbols",
            "-Ctarget-feature=+crt-static",
        ])
        .arg(format!("--target={}", variable("TARGET")))
        .arg("-o")
        .arg(&out)
        .arg("src/init/main.rs")
        .status();
    match status {
        Ok(status) if status.success() => {}
        other => panic!(
            "compiling the sandbox's init failed ({other:?}); the static C library (Debian: libc6-dev) is needed"
        ),
    }
}
