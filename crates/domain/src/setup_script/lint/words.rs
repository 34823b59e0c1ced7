//! What a simple command calls: past assignments, `sudo`, `env` and the like.

use crate::setup_script::lexer::{Command, Word};

/// The program that a command runs, and its arguments.
pub(super) struct Call<'w, 'a> {
    /// The program's name without its directory; empty for assignments alone.
    pub(super) name: &'w str,
    /// The program as written.
    pub(super) path: &'w str,
    /// What follows it.
    pub(super) args: &'w [Word<'a>],
    /// Runs under `sudo`.
    pub(super) sudo: bool,
    /// Runs under something else that starts programs, such as `timeout` or `xargs`.
    pub(super) wrapped: bool,
}

impl<'w, 'a> Call<'w, 'a> {
    pub(super) fn of(command: &'w Command<'a>) -> Self {
        let mut call = Self {
            name: "",
            path: "",
            args: &command.words,
            sudo: false,
            wrapped: false,
        };
        loop {
            while let [first, rest @ ..] = call.args
                && is_assignment(&first.text)
            {
                call.args = rest;
            }
            let [first, rest @ ..] = call.args else {
                return call;
            };
            call.path = &first.text;
            call.name = first.text.rsplit('/').next().unwrap_or_default();
            call.args = rest;
            let with_value: &[&str] = match call.name {
                "sudo" | "doas" => &[
                    "-u", "-g", "-h", "-p", "-C", "-D", "-U", "--user", "--group",
                ],
                "env" => &["-u", "-C", "-S", "--unset", "--chdir"],
                "nice" | "ionice" => &["-n", "-c"],
                "timeout" => &["-k", "-s", "--kill-after", "--signal"],
                "xargs" => &["-n", "-P", "-I", "-L", "-d", "-a", "-s"],
                "stdbuf" => &["-i", "-o", "-e"],
                "retry" | "nohup" | "setsid" | "exec" | "command" | "builtin" | "eatmydata" => &[],
                _ => return call,
            };
            match call.name {
                "sudo" | "doas" => call.sudo = true,
                "env" | "exec" | "command" | "builtin" => {}
                _ => call.wrapped = true,
            }
            let mut positional = usize::from(call.name == "timeout");
            while let [word, rest @ ..] = call.args {
                if word.text == "--" {
                    call.args = rest;
                    break;
                } else if with_value.contains(&word.text.as_ref()) {
                    call.args = rest.get(1..).unwrap_or_default();
                } else if word.text.starts_with('-') {
                    call.args = rest;
                } else if positional > 0 && !is_assignment(&word.text) {
                    positional -= 1;
                    call.args = rest;
                } else {
                    break;
                }
            }
        }
    }

    /// Whether an option is given: `letter` alone or in a cluster such as `-lc`, or `--long`. Options end at `--` and, for
    /// shells, at the first operand.
    pub(super) fn has_flag(&self, letter: char, long: &str) -> bool {
        let until_operand = self.is_shell() || self.name == "set";
        self.args
            .iter()
            .take_while(|word| word.text != "--")
            .take_while(|word| !until_operand || word.text.starts_with('-'))
            .any(|word| {
                let Some(rest) = word.text.strip_prefix('-') else {
                    return false;
                };
                match rest.strip_prefix('-') {
                    Some(name) => !long.is_empty() && name == long,
                    None => rest.contains(letter),
                }
            })
    }

    /// The value after an option that is a word of its own, or after its `=`.
    pub(super) fn option_value(&self, option: &str) -> Option<&str> {
        self.args.iter().enumerate().find_map(|(index, word)| {
            if word.text == option {
                return self.args.get(index + 1).map(|value| value.text.as_ref());
            }
            word.text
                .strip_prefix(option)
                .and_then(|rest| rest.strip_prefix('='))
        })
    }

    /// The arguments that are no options.
    pub(super) fn operands(&self) -> impl Iterator<Item = &'w Word<'a>> + use<'w, 'a> {
        let args: &'w [Word<'a>] = self.args;
        let end_of_options = args
            .iter()
            .position(|word| word.text == "--")
            .unwrap_or(args.len());
        args.iter()
            .enumerate()
            .filter(move |(index, word)| {
                *index > end_of_options || (*index < end_of_options && !word.text.starts_with('-'))
            })
            .map(|(_, word)| word)
    }

    /// A shell that takes commands.
    pub(super) fn is_shell(&self) -> bool {
        matches!(self.name, "sh" | "bash" | "dash" | "zsh" | "ksh")
    }

    /// An interpreter of another language.
    pub(super) fn is_interpreter(&self) -> bool {
        is_python(self.name) || matches!(self.name, "node" | "perl" | "ruby" | "php")
    }

    /// Whether it fetches something.
    pub(super) fn is_download(&self) -> bool {
        matches!(self.name, "curl" | "wget" | "aria2c" | "fetch")
    }

    /// Whether a shell or interpreter runs what stands on its standard input.
    pub(super) fn reads_program_from_input(&self) -> bool {
        let explicit = self
            .args
            .iter()
            .take_while(|word| word.text.starts_with('-'))
            .any(|word| word.text == "-" || (self.is_shell() && word.text == "-s"));
        let program = self.has_flag('c', "") || (!self.is_shell() && self.has_flag('e', ""));
        explicit
            || (!program
                && !(is_python(self.name) && self.has_flag('m', ""))
                && self.operands().next().is_none())
    }
}

/// `python`, `python3`, `python3.12`.
pub(super) fn is_python(name: &str) -> bool {
    versioned(name, "python")
}

/// `pip`, `pip3`, `pip3.12`.
pub(super) fn is_pip(name: &str) -> bool {
    versioned(name, "pip")
}

fn versioned(name: &str, program: &str) -> bool {
    name.strip_prefix(program)
        .is_some_and(|version| version.bytes().all(|b| b.is_ascii_digit() || b == b'.'))
}

/// `NAME=value`, `NAME+=value`.
fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        let name = name.strip_suffix('+').unwrap_or(name);
        let name = name.split('[').next().unwrap_or_default();
        crate::env_vars::is_name(name)
    })
}
