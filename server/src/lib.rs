//! The doors: configuration, wiring, HTTP, subcommands.
#![recursion_limit = "512"]

pub mod auth;
pub mod cli;
pub mod client;
pub mod clock;
pub mod commands;
pub mod config;
pub mod datadir;
pub mod fatal;
pub mod http;
pub mod openapi;
pub mod rest;
pub mod telemetry;
