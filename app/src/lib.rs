//! The console: pages, components, server functions. Built twice: with `ssr` for the server, with `hydrate` for the
//! browser; never with both.
#![recursion_limit = "512"]

pub mod ansi;
pub mod api;
pub mod components;
#[cfg(feature = "ssr")]
pub mod context;
pub mod draft;
pub mod format;
mod hosts;
pub mod lines;
pub mod links;
pub mod live;
#[cfg(feature = "ssr")]
pub mod outside;
pub mod pages;
mod shell;
pub mod text;
pub mod theme;
mod units;
mod view;

#[cfg(feature = "ssr")]
pub use shell::shell;
pub use shell::{App, answers, stopped};
