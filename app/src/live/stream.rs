//! The browser's part of following: calls the streaming server function, cuts its bytes into frames, waits between tries.

use futures::StreamExt as _;
use futures::future::{Either, select};
use gloo_timers::future::TimeoutFuture;
use serde::de::DeserializeOwned;
use server_fn::codec::ByteStream;

use super::follow::Splitter;
use crate::api::AppError;

/// A connection that says nothing for this long is given up, milliseconds. The server beats far more often.
const SILENCE_MAX: u32 = 45_000;

/// How a connection ended.
pub enum Ended {
    /// It ended, broke, fell silent, or the taker hung up.
    Closed,
    /// The call was refused.
    Refused(AppError),
}

/// Reads one connection to its end. `take` gets every item and says whether to go on.
pub async fn read<T: DeserializeOwned>(
    call: impl Future<Output = Result<ByteStream<AppError>, AppError>>,
    mut take: impl FnMut(T) -> bool,
) -> Ended {
    let mut bytes = match call.await {
        Ok(stream) => stream.into_inner(),
        Err(error) => return Ended::Refused(error),
    };
    let mut splitter = Splitter::default();
    loop {
        let piece = match select(bytes.next(), TimeoutFuture::new(SILENCE_MAX)).await {
            Either::Left((Some(Ok(piece)), _)) => piece,
            _ => return Ended::Closed,
        };
        for line in splitter.push(&piece) {
            let Ok(item) = serde_json::from_slice::<T>(&line) else {
                return Ended::Closed;
            };
            if !take(item) {
                return Ended::Closed;
            }
        }
    }
}

/// Waits.
pub async fn pause(milliseconds: u32) {
    TimeoutFuture::new(milliseconds).await;
}
