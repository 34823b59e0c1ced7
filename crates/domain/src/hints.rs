//! The likely cause of a failed run and its fix (spec 1-domain, *Hints*): left out rather than guessed.

use crate::{network_policy::NetworkPolicy, setup_run::HintCode};

mod network;
mod output;
mod text;

/// A host that the gateway refused while the failing command ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockedHost {
    /// The host that was refused.
    pub host: String,
    /// The allowed host that redirected to it, where that was seen.
    pub redirected_by: Option<String>,
}

/// What is known of a run that failed in its script.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    /// From `wait`; 124 by our timer, 128 + signal for a signal.
    pub exit_code: i32,
    /// Ended by our timer.
    pub timed_out: bool,
    /// The timer, seconds.
    pub timeout_seconds: u32,
    /// First line of the failing statement; 0 = unknown.
    pub failed_line: u32,
    /// The failing statement as written; empty = unknown.
    pub failed_command: &'a str,
    /// Line that was running when it ended; 0 = unknown.
    pub last_line: u32,
    /// For how long, seconds.
    pub last_line_seconds: u64,
    /// The memory limit killed a process.
    pub out_of_memory: bool,
    /// Memory of the sandbox, MiB.
    pub memory_mib: u32,
    /// Bytes used on the sandbox's disk, as the file system says.
    pub disk_used: u64,
    /// Bytes of the sandbox's disk; 0 = unknown.
    pub disk_size: u64,
    /// Workspace disk as saved, GiB.
    pub disk_gi: u32,
    /// The policy that the run had.
    pub policy: &'a NetworkPolicy,
    /// Hosts refused while the failing command ran, in order.
    pub blocked: &'a [BlockedHost],
    /// The last of what the failing statement wrote, both streams, redacted.
    pub output_tail: &'a str,
    /// The environment has an accelerator.
    pub gpu_expected: bool,
}

/// The likely cause and its fix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hint {
    /// For programs, such as the console's buttons.
    pub code: HintCode,
    /// For people: names the line, the host, the file or the size concerned, and says the fix.
    pub text: String,
    /// The host to allow, with `egress_blocked` and where it is known.
    pub host: Option<String>,
}

impl Hint {
    fn new(code: HintCode, text: impl Into<String>) -> Self {
        Self {
            code,
            text: text.into(),
            host: None,
        }
    }
}

/// The first hint that the evidence supports, in the order of the specification's table.
pub fn hint(evidence: &Evidence<'_>) -> Option<Hint> {
    [
        network::egress_blocked,
        timeout,
        no_space,
        out_of_memory,
        apt_lock,
        apt_permission,
        pip_not_installed,
        bash_lc_wrapper,
        cuda_unavailable,
        command_not_found,
        input_needed,
    ]
    .iter()
    .find_map(|rule| rule(evidence))
}

impl Evidence<'_> {
    /// `Line 7`, or `The script` where the line is not known.
    fn place(&self) -> String {
        text::place(self.failed_line)
    }
}

fn timeout(evidence: &Evidence<'_>) -> Option<Hint> {
    if !evidence.timed_out {
        return None;
    }
    let limit = text::duration(u64::from(evidence.timeout_seconds));
    let line = if evidence.last_line > 0 {
        evidence.last_line
    } else {
        evidence.failed_line
    };
    let running = if line > 0 {
        format!(
            "Line {line} was still running, for {}, when the time limit of {limit} ended the script.",
            text::duration(evidence.last_line_seconds)
        )
    } else {
        format!("The time limit of {limit} ended the script.")
    };
    let fix = if output::waits_for_input(evidence.output_tail) {
        "Its output ends in a question, and nobody can answer: give the command its answer, such as -y or --yes.".to_owned()
    } else if evidence.timeout_seconds < crate::limits::SETUP_TIMEOUT_MAX {
        format!(
            "Raise the setup timeout (up to {}), or make that line faster.",
            text::duration(u64::from(crate::limits::SETUP_TIMEOUT_MAX))
        )
    } else {
        "The limit is the longest there is: make that line faster, or leave a part of it to sessions.".to_owned()
    };
    Some(Hint::new(HintCode::Timeout, format!("{running} {fix}")))
}

/// A file system counts as full from this share on: some of it is always kept back.
const FULL_PERCENT: u64 = 98;

fn no_space(evidence: &Evidence<'_>) -> Option<Hint> {
    let full = evidence.disk_size > 0
        && evidence.disk_used.saturating_mul(100) / evidence.disk_size >= FULL_PERCENT;
    // The text alone may speak of a memory file system, a quota or a remote machine; a disk that has been cleaned up by a
    // failing command's exit is told by both together.
    let says_so = output::line_with(evidence.output_tail, &["no space left on device"]);
    let nearly = evidence.disk_size > 0
        && evidence.disk_used.saturating_mul(100) / evidence.disk_size >= FULL_PERCENT - 8;
    if !(full || (nearly && says_so.is_some())) {
        return None;
    }
    let most = crate::limits::DISK_GI_MAX;
    let fix = if evidence.disk_gi < most {
        format!("Raise the workspace disk (up to {most} GiB), or remove what is not needed.")
    } else {
        "It is the largest there is: remove what is not needed.".to_owned()
    };
    let while_writing = says_so
        .and_then(output::file_of)
        .map_or_else(String::new, |file| format!(" while writing {file}"));
    Some(Hint::new(
        HintCode::NoSpace,
        format!(
            "The sandbox's disk of {} GiB is full ({} used): {} stopped{while_writing}. {fix}",
            evidence.disk_gi,
            text::size(evidence.disk_used),
            text::in_sentence(&evidence.place()),
        ),
    ))
}

fn out_of_memory(evidence: &Evidence<'_>) -> Option<Hint> {
    evidence.out_of_memory.then(|| {
        Hint::new(
            HintCode::OutOfMemory,
            format!(
                "{} used more than the sandbox's {} of memory, and a process was ended for it. Choose a larger size under Compute, or let the command run fewer jobs at once.",
                evidence.place(),
                crate::compute::show_memory(evidence.memory_mib)
            ),
        )
    })
}

fn apt_lock(evidence: &Evidence<'_>) -> Option<Hint> {
    let line = output::line_with(
        evidence.output_tail,
        &[
            "could not get lock",
            "unable to acquire the dpkg",
            "unable to lock the administration directory",
        ],
    )?;
    // Without root apt speaks of its lock too, and means the permission.
    if output::line_with(evidence.output_tail, APT_NEEDS_ROOT).is_some() {
        return None;
    }
    let file = output::file_of(line).unwrap_or("its lock");
    Some(Hint::new(
        HintCode::AptLock,
        format!(
            "{} could not start apt because another process holds {file}. Let it wait: sudo apt-get -o DPkg::Lock::Timeout=120 …, and start no two of them at once.",
            evidence.place()
        ),
    ))
}

const APT_NEEDS_ROOT: &[&str] = &[
    "are you root?",
    "requires superuser privilege",
    "lock-frontend - open (13: permission denied)",
    "/var/lib/apt/lists/lock - open (13: permission denied)",
    "/var/lib/dpkg/lock - open (13: permission denied)",
];

fn apt_permission(evidence: &Evidence<'_>) -> Option<Hint> {
    output::line_with(evidence.output_tail, APT_NEEDS_ROOT)?;
    Some(Hint::new(
        HintCode::AptPermission,
        format!(
            "{} runs apt without root rights, which the script does not have. Put sudo in front of it.",
            evidence.place()
        ),
    ))
}

fn pip_not_installed(evidence: &Evidence<'_>) -> Option<Hint> {
    let missing = output::missing_command(evidence.output_tail);
    let by_name = missing.is_some_and(|name| {
        name.strip_prefix("pip")
            .is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit() || b == b'.'))
    });
    let as_module = output::line_with(evidence.output_tail, &["no module named pip"])
        .is_some_and(|line| line.trim_end().ends_with("pip"));
    (by_name || as_module).then(|| {
        Hint::new(
            HintCode::PipNotInstalled,
            format!(
                "{} calls pip, and there is none. Use uv venv --seed /workspace/.venv once, then uv pip install --python /workspace/.venv/bin/python.",
                evidence.place()
            ),
        )
    })
}

fn bash_lc_wrapper(evidence: &Evidence<'_>) -> Option<Hint> {
    let wrapped = output::wraps_in_a_shell(evidence.failed_command);
    let broken = output::line_with(
        evidence.output_tail,
        &[
            "unexpected eof while looking for matching",
            "syntax error near unexpected token",
            "syntax error: unterminated quoted string",
            "syntax error: unexpected end of file",
            "unterminated quoted string",
            "option requires an argument",
            "-c: line ",
        ],
    )
    .is_some();
    (wrapped && broken).then(|| {
        Hint::new(
            HintCode::BashLcWrapper,
            format!(
                "{} wraps its command in a shell of its own, and the quotes do not survive it. The script runs in a bash login shell already: write the command alone.",
                evidence.place()
            ),
        )
    })
}

fn cuda_unavailable(evidence: &Evidence<'_>) -> Option<Hint> {
    if !evidence.gpu_expected {
        return None;
    }
    let missing = output::missing_command(evidence.output_tail) == Some("nvidia-smi");
    let said = output::line_with(
        evidence.output_tail,
        &[
            "cuda is not available",
            "no cuda-capable device",
            "no cuda gpus are available",
            "found no nvidia driver",
            "torch not compiled with cuda enabled",
            "cuda driver version is insufficient",
            "no devices were found",
            "couldn't communicate with the nvidia driver",
            "libcuda.so",
            "could not find cuda drivers",
        ],
    );
    (missing || said.is_some()).then(|| {
        Hint::new(
            HintCode::CudaUnavailable,
            format!(
                "{} found no usable GPU, although the environment asks for one. Install a build that has CUDA (not a CPU-only one), check it with nvidia-smi, and test again; if nvidia-smi fails too, the machine is at fault.",
                evidence.place()
            ),
        )
    })
}

fn command_not_found(evidence: &Evidence<'_>) -> Option<Hint> {
    if evidence.exit_code != 127 {
        return None;
    }
    let (what, how) = match output::missing_command(evidence.output_tail) {
        Some(name) => (
            format!("calls {name}, which is not there"),
            format!(
                "Install {name} in an earlier line, or call it by its full path; what an installer adds to PATH counts only in new shells."
            ),
        ),
        None => (
            "calls a program that is not there".to_owned(),
            "Install it in an earlier line, or call it by its full path.".to_owned(),
        ),
    };
    Some(Hint::new(
        HintCode::CommandNotFound,
        format!("{} {what}. {how}", evidence.place()),
    ))
}

fn input_needed(evidence: &Evidence<'_>) -> Option<Hint> {
    let (what, how) = output::asked_in_vain(evidence.output_tail)?;
    Some(Hint::new(
        HintCode::InputNeeded,
        format!(
            "{} asked for {what}, and nobody can answer: the script's input is empty. {how}",
            evidence.place()
        ),
    ))
}
