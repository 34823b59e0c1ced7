//! The browser's part of following: calls a streaming server function, cuts its bytes into frames, waits between tries.
//!
//! The call is made here rather than by the server function's own client: a page that is left ends its streams by itself,
//! and a connection that breaks is an answer like any other, not an error in the browser's console.

use std::cell::Cell;

use futures::future::{Either, select};
use gloo_timers::future::TimeoutFuture;
use js_sys::{Reflect, Uint8Array};
use leptos::prelude::{window, window_event_listener_untyped};
use serde::de::DeserializeOwned;
use wasm_bindgen::{JsCast as _, JsValue, prelude::Closure};
use wasm_bindgen_futures::JsFuture;
use web_sys::{AbortController, ReadableStreamDefaultReader, RequestInit, Response};

use super::follow::Splitter;
use crate::api::AppError;

/// A connection that says nothing for this long is given up, milliseconds. The server beats far more often.
pub const SILENCE_MAX: u32 = 45_000;

/// A connection whose first item comes at once and has not come after this long brings nothing, milliseconds.
pub const FIRST_MAX: u32 = 8_000;

/// How a connection ended.
pub enum Ended {
    /// It ended, broke, or the taker hung up.
    Closed,
    /// It said nothing for too long.
    Silent,
    /// The call was refused.
    Refused(AppError),
}

/// A server function whose answer is a stream, with its arguments.
pub struct Call {
    /// Its path.
    pub path: &'static str,
    /// Its arguments as a form.
    pub form: String,
    /// How long its first item may take, milliseconds.
    pub first_within: u32,
}

/// Ends the request when the reader is done with it, or the page is left.
struct Guard {
    controller: AbortController,
    leave: Closure<dyn FnMut()>,
}

impl Guard {
    fn new() -> Result<Self, JsValue> {
        let controller = AbortController::new()?;
        let leaving = controller.clone();
        let leave = Closure::<dyn FnMut()>::new(move || leaving.abort());
        window().add_event_listener_with_callback("pagehide", leave.as_ref().unchecked_ref())?;
        Ok(Self { controller, leave })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // It was added, so that it can be taken away.
        let _ = window()
            .remove_event_listener_with_callback("pagehide", self.leave.as_ref().unchecked_ref());
        self.controller.abort();
    }
}

/// Reads one connection to its end. `take` gets every item and says whether to go on.
pub async fn read<T: DeserializeOwned>(call: Call, mut take: impl FnMut(T) -> bool) -> Ended {
    // The parsing alone differs from item to item: the rest is compiled once.
    let mut each = |line: &[u8]| serde_json::from_slice::<T>(line).is_ok_and(&mut take);
    read_lines(call, &mut each).await
}

async fn read_lines(call: Call, take: &mut dyn FnMut(&[u8]) -> bool) -> Ended {
    watch();
    let Ok(guard) = Guard::new() else {
        return Ended::Closed;
    };
    let opening = std::pin::pin!(open(&call, &guard));
    let reader = match select(opening, TimeoutFuture::new(call.first_within)).await {
        Either::Left((Ok(Ok(reader)), _)) => reader,
        Either::Left((Ok(Err(refusal)), _)) => return Ended::Refused(refusal),
        Either::Left((Err(_), _)) => return Ended::Closed,
        Either::Right(_) => return Ended::Silent,
    };
    let mut splitter = Splitter::default();
    let mut patience = call.first_within;
    loop {
        let next = JsFuture::from(reader.read());
        let piece = match select(next, TimeoutFuture::new(patience)).await {
            Either::Left((Ok(piece), _)) => piece,
            Either::Left((Err(_), _)) => return Ended::Closed,
            Either::Right(_) => return Ended::Silent,
        };
        patience = SILENCE_MAX;
        let bytes = Reflect::get(&piece, &JsValue::from_str("value"))
            .ok()
            .and_then(|value| value.dyn_into::<Uint8Array>().ok());
        // Without bytes it is the end.
        let Some(bytes) = bytes else {
            return Ended::Closed;
        };
        for line in splitter.push(&bytes.to_vec()) {
            if !take(&line) {
                return Ended::Closed;
            }
        }
    }
}

/// Calls, and has the answer's reader or the refusal.
async fn open(
    call: &Call,
    guard: &Guard,
) -> Result<Result<ReadableStreamDefaultReader, AppError>, JsValue> {
    let headers = web_sys::Headers::new()?;
    headers.set("content-type", "application/x-www-form-urlencoded")?;
    let init = RequestInit::new();
    init.set_method("POST");
    init.set_headers(&headers);
    init.set_body(&JsValue::from_str(&call.form));
    init.set_signal(Some(&guard.controller.signal()));
    let answer = JsFuture::from(window().fetch_with_str_and_init(call.path, &init)).await?;
    let answer: Response = answer.dyn_into()?;
    if !answer.ok() {
        let text = JsFuture::from(answer.text()?).await?;
        let text = text.as_string().unwrap_or_default();
        // What is no refusal of ours comes from something in between, and is tried again.
        return serde_json::from_str(&text)
            .map(Err)
            .map_err(|_| JsValue::NULL);
    }
    let body = answer.body().ok_or(JsValue::NULL)?;
    Ok(Ok(body.get_reader().dyn_into()?))
}

thread_local! {
    /// Whether the page was left; it may come back out of the browser's cache.
    static LEFT: Cell<bool> = const { Cell::new(false) };
    static WATCHED: Cell<bool> = const { Cell::new(false) };
}

/// Watches whether the page is left, for as long as the document lives.
fn watch() {
    if !WATCHED.replace(true) {
        window_event_listener_untyped("pagehide", |_| LEFT.set(true));
        window_event_listener_untyped("pageshow", |_| LEFT.set(false));
    }
}

/// Waits, and then for the page to be there.
pub async fn pause(milliseconds: u32) {
    watch();
    TimeoutFuture::new(milliseconds).await;
    while LEFT.get() {
        TimeoutFuture::new(200).await;
    }
}
