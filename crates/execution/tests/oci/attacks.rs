//! Attempts to break out, to see what is not one's own, and to starve the machine. Each stays as a test.

use std::{
    fs,
    os::unix::{
        fs::{PermissionsExt, symlink},
        process::CommandExt,
    },
    process::Command,
    time::Duration,
};

use execution::runtime::{Runtime, RuntimeError};

use crate::support::{Bench, HANGS, sh, spec};

/// System calls that lead to the kernel's corners, by number; each must be refused before it does anything. As the user
/// and as root.
const CALLS: &str = r#"
cat >/workspace/calls.py <<'END'
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
calls = [('add_key', 248, (b'user', b'x', b'y', 1, -3)), ('request_key', 249, (b'user', b'x', 0, -3)), ('open_tree', 428, (-100, b'/', 1)),
    ('move_mount', 429, (-100, b'/', -100, b'/mnt', 0)), ('fsconfig', 431, (0, 0, 0, 0, 0)), ('fsmount', 432, (0, 0, 0)),
    ('fspick', 433, (-100, b'/', 0)), ('mount_setattr', 442, (-100, b'/', 0, 0, 0)), ('pivot_root', 155, (b'/', b'/mnt')),
    ('swapon', 167, (b'/workspace/x', 0)), ('acct', 163, (b'/workspace/x',)),
    ('quotactl', 179, (0, 0, 0, 0)), ('iopl', 172, (3,)), ('ioperm', 173, (0x70, 1, 1)), ('name_to_handle_at', 303, (-100, b'/', 0, 0, 0)),
    ('fanotify_init', 300, (0, 0)), ('unshare mount', 272, (0x00020000,)), ('unshare user', 272, (0x10000000,)),
    ('unshare cgroup', 272, (0x02000000,)), ('unshare time', 272, (0x00000080,)), ('clock_settime', 227, (0, b'\0' * 16)), ('adjtimex', 159, (b'\1' * 208,)),
    ('delete_module', 176, (b'x', 0)), ('finit_module', 313, (0, b'', 0)), ('kexec_file_load', 320, (0, 0, 0, b'', 0)), ('io_uring_enter', 426, (0, 0, 0, 0)),
    ('io_uring_register', 427, (0, 0, 0, 0)), ('lookup_dcookie', 212, (0, 0, 0)), ('vm86-like nfsservctl', 180, (0, 0, 0)),
    ('x32 getpid', 0x40000000 | 39, ()), ('sethostname', 170, (b'x', 1)), ('setdomainname', 171, (b'x', 1)), ('chroot escape helper', 165, (b'/dev/sda', b'/mnt', b'ext4', 0, 0))]
for name, number, args in calls:
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        result = libc.syscall(number, *args)
        error = ctypes.get_errno()
        print(f'{name}: ' + ('refused' if result == -1 and error in (1, 13, 38) else f'POSSIBLE {result} {error}'))
        sys.stdout.flush(); os._exit(0)
    # Ended by the list itself: as good as refused.
    if os.waitpid(child, 0)[1] & 127 == 31: print(f'{name}: refused')
END
python3 /workspace/calls.py
sudo python3 /workspace/calls.py
"#;

#[tokio::test(flavor = "multi_thread")]
async fn system_calls_that_sandboxes_have_no_use_for_are_refused_for_root_too() {
    let bench = Bench::new();
    let out = bench.run(CALLS).await.passed();
    let wrong: Vec<&str> = out
        .lines()
        .filter(|line| !line.ends_with(": refused"))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(out.lines().count() > 60, "{out}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_other_instruction_sets_door_into_the_kernel_is_shut() {
    let bench = Bench::new();
    // getpid by int 0x80: the seccomp list is for x86-64 alone, so the process is killed or told that there is no such call.
    let script = r#"
cat >/workspace/int80.py <<'END'
import ctypes, mmap
code = b'\xb8\x14\x00\x00\x00\xcd\x80\xc3'
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(code)
call = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
print('POSSIBLE' if call() > 0 else 'refused')
END
python3 /workspace/int80.py || echo refused
"#;
    let ran = bench.run(script).await;
    assert_eq!(ran.passed(), "refused\n", "{}", ran.stderr());
}

#[tokio::test(flavor = "multi_thread")]
async fn no_kernel_setting_can_be_written() {
    let bench = Bench::new();
    let script = r#"
cat >/workspace/sys.py <<'END'
import os, stat
def read(path):
    try:
        with open(path, 'rb', 0) as file: return file.read(200).rstrip(b'\n')
    except OSError: return b''
for top in ['sys', 'irq', 'fs', 'acpi', 'scsi']:
    for folder, _, names in os.walk('/proc/' + top):
        for path in [folder + '/' + name for name in names]:
            if not stat.S_ISREG(os.lstat(path).st_mode): continue
            value = read(path)
            try:
                file = os.open(path, os.O_WRONLY | os.O_TRUNC)
                # The value that it has, so that nothing would change.
                if value: os.write(file, value)
                print('POSSIBLE', path)
            except OSError: pass
END
cat >/workspace/sys.sh <<'END'
for file in /proc/sysrq-trigger /proc/timer_list /proc/kcore /proc/keys /proc/latency_stats /proc/sched_debug; do
  # Masked by a device that takes everything and holds nothing.
  test "$(stat -c %t:%T "$file" 2>/dev/null)" = 1:3 && continue
  if { echo h >"$file"; } 2>/dev/null; then echo "POSSIBLE $file"; fi
  test -n "$(head -c 1 "$file" 2>/dev/null)" && echo "READABLE $file"
done
echo -1000 >/proc/self/oom_score_adj 2>/dev/null && echo "POSSIBLE to hide from the memory limit"
true
END
sudo python3 /workspace/sys.py
python3 /workspace/sys.py
sudo bash /workspace/sys.sh
bash /workspace/sys.sh
find /proc/sys -type f | wc -l
"#;
    let out = bench.run(script).await.passed();
    let files: u32 = out.lines().last().unwrap().parse().unwrap();
    assert!(files > 100, "the files are there to be tried: {out}");
    assert_eq!(out.lines().count(), 1, "{out}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_init_can_be_neither_traced_nor_read_and_knows_nothing_of_the_host() {
    let bench = Bench::new();
    let script = r#"
cat >/workspace/init.py <<'END'
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, result):
    print(f'{name}: ' + ('refused' if result == -1 else 'POSSIBLE'))
attempt('ptrace attach', libc.ptrace(16, 1, 0, 0))
attempt('ptrace seize', libc.ptrace(0x4206, 1, 0, 0))
fd = libc.syscall(434, 1, 0)
attempt('pidfd_getfd', libc.syscall(438, fd, 0, 0) if fd >= 0 else -1)
buffer = ctypes.create_string_buffer(8)
class IoVec(ctypes.Structure): _fields_ = [('base', ctypes.c_void_p), ('len', ctypes.c_size_t)]
local = IoVec(ctypes.addressof(buffer), 8); remote = IoVec(0x400000, 8)
attempt('process_vm_readv', libc.process_vm_readv(1, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0))
attempt('process_vm_writev', libc.process_vm_writev(1, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0))
for name in ['mem']:
    try: os.open(f'/proc/1/{name}', os.O_RDWR); print(f'{name}: POSSIBLE')
    except OSError: print(f'{name}: refused')
END
python3 /workspace/init.py
sudo cat /proc/1/environ /proc/self/environ | tr '\0' '\n' | grep -E 'CARGO|RUST|groundwork-test|/work/' | sed 's/^/LEAK /' || true
for fd in /proc/1/fd/* /proc/$$/fd/*; do sudo readlink "$fd" || true; done | grep -vE '^(pipe|socket|anon_inode):|^/dev/null$|^/dev/pts' | sed 's/^/FD /' || true
"#;
    let ran = bench.run(script).await;
    let out = ran.passed();
    let wrong: Vec<&str> = out
        .lines()
        .filter(|line| !line.ends_with(": refused") && !line.starts_with("FD /run/"))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}\n{}", ran.stderr());
    assert!(out.lines().count() >= 6, "{out}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_two_sandboxes_and_the_host_share_by_name_is_not_shared() {
    let bench = Bench::new();
    // Things of the host that have names of their own: System V memory, a socket in no file system, one on loopback.
    let shared = Command::new("ipcmk").args(["-M", "4096"]).output().unwrap();
    let id = String::from_utf8_lossy(&shared.stdout)
        .rsplit(' ')
        .next()
        .unwrap()
        .trim()
        .to_owned();
    let loopback = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = loopback.local_addr().unwrap().port();
    let name = format!("groundwork-attack-{}", std::process::id());
    let address =
        <std::os::unix::net::SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(
            &name,
        );
    let listener = std::os::unix::net::UnixListener::bind_addr(&address.unwrap()).unwrap();
    let (first, second) = (spec(), spec());
    bench.start(&first).await;
    bench.start(&second).await;
    let listening = "python3 - <<'END' &
import socket, time
a = socket.socket(socket.AF_UNIX); a.bind('\\0of-the-first'); a.listen()
b = socket.socket(); b.bind(('0.0.0.0', 4444)); b.listen()
open('/dev/shm/of-the-first', 'w').close()
open('/workspace/ready', 'w').close()
time.sleep(1000)
END
until test -e /workspace/ready; do sleep 0.05; done
ipcmk -M 4096 >/dev/null
echo up
sleep 1000
";
    let looking = format!(
        "python3 - <<'END'
import socket, os
def attempt(what, family, address):
    try:
        s = socket.socket(family); s.settimeout(3); s.connect(address); print(what + ': POSSIBLE')
    except OSError: print(what + ': refused')
attempt('host abstract socket', socket.AF_UNIX, '\\0{name}')
attempt('other abstract socket', socket.AF_UNIX, '\\0of-the-first')
attempt('host loopback', socket.AF_INET, ('127.0.0.1', {port}))
attempt('other loopback', socket.AF_INET, ('127.0.0.1', 4444))
attempt('other by the gateway', socket.AF_INET, ('198.18.0.1', 4444))
print('shared memory: ' + ('POSSIBLE' if os.path.exists('/dev/shm/of-the-first') else 'refused'))
END
ipcs -m | tail -n +4 | grep -q . && echo 'System V memory: POSSIBLE' || echo 'System V memory: refused'
ls /dev/mqueue 2>/dev/null && echo 'message queues: POSSIBLE' || echo 'message queues: refused'
test $(ls -d /proc/[0-9]* | wc -l) -lt 20 && echo 'processes: refused'
"
    );
    let mut holding = bench.talk(first.id, sh(listening));
    holding.until("up").await;
    let seen = bench.script(second.id, &looking, HANGS).await.unwrap();
    assert!(
        !holding.end.is_finished(),
        "the first listened all the while"
    );
    let _ = Command::new("ipcrm").args(["-m", &id]).status();
    drop(listener);
    let out = seen.passed();
    assert!(!out.contains("POSSIBLE"), "{out}");
    assert_eq!(out.matches(": refused").count(), 9, "{out}");
    loopback.set_nonblocking(true).unwrap();
    assert!(loopback.accept().is_err());
    bench.runtime.destroy(first.id).await.unwrap();
    bench.runtime.destroy(second.id).await.unwrap();
    bench.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_sandbox_takes_of_the_kernel_is_counted_and_bounded() {
    let bench = Bench::new();
    // Each part ends by itself or by the memory limit; the machine must go on.
    let script = r#"
for dir in /dev/shm /dev /run; do
  sudo bash -c "fallocate -l 3G $dir/big 2>/dev/null || head -c 3G /dev/zero >$dir/big" 2>/dev/null
  size=$(stat -c %s $dir/big 2>/dev/null || echo 0)
  test "$size" -lt 1200000000 && echo "$dir: bounded" || echo "$dir: POSSIBLE $size"
  sudo rm -f $dir/big
done
python3 - <<'END'
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
# inotify instances, then watches
count = 0
while libc.inotify_init1(0) >= 0 and count < 100000: count += 1
print('inotify: ' + ('bounded' if count < 20000 else f'POSSIBLE {count}'))
END
python3 - <<'END'
import os
count, held = 0, []
try:
    while count < 200000:
        held.append(os.pipe()); count += 1
except OSError: pass
print('pipes: ' + ('bounded' if count < 100000 else f'POSSIBLE {count}'))
END
python3 - <<'END'
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
total = 0
while total < 8 << 30:
    if libc.shmget(0, 64 << 20, 0o1600) < 0: break
    total += 64 << 20
print('System V segments: bounded')
END
python3 - <<'END'
import socket
# Buffers of sockets that nobody reads.
held, count = [], 0
try:
    while count < 5000:
        a, b = socket.socketpair(); a.setblocking(False)
        try:
            while True: a.send(b'x' * 65536)
        except BlockingIOError: pass
        held.append((a, b)); count += 1
except OSError: pass
print('socket buffers: bounded')
END
true
"#;
    let free = || {
        let text = fs::read_to_string("/proc/meminfo").unwrap();
        let line = text.lines().find(|line| line.starts_with("MemAvailable"));
        let kib: u64 = line
            .and_then(|line| line.split_whitespace().nth(1)?.parse().ok())
            .unwrap();
        kib << 10
    };
    let before = free();
    let spec = spec();
    let id = bench.start(&spec).await;
    let script = format!("set +e\n{script}");
    let mut running = std::pin::pin!(bench.script(id, &script, HANGS));
    let mut least = before;
    let ran = loop {
        tokio::select! {
            ran = &mut running => break ran,
            () = tokio::time::sleep(Duration::from_millis(50)) => least = least.min(free()),
        }
    };
    let out = ran.unwrap().stdout();
    assert!(!out.contains("POSSIBLE"), "{out}");
    assert!(out.matches(": bounded").count() >= 4, "{out}");
    // The sandbox has 1 GiB. Other tests run beside this one: what they take is allowed for.
    assert!(
        before.saturating_sub(least) < 4 << 30,
        "{} MiB went",
        (before - least) >> 20
    );
    bench.runtime.destroy(id).await.unwrap();
    bench.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn links_in_what_is_saved_lead_the_save_nowhere() {
    let bench = Bench::new();
    let victim = tempfile::tempdir().unwrap();
    fs::create_dir(victim.path().join("tmp")).unwrap();
    fs::write(victim.path().join("tmp/file"), "of the host").unwrap();
    fs::set_permissions(victim.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let target = victim.path().display().to_string();
    let script = format!(
        r#"
sudo rm -rf /var && sudo ln -s {target} /var
sudo rm -rf /tmp && sudo ln -s {target}/tmp /tmp
ln -s {target}/tmp/file /workspace/stolen
sudo ln -s /etc/shadow /opt/shadow
sudo ln -s / /opt/root
cd /workspace
touch -- '-rf' '$(touch pwned)' $'new\nline' $'\e[31mred' '.wh.passwd' '.wh..wh..opq' '..data' ' '
python3 -c "import os; os.mkdir('d' * 255); os.mkdir(b'/workspace/\xff\xfe')"
"#
    );
    let id = bench.start(&spec()).await;
    bench.script(id, &script, HANGS).await.unwrap().passed();
    let saved = bench.runtime.save_image(id).await.unwrap();
    bench.runtime.destroy(id).await.unwrap();
    assert_eq!(
        fs::read_to_string(victim.path().join("tmp/file")).unwrap(),
        "of the host"
    );
    let hex = saved.digest.strip_prefix("sha256:").unwrap();
    let layer = bench.layers().join(hex);
    assert!(
        fs::symlink_metadata(layer.join("workspace/stolen"))
            .unwrap()
            .is_symlink(),
        "the link is saved, not what it led to"
    );
    // Started again, /tmp and /var lead to what the sandbox has under that name: nothing.
    let mut again = spec();
    again.layers.push(saved.digest);
    let id = bench.start(&again).await;
    let ran = bench
        .script(id, "cat /workspace/stolen /var/tmp/file /tmp/file\n", HANGS)
        .await
        .unwrap();
    assert!(!ran.stdout().contains("of the host"), "{}", ran.stdout());
    bench.runtime.destroy(id).await.unwrap();
    bench.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_too_deep_to_be_saved_fails_the_save_and_leaves_nothing() {
    let bench = Bench::new();
    let id = bench.start(&spec()).await;
    let script = "python3 - <<'END'\nimport os\nos.chdir('/workspace')\nfor depth in range(3000):\n    os.mkdir('deep'); os.chdir('deep')\nEND\n";
    bench.script(id, script, HANGS).await.unwrap().passed();
    let refused = bench.runtime.save_image(id).await;
    assert!(
        matches!(&refused, Err(RuntimeError::Save { .. })),
        "{refused:?}"
    );
    assert_eq!(fs::read_dir(bench.layers()).unwrap().count(), 0);
    bench.runtime.destroy(id).await.unwrap();
    bench.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_setuid_program_of_a_sandbox_is_of_no_use_to_a_user_of_the_machine() {
    let bench = Bench::new();
    // As in a data directory that others may pass through.
    fs::set_permissions(
        bench.layers().parent().unwrap(),
        fs::Permissions::from_mode(0o711),
    )
    .unwrap();
    let id = bench.start(&spec()).await;
    let script = "sudo cp /bin/bash /workspace/rootshell\nsudo chmod 4755 /workspace/rootshell\n";
    bench.script(id, script, HANGS).await.unwrap().passed();
    let saved = bench.runtime.save_image(id).await.unwrap();
    let program = bench
        .layers()
        .join(saved.digest.strip_prefix("sha256:").unwrap())
        .join("workspace/rootshell");
    assert_eq!(
        fs::metadata(&program).unwrap().permissions().mode() & 0o7777,
        0o4755
    );
    let tried = Command::new(&program)
        .args(["-p", "-c", "id -u"])
        .uid(65_534)
        .gid(65_534)
        .output();
    assert_eq!(
        tried.map_err(|error| error.kind()).err(),
        Some(std::io::ErrorKind::PermissionDenied)
    );
    bench.runtime.destroy(id).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_base_whose_mount_points_are_links_does_not_lead_the_start_to_the_host() {
    let victim = tempfile::tempdir().unwrap();
    for dir in ["proc", "dev", "run", "etc"] {
        fs::create_dir(victim.path().join(dir)).unwrap();
    }
    for name in ["workspace", "home", "mnt"] {
        let bench = Bench::new();
        // A saved layer in which the directory is a link to the host's.
        let layer = bench.layers().join("a".repeat(64));
        fs::create_dir_all(&layer).unwrap();
        symlink(victim.path(), layer.join(name)).unwrap();
        let mut hostile = spec();
        hostile.layers.push(format!("sha256:{}", "a".repeat(64)));
        // Either it starts, with a link that leads nowhere, or it is refused.
        if bench.runtime.prepare(&hostile).await.is_ok() {
            let _ = bench
                .script(hostile.id, &format!("sudo touch /{name}/made\n"), HANGS)
                .await;
        }
        bench.runtime.destroy(hostile.id).await.unwrap();
        assert!(!victim.path().join("made").exists(), "{name}");
        bench.assert_clean().await;
    }
    for dir in ["proc", "dev", "run", "etc"] {
        assert_eq!(fs::read_dir(victim.path().join(dir)).unwrap().count(), 0);
    }
}
