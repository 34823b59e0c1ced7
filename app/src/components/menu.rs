//! A menu behind a button: a native popover, so that it opens and closes without scripting, and lies above everything.

use leptos::prelude::*;

use super::icons::{Draw, Icon};

/// A menu of actions. Its items have the class `menu-item`.
#[component]
pub fn Menu(
    /// Id of the menu, one for each of a page.
    #[prop(into)]
    id: String,
    /// What a screen reader says of the button.
    #[prop(into)]
    label: String,
    /// The items.
    children: Children,
) -> impl IntoView {
    view! {
        <button
            type="button"
            class="button button-ghost button-icon button-small"
            popovertarget=id.clone()
            aria-label=label
            title="Actions"
        >
            <Draw icon=Icon::Ellipsis />
        </button>
        <div id=id.clone() popover="auto" class="menu" on:click=move |_| close(&id)>
            {children()}
        </div>
    }
    .into_any()
}

/// Closes a menu after one of its items was chosen.
fn close(id: &str) {
    use wasm_bindgen::JsCast as _;
    let menu = document().get_element_by_id(id);
    if let Some(menu) = menu.and_then(|menu| menu.dyn_into::<web_sys::HtmlElement>().ok()) {
        // Fails only when it is closed already.
        let _ = menu.hide_popover();
    }
}
