//! Every documented limit and default, in one place (spec 1-domain). Units are in the names or the comments.

/// Characters of an environment's name.
pub const NAME_MAX_CHARS: usize = 256;
/// Characters of a description.
pub const DESCRIPTION_MAX_CHARS: usize = 2_000;
/// Bytes of `metadata` as compact JSON.
pub const METADATA_MAX_BYTES: usize = 16 * 1024;
/// Largest absolute integer that every JSON reader keeps exactly.
pub const SAFE_INTEGER_MAX: i64 = 9_007_199_254_740_991;
/// Bytes of UTF-8 of a setup script.
pub const SCRIPT_MAX_BYTES: usize = 65_536;
/// Setup timeout, seconds: default, least, most.
pub const SETUP_TIMEOUT_DEFAULT: u32 = 600;
/// Least setup timeout, seconds.
pub const SETUP_TIMEOUT_MIN: u32 = 10;
/// Largest setup timeout, seconds.
pub const SETUP_TIMEOUT_MAX: u32 = 3_600;
/// Default CPU, thousandths of a core.
pub const CPU_MILLI_DEFAULT: u32 = 2_000;
/// Least CPU.
pub const CPU_MILLI_MIN: u32 = 250;
/// Largest CPU.
pub const CPU_MILLI_MAX: u32 = 24_000;
/// Default memory, MiB.
pub const MEMORY_MIB_DEFAULT: u32 = 4_096;
/// Least memory, MiB.
pub const MEMORY_MIB_MIN: u32 = 1_024;
/// Largest memory, MiB.
pub const MEMORY_MIB_MAX: u32 = 102_400;
/// CPU that comes with an accelerator, thousandths of a core.
pub const ACCELERATOR_CPU_MILLI: u32 = 8_000;
/// Memory that comes with an accelerator, MiB.
pub const ACCELERATOR_MEMORY_MIB: u32 = 32_768;
/// Least whole life of a sandbox, seconds (0: unbounded).
pub const SANDBOX_TIMEOUT_MIN: u32 = 10;
/// Largest whole life of a sandbox, seconds.
pub const SANDBOX_TIMEOUT_MAX: u32 = 86_400;
/// Default workspace disk, GiB.
pub const DISK_GI_DEFAULT: u32 = 10;
/// Largest workspace disk, GiB.
pub const DISK_GI_MAX: u32 = 100;
/// Bytes of a host's name, in rules and in what is kept of a run (RFC 1035 without the final dot).
pub const HOST_MAX_BYTES: usize = 253;
/// Hosts that are kept of one run; further ones are only counted (ours).
pub const RUN_HOSTS_MAX: usize = 10_000;
/// Rules of a network policy.
pub const NETWORK_RULES_MAX: usize = 200;
/// Environment variables.
pub const ENV_VARS_MAX: usize = 100;
/// Bytes of one variable's value.
pub const ENV_VAR_VALUE_MAX_BYTES: usize = 32 * 1024;
/// Bytes of all variables, names and values.
pub const ENV_VARS_TOTAL_MAX_BYTES: usize = 128 * 1024;
/// Most bytes of a secret variable's name (ours).
pub const SECRET_NAME_MAX_BYTES: usize = 256;
/// Most secret variables of an environment (ours).
pub const SECRETS_MAX: usize = 100;
/// Least characters of a secret variable's value: a shorter one cannot be masked without hiding the log.
pub const SECRET_MIN_CHARS: usize = 8;
/// Mounts of an environment.
pub const MOUNTS_MAX: usize = 32;
/// Bytes of a mount's path (ours).
pub const MOUNT_PATH_MAX: usize = 1_024;
/// Characters of a volume's name (ours).
pub const VOLUME_NAME_MAX: usize = 63;
/// Bytes of a file that is fetched for a mount.
pub const MOUNT_FILE_MAX: u64 = 256 << 20;
/// Default idle stop, seconds.
pub const IDLE_STOP_DEFAULT: u32 = 1_800;
/// Least idle stop, seconds.
pub const IDLE_STOP_MIN: u32 = 120;
/// Largest idle stop, seconds.
pub const IDLE_STOP_MAX: u32 = 7_200;
/// Least idle stop with computer use on, seconds.
pub const IDLE_STOP_MIN_COMPUTER_USE: u32 = 600;
/// How long a stopped workspace is kept unless said otherwise, seconds.
pub const STOPPED_DELETE_DEFAULT: u32 = 604_800;
/// Least time a stopped workspace is kept, seconds.
pub const STOPPED_DELETE_MIN: u32 = 3_600;
/// Longest time a stopped workspace is kept, seconds.
pub const STOPPED_DELETE_MAX: u32 = 2_592_000;
/// Manual setup runs in flight for one organization.
pub const MANUAL_RUNS_IN_FLIGHT_MAX: usize = 4;
/// Times a run is tried again after a fault of ours.
pub const RUN_RETRIES_MAX: u32 = 2;
/// Bytes of log kept for one run.
pub const LOG_MAX_BYTES: u64 = 4 * 1024 * 1024;
/// Lines of log kept for one run: short ones cost more than their bytes.
pub const LOG_MAX_LINES: u64 = 1_000_000;
/// Which of the two limits a log that was cut has reached, by the lines that it holds.
pub const fn log_limit_reached(lines: u64) -> &'static str {
    if lines >= LOG_MAX_LINES {
        "1,000,000 lines"
    } else {
        "4 MiB"
    }
}
/// Bytes of one log line before it is cut into pieces.
pub const LOG_LINE_MAX_BYTES: usize = 16 * 1024;
/// Bytes of the end of stderr kept with a run.
pub const STDERR_TAIL_MAX_BYTES: usize = 2 * 1024;
/// Log lines a page holds unless asked otherwise.
pub const LOG_PAGE_DEFAULT: u32 = 500;
/// Most log lines a page holds.
pub const LOG_PAGE_MAX: u32 = 2_000;
/// Most runs a list holds.
pub const RUN_LIST_MAX: u32 = 50;
/// Longest time a request is held for news, seconds.
pub const WAIT_SECONDS_HELD_MAX: u32 = 5;
/// Longest wait a request may ask for, seconds.
pub const WAIT_SECONDS_MAX: u32 = 60;
/// How long runs and logs are kept, seconds (90 days).
pub const RUN_RETENTION_SECONDS: i64 = 90 * 86_400;
/// How long an idempotency receipt lives, seconds.
pub const RECEIPT_SECONDS: i64 = 24 * 3_600;
/// After how long a claim left pending can be taken over, seconds.
pub const RECEIPT_CLAIM_SECONDS: i64 = 3_600;
/// Bytes of a request body.
pub const BODY_MAX_BYTES: usize = 1024 * 1024;
/// Sessions of one organization that are live at once, unless the deployment says otherwise.
pub const SESSIONS_LIVE_MAX: usize = 20;
/// Commands that run in one session at once.
pub const SESSION_COMMANDS_MAX: usize = 64;
/// Terminals of one session at once.
pub const SESSION_TERMINALS_MAX: usize = 16;
/// Connections to the port of one session at once.
pub const SESSION_PORT_CONNECTIONS_MAX: usize = 128;
/// Arguments of one command.
pub const EXEC_ARGUMENTS_MAX: usize = 1_000;
/// Bytes of a command's directory.
pub const EXEC_CWD_MAX_BYTES: usize = 4_096;
/// Longest timeout of a command, seconds.
pub const EXEC_TIMEOUT_MAX: u32 = 86_400;
/// Bytes of standard output, and as many of standard error, that a collected command answers with.
pub const EXEC_OUTPUT_MAX_BYTES: usize = 1024 * 1024;
/// Bytes of output that a terminal replays to whoever comes back to it.
pub const TERMINAL_REPLAY_BYTES: usize = 64 * 1024;
/// Seconds that a terminal lives on without a connection.
pub const TERMINAL_DETACHED_SECONDS: u64 = 120;
/// Seconds between two samples of what a session uses.
pub const SAMPLE_SECONDS: u64 = 5;
/// Samples kept of a session: the last hour.
pub const SAMPLES_MAX: usize = 720;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_was_cut_names_the_limit_that_it_reached() {
        for (lines, limit) in [
            (1, "4 MiB"),
            (LOG_MAX_LINES - 1, "4 MiB"),
            (LOG_MAX_LINES, "1,000,000 lines"),
            (LOG_MAX_LINES + 20, "1,000,000 lines"),
        ] {
            assert_eq!(log_limit_reached(lines), limit);
        }
        // The words are those of the numbers.
        assert_eq!((LOG_MAX_BYTES, LOG_MAX_LINES), (4 << 20, 1_000_000));
    }
}
