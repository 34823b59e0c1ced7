//! The application layer: every use case, once, for every door (pages, REST, workers, command line).
//! Doors parse, call one method `(ctx, command)`, and translate (architecture, invariant 2).

pub mod ctx;
pub mod ports;
