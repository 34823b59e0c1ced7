//! Ctrl-C.

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::failure::{Failure, Result};

/// Interrupts (Ctrl-C) from when it is made: one that comes while something else is done is not lost but told next.
pub struct Interrupts(Signal);

impl Interrupts {
    /// From now on interrupts do not end the program.
    ///
    /// # Errors
    /// Where the system gives out no signals.
    pub fn listen() -> Result<Self> {
        signal(SignalKind::interrupt())
            .map(Self)
            .map_err(|error| Failure::new(format!("Signals cannot be received ({error}).")))
    }

    /// The next one. Nothing is lost when this is given up before it comes.
    pub async fn next(&mut self) {
        if self.0.recv().await.is_none() {
            // Nothing more can come.
            std::future::pending().await
        }
    }
}
