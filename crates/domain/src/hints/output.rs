//! Reading the end of what a command wrote.

/// The last line that holds one of these texts, which are lower case; case does not count.
pub(super) fn line_with<'a>(output: &'a str, texts: &[&str]) -> Option<&'a str> {
    output.lines().rev().find(|line| {
        let line = line.to_ascii_lowercase();
        texts.iter().any(|text| line.contains(text))
    })
}

/// The program that a shell, `env` or `sudo` did not find.
pub(super) fn missing_command(output: &str) -> Option<&str> {
    output.lines().rev().find_map(|line| {
        let line = line.trim_end();
        let before = line
            .strip_suffix(": command not found")
            .or_else(|| line.strip_suffix(": not found"))
            .or_else(|| {
                // `/usr/bin/env: ‘node’: No such file or directory`, `sudo: x: command not found` is above.
                line.contains("/env: ")
                    .then(|| line.strip_suffix(": No such file or directory"))
                    .flatten()
            })?;
        let name = before
            .rsplit(": ")
            .next()?
            .trim_matches(['\'', '"', '`', '\u{2018}', '\u{2019}']);
        let plain = !name.is_empty() && !name.contains(char::is_whitespace);
        plain.then_some(name)
    })
}

/// The absolute path that a message names first.
pub(super) fn file_of(line: &str) -> Option<&str> {
    line.split([' ', '\'', '"', '\u{2018}', '\u{2019}', '(', ')'])
        .map(|word| word.trim_end_matches([':', '.', ',']))
        .find(|word| word.starts_with('/') && word.len() > 1)
}

/// Whether the output ends in a question.
pub(super) fn waits_for_input(output: &str) -> bool {
    is_question(last_line(output))
}

fn last_line(output: &str) -> &str {
    let last = output.trim_end();
    last.rsplit('\n').next().unwrap_or_default()
}

fn is_question(line: &str) -> bool {
    let lower = line.trim_end().to_ascii_lowercase();
    [
        "[y/n]",
        "(y/n)",
        "[yes/no]",
        "(yes/no)",
        "(yes/no/[fingerprint])",
        "password:",
        "passphrase:",
    ]
    .iter()
    .any(|question| {
        lower.contains(question)
            && lower.len() - lower.rfind(question).unwrap_or(0) <= question.len() + 3
    }) || lower.ends_with("continue?")
        || lower.ends_with("geographic area:")
        || lower.ends_with("time zone:")
}

/// What a command asked for when it met an empty input and gave up, and what to do about it.
pub(super) fn asked_in_vain(output: &str) -> Option<(&'static str, &'static str)> {
    const ANSWER: (&str, &str) = (
        "an answer",
        "Give the command its answer, such as -y or --yes.",
    );
    // apt: `[Y/n] Abort.`; others say so in a line of its own.
    let end = output.trim_end();
    let given_up = ["abort.", "aborted.", "aborted!", "aborting."]
        .iter()
        .find(|word| {
            let from = end.len().saturating_sub(word.len());
            end.get(from..)
                .is_some_and(|tail| tail.eq_ignore_ascii_case(word))
        });
    let before = given_up.map_or(end, |word| end[..end.len() - word.len()].trim_end());
    if is_question(last_line(before)) {
        return Some(ANSWER);
    }
    if line_with(
        output,
        &["could not read username for", "could not read password for"],
    )
    .is_some()
    {
        return Some((
            "a user name or password",
            "The repository is private, or its address is wrong: use an address that needs neither, or a token in a secret variable.",
        ));
    }
    last_line(end)
        .to_ascii_lowercase()
        .starts_with("eoferror: eof when reading a line")
        .then_some(ANSWER)
}

/// Whether a command runs another through `bash -lc`, `sh -c` or the like.
pub(super) fn wraps_in_a_shell(command: &str) -> bool {
    let mut words = command.split_whitespace().peekable();
    while let Some(word) = words.next() {
        let name = word.rsplit('/').next().unwrap_or_default();
        if !matches!(name, "bash" | "sh" | "dash" | "zsh") {
            continue;
        }
        while let Some(option) = words.next_if(|word| word.starts_with('-')) {
            if !option.starts_with("--") && option.contains('c') {
                return true;
            }
        }
    }
    false
}
