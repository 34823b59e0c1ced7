//! The program as a client: commands that ask a server over HTTP (`groundwork login`, `env`, `test`, `session`).

pub mod args;
mod environments;
mod events;
mod failure;
mod file;
mod follow;
mod hidden;
mod http;
mod interrupts;
mod log;
mod login;
mod plan;
mod print;
mod sessions;

use std::{
    io::{self, Write},
    process::ExitCode,
};

use self::{
    args::{EnvArgs, LoginArgs, Output, SessionArgs, TestArgs},
    failure::{FAILED, Failure},
};

/// `groundwork login`
pub async fn login(args: LoginArgs) -> ExitCode {
    let output = args.remote.output;
    ended(output, login::run(args).await)
}

/// `groundwork env`
pub async fn environments(args: EnvArgs) -> ExitCode {
    let output = environments::output(&args.command);
    ended(output, environments::run(args.command).await)
}

/// `groundwork session`
pub async fn sessions(args: SessionArgs) -> ExitCode {
    let output = sessions::output(&args.command);
    ended(output, sessions::run(args.command).await)
}

/// `groundwork test`
pub async fn test(args: TestArgs) -> ExitCode {
    let output = args.remote.output;
    ended(output, follow::run(args).await)
}

/// The exit code of what a command came to; a failure is said on standard error: as the API's own error where JSON is wanted.
fn ended(output: Output, done: Result<u8, Failure>) -> ExitCode {
    match done {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            let text = match (output, &failure.answer) {
                (Output::Json, Some(answer)) if answer.is_object() => answer.to_string(),
                _ => format!("groundwork: {failure}"),
            };
            // Standard error may be closed; there is nobody left to tell then.
            let _ = writeln!(io::stderr(), "{text}");
            ExitCode::from(FAILED)
        }
    }
}
