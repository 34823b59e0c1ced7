//! Making and unmaking one sandbox, inside its shim.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
    },
    time::Duration,
};

use domain::process::Sample;
use nix::mount::{MntFlags, umount2};
use tokio::sync::{Semaphore, mpsc};

use super::{
    VIEW,
    cgroup::{Cgroup, Kind},
    container::Container,
    disk,
    frames::Plan,
    group::Group,
    idmap::{Mapping, Slot},
    kept::{self, Kept},
    mounts,
    overlay::Root,
    sys,
};
use crate::{
    egress::{self, EgressConfig, Gateway, Network, SystemResolver},
    runtime::RuntimeError,
};

/// How long the gateway may take to answer inside.
const GATEWAY_LIMIT: Duration = Duration::from_secs(10);
/// Attempts to reach a host that wait to be told; further ones are only reported.
const EGRESS_WAITING: usize = 1_024;
/// Most commands at once.
const COMMANDS_MAX: usize = 128;
/// Most connections to ports inside at once.
const CONNECTIONS_MAX: usize = 256;
/// How long a save that is to break off may take to do so, before the sandbox ends under it: less than whoever removes what
/// is left waits for the shim.
const SAVE_END: Duration = Duration::from_secs(2);
/// Most pipes of ended commands that are still read; beyond that, who writes to one gets SIGPIPE.
const HELD_MAX: usize = 256;

/// Why everything inside was ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum End {
    /// It was not.
    None = 0,
    /// Somebody asked.
    Stopped = 1,
    /// Its time to live was over.
    LifeOver = 2,
}

/// A sandbox that runs.
pub struct Sandbox {
    /// What it was made from.
    pub plan: Plan,
    /// Its processes.
    pub container: Container,
    /// Its limits and counters.
    pub cgroup: Cgroup,
    /// An [`End`].
    pub end: AtomicU8,
    /// Its network.
    pub network: Arc<Network>,
    /// Attempts to reach a host for the first time, as they happen; taken by the run.
    pub egress: Mutex<mpsc::Receiver<egress::EgressEvent>>,
    /// Commands of a session.
    pub commands: Commands,
    /// Held by a save: one at a time, all of the same sandbox write to the same place.
    pub saving: tokio::sync::Mutex<()>,
    /// Nobody wants the sandbox saved any more.
    unwanted: AtomicBool,
    root: Root,
    _gateway: Gateway,
    slot: Slot,
}

/// What the commands of a session share.
pub struct Commands {
    /// One for each that runs.
    pub places: Arc<Semaphore>,
    /// Number of the next.
    pub next: AtomicU64,
    /// Groups of those that ended.
    pub left: Mutex<Vec<Group>>,
    /// One for each connection to a port inside.
    pub connections: Arc<Semaphore>,
    /// One for each pipe of a command that ended and left somebody holding it.
    pub held: Arc<Semaphore>,
}

impl Default for Commands {
    fn default() -> Self {
        Self {
            places: Arc::new(Semaphore::new(COMMANDS_MAX)),
            next: AtomicU64::new(1),
            left: Mutex::default(),
            connections: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
            held: Arc::new(Semaphore::new(HELD_MAX)),
        }
    }
}

/// What the first, single-threaded part of the shim prepares.
pub struct Ground {
    /// The range of ids.
    pub slot: Slot,
}

impl Sandbox {
    /// Makes the network, the disk and the user namespace side by side, then the root, then starts the container.
    ///
    /// # Errors
    /// [`RuntimeError::Capacity`] when the host's disk has no room; otherwise what could not be made.
    pub async fn make(plan: Plan, ground: Ground) -> Result<Self, RuntimeError> {
        let failed = |what: &'static str| {
            move |error: io::Error| RuntimeError::Other(format!("{what}: {error}"))
        };
        let mut config = EgressConfig::new(plan.network_policy.clone());
        config.nft.clone_from(&plan.nft);
        for range in &plan.opened {
            config.opened.push(range.parse().map_err(|error| {
                RuntimeError::Other(format!("the opened network {range}: {error}"))
            })?);
        }
        config.own_addresses.clone_from(&plan.own_addresses);
        let network =
            side(move || Network::create(config).map_err(failed("making the sandbox's network")));
        let disk_dir = Path::new(VIEW).join("disk");
        let image = plan.dir.join(kept::DISK);
        let (bytes, reserve) = (plan.disk_bytes, plan.disk_reserve);
        let (templates, target) = (plan.disk_templates.clone(), disk_dir.clone());
        let sandboxes = plan.sandboxes_dir();
        let (keep, resume) = (plan.keep_disk, plan.resume);
        let disk = side(move || {
            if resume {
                return disk::reopen(&image, &target);
            }
            let new = disk::New {
                image: &image,
                bytes,
                reserve,
                sandboxes: &sandboxes,
                templates: &templates,
                keep,
            };
            disk::create(&new, &target)
        });
        let base = ground.slot.base();
        let mapping = side(move || Mapping::new(base).map_err(failed("making a user namespace")));

        let (mapping, reservation) = (mapping.await?, disk.await?);
        let (points, layers) = (Path::new(VIEW).join("m"), plan.lowers.clone());
        let mounts = plan.mounts.clone();
        let root = side(move || {
            let root = Root::assemble(&points, &layers, &disk_dir, &mapping, base, keep)
                .map_err(failed("assembling the root file system"))?;
            mounts::attach(&root.path(), &mounts, &mapping, base)?;
            Ok(root)
        });
        let (root, network) = (root.await?, Arc::new(network.await?));
        let (events, egress) = mpsc::channel(EGRESS_WAITING);
        let gateway = network
            .serve(Arc::new(SystemResolver), events)
            .map_err(failed("serving the sandbox's network"))?;
        network
            .ready(GATEWAY_LIMIT)
            .await
            .map_err(failed("serving the sandbox's network"))?;
        let container = Container::start(&plan, &root.path(), base, &network).await?;
        // From here on somebody's script may write.
        side(move || reservation.complete()).await?;
        if keep && !resume {
            let kept = Kept {
                lowers: plan.lowers.get(1..).unwrap_or_default().to_vec(),
                base_digest: plan.base_digest.clone(),
                disk_bytes: plan.disk_bytes,
            };
            kept.write(&plan.dir)
                .map_err(failed("noting that the disk is kept"))?;
        }
        let cgroup = Cgroup::new(Kind::detect(), &plan.cgroup);
        Ok(Self {
            plan,
            container,
            cgroup,
            end: AtomicU8::new(End::None as u8),
            network,
            egress: egress.into(),
            commands: Commands::default(),
            saving: tokio::sync::Mutex::default(),
            unwanted: AtomicBool::new(false),
            root,
            _gateway: gateway,
            slot: ground.slot,
        })
    }

    /// Kills everything inside and waits for it.
    ///
    /// # Errors
    /// Something hangs in the kernel.
    pub async fn stop(&self, why: End) -> Result<(), RuntimeError> {
        if !self.container.is_gone() {
            // The first reason counts.
            let _ = self.end.compare_exchange(
                End::None as u8,
                why as u8,
                Ordering::SeqCst,
                Ordering::SeqCst,
            );
        }
        self.container.kill().await
    }

    /// From now on nothing is saved: a save that is under way breaks off.
    pub fn break_off(&self) {
        self.unwanted.store(true, Ordering::SeqCst);
    }

    /// Whether [`Self::break_off`] was called.
    pub fn is_broken_off(&self) -> bool {
        self.unwanted.load(Ordering::SeqCst)
    }

    /// Breaks off a save that is under way and waits a moment for it: it holds the disk, and removes its copy.
    pub async fn end_save(&self) {
        self.break_off();
        if tokio::time::timeout(SAVE_END, self.saving.lock())
            .await
            .is_err()
        {
            tracing::warn!("a save did not break off in time");
        }
    }

    /// Host id of the sandbox's root.
    pub fn base(&self) -> u32 {
        self.slot.base()
    }

    /// What it uses now.
    pub fn sample(&self) -> Sample {
        let (disk_used, disk_size) = disk::usage(&self.disk());
        Sample {
            cpu_millis: self.cgroup.cpu_millis(),
            memory_used: self.cgroup.memory_used(),
            memory_limit: u64::from(self.plan.memory_mib) << 20,
            disk_used,
            disk_size,
            processes: self.cgroup.process_count(),
        }
    }

    /// Ends everything inside and brings what was written to the disk, which is unmounted then.
    ///
    /// # Errors
    /// Something hangs in the kernel, or the disk lost data.
    pub async fn suspend(self: Arc<Self>) -> Result<(), RuntimeError> {
        self.stop(End::Stopped).await?;
        let sandbox = self;
        side(move || {
            sandbox.close_root();
            let disk = sandbox.disk();
            let synced = fs::File::open(&disk).and_then(sys::syncfs);
            unmount_disk(&sandbox.plan);
            synced.map_err(|error| RuntimeError::Other(format!("the disk lost data: {error}")))
        })
        .await
    }

    /// The upper directory with plain ids, as it lies on the disk.
    pub fn upper(&self) -> PathBuf {
        self.disk().join("upper")
    }

    /// Where the disk is mounted.
    pub fn disk(&self) -> PathBuf {
        Path::new(VIEW).join("disk")
    }

    /// Takes the overlay apart, so that the upper does not change any more.
    pub fn close_root(&self) {
        self.root.disassemble();
    }

    /// Unmounts everything and lets the loop device go.
    pub fn close(&self) {
        self.close_root();
        unmount_disk(&self.plan);
    }
}

/// Starts blocking work at once; the result is awaited later.
fn side<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RuntimeError> + Send + 'static,
) -> impl Future<Output = Result<T, RuntimeError>> {
    let running = tokio::task::spawn_blocking(work);
    async move {
        running
            .await
            .map_err(|error| RuntimeError::Other(error.to_string()))?
    }
}

/// Unmounts a sandbox's disk; not mounted is fine.
pub fn unmount_disk(plan: &Plan) {
    let disk = Path::new(VIEW).join("disk");
    if disk.exists() && umount2(&disk, MntFlags::empty()).is_err() {
        let _ = umount2(&disk, MntFlags::MNT_DETACH);
    }
    if !plan.keep_disk || Kept::read(&plan.dir).is_none() {
        // The image is of no use to anybody any more, and its room is needed.
        let _ = fs::remove_file(plan.dir.join(kept::DISK));
    }
}
