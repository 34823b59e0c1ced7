//! Runs a script in a real sandbox and shows what happens, for trying things by hand:
//! `cargo run -p execution --example sandbox -- SCRIPT-FILE [HOST-GLOB]…`, as root. The hosts are those that may be reached.
//! `GROUNDWORK_TEST_IMAGES` names the images' directory (default `/var/lib/groundwork-test/images`), `IMAGE` the image
//! (default `groundwork/runner:small`), `CA` a certificate that the sandbox trusts.
#![allow(clippy::print_stdout)]

use std::{collections::BTreeMap, error::Error, path::PathBuf, process::ExitCode, time::Duration};

use domain::{
    ids::Id,
    network_policy::{NetworkPolicy, Rule, RuleAction},
};
use execution::{
    images::ImageStore,
    oci::{OciConfig, OciRuntime},
    runtime::{Event, Runtime, SandboxSpec, ScriptSpec},
};
use tokio::sync::mpsc;

fn main() -> ExitCode {
    // The sandbox's shim is this very program.
    if std::env::args().nth(1).as_deref() == Some("shim") {
        return execution::shim::main();
    }
    let ran = tokio::runtime::Runtime::new()
        .map_err(Into::into)
        .and_then(|tokio| tokio.block_on(run()));
    match ran {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<ExitCode, Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let script = std::fs::read_to_string(
        args.next()
            .ok_or("usage: sandbox SCRIPT-FILE [HOST-GLOB]…")?,
    )?;
    let rules = args
        .map(|host_glob| Rule {
            host_glob,
            action: RuleAction::Allow,
        })
        .collect();
    let images = std::env::var_os("GROUNDWORK_TEST_IMAGES")
        .map_or_else(|| "/var/lib/groundwork-test/images".into(), PathBuf::from);
    let dir = tempfile::tempdir_in("/var/lib")?;
    let shim = (std::env::current_exe()?, vec!["shim".into()]);
    let mut config = OciConfig::new(dir.path().join("state"), ImageStore::new(images), shim);
    config
        .host
        .ca_certificates
        .extend(std::env::var_os("CA").map(PathBuf::from));
    config.host.apt_conf = std::env::var("APT_CONF").unwrap_or_default();
    let runtime = OciRuntime::new(config)?;
    let spec = SandboxSpec {
        id: Id::from_uuid(uuid::Uuid::new_v4()),
        runner_image: std::env::var("IMAGE").unwrap_or_else(|_| "groundwork/runner:small".into()),
        layers: Vec::new(),
        base_digest: None,
        cpu_milli: 2_000,
        memory_mib: 2_048,
        disk_mib: 2 << 10,
        env_vars: BTreeMap::new(),
        secrets: Default::default(),
        network_policy: NetworkPolicy::Rules(rules),
        privileged: false,
        mounts: Vec::new(),
        life: None,
        keep_disk: false,
    };
    let script = ScriptSpec {
        script,
        timeout: Duration::from_secs(600),
    };
    let (sender, mut events) = mpsc::channel(64);
    let showing = async {
        while let Some(event) = events.recv().await {
            match event {
                Event::Marker { line, text } => println!("[{line}] {text}"),
                Event::Output { bytes, .. } => print!("{}", String::from_utf8_lossy(&bytes)),
                Event::System { text } => println!("-- {text}"),
                Event::Egress(_) => {}
            }
        }
    };
    runtime.prepare(&spec).await?;
    let (end, ()) = tokio::join!(runtime.run_script(spec.id, &script, sender), showing);
    runtime.destroy(spec.id).await?;
    let end = end?;
    println!("{end:#?}");
    Ok(if end.exit_code == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
