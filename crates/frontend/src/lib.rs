//! The wasm entry: panic hook and hydrate call, nothing else.
#![recursion_limit = "512"]

/// Called by the page's script once the wasm is there.
#[wasm_bindgen::prelude::wasm_bindgen]
pub fn hydrate() {
    console_error_panic_hook::set_once();
    leptos::mount::hydrate_body(app::App);
}
