//! Migrations are compiled in: a change of theirs must rebuild this crate.

#![allow(clippy::print_stdout)] // Cargo reads it.

fn main() {
    println!("cargo:rerun-if-changed=../../migrations");
}
