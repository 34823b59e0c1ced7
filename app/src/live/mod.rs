//! What moves while one looks: logs and the table.

pub mod follow;
pub mod now;
pub mod stream;
pub mod log_view;
