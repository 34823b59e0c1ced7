//! sqlx behind the ports of the application layer.
