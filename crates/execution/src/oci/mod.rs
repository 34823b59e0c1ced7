//! The `oci` runtime: sandboxes through `crun` or `runc` on this machine (spec 4-execution).
//!
//! This side runs in the worker and holds one socket per sandbox; everything that touches the kernel happens in the
//! sandbox's own [`crate::shim`].
//!
//! ```text
//! <state>/bin/            our init, by content
//! <state>/sandboxes/<id>/ lock, disk.img, shim.log; kept.json beside a disk that outlives its sandbox
//! <state>/disks/          an empty file system of each size
//! <state>/slots/          lock files that give out ranges of user ids
//! <state>/runtime/        the OCI runtime's own state
//! <state>/fetched/        files on their way into sandboxes, see [`crate::fetch`]
//! <state>/host-layers/    generated layers with the machine's settings, by content, and what each is over
//! <images>/layers/        saved layers
//! ```

mod commands;
pub mod config_json;
mod connection;
mod contract;
mod files;
mod host_layer;
mod host_layers;
mod pins;
mod reclaim;
mod volumes;

use std::{
    collections::{BTreeMap, HashMap},
    ffi::OsString,
    io,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use domain::{ids::SandboxId, network_policy::Cidr, secrets::SecretVars};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::sync::{Mutex, RwLock};

/// `PATH` of every process in a sandbox.
pub(crate) use self::host_layer::PATH as SANDBOX_PATH;
use self::{
    connection::Connection,
    files::{make_dir, write_init},
};
pub use self::{host_layer::HostSettings, volumes::Volume};
use crate::{
    egress::SystemResolver,
    fetch::{FetchLimits, Fetcher, machine_roots},
    images::ImageStore,
    runtime::{RuntimeError, SandboxSpec},
    shim::{frames::Plan, kept::Kept},
};

/// Parent of every sandbox's cgroup.
pub(crate) const CGROUP_PARENT: &str = "groundwork";

/// Directory of the sandboxes' own in the state directory.
pub(crate) const SANDBOXES: &str = "sandboxes";

/// Directory of fetched files in the state directory.
pub(crate) const FETCHED: &str = "fetched";

/// Which OCI runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RuntimeKind {
    /// `crun`
    Crun,
    /// `runc`
    Runc,
}

impl RuntimeKind {
    /// Its usual program name.
    pub const fn program(self) -> &'static str {
        match self {
            Self::Crun => "crun",
            Self::Runc => "runc",
        }
    }
}

/// How sandboxes are made on this machine.
#[derive(Debug, Clone)]
pub struct OciConfig {
    /// Where everything of the sandboxes lies; nobody but root needs to reach it.
    pub state_dir: PathBuf,
    /// Runner images and saved layers.
    pub images: ImageStore,
    /// The OCI runtime's program.
    pub runtime: PathBuf,
    /// Which one it is.
    pub runtime_kind: RuntimeKind,
    /// The nftables program.
    pub nft: PathBuf,
    /// Private networks that sandboxes may reach where their policy allows the host.
    pub opened: Vec<Cidr>,
    /// Addresses of the control plane besides those of this machine's interfaces, such as its public one; no sandbox
    /// reaches them.
    pub own_addresses: Vec<IpAddr>,
    /// First host user id given out; 65,536 for each slot follow.
    pub base_uid: u32,
    /// Sandboxes at once.
    pub slots: u32,
    /// Most processes and threads in one sandbox.
    pub pids_max: u32,
    /// Bytes of the disk under `state_dir` that sandboxes must leave free.
    pub disk_reserve: u64,
    /// Program and arguments that run [`crate::shim::main`] before anything else.
    pub shim_command: (PathBuf, Vec<OsString>),
    /// What of this machine sandboxes see.
    pub host: HostSettings,
    /// Directories of this machine that sandboxes can be given.
    pub volumes: Vec<Volume>,
}

impl OciConfig {
    /// The defaults: `crun`, 64 slots from user id 200,000, 4,096 processes, 1 GiB in reserve, nothing of the machine.
    pub fn new(
        state_dir: PathBuf,
        images: ImageStore,
        shim_command: (PathBuf, Vec<OsString>),
    ) -> Self {
        Self {
            state_dir,
            images,
            runtime: RuntimeKind::Crun.program().into(),
            runtime_kind: RuntimeKind::Crun,
            nft: "nft".into(),
            opened: Vec::new(),
            own_addresses: Vec::new(),
            base_uid: 200_000,
            slots: 64,
            pids_max: 4_096,
            disk_reserve: 1 << 30,
            shim_command,
            host: HostSettings::default(),
            volumes: Vec::new(),
        }
    }

    /// Directories of sandboxes.
    pub(crate) fn sandboxes(&self) -> PathBuf {
        self.state_dir.join(SANDBOXES)
    }

    /// Files on their way into sandboxes.
    pub(crate) fn fetched(&self) -> PathBuf {
        self.state_dir.join(FETCHED)
    }

    /// State of the OCI runtime.
    pub(crate) fn runtime_root(&self) -> PathBuf {
        self.state_dir.join("runtime")
    }

    /// First part of the names of this deployment's cgroups: several may share a machine.
    pub(crate) fn cgroup_prefix(&self) -> String {
        let hash = Sha256::digest(self.state_dir.as_os_str().as_encoded_bytes());
        format!("{}.", &hex::encode(hash)[..8])
    }

    /// Cgroup path of a sandbox.
    pub(crate) fn cgroup(&self, id: SandboxId) -> String {
        format!("/{CGROUP_PARENT}/{}{id}", self.cgroup_prefix())
    }
}

/// The runtime.
pub struct OciRuntime {
    config: OciConfig,
    init: PathBuf,
    sandboxes: Mutex<HashMap<SandboxId, Arc<Connection>>>,
    /// One at a time: two starts from the same layers would generate the same host layer, and none is removed meanwhile.
    host_layers: Mutex<()>,
    pins: pins::Pins,
    files: Fetcher,
    /// Held for reading while a sandbox is made, until it is in the list; for writing while leftovers are removed.
    making: RwLock<()>,
}

fn other(what: &str) -> impl FnOnce(io::Error) -> RuntimeError + '_ {
    move |error| match error.raw_os_error() {
        Some(libc::ENOSPC) => {
            RuntimeError::Capacity(format!("the machine's disk is full ({what})"))
        }
        _ => RuntimeError::Other(format!("{what}: {error}")),
    }
}

impl OciRuntime {
    /// Makes the state directory; touches nothing else.
    ///
    /// # Errors
    /// The state directory cannot be written.
    pub fn new(mut config: OciConfig) -> Result<Self, RuntimeError> {
        make_dir(&config.state_dir, 0o700).map_err(other("making the state directory"))?;
        config.state_dir = config
            .state_dir
            .canonicalize()
            .map_err(other("finding the state directory"))?;
        for (name, mode) in [
            (SANDBOXES, 0o700),
            ("slots", 0o700),
            ("runtime", 0o700),
            ("host-layers", 0o700),
            ("bin", 0o755),
            ("disks", 0o700),
            (FETCHED, 0o700),
        ] {
            make_dir(&config.state_dir.join(name), mode)
                .map_err(other("making the state directory"))?;
        }
        let init = write_init(&config.state_dir.join("bin")).map_err(other("writing the init"))?;
        let files = Fetcher::new(
            config.fetched(),
            config.disk_reserve,
            config.own_addresses.clone(),
            Arc::new(SystemResolver),
            machine_roots(&config.host.ca_certificates),
            FetchLimits::default(),
        )
        .map_err(other("preparing to fetch files"))?;
        Ok(Self {
            config,
            init,
            sandboxes: Mutex::default(),
            host_layers: Mutex::default(),
            pins: pins::Pins::default(),
            files,
            making: RwLock::default(),
        })
    }

    /// With another fetcher of files: tests have servers and certificates of their own.
    #[must_use]
    pub fn with_fetcher(mut self, files: Fetcher) -> Self {
        self.files = files;
        self
    }

    /// The configuration, with the state directory's real path.
    pub fn config(&self) -> &OciConfig {
        &self.config
    }

    async fn connection(&self, id: SandboxId) -> Result<Arc<Connection>, RuntimeError> {
        let found = self.sandboxes.lock().await.get(&id).cloned();
        found.ok_or_else(|| RuntimeError::Lost("it is not on this machine".into()))
    }

    /// Everything the shim must know.
    async fn plan(
        &self,
        spec: &SandboxSpec,
        dir: &Path,
        kept: Option<Kept>,
    ) -> Result<Plan, RuntimeError> {
        if spec.privileged {
            return Err(RuntimeError::Unsupported(
                "Privileged sandboxes are not offered on this machine: they would need rights over the shared kernel."
                    .into(),
            ));
        }
        let mounts = volumes::planned(&self.config, &spec.mounts)?;
        let below = match &kept {
            Some(kept) => self.still_there(kept)?,
            None => self.below(spec)?,
        };
        let (mut layers, base_digest) = (below.lowers, below.base_digest);
        let host_layer = {
            let _one = self.host_layers.lock().await;
            let (settings, below) = (self.config.host.clone(), layers.clone());
            let over = host_layers::Over {
                base_digest: base_digest.clone(),
                layers: spec.layers.clone(),
            };
            let key = host_layer::key(&settings, &base_digest, &spec.layers)
                .map_err(other("the host layer"))?;
            let target = host_layers::dir(&self.config).join(key);
            let ensure = move || {
                host_layers::note(&target, &over)?;
                host_layer::ensure(&settings, &below, &target)
            };
            tokio::task::spawn_blocking(ensure)
                .await
                .map_err(|error| RuntimeError::Other(error.to_string()))?
                .map_err(other("generating the host layer"))?
        };
        layers.insert(0, host_layer);
        Ok(Plan {
            sandbox: spec.id,
            dir: dir.to_owned(),
            slots_dir: self.config.state_dir.join("slots"),
            base_uid: self.config.base_uid,
            slots: self.config.slots,
            runtime: self.config.runtime.clone(),
            runtime_kind: self.config.runtime_kind,
            runtime_root: self.config.runtime_root(),
            cgroup: self.config.cgroup(spec.id),
            lowers: layers,
            init: self.init.clone(),
            cpu_milli: spec.cpu_milli,
            memory_mib: spec.memory_mib,
            pids_max: self.config.pids_max,
            disk_bytes: below.disk_bytes,
            disk_reserve: self.config.disk_reserve,
            disk_templates: self.config.state_dir.join("disks"),
            env: environment(&self.config.host, &spec.env_vars, &spec.secrets),
            network_policy: spec.network_policy.clone(),
            opened: self.config.opened.iter().map(Cidr::to_string).collect(),
            own_addresses: self.config.own_addresses.clone(),
            nft: self.config.nft.clone(),
            layers_dir: self.config.images.layers_dir(),
            base_digest,
            mounts,
            life: spec.life,
            keep_disk: spec.keep_disk,
            resume: kept.is_some(),
        })
    }

    /// What a kept disk was made over must be as it was: its upper only tells what differs from that.
    fn still_there(&self, kept: &Kept) -> Result<Kept, RuntimeError> {
        let base = self.config.images.rootfs_of(&kept.base_digest);
        let base = base.map_err(other("reading the images"))?;
        let base = base.ok_or_else(|| RuntimeError::NoImage(kept.base_digest.clone()))?;
        let mut kept = kept.clone();
        // The lowest is the runner image, which may have moved when another took its place.
        if let Some(lowest) = kept.lowers.last_mut() {
            *lowest = base;
        }
        match kept.lowers.iter().find(|layer| !layer.is_dir()) {
            None => Ok(kept),
            Some(gone) => Err(RuntimeError::NoImage(gone.display().to_string())),
        }
    }

    /// What a new sandbox is made over.
    fn below(&self, spec: &SandboxSpec) -> Result<Kept, RuntimeError> {
        let found = self.config.images.runner(&spec.runner_image);
        let found = found.map_err(other("reading the images"))?;
        let missing = || RuntimeError::NoImage(spec.runner_image.clone());
        let (image, rootfs) = found.ok_or_else(missing)?;
        let base_digest = spec.base_digest.clone().unwrap_or(image.digest.clone());
        let digests = [&spec.layers[..], std::slice::from_ref(&base_digest)].concat();
        self.pins.pin(spec.id, &digests);
        // Whether something is there is looked at once it cannot go any more.
        let rootfs = if base_digest == image.digest {
            rootfs
        } else {
            let kept = self.config.images.rootfs_of(&base_digest);
            let kept = kept.map_err(other("reading the images"))?;
            kept.ok_or_else(|| RuntimeError::NoImage(base_digest.clone()))?
        };
        if !rootfs.is_dir() {
            return Err(missing());
        }
        // Highest first.
        let mut lowers = Vec::new();
        for digest in spec.layers.iter().rev() {
            let layer = self.config.images.layer_dir(digest);
            match layer.filter(|layer| layer.is_dir()) {
                Some(layer) => lowers.push(layer),
                None => return Err(RuntimeError::NoImage(digest.clone())),
            }
        }
        lowers.push(rootfs);
        Ok(Kept {
            lowers,
            base_digest,
            disk_bytes: u64::from(spec.disk_mib) << 20,
        })
    }
}

/// Variables of every process: ours, the machine's, then the environment's own, which win.
fn environment(
    host: &HostSettings,
    own: &BTreeMap<String, String>,
    secrets: &SecretVars,
) -> Vec<(String, String)> {
    let ours = [
        ("HOME", "/home/sandbox"),
        ("USER", "sandbox"),
        ("LOGNAME", "sandbox"),
        ("SHELL", "/bin/bash"),
        ("LANG", "C.UTF-8"),
        ("LC_ALL", "C.UTF-8"),
        ("TZ", "UTC"),
        ("PATH", host_layer::PATH),
    ];
    let mut merged: BTreeMap<String, String> = ours
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    merged.extend(host_layer::client_settings());
    merged.extend(host_layer::certificate_variables(host));
    merged.extend(host.env.clone());
    merged.extend(own.clone());
    merged.extend(secrets.expose().clone());
    merged.into_iter().collect()
}
