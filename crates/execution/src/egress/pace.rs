//! Keeps a sandbox from making the gateway busy: the gateway's CPU time is not the sandbox's.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, sleep_until};

/// So many turns in each of these; short, so that a burst waits little.
const WINDOW: Duration = Duration::from_millis(100);

/// Lets through so many turns a second.
#[derive(Debug)]
pub(super) struct Pace {
    per_window: u32,
    /// When the window began, and the turns in it.
    window: Mutex<Option<(Instant, u32)>>,
}

impl Pace {
    pub(super) fn new(per_second: u32) -> Self {
        Self {
            per_window: (per_second / 10).max(1),
            window: Mutex::new(None),
        }
    }

    /// Waits for a turn.
    pub(super) async fn turn(&self) {
        while let Err(later) = self.take(Instant::now()) {
            sleep_until(later).await;
        }
    }

    /// Takes a turn now, or says when there may be one.
    fn take(&self, now: Instant) -> Result<(), Instant> {
        // Nothing in here panics half-way through a change.
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        match window.as_mut() {
            Some((begun, turns)) if now < *begun + WINDOW => {
                if *turns >= self.per_window {
                    return Err(*begun + WINDOW);
                }
                *turns += 1;
            }
            _ => *window = Some((now, 1)),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn turns_beyond_the_rate_wait_and_none_is_lost() {
        let pace = Pace::new(100);
        let begun = Instant::now();
        for _ in 0..10 {
            pace.turn().await;
        }
        assert_eq!(begun.elapsed(), Duration::ZERO);
        for _ in 0..25 {
            pace.turn().await;
        }
        assert!(begun.elapsed() >= 3 * WINDOW && begun.elapsed() < 4 * WINDOW);
    }
}
