//! Environment variables (spec 1-domain, *Environment variables*).

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{
    issues::Issues,
    json::{Object, join},
    limits,
};

/// Whether `name` matches `[A-Za-z_][A-Za-z0-9_]*`.
pub fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes
        .next()
        .is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Why a name is refused, and what to do instead; `None`: it may be set. The sandbox reads such variables before every
/// command, so that setting one for the whole environment would break or hijack everything in it.
pub fn refusal(name: &str) -> Option<String> {
    let instead = match name {
        "PATH" => {
            "Call tools by their full path, or put a directory in front of $PATH inside the command that needs it."
        }
        "HOME" | "USER" | "LOGNAME" | "SHELL" | "PWD" => {
            "The sandbox sets it; where a command needs another value, set it in that command."
        }
        "IFS" | "ENV" | "BASH_ENV" | "BASHOPTS" | "SHELLOPTS" | "PS4" | "PROMPT_COMMAND" => {
            "It changes how every shell works; set it inside the script or the command that needs it."
        }
        "PYTHONPATH" | "PYTHONHOME" | "PYTHONSTARTUP" => {
            "Set it in the command that needs it, for example: PYTHONPATH=/workspace/src python main.py."
        }
        "NODE_OPTIONS" => {
            "Set it in the command that needs it, for example: NODE_OPTIONS=--max-old-space-size=4096 npm run build."
        }
        "PERL5OPT" | "PERL5LIB" | "RUBYOPT" | "RUBYLIB" | "JAVA_TOOL_OPTIONS" => {
            "Set it in the command that needs it, or pass the option to the interpreter."
        }
        "GCONV_PATH" => "Set it in the command that needs it.",
        _ if name.starts_with("LD_") => {
            "Set it in the command that needs it, for example: LD_LIBRARY_PATH=/opt/lib ./tool."
        }
        _ if name.starts_with("BASH_FUNC_") => {
            "Shell functions cannot be passed as variables: put a script into /usr/local/bin in the setup script."
        }
        _ if name.starts_with("GROUNDWORK_") => {
            "Names that begin with GROUNDWORK_ are the sandbox's own; choose another name."
        }
        _ => return None,
    };
    Some(format!(
        "{name} cannot be set for a whole environment, since the sandbox reads it before every command. {instead}"
    ))
}

/// What is wrong with a name, whether or not it is reserved; `None`: it may be set. Secret variables follow it as well.
pub fn name_problem(name: &str) -> Option<String> {
    if is_name(name) {
        refusal(name)
    } else {
        Some(
            "A name consists of letters, digits and underscores, and does not start with a digit."
                .to_owned(),
        )
    }
}

/// Reads the map of variables.
pub(crate) fn read(
    value: &Value,
    path: &str,
    issues: &mut Issues,
) -> Option<BTreeMap<String, String>> {
    let object = Object::open_any(value, path, issues)?;
    if object.map.len() > limits::ENV_VARS_MAX {
        issues.add(
            path,
            format!(
                "At most {} variables, not {}: put the rest into a file under /workspace.",
                limits::ENV_VARS_MAX,
                object.map.len()
            ),
        );
    }
    let mut total = 0;
    let mut read = BTreeMap::new();
    for name in object.map.keys() {
        let member = join(path, name);
        if let Some(problem) = name_problem(name) {
            issues.add(&member, problem);
        }
        let Some(text) = object.string(name, issues) else {
            continue;
        };
        if text.contains('\0') {
            issues.add(
                &member,
                "The value holds a NUL character: no program can receive it.",
            );
        }
        if text.len() > limits::ENV_VAR_VALUE_MAX_BYTES {
            issues.add(
                &member,
                format!(
                    "The value has {} bytes; at most {} are allowed. Put it into a file under /workspace.",
                    text.len(),
                    limits::ENV_VAR_VALUE_MAX_BYTES
                ),
            );
        }
        total += name.len() + text.len();
        read.insert(name.clone(), text.to_owned());
    }
    if total > limits::ENV_VARS_TOTAL_MAX_BYTES {
        issues.add(
            path,
            format!(
                "Names and values have {total} bytes together; at most {} are allowed.",
                limits::ENV_VARS_TOTAL_MAX_BYTES
            ),
        );
    }
    Some(read)
}
