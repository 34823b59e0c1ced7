//! The port's methods, one module for each part of it. `port` is the list; the others hold the statements.

mod access;
mod audit;
mod effects;
mod environments;
mod images;
mod logs;
mod members;
mod port;
mod records;
mod runs;
mod secrets;
mod sessions;
mod workers;
