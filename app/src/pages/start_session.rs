//! The button that starts a session of the environment at hand.

use domain::ids::EnvironmentId;
use leptos::prelude::*;

use super::sessions::NotStarted;
use crate::{
    api::sessions::StartSession,
    components::{Icon, Submit},
};

/// On an environment's page: what a session is started with, while one can start.
#[derive(Clone, Copy)]
pub struct StartHere {
    /// The environment.
    pub environment: EnvironmentId,
    /// Idempotency key of the start: pressed twice, or in two places, it is one session.
    pub key: StoredValue<String>,
    /// Whether a session can start, and the viewer may start one.
    pub possible: Signal<bool>,
}

/// The button, and why it did not work.
#[component]
pub fn StartForm(
    /// What it starts.
    here: StartHere,
    /// `button-small`, `button-primary`, …
    #[prop(optional)]
    class: &'static str,
) -> impl IntoView {
    let start = ServerAction::<StartSession>::new();
    let refused = Signal::derive(move || start.value().get().and_then(Result::err));
    view! {
        {move || refused.get().map(|error| view! { <NotStarted error linked=false /> })}
        <div data-leaves="Start a session from what is saved, and leave without your changes?">
        <ActionForm action=start>
            <input type="hidden" name="environment_id" value=here.environment.to_string() />
            <input type="hidden" name="key" value=here.key.get_value() />
            <Submit label="Start session" icon=Icon::Play class busy=start.pending() />
        </ActionForm>
        </div>
    }
    .into_any()
}
