//! The wasm entry: panic hook and hydrate call, nothing else.
#![recursion_limit = "512"]

/// Called by the page's script once the wasm is there.
#[wasm_bindgen::prelude::wasm_bindgen]
pub fn hydrate() {
    std::panic::set_hook(Box::new(|panic| {
        console_error_panic_hook::hook(panic);
        app::stopped();
    }));
    // Waits for the page's own piece before it takes over what the server rendered.
    leptos::mount::hydrate_lazy(app::App);
}
