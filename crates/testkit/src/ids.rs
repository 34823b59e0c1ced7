//! Ids in order, the same in every run of a test.

use std::sync::atomic::{AtomicU64, Ordering};

use control::ports::Ids;
use uuid::Uuid;

/// UUIDv7s that count up.
#[derive(Debug)]
pub struct TestIds {
    next: AtomicU64,
}

impl Default for TestIds {
    fn default() -> Self {
        Self {
            next: AtomicU64::new(1),
        }
    }
}

impl TestIds {
    /// For a process that starts on a database which has ids of an earlier one: none comes twice.
    pub fn after_restart() -> Self {
        static RESTARTS: AtomicU64 = AtomicU64::new(1);
        let restart = RESTARTS.fetch_add(1, Ordering::Relaxed);
        Self {
            next: AtomicU64::new(restart << 32),
        }
    }
}

impl Ids for TestIds {
    fn next_uuid(&self) -> Uuid {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        // The time of ManualClock's start, version 7, and a counter that keeps them in order.
        Uuid::from_u128(0x019b_7676_9c00_7000_8000_0000_0000_0000 | u128::from(number))
    }
}
