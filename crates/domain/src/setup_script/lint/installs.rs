//! Package installs: versions, root, questions, and which Python they go into.

use super::{
    Found, WarningCode,
    words::{Call, is_pip, is_python},
};
use crate::setup_script::lexer::{Command, Word};

/// What a package manager installs.
struct Install<'w> {
    /// Names without a version.
    unpinned: Vec<&'w str>,
    /// How one is pinned, with `NAME` for the name.
    pinned_form: &'static str,
}

/// Warns of an install's faults. `venv`: whether the script made or entered a virtual environment before.
pub(super) fn check(
    all: &[Command<'_>],
    command: &Command<'_>,
    call: &Call<'_, '_>,
    venv: bool,
    found: &mut Found,
) {
    if let Some(install) = unpinned(call)
        && let Some(first) = install.unpinned.first()
    {
        let others = match install.unpinned.len() {
            1 => String::new(),
            more => format!(" (and {} more)", more - 1),
        };
        found.add(
            WarningCode::UnpinnedInstall,
            command.line,
            format!(
                "{first}{others} has no fixed version, so that a later run can install something else than was tested: write {}.",
                install.pinned_form.replace("NAME", first)
            ),
        );
    }
    apt(all, command, call, found);
    if installs_into_system_python(call, venv) {
        found.add(
            WarningCode::SystemPython,
            command.line,
            "This installs into the system's Python, which sessions do not use: uv venv --seed /workspace/.venv, then uv pip install --python /workspace/.venv/bin/python.",
        );
    }
}

/// Whether the command makes or enters a virtual environment.
pub(super) fn selects_venv(command: &Command<'_>) -> bool {
    command.words.iter().any(|word| {
        let text = word.text.as_ref();
        matches!(text, "venv" | "virtualenv" | "-mvenv" | "conda" | "mamba")
            || text.ends_with("/bin/activate")
    })
}

fn unpinned<'w>(call: &Call<'w, '_>) -> Option<Install<'w>> {
    if let Some(args) = pip_args(call) {
        return python_packages(args, &["install"]);
    }
    match call.name {
        "pipx" => python_packages(call.args, &["install"]),
        "uv" => match call.args {
            [first, rest @ ..] if first.text == "tool" => python_packages(rest, &["install"]),
            _ => None,
        },
        "npm" => node_packages(call.args, &["install", "i", "add"]),
        "pnpm" => node_packages(call.args, &["install", "i", "add"]),
        "yarn" => match call.args {
            [first, rest @ ..] if first.text == "global" => node_packages(rest, &["add"]),
            _ => node_packages(call.args, &["add"]),
        },
        "apt" | "apt-get" | "aptitude" => debian_packages(call),
        "cargo" => crates(call),
        "gem" => gems(call),
        _ => None,
    }
}

/// The arguments of a pip, however it is called: from its subcommand on.
fn pip_args<'w, 'a>(call: &Call<'w, 'a>) -> Option<&'w [Word<'a>]> {
    if is_pip(call.name) {
        return Some(call.args);
    }
    match call.args {
        [flag, pip, rest @ ..]
            if is_python(call.name) && flag.text == "-m" && pip.text == "pip" =>
        {
            Some(rest)
        }
        [pip, rest @ ..] if call.name == "uv" && pip.text == "pip" => Some(rest),
        _ => None,
    }
}

/// The arguments after a subcommand, which may stand behind options.
fn after_subcommand<'w, 'a>(args: &'w [Word<'a>], names: &[&str]) -> Option<&'w [Word<'a>]> {
    let at = args.iter().position(|word| !word.text.starts_with('-'))?;
    names
        .contains(&args[at].text.as_ref())
        .then(|| args.get(at + 1..).unwrap_or_default())
}

/// The words that are neither options nor the values of the options in `with_value`.
fn operands<'w>(args: &'w [Word<'_>], with_value: &[&str]) -> Vec<&'w str> {
    let mut operands = Vec::new();
    let mut args = args.iter();
    while let Some(word) = args.next() {
        if with_value.contains(&word.text.as_ref()) {
            args.next();
        } else if !word.text.starts_with('-') {
            operands.push(word.text.as_ref());
        }
    }
    operands
}

/// Paths, variables and substitutions: what they hold is not to be seen here.
fn is_opaque(text: &str) -> bool {
    text.is_empty()
        || text.starts_with(['.', '/', '~', '$'])
        || [".whl", ".tar.gz", ".tgz", ".zip", ".deb", ".gem"]
            .iter()
            .any(|end| text.ends_with(end))
}

fn python_packages<'w>(args: &'w [Word<'_>], subcommands: &[&str]) -> Option<Install<'w>> {
    const WITH_VALUE: [&str; 28] = [
        "-r",
        "--requirement",
        "--requirements",
        "-c",
        "--constraint",
        "-e",
        "--editable",
        "-i",
        "--index-url",
        "--extra-index-url",
        "--index",
        "--default-index",
        "-f",
        "--find-links",
        "-t",
        "--target",
        "-p",
        "--python",
        "--prefix",
        "--root",
        "--src",
        "--platform",
        "--python-version",
        "--only-binary",
        "--no-binary",
        "--cache-dir",
        "--with",
        "--timeout",
    ];
    let args = after_subcommand(args, subcommands)?;
    // Constraints pin what the command does not.
    let constrained = args.iter().any(|word| {
        word.text == "-c"
            || word.text.starts_with("--constraint")
            || word.text == "--require-hashes"
    });
    let unpinned = operands(args, &WITH_VALUE)
        .into_iter()
        .filter(|text| !constrained && !is_opaque(text) && !python_pinned(text))
        .collect();
    Some(Install {
        unpinned,
        pinned_form: "NAME==VERSION",
    })
}

fn python_pinned(requirement: &str) -> bool {
    if let Some((_, url)) = requirement.split_once("://") {
        // A repository moves on; a file under a URL has its version in its name.
        return !requirement.starts_with("git+")
            || url
                .split_once('/')
                .is_some_and(|(_, path)| path.contains('@'));
    }
    requirement.contains("==")
        || requirement.contains(" @ ")
        || requirement
            .split_once('@')
            .is_some_and(|(_, version)| starts_with_digit(version))
}

fn starts_with_digit(text: &str) -> bool {
    text.trim_start_matches('v')
        .starts_with(|c: char| c.is_ascii_digit())
}

fn node_packages<'w>(args: &'w [Word<'_>], subcommands: &[&str]) -> Option<Install<'w>> {
    const WITH_VALUE: [&str; 6] = [
        "--prefix",
        "-C",
        "--registry",
        "--filter",
        "-w",
        "--workspace",
    ];
    let args = after_subcommand(args, subcommands)?;
    let unpinned = operands(args, &WITH_VALUE)
        .into_iter()
        .filter(|text| {
            let name = text.strip_prefix('@').unwrap_or(text);
            let pinned = name.split_once('@').is_some_and(|(_, version)| {
                starts_with_digit(version)
                    && !version.contains(['x', '*', '<', '>', '|', ' ', '^', '~'])
                    || version.starts_with(['$', '.', '/'])
                    || version.contains(':')
            });
            !is_opaque(text)
                && !pinned
                && !text.contains(':')
                && (text.starts_with('@') || !text.contains('/'))
        })
        .collect();
    Some(Install {
        unpinned,
        pinned_form: "NAME@VERSION",
    })
}

fn debian_packages<'w>(call: &Call<'w, '_>) -> Option<Install<'w>> {
    const WITH_VALUE: [&str; 6] = ["-t", "--target-release", "-o", "--option", "-c", "-a"];
    let mut named = operands(call.args, &WITH_VALUE).into_iter();
    (named.next() == Some("install")).then(|| Install {
        unpinned: named
            .filter(|text| !is_opaque(text) && !text.contains('=') && !text.ends_with('-'))
            .collect(),
        pinned_form: "NAME=VERSION (apt-cache policy NAME shows it)",
    })
}

fn crates<'w>(call: &Call<'w, '_>) -> Option<Install<'w>> {
    const WITH_VALUE: [&str; 17] = [
        "--version",
        "--vers",
        "--git",
        "--branch",
        "--tag",
        "--rev",
        "--path",
        "--root",
        "--index",
        "--registry",
        "--features",
        "-F",
        "--target",
        "--profile",
        "-j",
        "--bin",
        "--target-dir",
    ];
    // `cargo +stable install …`
    let args = match call.args {
        [toolchain, rest @ ..] if toolchain.text.starts_with('+') => rest,
        args => args,
    };
    let args = after_subcommand(args, &["install", "binstall"])?;
    let has = |options: &[&str]| {
        args.iter().any(|word| {
            let name = word.text.split('=').next().unwrap_or_default();
            options.contains(&name)
        })
    };
    if has(&["--version", "--vers", "--path", "--rev", "--tag"]) {
        return None;
    }
    if has(&["--git"]) {
        let url = args
            .iter()
            .skip_while(|word| word.text != "--git")
            .nth(1)
            .map_or("the repository", |word| word.text.as_ref());
        return Some(Install {
            unpinned: vec![url],
            pinned_form: "--git NAME --rev COMMIT",
        });
    }
    Some(Install {
        unpinned: operands(args, &WITH_VALUE)
            .into_iter()
            .filter(|text| !is_opaque(text) && !text.contains('@'))
            .collect(),
        pinned_form: "NAME@VERSION",
    })
}

fn gems<'w>(call: &Call<'w, '_>) -> Option<Install<'w>> {
    const WITH_VALUE: [&str; 8] = [
        "-v",
        "--version",
        "-s",
        "--source",
        "-i",
        "--install-dir",
        "-n",
        "--bindir",
    ];
    let args = after_subcommand(call.args, &["install", "i"])?;
    let versioned = args
        .iter()
        .any(|word| matches!(word.text.split('=').next(), Some("-v" | "--version")));
    Some(Install {
        unpinned: operands(args, &WITH_VALUE)
            .into_iter()
            .filter(|text| !versioned && !is_opaque(text) && !text.contains(':'))
            .collect(),
        pinned_form: "NAME:VERSION",
    })
}

fn apt(all: &[Command<'_>], command: &Command<'_>, call: &Call<'_, '_>, found: &mut Found) {
    let is_apt = matches!(call.name, "apt" | "apt-get" | "aptitude");
    let subcommand = call.operands().next().map_or("", |word| word.text.as_ref());
    let needs_root = match call.name {
        "apt" | "apt-get" | "aptitude" => !matches!(
            subcommand,
            "" | "list"
                | "search"
                | "show"
                | "download"
                | "changelog"
                | "source"
                | "help"
                | "policy"
        ),
        "dpkg" => {
            call.has_flag('i', "install")
                || call.has_flag('r', "remove")
                || call.has_flag('P', "purge")
        }
        "add-apt-repository" | "apt-key" => true,
        _ => false,
    };
    let simulated = is_apt && (call.has_flag('s', "simulate") || call.has_flag(' ', "dry-run"));
    if needs_root && !call.sudo && !simulated {
        found.add(
            WarningCode::AptWithoutSudo,
            command.line,
            format!("The script does not run as root: write sudo {}.", call.name),
        );
    }
    let asks = matches!(
        subcommand,
        "install"
            | "reinstall"
            | "upgrade"
            | "dist-upgrade"
            | "full-upgrade"
            | "remove"
            | "purge"
            | "autoremove"
            | "build-dep"
    );
    let answered = call.has_flag('y', "yes")
        || call.has_flag(' ', "assume-yes")
        || call.args.iter().any(|word| {
            word.text.starts_with("-qq") || word.text.to_ascii_lowercase().contains("assume-yes")
        })
        || command
            .piped_from
            .and_then(|index| all.get(index))
            .is_some_and(|before| Call::of(before).name == "yes");
    if is_apt && asks && !answered && !simulated {
        found.add(
            WarningCode::AptWithoutYes,
            command.line,
            format!(
                "{} {subcommand} asks before it goes on, and nobody can answer: write {} {subcommand} -y.",
                call.name, call.name
            ),
        );
    }
}

fn installs_into_system_python(call: &Call<'_, '_>, venv: bool) -> bool {
    let Some(args) = pip_args(call) else {
        return false;
    };
    let Some(args) = after_subcommand(args, &["install"]) else {
        return false;
    };
    let has = |option: &str| {
        args.iter()
            .any(|word| word.text == option || word.text.split('=').next() == Some(option))
    };
    if ["-t", "--target", "--prefix", "--root", "--dry-run"]
        .iter()
        .any(|option| has(option))
    {
        return false;
    }
    if has("--system") || has("--break-system-packages") {
        return true;
    }
    if call.name == "uv" {
        return call.sudo && !has("--python") && !has("-p");
    }
    // A pip inside a virtual environment is called by its path, or follows the making of one.
    let own_path = call.path.contains('/')
        && !call.path.starts_with("/usr/")
        && !call.path.starts_with("/bin/");
    !own_path && (call.sudo || call.path.contains('/') || !venv)
}
