//! What moves while one looks: logs and the table.

pub mod follow;
pub mod log_actions;
pub mod log_view;
pub mod now;
pub mod stream;
