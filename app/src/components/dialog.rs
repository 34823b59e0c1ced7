//! A modal dialog: the browser's own, so that it traps and returns the focus.

use leptos::{ev, html, prelude::*};
use wasm_bindgen::JsCast as _;

/// A dialog that follows a signal.
#[component]
pub fn Dialog(
    /// Whether it is open; closing it by key or by a click outside sets it to false.
    open: RwSignal<bool>,
    /// Its heading.
    #[prop(into)]
    title: Signal<String>,
    /// Id of the heading; one for each dialog of a page.
    heading_id: &'static str,
    /// Its body and foot.
    children: Children,
) -> impl IntoView {
    let node: NodeRef<html::Dialog> = NodeRef::new();
    Effect::new(move |_| {
        let Some(dialog) = node.get() else { return };
        if open.get() {
            if !dialog.open() {
                // Fails only for a dialog that is not in the document.
                let _ = dialog.show_modal();
            }
        } else if dialog.open() {
            dialog.close();
        }
    });
    let on_click = move |event: ev::MouseEvent| {
        // Only a click on the backdrop has the dialog itself as its target: the body covers all of it.
        let outside = event
            .target()
            .is_some_and(|target| target.dyn_ref::<web_sys::HtmlDialogElement>().is_some());
        if outside {
            open.set(false);
        }
    };
    view! {
        <dialog
            class="dialog"
            node_ref=node
            aria-labelledby=heading_id
            on:close=move |_| open.set(false)
            on:click=on_click
        >
            <div>
                <h2 id=heading_id class="dialog-title px-5 pt-4">
                    {move || title.get()}
                </h2>
                {children()}
            </div>
        </dialog>
    }
    .into_any()
}
