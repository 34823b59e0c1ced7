//! Both versions, whichever the machine has: each test lays what it needs over `/sys/fs/cgroup` in a mount namespace of its
//! own. Version 2 is the kernel's own hierarchy where there is one to mount, with the files that need no controller; files
//! with figures are made by hand.

use std::{
    os::unix::process::ExitStatusExt,
    process::{Child, Command, Stdio},
    thread,
};

use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
};

use super::{super::group::Group, *};

/// Runs `work` where this kind of file system lies at the place of the machine's cgroups.
pub(crate) fn over(kind: &'static str, work: impl FnOnce() + Send + 'static) {
    assert!(
        nix::unistd::geteuid().is_root(),
        "this test mounts file systems and must run as root"
    );
    let place = thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNS).unwrap();
        let none: Option<&str> = None;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_SLAVE, none).unwrap();
        mount(Some("none"), MOUNT, Some(kind), MsFlags::empty(), none).unwrap();
        work();
    });
    if let Err(panic) = place.join() {
        std::panic::resume_unwind(panic);
    }
}

fn sleeper(entry: &Path) -> Child {
    let child = Command::new("sleep")
        .arg("1000")
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    fs::write(entry, child.id().to_string()).unwrap();
    child
}

#[test]
fn groups_of_a_version_2_hierarchy_are_listed_killed_and_removed() {
    over("cgroup2", || {
        assert_eq!(Kind::detect(), Kind::V2);
        assert_eq!(Kind::V2.hierarchies(), [PathBuf::from(MOUNT)]);
        assert!(Kind::V2.limits_swap());
        let parent = Path::new(MOUNT).join(format!("groundwork-test-{}", std::process::id()));
        let dir = parent.join("box");
        fs::create_dir_all(&dir).unwrap();
        let cgroup = Cgroup::new(
            Kind::detect(),
            &format!("/{}/box", parent.file_name().unwrap().to_str().unwrap()),
        );
        assert_eq!(cgroup.present(), std::slice::from_ref(&dir));
        let mut own = sleeper(&dir.join("cgroup.procs"));
        // As a command of a session: a group below, killed without the rest.
        let group = Group::make(&cgroup, 7).unwrap();
        let mut command = sleeper(&dir.join("command.7/cgroup.procs"));
        let ids = |children: [&Child; 2]| children.map(|child| i32::try_from(child.id()).unwrap());
        assert_eq!(cgroup.processes(), ids([&own, &command]));
        group.kill().unwrap();
        assert_eq!(command.wait().unwrap().signal(), Some(9));
        assert!(group.remove());
        assert!(own.try_wait().unwrap().is_none(), "the rest goes on");
        // What needs no controller is there in the root's own way too.
        assert!(cgroup.cpu_millis() < 10_000);

        let _inner = Group::make(&cgroup, 8).unwrap();
        let mut command = sleeper(&dir.join("command.8/cgroup.procs"));
        cgroup.destroy().unwrap();
        for child in [&mut own, &mut command] {
            assert_eq!(child.wait().unwrap().signal(), Some(9));
        }
        assert!(cgroup.present().is_empty());
        cgroup.destroy().unwrap();
        fs::remove_dir(parent).unwrap();
    });
}

/// What the files say: kills, peak, use, processes, milliseconds.
fn figures(cgroup: &Cgroup) -> [u64; 5] {
    [
        cgroup.oom_kills(),
        cgroup.memory_peak(),
        cgroup.memory_used(),
        cgroup.process_count(),
        cgroup.cpu_millis(),
    ]
}

fn write(files: &[(&str, &str)]) {
    for (path, text) in files {
        let path = Path::new(MOUNT).join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

#[test]
fn figures_of_version_2_are_read_from_files_as_its_controllers_write_them() {
    over("tmpfs", || {
        let cgroup = Cgroup::new(Kind::V2, "/groundwork/x");
        assert_eq!(figures(&cgroup), [0; 5], "nothing is there");
        write(&[
            (
                "groundwork/x/memory.events",
                "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 9\n",
            ),
            ("groundwork/x/memory.peak", "5000000\n"),
            ("groundwork/x/memory.current", "4000000\n"),
            (
                "groundwork/x/memory.stat",
                "anon 1\nfile 2\ninactive_anon 7\ninactive_file 1000000\nactive_file 3\n",
            ),
            ("groundwork/x/pids.current", "17\n"),
            (
                "groundwork/x/cpu.stat",
                "usage_usec 123456\nuser_usec 1\nsystem_usec 2\n",
            ),
        ]);
        assert_eq!(figures(&cgroup), [2, 5_000_000, 3_000_000, 17, 123]);
        // Kernels before 6.1 keep no peak.
        fs::remove_file(Path::new(MOUNT).join("groundwork/x/memory.peak")).unwrap();
        assert_eq!(cgroup.memory_peak(), 0);
    });
}

#[test]
fn figures_of_version_1_are_read_from_each_controllers_own_hierarchy() {
    over("tmpfs", || {
        assert_eq!(Kind::detect(), Kind::None, "nothing is mounted there");
        write(&[
            (
                "memory/groundwork/x/memory.oom_control",
                "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
            ),
            ("memory/groundwork/x/memory.max_usage_in_bytes", "5000000\n"),
            ("memory/groundwork/x/memory.usage_in_bytes", "4000000\n"),
            (
                "memory/groundwork/x/memory.stat",
                "inactive_file 5\ntotal_inactive_file 1000000\n",
            ),
            ("pids/groundwork/x/pids.current", "17\n"),
            ("cpuacct/groundwork/x/cpuacct.usage", "123456789\n"),
        ]);
        assert_eq!(Kind::detect(), Kind::V1 { hybrid: false });
        assert!(!Kind::detect().limits_swap());
        write(&[
            ("unified/cgroup.controllers", "hugetlb\n"),
            ("memory/memory.memsw.limit_in_bytes", "1\n"),
        ]);
        let kind = Kind::detect();
        assert_eq!(kind, Kind::V1 { hybrid: true });
        assert!(kind.limits_swap());
        let cgroup = Cgroup::new(kind, "/groundwork/x");
        assert_eq!(figures(&cgroup), [2, 5_000_000, 3_000_000, 17, 123]);
        let lying: Vec<PathBuf> = ["cpuacct", "memory", "pids"]
            .map(|controller| Path::new(MOUNT).join(controller).join("groundwork/x"))
            .into();
        assert_eq!(cgroup.present(), lying);
    });
}
