//! A clock that stands still until a test moves it.

use std::{future::Future, pin::Pin, time::Duration};

use control::ports::Clock;
use domain::timestamp::Timestamp;
use tokio::sync::watch;

/// Where the clock begins: 2026-01-01T00:00:00Z.
const START_MICROS: i64 = 1_767_225_600_000_000;

#[derive(Debug, Clone, Copy)]
struct Now {
    monotonic: Duration,
    wall: i64,
}

/// Wall and monotonic time that tests move; sleepers wake when their time has come.
#[derive(Debug)]
pub struct ManualClock {
    now: watch::Sender<Now>,
}

impl Default for ManualClock {
    fn default() -> Self {
        Self {
            now: watch::Sender::new(Now {
                monotonic: Duration::ZERO,
                wall: START_MICROS,
            }),
        }
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

impl ManualClock {
    /// Moves both clocks and wakes whoever's time has come.
    pub fn advance(&self, by: Duration) {
        self.now.send_modify(|now| {
            now.monotonic += by;
            now.wall += micros(by);
        });
    }
    /// Moves both clocks in steps, letting other tasks run in between, as time does.
    pub async fn pass(&self, by: Duration, step: Duration) {
        let mut left = by;
        while !left.is_zero() {
            let now = left.min(step);
            self.advance(now);
            left -= now;
            // Enough for woken tasks to get to their next wait on this thread; database calls need `eventually`.
            for _ in 0..8 {
                tokio::task::yield_now().await;
            }
        }
    }
    /// Sets the wall clock alone, as an operator or a time server may.
    pub fn jump_wall(&self, by_seconds: i64) {
        self.now
            .send_modify(|now| now.wall += by_seconds * 1_000_000);
    }
    /// How many wait for this clock to move.
    pub fn sleepers(&self) -> usize {
        self.now.receiver_count()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.now.borrow().wall)
    }
    fn monotonic(&self) -> Duration {
        self.now.borrow().monotonic
    }
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let end = self.monotonic() + duration;
        let mut receiver = self.now.subscribe();
        Box::pin(async move {
            // The sender lives as long as the clock, which this future borrows.
            let _ = receiver.wait_for(|now| now.monotonic >= end).await;
        })
    }
}
