//! What a change that is saved at once does to the verdict, said before it is made.

use leptos::prelude::*;

/// Whether the verdict of the environment at hand is about what is saved. Known on the environment's page.
#[derive(Clone, Copy)]
pub struct VerdictHolds(pub Signal<bool>);

/// That a change makes the verdict stale; nothing where no verdict would become so.
#[component]
pub fn MakesStale(
    /// The change, as the beginning of the sentence.
    change: &'static str,
) -> impl IntoView {
    let holds = use_context::<VerdictHolds>();
    move || {
        holds.is_some_and(|holds| holds.0.get()).then(|| {
            view! {
                <p class="text-sm text-ink-2">
                    {change} " makes the verdict stale: sessions cannot start until setup was tested again."
                </p>
            }
        })
    }
}
