//! The wasm entry: panic hook and hydrate call, nothing else.
#![recursion_limit = "512"]

use wasm_bindgen_futures::spawn_local;

/// Called by the page's script once the wasm is there.
#[wasm_bindgen::prelude::wasm_bindgen]
pub fn hydrate() {
    std::panic::set_hook(Box::new(|panic| {
        console_error_panic_hook::hook(panic);
        app::stopped();
    }));
    spawn_local(async {
        // Waits for the page's own piece before it takes over what the server rendered.
        let console =
            leptos::mount::hydrate_from_async(leptos::tachys::dom::body(), app::App).await;
        console.forget();
        // The effects of what is there now, which listen to keys, have been queued and run before this.
        spawn_local(async { app::answers() });
    });
}
