//! The groundwork binary.

fn main() {}
