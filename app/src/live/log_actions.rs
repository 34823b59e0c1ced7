//! What one does with a log on the page: download it, link to a line of it, go to its end.

use leptos::{html, prelude::*};

/// Hands a text to the browser as a file.
pub fn download(name: &str, text: &str) {
    use wasm_bindgen::JsCast as _;
    let options = web_sys::BlobPropertyBag::new();
    options.set_type("text/plain;charset=utf-8");
    let parts = js_sys::Array::of1(&wasm_bindgen::JsValue::from_str(text));
    let link = web_sys::Blob::new_with_str_sequence_and_options(&parts, &options)
        .and_then(|blob| web_sys::Url::create_object_url_with_blob(&blob))
        .ok()
        .zip(document().create_element("a").ok());
    let Some((address, element)) = link else {
        return;
    };
    if let Ok(link) = element.dyn_into::<web_sys::HtmlAnchorElement>() {
        link.set_href(&address);
        link.set_download(name);
        link.click();
    }
    // The browser has taken the file by then.
    set_timeout(
        move || {
            let _ = web_sys::Url::revoke_object_url(&address);
        },
        std::time::Duration::from_secs(60),
    );
}

/// Puts the clicked line number into the address, so that the line can be sent to somebody.
pub fn link_to_line(event: &leptos::ev::MouseEvent) {
    use wasm_bindgen::JsCast as _;
    let line = event
        .target()
        .and_then(|target| target.dyn_into::<web_sys::Element>().ok())
        .and_then(|element| element.get_attribute("data-line"));
    if let Some(line) = line {
        // The address takes any fragment.
        let _ = window().location().set_hash(&format!("L{line}"));
    }
}

/// Brings the end into view.
pub fn to_end(node: NodeRef<html::Div>) {
    if let Some(view) = node.get_untracked() {
        view.set_scroll_top(view.scroll_height());
    }
}
