//! What the command line does.

mod admin;
mod doctor;
mod image;
mod open;
mod runner_image;
mod serve;
mod worker;

use std::{
    future::Future,
    io::{self, Write},
    process::ExitCode,
};

use clap::Parser;

use crate::{
    cli::{Cli, Command},
    client,
    fatal::Fatal,
};

/// Parses the command line and runs it.
pub fn main() -> ExitCode {
    let done = match Cli::parse().command {
        // Before any thread exists: a shim changes namespaces of its whole process.
        Command::Shim => return execution::shim::main(),
        // Before anything else: a shim starts with every sandbox and must be quick.
        Command::Serve(args) => run(serve::run(args)),
        Command::Admin(args) => run(admin::run(args.command)),
        Command::RunnerImage(args) => run(runner_image::run(args.command)),
        Command::Image(args) => run(image::run(args.command)),
        Command::Doctor(args) => run(doctor::run(args)),
        Command::Login(args) => run(async { Ok(client::login(args).await) }),
        Command::Env(args) => run(async { Ok(client::environments(args).await) }),
        Command::Session(args) => run(async { Ok(client::sessions(args).await) }),
        Command::Test(args) => run(async { Ok(client::test(args).await) }),
    };
    match done {
        Ok(code) => code,
        Err(fatal) => {
            // Standard error may be closed; there is nobody left to tell then.
            let _ = writeln!(io::stderr(), "groundwork: {fatal}");
            ExitCode::FAILURE
        }
    }
}

/// Runs to the end on a runtime of its own.
fn run(work: impl Future<Output = Result<ExitCode, Fatal>>) -> Result<ExitCode, Fatal> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|e| {
            Fatal::new(format!(
                "The program cannot start its threads ({e}); raise the process limit."
            ))
        })?;
    let done = runtime.block_on(work);
    // Whatever still hangs (a stuck disk) must not keep the process from ending.
    runtime.shutdown_timeout(std::time::Duration::from_secs(2));
    done
}

/// Writes a line to standard output.
fn say(line: &str) -> Result<(), Fatal> {
    match writeln!(io::stdout(), "{line}") {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(Fatal::new(format!(
            "Standard output cannot be written ({e}); check where it is directed."
        ))),
        _ => Ok(()),
    }
}
