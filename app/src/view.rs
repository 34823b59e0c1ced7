//! What the reader has before the eyes.

use leptos::prelude::*;
use wasm_bindgen::JsCast as _;

/// Scrolls so that the element can be seen, unless its beginning is seen already or somebody is writing elsewhere.
pub fn bring_into_view(element: &web_sys::Element) {
    let top = element.get_bounding_client_rect().top();
    let height = window()
        .inner_height()
        .ok()
        .and_then(|height| height.as_f64())
        .unwrap_or(0.0);
    // Seen: not hidden above, and not only its edge below.
    let is_seen = (0.0..height * 0.75).contains(&top);
    if !is_seen && !is_writing() {
        element.scroll_into_view();
    }
}

/// Whether the focus is in a text.
fn is_writing() -> bool {
    document().active_element().is_some_and(|focused| {
        focused.dyn_ref::<web_sys::HtmlTextAreaElement>().is_some()
            || focused.dyn_ref::<web_sys::HtmlInputElement>().is_some()
    })
}
