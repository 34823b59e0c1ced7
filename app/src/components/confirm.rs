//! The question before something is deleted, as a page of its own.

use leptos::prelude::*;

use super::{Refused, Submit};
use crate::api::AppError;

/// What the form of such a page shows: the question, why it was refused, and the two ways on.
#[component]
pub fn ConfirmDelete(
    /// Where *Cancel* leads.
    back: String,
    /// Why it was not deleted.
    error: Signal<Option<AppError>>,
    /// Whether the form is on its way.
    #[prop(into)]
    busy: Signal<bool>,
    /// The question, and what goes along.
    children: Children,
) -> impl IntoView {
    view! {
        <div class="card">
            <div class="card-body flex flex-col gap-3">
                {children()}
                <Refused error />
            </div>
            <div class="card-foot">
                <a class="button" href=back>
                    "Cancel"
                </a>
                <Submit label="Delete" class="button-danger" busy />
            </div>
        </div>
    }
    .into_any()
}
