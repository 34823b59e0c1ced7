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
        if self.is_shell() || self.name == "set" {
            let options = self.shell_options();
            return options.letters.contains(letter)
                || (!long.is_empty() && options.long.contains(&long));
        }
        self.args
            .iter()
            .take_while(|word| word.text != "--")
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

    /// Whether a shell, or `set`, is told to turn this on: by its letter, or by name after `-o`.
    pub(super) fn turns_on(&self, letter: char, name: &str) -> bool {
        let options = self.shell_options();
        options.letters.contains(letter) || options.names.contains(&name)
    }

    /// What a shell, or `set`, is told before its operands.
    fn shell_options(&self) -> ShellOptions<'w, 'a> {
        let mut options = ShellOptions {
            letters: String::new(),
            names: Vec::new(),
            long: Vec::new(),
            operands: self.args,
        };
        while let [word, rest @ ..] = options.operands {
            let text: &'w str = &word.text;
            if text == "--" || text == "-" {
                options.operands = rest;
                break;
            }
            let Some(cluster) = text.strip_prefix(['-', '+']) else {
                break;
            };
            options.operands = rest;
            if let Some(long) = cluster.strip_prefix('-') {
                options.long.push(long);
                if matches!(long, "rcfile" | "init-file") {
                    options.operands = rest.get(1..).unwrap_or_default();
                }
                continue;
            }
            let on = text.starts_with('-');
            for letter in cluster.chars() {
                if on {
                    options.letters.push(letter);
                }
                // These take the next word.
                if matches!(letter, 'o' | 'O')
                    && let [name, rest @ ..] = options.operands
                {
                    options.operands = rest;
                    if on && letter == 'o' {
                        options.names.push(&name.text);
                    }
                }
            }
        }
        options
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
        if self.is_shell() {
            let options = self.shell_options();
            return !options.letters.contains('c')
                && (options.letters.contains('s') || options.operands.is_empty());
        }
        let explicit = self
            .args
            .iter()
            .take_while(|word| word.text.starts_with('-'))
            .any(|word| word.text == "-");
        let program = self.has_flag('c', "") || self.has_flag('e', "");
        explicit
            || (!program
                && !(is_python(self.name) && self.has_flag('m', ""))
                && self.operands().next().is_none())
    }
}

/// Options of a shell, or of `set`.
struct ShellOptions<'w, 'a> {
    /// Letters after a `-`.
    letters: String,
    /// Names after `-o`.
    names: Vec<&'w str>,
    /// Words after `--`.
    long: Vec<&'w str>,
    /// What follows the options.
    operands: &'w [Word<'a>],
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
