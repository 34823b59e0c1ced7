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
