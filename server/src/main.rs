//! The groundwork binary.
#![recursion_limit = "512"]

use std::process::ExitCode;

fn main() -> ExitCode {
    server::commands::main()
}
