//! A shim as a program of its own, for tests and measurements; the product runs it as `groundwork shim`.

use std::process::ExitCode;

fn main() -> ExitCode {
    execution::shim::main()
}
