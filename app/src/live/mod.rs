//! What moves while one looks: logs and the table.

mod find_bar;
pub mod follow;
mod keys;
pub mod lines;
mod log_bar;
pub mod log_view;
pub mod now;
mod painter;
mod picked;
mod prefs;
mod row;
mod rows;
mod search;
#[cfg(feature = "hydrate")]
pub mod stream;
pub mod viewer;
