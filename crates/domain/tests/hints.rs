//! Every row of the table of hints, their order, and what must not be guessed (spec 1-domain, *Hints*).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use domain::{
    hints::{BlockedHost, Evidence, Hint, hint},
    network_policy::{NetworkPolicy, Rule, RuleAction},
    setup_run::HintCode,
};

fn allow(host: &str) -> NetworkPolicy {
    NetworkPolicy::Rules(vec![Rule {
        host_glob: host.to_owned(),
        action: RuleAction::Allow,
    }])
}

fn failed<'a>(
    policy: &'a NetworkPolicy,
    exit_code: i32,
    command: &'a str,
    output: &'a str,
) -> Evidence<'a> {
    Evidence {
        exit_code,
        timed_out: false,
        timeout_seconds: 600,
        failed_line: 7,
        failed_command: command,
        last_line: 7,
        last_line_seconds: 3,
        out_of_memory: false,
        memory_mib: 4_096,
        disk_used: 2 << 30,
        disk_size: 10 << 30,
        disk_gi: 10,
        policy,
        blocked: &[],
        output_tail: output,
        gpu_expected: false,
    }
}

fn given(evidence: &Evidence<'_>, code: HintCode, words: &[&str]) -> Hint {
    let hint = hint(evidence).unwrap_or_else(|| panic!("no hint for {evidence:?}"));
    assert_eq!(hint.code, code, "{evidence:?}: {}", hint.text);
    for word in words {
        assert!(
            hint.text.contains(word),
            "{:?} does not say {word:?}",
            hint.text
        );
    }
    hint
}

#[test]
fn what_the_output_of_a_command_shows() {
    let open = NetworkPolicy::Unrestricted;
    for (exit, command, output, code, words) in [
        (
            100,
            "sudo apt-get install -y jq",
            "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 33 (apt-get)\nE: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), is another process using it?",
            HintCode::AptLock,
            ["Line 7", "/var/lib/dpkg/lock-frontend"],
        ),
        (
            100,
            "apt-get install -y jq",
            "E: Could not open lock file /var/lib/dpkg/lock-frontend - open (13: Permission denied)\nE: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), are you root?",
            HintCode::AptPermission,
            ["Line 7", "sudo"],
        ),
        (
            100,
            "apt-get update",
            "Reading package lists...\nE: Could not open lock file /var/lib/apt/lists/lock - open (13: Permission denied)",
            HintCode::AptPermission,
            ["Line 7", "sudo"],
        ),
        (
            127,
            "pip install x",
            "bash: line 7: pip: command not found",
            HintCode::PipNotInstalled,
            ["Line 7", "uv pip install"],
        ),
        (
            127,
            "pip3 install x",
            "/run/ctl/script: line 7: pip3: command not found",
            HintCode::PipNotInstalled,
            ["Line 7", "uv venv"],
        ),
        (
            1,
            "python3 -m pip install x",
            "/usr/bin/python3: No module named pip",
            HintCode::PipNotInstalled,
            ["Line 7", "uv"],
        ),
        (
            2,
            "bash -lc \"echo \"a b\"\"",
            "bash: -c: line 1: unexpected EOF while looking for matching `\"'",
            HintCode::BashLcWrapper,
            ["Line 7", "alone"],
        ),
        (
            2,
            "sudo sh -c 'echo '(x)''",
            "sh: 1: Syntax error: Unterminated quoted string",
            HintCode::BashLcWrapper,
            ["Line 7", "quotes"],
        ),
        (
            127,
            "npm ci",
            "bash: line 7: npm: command not found",
            HintCode::CommandNotFound,
            ["Line 7", "npm"],
        ),
        (
            127,
            "./build",
            "/usr/bin/env: \u{2018}node\u{2019}: No such file or directory",
            HintCode::CommandNotFound,
            ["Line 7", "node"],
        ),
        (
            127,
            "sh build.sh",
            "build.sh: 3: cargo: not found",
            HintCode::CommandNotFound,
            ["Line 7", "cargo"],
        ),
        (
            127,
            "x",
            "",
            HintCode::CommandNotFound,
            ["Line 7", "full path"],
        ),
    ] {
        given(&failed(&open, exit, command, output), code, &words);
    }
}

#[test]
fn what_was_measured_comes_before_what_was_written() {
    let open = NetworkPolicy::Unrestricted;
    let base = failed(&open, 1, "make", "");
    given(
        &Evidence {
            timed_out: true,
            exit_code: 124,
            last_line: 3,
            last_line_seconds: 545,
            ..base
        },
        HintCode::Timeout,
        &["Line 3", "9 min 5 s", "10 min", "Raise"],
    );
    given(
        &Evidence {
            timed_out: true,
            exit_code: 124,
            timeout_seconds: 3_600,
            last_line: 0,
            failed_line: 0,
            ..base
        },
        HintCode::Timeout,
        &["1 h", "longest"],
    );
    given(
        &Evidence {
            timed_out: true,
            exit_code: 124,
            output_tail: "Setting up tzdata\nDo you want to continue? [Y/n] ",
            ..base
        },
        HintCode::Timeout,
        &["question", "-y"],
    );
    given(
        &Evidence {
            disk_used: 10 << 30,
            ..base
        },
        HintCode::NoSpace,
        &["10 GiB", "line 7", "10.0 GiB used", "up to 100 GiB"],
    );
    given(
        &Evidence {
            disk_used: 95 << 30,
            disk_size: 100 << 30,
            disk_gi: 100,
            output_tail: "cp: error writing '/workspace/big': No space left on device",
            ..base
        },
        HintCode::NoSpace,
        &["/workspace/big", "largest there is"],
    );
    given(
        &Evidence {
            out_of_memory: true,
            exit_code: 137,
            ..base
        },
        HintCode::OutOfMemory,
        &["Line 7", "4 GiB"],
    );
    given(
        &Evidence {
            gpu_expected: true,
            output_tail: "AssertionError: CUDA is not available to PyTorch",
            ..base
        },
        HintCode::CudaUnavailable,
        &["Line 7", "nvidia-smi"],
    );
    given(
        &Evidence {
            gpu_expected: true,
            exit_code: 127,
            output_tail: "bash: line 7: nvidia-smi: command not found",
            ..base
        },
        HintCode::CudaUnavailable,
        &["Line 7", "GPU"],
    );
}

#[test]
fn a_blocked_host_is_named_with_what_redirected_to_it() {
    let policy = allow("a.example");
    let blocked = |host: &str, by: Option<&str>| BlockedHost {
        host: host.to_owned(),
        redirected_by: by.map(str::to_owned),
    };
    let list = [
        blocked("b.example", Some("a.example")),
        blocked("c.example", None),
    ];
    let base = failed(&policy, 6, "curl -L https://a.example", "");
    let one = given(
        &Evidence {
            blocked: &list[..1],
            ..base
        },
        HintCode::EgressBlocked,
        &[
            "Line 7",
            "b.example",
            "a.example redirected",
            "Allow b.example",
        ],
    );
    assert_eq!(one.host.as_deref(), Some("b.example"));
    // The one that the output names.
    let named = given(
        &Evidence {
            blocked: &list,
            output_tail: "curl: (6) Could not resolve host: b.example",
            ..base
        },
        HintCode::EgressBlocked,
        &["b.example", "c.example was blocked too"],
    );
    assert_eq!(named.host.as_deref(), Some("b.example"));
    // The last, where it names none; before a timeout, which it may have caused.
    let last = given(
        &Evidence {
            blocked: &list,
            timed_out: true,
            ..base
        },
        HintCode::EgressBlocked,
        &["c.example"],
    );
    assert_eq!(last.host.as_deref(), Some("c.example"));
}

#[test]
fn a_failure_to_resolve_or_connect_under_a_restricted_policy_is_recognised() {
    let policy = allow("a.example");
    for output in [
        "curl: (6) Could not resolve host: b.example",
        "wget: unable to resolve host address \u{2018}b.example\u{2019}",
        "fatal: unable to access 'https://b.example/x.git/': Could not resolve host: b.example",
        "ERROR: failed to fetch https://b.example/simple/requests/ dns error: failed to lookup address information",
        "npm error request to https://b.example/typescript failed, reason: getaddrinfo ENOTFOUND b.example",
        "Err:1 http://b.example bookworm InRelease Temporary failure resolving 'b.example'",
        "curl: (7) Failed to connect to b.example port 443 after 2 ms: Couldn't connect to server",
        "ssh: Could not resolve hostname b.example: Temporary failure in name resolution",
    ] {
        let hint = given(
            &failed(&policy, 6, "x", output),
            HintCode::EgressBlocked,
            &["Line 7", "Allow b.example"],
        );
        assert_eq!(hint.host.as_deref(), Some("b.example"), "{output}");
    }
    let closed = NetworkPolicy::no_access();
    given(
        &failed(&closed, 1, "x", "connect: Network is unreachable"),
        HintCode::EgressBlocked,
        &["No access", "Internet access"],
    );
}

#[test]
fn what_is_not_known_is_not_guessed() {
    let open = NetworkPolicy::Unrestricted;
    let some = allow("a.example");
    for evidence in [
        failed(&open, 1, "make", "make: *** [all] Error 1"),
        failed(
            &open,
            6,
            "curl",
            "curl: (6) Could not resolve host: b.example",
        ),
        failed(
            &some,
            6,
            "curl",
            "curl: (6) Could not resolve host: a.example",
        ),
        failed(&some, 1, "x", "connect: Network is unreachable"),
        failed(
            &some,
            1,
            "x",
            "urllib3.exceptions.NewConnectionError: Failed to establish a new connection",
        ),
        // Exit 124 of the script's own `timeout`.
        failed(&open, 124, "timeout 5 sleep 9", ""),
        // A full file system that is not the sandbox's disk.
        failed(
            &open,
            1,
            "cp a /dev/shm",
            "cp: error writing '/dev/shm/a': No space left on device",
        ),
        // Killed, but not by the memory limit.
        failed(&open, 137, "kill -9 $$", ""),
        failed(&open, 141, "yes | head -1", ""),
        // CUDA where no GPU was asked for.
        failed(&open, 1, "python train.py", "CUDA is not available"),
        failed(
            &open,
            1,
            "python x.py",
            "ModuleNotFoundError: No module named pipeline",
        ),
        failed(&open, 2, "bash -lc make", "make: *** [all] Error 2"),
        failed(
            &open,
            2,
            "make \"a",
            "bash: unexpected EOF while looking for matching `\"'",
        ),
        // 127 is what counts, not the words.
        failed(&open, 1, "x || exit 1", "bash: x: command not found"),
    ] {
        assert_eq!(hint(&evidence), None, "{evidence:?}");
    }
}

#[test]
fn the_order_of_the_table_decides() {
    let policy = NetworkPolicy::no_access();
    let blocked = [BlockedHost {
        host: "b.example".to_owned(),
        redirected_by: None,
    }];
    let output = "No space left on device\nE: Could not get lock /x\nbash: pip: command not found\nbash: -c: line 1: unexpected EOF while looking for matching `\"'\nno CUDA GPUs are available";
    let mut evidence = Evidence {
        timed_out: true,
        out_of_memory: true,
        disk_used: 10 << 30,
        blocked: &blocked,
        gpu_expected: true,
        ..failed(&policy, 127, "bash -lc x", output)
    };
    let mut codes = Vec::new();
    let mut output = output.to_owned();
    for step in 0..9 {
        let evidence_now = Evidence {
            output_tail: &output,
            ..evidence
        };
        codes.push(hint(&evidence_now).map(|hint| hint.code));
        match step {
            0 => evidence.blocked = &[],
            1 => evidence.timed_out = false,
            2 => evidence.disk_used = 0,
            3 => evidence.out_of_memory = false,
            4 => output = output.replace("E: Could not get lock /x", "E: are you root?"),
            5 => output = output.replace("E: are you root?", ""),
            6 => output = output.replace("bash: pip: command not found", ""),
            7 => evidence.failed_command = "x",
            _ => {}
        }
    }
    assert_eq!(
        codes,
        [
            Some(HintCode::EgressBlocked),
            Some(HintCode::Timeout),
            Some(HintCode::NoSpace),
            Some(HintCode::OutOfMemory),
            Some(HintCode::AptLock),
            Some(HintCode::AptPermission),
            Some(HintCode::PipNotInstalled),
            Some(HintCode::BashLcWrapper),
            Some(HintCode::CudaUnavailable),
        ]
    );
}

#[test]
fn a_question_that_nobody_can_answer_is_named() {
    let open = NetworkPolicy::Unrestricted;
    for (output, word) in [
        (
            "After this operation, 1,024 kB of additional disk space will be used.\nDo you want to continue? [Y/n] Abort.\n",
            "-y",
        ),
        ("Are you sure? [y/N]:\nAborted!\n", "--yes"),
        ("Overwrite (y/n)? ", "-y"),
        (
            "fatal: could not read Username for 'https://git.example': No such device or address",
            "secret variable",
        ),
        (
            "Traceback (most recent call last):\nEOFError: EOF when reading a line",
            "-y",
        ),
    ] {
        let evidence = failed(&open, 1, "x", output);
        given(&evidence, HintCode::InputNeeded, &["Line 7 asked", word]);
    }
    for output in ["Abort.", "[Y/n] y\nmake: *** Error 1", "é aborted"] {
        assert_eq!(hint(&failed(&open, 1, "x", output)), None, "{output}");
    }
}

#[test]
fn a_failure_without_a_line_speaks_of_the_script() {
    let open = NetworkPolicy::Unrestricted;
    let evidence = Evidence {
        failed_line: 0,
        ..failed(&open, 127, "", "npm: command not found")
    };
    given(
        &evidence,
        HintCode::CommandNotFound,
        &["The script calls npm"],
    );
}
