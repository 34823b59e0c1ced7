//! Advice on a script, never a refusal (spec 1-domain, *Script warnings*).

use serde::{Deserialize, Serialize};

use super::lexer::{Command, Lexer};

mod installs;
mod words;

use words::Call;

/// Most warnings that one script draws: a screen full of them says enough.
const WARNINGS_MAX: usize = 100;

/// What a warning is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WarningCode {
    /// A command wrapped in `bash -lc`.
    BashLcWrapper,
    /// A download run unseen.
    CurlPipeSh,
    /// An install without a version.
    UnpinnedInstall,
    /// Removes the root or what cannot be missed.
    RmRfRoot,
    /// apt without root.
    AptWithoutSudo,
    /// apt that would ask.
    AptWithoutYes,
    /// `export`, `source`, `alias`: gone when the script ends.
    ExportDoesNotPersist,
    /// `set -x` writes values into the log.
    TracePrintsValues,
    /// A backslash that does not go on to the next line.
    BrokenContinuation,
    /// Packages put into the system's Python.
    SystemPython,
    /// `PATH` without what it held.
    PathReplaced,
    /// A process left running.
    BackgroundProcess,
    /// A shell given a heredoc that goes on after a failure.
    InnerShellHidesFailure,
    /// What Docker pulls or builds is not in the image.
    DockerNotKept,
}

impl WarningCode {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::BashLcWrapper,
        Self::CurlPipeSh,
        Self::UnpinnedInstall,
        Self::RmRfRoot,
        Self::AptWithoutSudo,
        Self::AptWithoutYes,
        Self::ExportDoesNotPersist,
        Self::TracePrintsValues,
        Self::BrokenContinuation,
        Self::SystemPython,
        Self::PathReplaced,
        Self::BackgroundProcess,
        Self::InnerShellHidesFailure,
        Self::DockerNotKept,
    ];
    /// The wire word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BashLcWrapper => "bash_lc_wrapper",
            Self::CurlPipeSh => "curl_pipe_sh",
            Self::UnpinnedInstall => "unpinned_install",
            Self::RmRfRoot => "rm_rf_root",
            Self::AptWithoutSudo => "apt_without_sudo",
            Self::AptWithoutYes => "apt_without_yes",
            Self::ExportDoesNotPersist => "export_does_not_persist",
            Self::TracePrintsValues => "trace_prints_values",
            Self::BrokenContinuation => "broken_continuation",
            Self::SystemPython => "system_python",
            Self::PathReplaced => "path_replaced",
            Self::BackgroundProcess => "background_process",
            Self::InnerShellHidesFailure => "inner_shell_hides_failure",
            Self::DockerNotKept => "docker_not_kept",
        }
    }
}

/// One piece of advice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScriptWarning {
    /// For programs.
    pub code: WarningCode,
    /// The script line of the command, from 1.
    pub line: u32,
    /// What was found and what to write instead.
    pub message: String,
}

/// Advice on a script, by line; at most one of a code for each line. Comments, quoted text and heredocs draw none.
pub fn lint(script: &str) -> Vec<ScriptWarning> {
    let read = Lexer::read(script);
    let mut found = Found(Vec::new());
    for line in &read.broken_continuations {
        found.add(
            WarningCode::BrokenContinuation,
            *line,
            "The backslash does not continue the command: it must be the very last character of its line, and the next line must not be a comment.",
        );
    }
    let mut venv = false;
    // Whatever the script itself waits for or ends later is not left behind.
    let last_wait = read
        .commands
        .iter()
        .rposition(|command| matches!(Call::of(command).name, "wait" | "kill" | "pkill" | "fg"));
    for (index, command) in read.commands.iter().enumerate() {
        if found.0.len() >= WARNINGS_MAX {
            break;
        }
        let call = Call::of(command);
        paths_and_exports(command, &call, &mut found);
        shells(&read.commands, command, &call, &mut found);
        removals(command, &call, &mut found);
        inner_shell(&read.heredocs, command, &call, &mut found);
        docker(command, &call, &mut found);
        installs::check(&read.commands, command, &call, venv, &mut found);
        venv |= installs::selects_venv(command);
        if command.background && last_wait.is_none_or(|wait| wait < index) {
            found.add(
                WarningCode::BackgroundProcess,
                command.line,
                "A process left in the background is ended with the script and is not there in sessions: start it in the session, or end the line without \"&\".",
            );
        }
    }
    let mut warnings = found.0;
    warnings.sort_by_key(|warning| (warning.line, warning.code));
    warnings.dedup_by_key(|warning| (warning.line, warning.code));
    warnings.truncate(WARNINGS_MAX);
    warnings
}

/// The warnings so far.
struct Found(Vec<ScriptWarning>);

impl Found {
    fn add(&mut self, code: WarningCode, line: u32, message: impl Into<String>) {
        self.0.push(ScriptWarning {
            code,
            line,
            message: message.into(),
        });
    }
}

fn paths_and_exports(command: &Command<'_>, call: &Call<'_, '_>, found: &mut Found) {
    use WarningCode::{ExportDoesNotPersist, PathReplaced};
    let line = command.line;
    let declares = match call.name {
        "export" => true,
        "declare" | "typeset" => call.has_flag('x', ""),
        _ => false,
    };
    if declares {
        let named: Vec<&str> = call
            .operands()
            .map(|word| word.text.split('=').next().unwrap_or_default())
            .collect();
        if let Some(first) = named.first() {
            found.add(
                ExportDoesNotPersist,
                line,
                format!(
                    "{first} is set for the rest of this script only, not for sessions: put it into the environment's variables."
                ),
            );
        }
    }
    match call.name {
        "source" | "." if call.operands().next().is_some() => found.add(
            ExportDoesNotPersist,
            line,
            "What is sourced is gone when the script ends. A virtual environment in /workspace/.venv is selected without it; put values into the environment's variables.",
        ),
        "alias" if call.operands().any(|word| word.text.contains('=')) => found.add(
            ExportDoesNotPersist,
            line,
            "An alias is gone when the script ends: put a small script into /usr/local/bin instead.",
        ),
        _ => {}
    }
    // `PATH=… command` is for that command alone.
    let assigned = if call.name.is_empty() {
        command.words.iter().collect()
    } else if declares || call.name == "readonly" {
        call.operands().collect()
    } else {
        Vec::new()
    };
    for word in assigned {
        if let Some(value) = word.text.strip_prefix("PATH=")
            && !value.contains("$PATH")
            && !value.contains("${PATH")
            && word.inner.is_empty()
        {
            found.add(
                PathReplaced,
                line,
                "This PATH leaves out what it held, so that even ls may not be found: end it with :$PATH.",
            );
        }
    }
}

/// A shell that reads its commands from a heredoc, of which only the last one counts.
fn inner_shell(bodies: &[&str], command: &Command<'_>, call: &Call<'_, '_>, found: &mut Found) {
    if !call.is_shell() || !call.reads_program_from_input() || stops_at_failures(call) {
        return;
    }
    let Some(body) = command.heredoc.and_then(|index| bodies.get(index)) else {
        return;
    };
    let stops = Lexer::read(body).commands.iter().any(|inner| {
        let call = Call::of(inner);
        call.name == "set" && stops_at_failures(&call)
    });
    if !stops && several_statements(body) {
        found.add(
            WarningCode::InnerShellHidesFailure,
            command.line,
            format!(
                "This {0} goes on after a command that fails, and the run with it: write {0} -e, or set -e in the first line of the heredoc.",
                call.name
            ),
        );
    }
}

fn stops_at_failures(call: &Call<'_, '_>) -> bool {
    call.turns_on('e', "errexit")
}

/// Whether a text holds more than one statement.
fn several_statements(text: &str) -> bool {
    let next = |text: &str| {
        let mut at = 0;
        for line in text.split_inclusive('\n') {
            let bare = line.trim();
            if !bare.is_empty() && !bare.starts_with('#') {
                return Some(at + Lexer::statement_end(&text[at..]));
            }
            at += line.len();
        }
        None
    };
    next(text).is_some_and(|end| {
        let first = &text[..end];
        (first.contains(';') && Lexer::read(first).commands.len() > 1)
            || text.get(end..).and_then(next).is_some()
    })
}

fn docker(command: &Command<'_>, call: &Call<'_, '_>, found: &mut Found) {
    let fills_its_store = || {
        call.operands().next().is_some_and(|verb| {
            matches!(
                &*verb.text,
                "pull"
                    | "build"
                    | "buildx"
                    | "compose"
                    | "create"
                    | "image"
                    | "load"
                    | "run"
                    | "up"
            )
        })
    };
    if matches!(
        call.name,
        "docker" | "docker-compose" | "podman" | "nerdctl"
    ) && fills_its_store()
    {
        found.add(
            WarningCode::DockerNotKept,
            command.line,
            format!(
                "{} needs a privileged environment, and what it pulls or builds is not part of the image that sessions start from: do it in the session.",
                call.name
            ),
        );
    }
}

fn shells(all: &[Command<'_>], command: &Command<'_>, call: &Call<'_, '_>, found: &mut Found) {
    use WarningCode::{BashLcWrapper, CurlPipeSh, TracePrintsValues};
    let line = command.line;
    if runs_download(all, command, call) {
        found.add(
            CurlPipeSh,
            line,
            "A download is run unseen, and what it installs can change from day to day: save it with curl -fsSL -o, check it with sha256sum -c, then run the file.",
        );
    } else if call.is_shell() && call.has_flag('c', "") {
        let login = call.has_flag('l', "login");
        // As root, or under a timer or xargs, a shell of its own is the usual way.
        if login || !(call.sudo || call.wrapped) {
            found.add(
                BashLcWrapper,
                line,
                format!(
                    "The script runs in a bash login shell already: write the command without {} -c, whose quoting often breaks.",
                    call.name
                ),
            );
        }
    }
    if (call.name == "set" || call.is_shell()) && call.turns_on('x', "xtrace") {
        found.add(
            TracePrintsValues,
            line,
            "Tracing writes the values of variables into the log; the log shows each command without it, as written.",
        );
    }
}

/// Whether the command runs what a download wrote.
fn runs_download(all: &[Command<'_>], command: &Command<'_>, call: &Call<'_, '_>) -> bool {
    let interprets = call.is_shell() || call.is_interpreter();
    if interprets || matches!(call.name, "source" | "." | "eval") {
        // Substitutions nest, so that without a bound each command could be looked at once for each level.
        let inner_download = command.words.iter().any(|word| {
            word.inner
                .clone()
                .take(64)
                .any(|index| all.get(index).is_some_and(|c| Call::of(c).is_download()))
        });
        if inner_download {
            return true;
        }
    }
    if !interprets || !call.reads_program_from_input() {
        return false;
    }
    let mut upstream = command.piped_from;
    // A pipeline of a script has few parts.
    for _ in 0..32 {
        let Some(before) = upstream.and_then(|index| all.get(index)) else {
            return false;
        };
        if Call::of(before).is_download() {
            return true;
        }
        upstream = before.piped_from;
    }
    false
}

/// Directories without which nothing in the sandbox works.
const VITAL: [&str; 16] = [
    "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/proc", "/root", "/run", "/sbin",
    "/sys", "/usr", "/var", "~", "$HOME",
];

fn removals(command: &Command<'_>, call: &Call<'_, '_>, found: &mut Found) {
    let recursive =
        call.has_flag('r', "recursive") || call.has_flag('R', "") || call.has_flag('d', "dir");
    if call.name != "rm" || !recursive {
        return;
    }
    for word in call.operands() {
        if let Some(why) = removal_danger(&word.text) {
            found.add(
                WarningCode::RmRfRoot,
                command.line,
                format!("rm -r {} {why}", word.text),
            );
            return;
        }
    }
}

fn removal_danger(target: &str) -> Option<&'static str> {
    let bare = target
        .strip_suffix("/*")
        .or_else(|| target.strip_suffix("/."))
        .unwrap_or(target)
        .trim_end_matches('/');
    if bare.is_empty() {
        return (!target.is_empty())
            .then_some("removes the whole file system: name the directory that you mean.");
    }
    let bare = bare.replace("${HOME}", "$HOME");
    if VITAL.contains(&bare.as_str()) {
        return Some(
            "removes what the sandbox needs to work: name the directory below it that you mean.",
        );
    }
    // `$DIR/`, `$DIR/*`: the root, where the variable is empty.
    let variable = bare.strip_prefix('$').is_some_and(|name| {
        let name = name
            .strip_prefix('{')
            .and_then(|rest| rest.strip_suffix('}'))
            .unwrap_or(name);
        crate::env_vars::is_name(name) && name != "PWD"
    });
    (variable && bare.len() < target.len())
        .then_some("is the whole file system where the variable is empty: write ${NAME:?} for it.")
}
