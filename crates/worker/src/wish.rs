//! What is wanted of a run that is being driven.

use tokio::sync::watch;

/// In order of weight: a heavier wish replaces a lighter one, never the other way round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wish {
    /// Go on.
    Go,
    /// The worker is shutting down: stop, and give the run back.
    GiveBack,
    /// Somebody cancelled the run: stop, and say so.
    Cancel,
    /// The lease is lost: stop, clean up, say nothing.
    Abandon,
}

/// Sets wishes.
#[derive(Debug, Clone)]
pub(crate) struct WishSender(watch::Sender<Wish>);

/// Sees wishes.
#[derive(Debug, Clone)]
pub(crate) struct Wishes(watch::Receiver<Wish>);

pub(crate) fn wishes() -> (WishSender, Wishes) {
    let (sender, receiver) = watch::channel(Wish::Go);
    (WishSender(sender), Wishes(receiver))
}

impl WishSender {
    pub(crate) fn send(&self, wish: Wish) {
        self.0.send_if_modified(|now| {
            let heavier = wish > *now;
            if heavier {
                *now = wish;
            }
            heavier
        });
    }
}

impl Wishes {
    pub(crate) fn now(&self) -> Wish {
        *self.0.borrow()
    }

    /// Completes when something else than going on is wanted.
    pub(crate) async fn stop(&mut self) {
        self.at_least(Wish::GiveBack).await;
    }

    /// Completes when the lease is lost.
    pub(crate) async fn abandon(&mut self) {
        self.at_least(Wish::Abandon).await;
    }

    async fn at_least(&mut self, wish: Wish) {
        if self.0.wait_for(|now| *now >= wish).await.is_err() {
            // Nobody is left who could wish for something.
            std::future::pending::<()>().await;
        }
    }
}
